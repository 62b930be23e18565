"""The gate for changes of ranking: every corpus, with and without metadata, beside the single arms of the same run.

    python -m bench.recall --corpus locomo MEMORIES.jsonl QUERIES.jsonl --corpus beam MEMORIES.jsonl QUERIES.jsonl
                           [--before FILE] [--save FILE]

Files as `bench.retrieval` takes them. Each corpus is imported into a private stack and asked through the MCP gateway,
once as it is, once without thread, speaker and date. Beside the product's two rankings: BM25, the vectors, and both
normalised and added, over the same rows. Prints JSON lines: recall at 5 and 10 and MRR, overall (adversarial questions
left out) and by category, and the difference at 10 to each arm with the interval that holds 95 % of 4,000 paired
resamplings of the questions. --save keeps the figures of each question; --before compares with such a file: a change
of ranking counts if it helps on every corpus. Kept-aside data is judged the same way, by other files.
"""

import argparse
import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import psycopg

from bench.arms import Arms, vectors_of, wait_for_vectors, words_of
from bench.common import PrivateStack, emit, private_stack
from bench.retrieval import Row, ask, bring_in, by_namespace, prepared, read_lines
from bench.scores import ADVERSARIAL, score
from engramq.schemas.vocabulary import Ranking

BENCH: Final = "recall"
METADATA: Final = frozenset({"thread", "speaker", "occurred_at"})
RESAMPLINGS: Final = 4_000
SHOWN: Final = ("R@5", "R@10", "MRR")
OURS: Final = Ranking.RELEVANCE

Figures = Mapping[str, Mapping[str, float]]  # by question, then by measure


def rank(stack: PrivateStack, memories: list[Row], queries: list[Row]) -> dict[str, dict[str, list[str]]]:
    """Import and ask; return what each way of ranking found, by question."""
    ports = {namespace: stack.start_gateway(namespace) for namespace in by_namespace(queries)}
    bring_in(memories, stack.variables)
    with psycopg.connect(stack.owner_url) as owner:
        wait_for_vectors(owner)
    found: dict[str, dict[str, list[str]]] = {ranking: {} for ranking in Ranking}
    for namespace, several in by_namespace(queries).items():
        url = f"http://127.0.0.1:{ports[namespace]}/mcp"
        for ranking in Ranking:
            found[ranking] |= asyncio.run(ask(url, several, ranking=ranking))
        with psycopg.connect(stack.owner_url) as owner:
            arms = Arms.read(owner, namespace)
            vectors = asyncio.run(vectors_of([one["query"] for one in several]))
            for query, vector in zip(several, vectors, strict=True):
                for name, ranked in arms.rankings(words_of(owner, query["query"]), vector).items():
                    found.setdefault(name, {})[query["qid"]] = ranked
    return found


def interval(differences: Sequence[float]) -> tuple[float, float, float]:
    """Return the mean of paired differences, and what holds 95 % of the means of their resamplings."""
    values, chance = np.array(differences), np.random.default_rng(0)
    means = values[chance.integers(0, len(values), (RESAMPLINGS, len(values)))].mean(axis=1)
    return float(values.mean()), float(np.quantile(means, 0.025)), float(np.quantile(means, 0.975))


def compared(ours: Figures, others: Figures, qids: Sequence[str]) -> dict[str, Any]:
    """Return by how much we are better at 10."""
    mean, low, high = interval([ours[qid]["R@10"] - others[qid]["R@10"] for qid in qids])
    return {"R@10": mean, "low": low, "high": high}


def show(what: dict[str, Any], queries: list[Row], figures: Mapping[str, Figures]) -> None:
    """Print the figures of every way of ranking, and how far ours is ahead."""
    core = [one["qid"] for one in queries if one["category"] != ADVERSARIAL]
    groups = {"overall": core}
    for query in queries:
        groups.setdefault(f"category {query['category']}", []).append(query["qid"])
    for way, by_question in figures.items():
        for group, qids in groups.items():
            means: dict[str, Any] = {name: float(np.mean([by_question[qid][name] for qid in qids])) for name in SHOWN}
            emit(BENCH, group, **what, ranking=way, n=len(qids), **means)
        if way != OURS:
            emit(BENCH, "ahead", **what, of=way, n=len(core), **compared(figures[OURS], by_question, core))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", nargs=3, action="append", required=True, metavar=("NAME", "MEMORIES", "QUERIES"))
    parser.add_argument("--before", type=Path)
    parser.add_argument("--save", type=Path)
    chosen = parser.parse_args()
    before = json.loads(chosen.before.read_text()) if chosen.before else {}
    saved: dict[str, Figures] = {}
    for name, memories_path, queries_path in chosen.corpus:
        memories, queries = read_lines(Path(memories_path)), read_lines(Path(queries_path))
        evidence = {one["qid"]: set(one["evidence"]) for one in queries}
        for withheld in (frozenset[str](), METADATA):
            with private_stack() as stack:
                stack.start_workers()
                found = rank(stack, prepared(memories, withheld), queries)
            figures = {
                way: {qid: score(ranking, evidence[qid]) for qid, ranking in several.items()}
                for way, several in found.items()
            }
            what = {"corpus": name, "withheld": sorted(withheld)}
            show(what, queries, figures)
            saved[key := f"{name} {sorted(withheld)}"] = figures[OURS]
            if key in before:
                core = [one["qid"] for one in queries if one["category"] != ADVERSARIAL]
                emit(BENCH, "ahead", **what, of="before", n=len(core), **compared(figures[OURS], before[key], core))
    if chosen.save:
        chosen.save.write_text(json.dumps(saved))


if __name__ == "__main__":
    main()
