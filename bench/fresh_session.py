"""Measure what an agent finds of an earlier conversation in a fresh session: by a fixed plan, without a model.

    python -m bench.fresh_session MEMORIES.jsonl QUERIES.jsonl [--conversations 1]

Files as `bench.retrieval` takes them. Each conversation (a namespace) is stored message by message with store_memory,
with thread, speaker and occurred_at. Then another connection asks each of its questions by at most two calls, all else
by default: search_memories with 20 hits; and survey_memories, where the question's own words ask for an order, a count,
a summary or what changed, else the same search with all hits, where the first said that it may not be answered.
Prints a JSON line for each kind of question, and one over all: the mean share of the evidence that was in a reply, the
shares of questions whose evidence was there whole, and at least in part, and the mean tokens of the replies.
"""

import argparse
import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any, Final, NamedTuple

from bench.common import McpClient, emit, private_stack
from bench.replies import tokens
from bench.retrieval import EVERYTHING, Row, by_namespace, prepared, read_lines
from engramq.schemas.commands import TOOLS

BENCH: Final = "fresh_session"
LIMIT: Final = 20
SURVEY: Final = "survey_memories"
WANTS_ALL: Final = re.compile(
    r"\b(orders?|sequence|timeline|history|summar\w+|overview|how (many|much|often)|total|all|across|throughout"
    r"|over time|progress\w*|develop(ed|ment)|evolv\w+|chang(e|ed|es)|compare\w*)\b",
    re.IGNORECASE,
)
SHOWN: Final = ("memories", "standing", "extracts")  # of replies
KEPT: Final = ("content", "thread", "speaker", "occurred_at")


class Probe(NamedTuple):
    """A question's kind, which share of its evidence was found, and what the replies cost."""

    kind: str
    share: float
    tokens: int


async def store(client: McpClient, memories: Sequence[Row]) -> dict[str, str]:
    """Store the messages of a conversation; return the id of each by its external id."""
    ids = {}
    for row in memories:
        reply = await client.call("store_memory", **{name: row[name] for name in KEPT if name in row})
        ids[row["external_id"]] = reply["stored"]["id"]
    return ids


async def replies(client: McpClient, question: str) -> list[dict[str, Any]]:
    """Return the replies to the calls of the plan, at most two."""
    search = {"query": question, "limit": LIMIT}
    first = await client.call("search_memories", **search)
    if SURVEY in TOOLS and WANTS_ALL.search(question):
        return [first, await client.call(SURVEY, topic=question)]
    if first.get("answered", "yes") != "yes":
        return [first, await client.call("search_memories", **search, **EVERYTHING)]
    return [first]


async def probe(client: McpClient, query: Row, ids: Mapping[str, str]) -> Probe:
    """Ask one question."""
    answered = await replies(client, query["query"])
    seen = {item["id"] for reply in answered for shown in SHOWN for item in reply.get(shown, ())}
    evidence = [ids[external_id] in seen for external_id in query["evidence"]]
    return Probe(query["category"], mean(evidence), sum(tokens(json.dumps(reply)) for reply in answered))


async def converse(ports: Mapping[str, int], memories: Sequence[Row], queries: list[Row]) -> list[Probe]:
    """Store each conversation through its gateway, and ask its questions through another connection."""
    probes = []
    for namespace, asked in by_namespace(queries).items():
        rows = [row for row in memories if row["namespace"] == namespace]
        async with McpClient.connect(ports[namespace]) as client:
            ids = await store(client, rows)
        async with McpClient.connect(ports[namespace]) as client:
            probes += [await probe(client, query, ids) for query in asked]
    return probes


def show(kind: str, probes: Sequence[Probe]) -> None:
    """Print the figures of one kind."""
    shares = [item.share for item in probes]
    figures: dict[str, Any] = {
        "evidence": mean(shares),
        "whole": mean(share == 1 for share in shares),
        "some": mean(share > 0 for share in shares),
        "tokens": round(mean(item.tokens for item in probes)),
    }
    emit(BENCH, kind, n=len(probes), **figures)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("memories", type=Path)
    parser.add_argument("queries", type=Path)
    parser.add_argument("--conversations", type=int, default=1)
    chosen = parser.parse_args()
    queries = read_lines(chosen.queries)
    names = list(by_namespace(queries))[: chosen.conversations]
    queries = [query for query in queries if query["namespace"] in names]
    with private_stack() as stack:
        stack.start_workers()
        ports = {name: stack.start_gateway(name) for name in names}
        probes = asyncio.run(converse(ports, prepared(read_lines(chosen.memories), frozenset()), queries))
    for kind in dict.fromkeys(item.kind for item in probes):
        show(kind, [item for item in probes if item.kind == kind])
    show("all", probes)


if __name__ == "__main__":
    main()
