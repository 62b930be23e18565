"""How well memories are found in six languages, by each model: through the MCP gateway.

    python -m bench.languages [--embedder minilm --embedder e5] [--as-english]

languages.jsonl has 200 facts as agents keep them, each with a question that shares no telling word with it, in English
and translated: written for engramq. Each language is a namespace of its own with that language (`engramq tenant
config`); --as-english leaves all of them at english. Prints JSON lines: recall at 1, 5 and 10, MRR, for relevance, for
vectors alone (similarity), and for the words alone: what a search finds whose embedder is away.
"""

import argparse
import asyncio
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from bench.common import ENGRAMQ, PrivateStack, emit, private_stack
from bench.retrieval import Row, ask, bring_in
from engramq.schemas.settings import read_settings
from engramq.schemas.vocabulary import Partition, Ranking
from engramq.workers.db.database import Store
from engramq.workers.db.vectors import Sizes
from engramq.workers.embedders.e5 import build
from engramq.workers.search.candidates import Filters, find_candidates
from engramq.workers.search.question import Question

BENCH: Final = "languages"
FACTS: Final = Path(__file__).with_suffix(".jsonl")
LANGUAGES: Final = {
    "en": "english", "de": "german", "fr": "french", "es": "spanish", "zh": "chinese", "ja": "japanese",
}  # fmt: skip
EXTERNAL_IDS: Final = b"select id, external_id from nodes where tenant = %(tenant)s"

Fact = dict[str, Any]
Ranks = list[int | None]  # the place of the right memory for each question, from 0; None: not found


def facts() -> list[Fact]:
    """Return the facts: {"id": number, language: {"fact": text, "question": text}}."""
    return [msgspec.json.decode(line) for line in FACTS.read_bytes().splitlines()]


def figures(ranks: Ranks) -> dict[str, Any]:
    """Return recall at 1, 5 and 10, and MRR."""
    found = [rank for rank in ranks if rank is not None]
    recall_at = {f"R@{limit}": sum(rank < limit for rank in found) / len(ranks) for limit in (1, 5, 10)}
    return recall_at | {"MRR": sum(1 / (rank + 1) for rank in found) / len(ranks)}


async def by_words(stack: PrivateStack, namespace: str, queries: list[Row]) -> Ranks:
    """Look the questions up by full text alone, as a search does whose embedder is away."""
    chosen = Filters(partitions=(Partition.TRUSTED,))
    async with await Store.open(stack.database_url) as store:
        rows = await store.read(namespace, lambda tx: tx.rows(EXTERNAL_IDS))
        names = {str(row["id"]): row["external_id"] for row in rows}
        ranks: Ranks = []
        for query in queries:
            found = await store.read(
                namespace,
                lambda tx, text=query["query"]: find_candidates(tx, Sizes(), Question(text), None, chosen),  # type: ignore[misc]
            )
            scored = sorted(zip(found.lexical, found.ids, strict=True), key=lambda item: (-(item[0] or 0.0), item[1]))
            ranks.append(place(query["qid"], [names[item] for _, item in scored]))
        return ranks


def place(wanted: str, found: list[str]) -> int | None:
    """Return where something stands."""
    return found.index(wanted) if wanted in found else None


def measure(embedder: str, stack: PrivateStack, languages: Mapping[str, str]) -> None:
    """Print the figures of one model."""
    every = facts()
    for short, language in languages.items():
        config = [ENGRAMQ, "tenant", "config", short, "--language", language]
        subprocess.run(config, env=stack.environment(), check=True, stdout=subprocess.DEVNULL)
    rows = [
        {"namespace": short, "external_id": str(fact["id"]), "content": fact[short]["fact"]}
        for short in languages
        for fact in every
    ]
    seconds = bring_in(rows, stack.variables)
    emit(BENCH, "imported", embedder=embedder, memories=len(rows), per_s=len(rows) / seconds)
    for short, language in languages.items():
        url = f"http://127.0.0.1:{stack.start_gateway(short)}/mcp"
        queries = [{"qid": str(fact["id"]), "query": fact[short]["question"]} for fact in every]
        told: dict[str, Any] = {"embedder": embedder, "language": short, "configured": language}
        for ranking in (Ranking.RELEVANCE, Ranking.SIMILARITY):
            found = asyncio.run(ask(url, queries, ranking=ranking))
            emit(BENCH, ranking.value, **told, **figures([place(qid, names) for qid, names in found.items()]))
        emit(BENCH, "words", **told, **figures(asyncio.run(by_words(stack, short, queries))))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--embedder", action="append", help="default: minilm, and e5 if this home has it")
    parser.add_argument("--as-english", action="store_true", help="leave every namespace at english")
    chosen = parser.parse_args()
    home = read_settings(os.environ).home
    wanted = chosen.embedder or ["minilm", *(["e5"] if build.is_built(home) else [])]
    languages = dict.fromkeys(LANGUAGES, "english") if chosen.as_english else LANGUAGES
    for embedder in wanted:
        with private_stack() as stack:
            stack.start_workers(EMBEDDER=embedder, HOME=str(home))
            measure(embedder, stack, languages)


if __name__ == "__main__":
    main()
