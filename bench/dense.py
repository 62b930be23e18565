"""How much of a reply belongs in it: 150 questions about 60 facts of two projects, through the MCP gateway (PR-4).

    python -m bench.dense [--misses]

dense.jsonl has a line for each fact (`key`, `content`, perhaps `project`, `tags`, and the fact that it `replaces`) and
for each question (`query`, `project`, perhaps `tags`, and the keys that it `expects`: of the facts that an answer
needs, none where nothing is known). Facts have aliases, names that are nearly the same, words that mean another thing
in another project, chains of replacements, and the same form with another value; questions are plain, terse, or ramble
over 400 characters. Both halves are stored together and share no topic: tune rules on `shown`, never on `aside`.

Questions are asked with default parameters but `limit` 20, and the project and tags that a client would send. Prints a
JSON line for each half, of the default reply, and of all hits (`min_relevance` 0):
precision: the mean over all questions of the share of hits that are expected. A reply without hits has 1 where nothing
is expected, else 0; one with hits has 0 where nothing is expected. `precision_if_known`: the same where something is.
recall: the mean share of what is expected among the hits, of questions that expect something. exact: the share of all
questions whose hits are what is expected, no more, no less. silent: the share without hits where nothing is expected.
--misses also prints each question of `shown` that is not answered exactly.
"""

import argparse
import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from typing import Any, Final

from bench.common import McpClient, ToolClient, emit, private_stack
from bench.retrieval import EVERYTHING, read_lines

BENCH: Final = "dense"
SET: Final = Path(__file__).with_suffix(".jsonl")
NAMESPACE: Final = "dense"
LIMIT: Final = 20
SHOWN: Final = "shown"
HALVES: Final = (SHOWN, "aside")

Row = dict[str, Any]


def figures(pairs: Sequence[tuple[Sequence[str], Sequence[str]]]) -> dict[str, Any]:
    """Return the figures of (keys of the hits, keys that are expected), as the head of this module defines them."""
    right = [len({*hits} & {*expects}) for hits, expects in pairs]
    precision = [
        count / len(hits) if hits else float(not expects) for count, (hits, expects) in zip(right, pairs, strict=True)
    ]
    return {
        "precision": mean(precision),
        "precision_if_known": mean(share for share, (_, expects) in zip(precision, pairs, strict=True) if expects),
        "recall": mean(count / len(expects) for count, (_, expects) in zip(right, pairs, strict=True) if expects),
        "exact": mean({*hits} == {*expects} for hits, expects in pairs),
        "silent": mean([not hits for hits, expects in pairs if not expects] or [1.0]),
        "hits": mean(len(hits) for hits, _ in pairs),
    }


async def store(client: ToolClient, facts: Sequence[Row]) -> None:
    """Store the facts as an agent does, one after the other, and replace what is no longer true."""
    ids: dict[str, str] = {}
    for fact in facts:
        fields = {name: fact[name] for name in ("content", "project", "tags") if name in fact}
        reply = await client.call("store_memory", external_id=fact["key"], **fields)
        ids[fact["key"]] = reply["stored"]["id"]
        if "replaces" in fact:
            old = ids[fact["replaces"]]
            await client.call("supersede_memory", old_memory_id=old, new_memory_id=ids[fact["key"]])


async def ask(client: ToolClient, questions: Sequence[Row], **more: Any) -> list[tuple[Row, list[Row]]]:
    """Return each question with its hits; `more`: parameters of the search."""
    answered = []
    for question in questions:
        given = {name: question[name] for name in ("query", "project", "tags") if name in question}
        reply = await client.call("search_memories", limit=LIMIT, **given, **more)
        answered.append((question, reply["memories"]))
    return answered


async def measure(port: int) -> dict[str, list[tuple[Row, list[Row]]]]:
    """Store the facts and ask; return each question with its hits, by the hits that are meant."""
    rows = read_lines(SET)
    questions = [row for row in rows if "query" in row]
    async with McpClient.connect(port) as client:
        await store(client, [row for row in rows if "key" in row])
        return {"default reply": await ask(client, questions), "everything": await ask(client, questions, **EVERYTHING)}


def show(half: str, way: str, answered: Sequence[tuple[Row, list[Row]]], *, misses: bool) -> None:
    """Print the figures of one half, and what it has wrong if that may be seen."""
    pairs = [([hit["external_id"] for hit in hits], question["expects"]) for question, hits in answered]
    emit(BENCH, half, of=way, n=len(pairs), expecting=sum(bool(expects) for _, expects in pairs), **figures(pairs))
    if misses and half == SHOWN:
        for (question, _), (hits, expects) in zip(answered, pairs, strict=True):
            if {*hits} != {*expects}:
                print(json.dumps({"query": question["query"], "expects": expects, "hits": hits}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--misses", action="store_true")
    misses = parser.parse_args().misses
    with private_stack() as stack:
        stack.start_workers()
        ways = asyncio.run(measure(stack.start_gateway(NAMESPACE)))
    for way, several in ways.items():
        for half in HALVES:
            show(half, way, [item for item in several if item[0]["half"] == half], misses=misses)
        show("both", way, several, misses=False)


if __name__ == "__main__":
    main()
