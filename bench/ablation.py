"""What each rule of ranking earns: the same candidates put in order without it.

    python -m bench.ablation --corpus locomo MEMORIES.jsonl QUERIES.jsonl --corpus beam MEMORIES.jsonl QUERIES.jsonl

Files as `bench.retrieval` takes them; each corpus as it is, and without thread, speaker and date. It is imported into a
private stack, and the candidates of each question are found in its tables, once. Prints a JSON line for each rule:
how much recall at 10 falls without it, with the interval that holds 95 % of 4,000 paired resamplings, and MRR.
Adversarial questions are left out. No rule may cost a corpus.
"""

import argparse
import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import psycopg

from bench.arms import wait_for_vectors
from bench.common import PrivateStack, emit, private_stack
from bench.recall import METADATA, interval
from bench.retrieval import Row, bring_in, by_namespace, prepared, read_lines
from bench.scores import ADVERSARIAL, score
from engramq.schemas.vocabulary import Partition
from engramq.workers.db.database import Store
from engramq.workers.db.vectors import Embedding, Sizes, unpacked
from engramq.workers.embedders.minilm import MiniLmEmbedder
from engramq.workers.embedders.vectorizer import without
from engramq.workers.search.candidates import Filters, find_candidates
from engramq.workers.search.question import Question
from engramq.workers.search.ranking import DEFAULT_WEIGHTS, Candidates, Measure, Weights, by_relevance
from engramq.workers.search.words import HALF_LENGTH

BENCH: Final = "ablation"
MILD: Final = 200.0  # half the length norm that there was before
EXTERNAL_IDS: Final = "select id::text, external_id from nodes where tenant = tenant_of(%s)"
MODELS: Final = "select id from embedding_models order by id desc limit 1"


class Case(NamedTuple):
    """A question, what may answer it, and the external ids of what does."""

    question: Question
    candidates: Candidates
    names: Mapping[str, str]  # external ids
    evidence: frozenset[str]


Order = Callable[[Case], Sequence[str]]


def ordered(weights: Weights, change: Callable[[Candidates], Candidates] = lambda one: one) -> Order:
    """Return what puts a case in order with these weights, and candidates that were changed."""

    def order(case: Case) -> Sequence[str]:
        candidates = change(case.candidates)
        ranked = by_relevance(Measure.of(case.question, candidates, weights), candidates)
        return [case.names[candidates.ids[row]] for row in ranked.order]

    return order


def with_names(candidates: Candidates) -> Candidates:
    """Return candidates whose cosines are those of the question as it was asked."""
    return msgspec.structs.replace(candidates, meaning=candidates.similarity)


def with_long_texts(candidates: Candidates) -> Candidates:
    """Return candidates whose words count nearly as much in long texts."""
    pairs = zip(candidates.lexical, candidates.words, strict=True)
    lexical = [one and one * (1 + words / HALF_LENGTH) / (1 + words / MILD) for one, words in pairs]
    return msgspec.structs.replace(candidates, lexical=lexical)


def rules() -> dict[str, Order]:
    """Return how cases are put in order without each rule."""
    found = {field.name: ordered(replace(DEFAULT_WEIGHTS, **{field.name: 0.0})) for field in fields(DEFAULT_WEIGHTS)}
    return found | {
        "names_apart": ordered(DEFAULT_WEIGHTS, with_names),
        "length": ordered(DEFAULT_WEIGHTS, with_long_texts),
    }


async def cases_of(stack: PrivateStack, queries: list[Row]) -> list[Case]:
    """Return the questions with their candidates."""
    with psycopg.connect(stack.owner_url) as owner:
        wait_for_vectors(owner)
        model = owner.execute(MODELS).fetchone()
        assert model is not None
        embedder, sizes, cases = MiniLmEmbedder(), Sizes(), []
        filters = Filters(partitions=(Partition.TRUSTED,))
        async with await Store.open(stack.database_url) as store:
            for namespace, several in by_namespace(queries).items():
                names: dict[str, str] = dict(owner.execute(EXTERNAL_IDS, (namespace,)).fetchall())
                for query in several:
                    question = Question(query["query"])
                    asked, *named = await embedder.embed([question.text, *question.names], questions=True)
                    whole = Embedding.of(model[0], asked)
                    embedding = replace(whole, apart=without(unpacked(whole.half), named) if named else None)
                    candidates = await store.read(
                        namespace,
                        lambda tx, q=question, e=embedding: find_candidates(tx, sizes, q, e, filters),  # type: ignore[misc]
                    )
                    cases.append(Case(question, candidates, names, frozenset(query["evidence"])))
        await embedder.aclose()
    return cases


def show(what: dict[str, Any], cases: Sequence[Case]) -> None:
    """Print what all rules find together, and what is lost without each."""

    def figures(order: Order) -> tuple[list[float], list[float]]:
        scores = [score(order(case), case.evidence) for case in cases]
        return [one["R@10"] for one in scores], [one["MRR"] for one in scores]

    recall, first = figures(ordered(DEFAULT_WEIGHTS))
    whole: dict[str, Any] = {"R@10": float(np.mean(recall)), "MRR": float(np.mean(first))}
    emit(BENCH, "all", **what, n=len(cases), **whole)
    for name, order in rules().items():
        other, other_first = figures(order)
        mean, low, high = interval([one - less for one, less in zip(recall, other, strict=True)])
        mrr = float(np.mean(first)) - float(np.mean(other_first))
        emit(BENCH, name, **what, n=len(cases), earns=mean, low=low, high=high, earns_mrr=mrr)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", nargs=3, action="append", required=True, metavar=("NAME", "MEMORIES", "QUERIES"))
    chosen = parser.parse_args()
    for name, memories_path, queries_path in chosen.corpus:
        memories, queries = read_lines(Path(memories_path)), read_lines(Path(queries_path))
        asked = [one for one in queries if one["category"] != ADVERSARIAL]
        for withheld in (frozenset[str](), METADATA):
            with private_stack() as stack:
                stack.start_workers()
                stack.start_gateway("bench")
                bring_in(prepared(memories, withheld), stack.variables)
                cases = asyncio.run(cases_of(stack, asked))
            show({"corpus": name, "withheld": sorted(withheld)}, cases)


if __name__ == "__main__":
    main()
