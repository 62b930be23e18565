"""Looking memories up by query (connect_by_query) among 1,000: how often the right one, and how sure.

    python -m bench.lookup [--memories 1000]

Memories and queries are our own and took no part in calibrating the model (workers/embedders/calibrated). A paraphrase
says all of a memory again; a hint asks for it in few and often quite other words. First the queries are asked while
their memories are not there, so that whatever is found is wrong, then among all. Through the MCP gateway, two queries a
call, as dry runs. Prints JSON lines: the share that found the right memory, and what min_confidence .70 accepts.
"""

import argparse
import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from bench.common import McpClient, emit, percentile, private_stack
from bench.retrieval import bring_in
from engramq.workers.embedders.confidence import read_pairs
from tools.sectors.corpus import unused_english_texts

BENCH: Final = "lookup"
NAMESPACE: Final = "bench"
PAIRS: Final = Path(__file__).with_name("lookup_pairs.jsonl")
ACCEPTED: Final = 0.70  # the default of connect_by_query
ENDS: Final = ("source", "target")


class Asked(NamedTuple):
    """A query, what it is, and the memory that it means."""

    query: str
    kind: str
    memory: str


class Match(NamedTuple):
    """The memory that a query found, and its confidence."""

    content: str
    confidence: float


async def look_up(port: int, queries: Sequence[str]) -> tuple[list[Match], list[float]]:
    """Return what each query found, and the milliseconds of each call."""
    found, taken = [], []
    async with McpClient.connect(port) as client:
        for start in range(0, len(queries), len(ENDS)):
            pair = [*queries[start : start + len(ENDS)], queries[start]]
            asked = {f"{end}_query": query for end, query in zip(ENDS, pair, strict=False)}
            started = time.perf_counter()
            body = await client.call("connect_by_query", **asked, min_confidence=0, dry_run=True)
            taken.append((time.perf_counter() - started) * 1000)
            found += [Match(body[f"{end}_content"], body[f"{end}_confidence"]) for end in ENDS]
    return found[: len(queries)], taken


def show(kind: str, memories: int, asked: Sequence[Asked], absent: Sequence[Match], found: Sequence[Match]) -> None:
    """Print the figures of the queries of one kind."""
    rows = [row for row, lookup in enumerate(asked) if lookup.kind == kind]
    right = [found[row] for row in rows if found[row].content == asked[row].memory]
    emit(
        BENCH,
        kind,
        memories=memories,
        queries=len(rows),
        right=len(right) / len(rows),
        accepted_of_right=sum(item.confidence >= ACCEPTED for item in right) / max(1, len(right)),
        refused_of_absent=sum(absent[row].confidence < ACCEPTED for row in rows) / len(rows),
        wrong_of_accepted=sum(
            item.confidence >= ACCEPTED and item not in right for item in (found[row] for row in rows)
        )
        / max(1, sum(found[row].confidence >= ACCEPTED for row in rows)),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memories", type=int, default=1_000)
    chosen = parser.parse_args()
    pairs = read_pairs(PAIRS)
    others = unused_english_texts()[: chosen.memories - len(pairs)]
    asked = [Asked(pair.paraphrase or pair.hint, "paraphrase", pair.memory) for pair in pairs]
    asked += [Asked(pair.hint, "hint", pair.memory) for pair in pairs]
    queries = [lookup.query for lookup in asked]
    with private_stack() as stack:
        stack.start_workers()
        port = stack.start_gateway(NAMESPACE)
        bring_in([{"namespace": NAMESPACE, "content": text} for text in others], stack.variables)
        absent, _ = asyncio.run(look_up(port, queries))
        bring_in([{"namespace": NAMESPACE, "content": pair.memory} for pair in pairs], stack.variables)
        found, taken = asyncio.run(look_up(port, queries))
    for kind in ("paraphrase", "hint"):
        show(kind, len(others) + len(pairs), asked, absent, found)
    emit(BENCH, "call", calls=len(taken), p50_ms=percentile(taken, 0.5), p95_ms=percentile(taken, 0.95))


if __name__ == "__main__":
    main()
