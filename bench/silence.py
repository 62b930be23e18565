"""Silence among 1,000 memories: how often what is not known gets a hit, and what is known does not (PR-3).

    python -m bench.silence [--memories 1000]

The memories and the answerable queries are those of `bench.lookup`; the others ask for things of which none of them
says anything. Through the MCP gateway, with default parameters, and again for all hits. Prints a JSON line for each
kind of query: the share that gets a hit by default, and the shares of what `answered` says; of the answerable ones that
find the right memory first, the share whose default reply leaves it out; the characters of default replies to those of
all.
"""

import argparse
import asyncio
import json
from collections.abc import Sequence
from statistics import mean
from typing import Any, Final

from bench.common import McpClient, emit, private_stack
from bench.lookup import NAMESPACE, PAIRS
from bench.retrieval import EVERYTHING, bring_in
from engramq.workers.embedders.confidence import read_pairs
from tools.sectors.corpus import unused_english_texts

BENCH: Final = "silence"
UNKNOWN: Final = (
    "the Hanseatic League", "Gregorian chant", "photosynthesis in algae", "the rules of cricket",
    "medieval tapestry weaving", "the stock exchange of Tokyo", "the grammar of Latin", "the inventor of the telegraph",
    "ballet in Saint Petersburg", "deep sea vents", "the Aztec calendar", "quantum entanglement", "saffron",
    "sumo wrestling", "coral bleaching", "the Treaty of Versailles", "glass of Venice", "the Andean condor",
    "Byzantine mosaics", "the Tour de France", "plate tectonics", "the poetry of Rilke", "dinosaur fossils in Montana",
    "the national anthem of Brazil", "the economy of Ghana", "samurai armour", "whale song", "the Suez Canal",
    "the painter Vermeer", "tsunami warning systems", "the alphabet of Georgian", "cheese caves of Roquefort",
    "Antarctic research stations", "the Mughal emperors", "the periodic table", "the Panama hat", "chess openings",
    "the wolves of Yellowstone", "Norse mythology", "the Marshall Plan",
)  # fmt: skip
FORMS: Final = ("What do we know about {}?", "When did {} begin?", "Who wrote about {}?", "Why is {} famous?", "{}")


Replies = Sequence[dict[str, Any]]


async def replies(port: int, queries: Sequence[str], **more: Any) -> list[dict[str, Any]]:
    """Return the reply to each query; `more`: parameters of the search."""
    async with McpClient.connect(port) as client:
        return [await client.call("search_memories", query=item, **more) for item in queries]


def show(kind: str, memories: int, default: Replies, whole: Replies, meant: Sequence[str]) -> None:
    """Print how many queries get a hit, and of those that find what is meant first how many are not shown it."""
    shares: dict[str, Any] = {"with_hit": mean(bool(reply["memories"]) for reply in default)}
    shares |= {word: mean(reply["answered"] == word for reply in default) for word in ("yes", "unsure", "no")}
    shares["chars"] = sum(map(_chars, default)) / sum(map(_chars, whole))
    if meant:
        right = [
            any(hit["content"] == memory for hit in shown["memories"])
            for shown, found, memory in zip(default, whole, meant, strict=True)
            if found["memories"][0]["content"] == memory
        ]
        shares |= {"right_first": len(right), "left_out": right.count(False) / len(right)}
    emit(BENCH, kind, memories=memories, queries=len(default), **shares)


def _chars(reply: dict[str, Any]) -> int:
    return len(json.dumps(reply))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memories", type=int, default=1_000)
    chosen = parser.parse_args()
    pairs = read_pairs(PAIRS)
    texts = [pair.memory for pair in pairs] + unused_english_texts()[: chosen.memories - len(pairs)]
    said = [pair for pair in pairs if pair.paraphrase is not None]
    kinds = {
        "unknown": ([form.format(topic) for topic in UNKNOWN for form in FORMS], []),
        "paraphrase": ([pair.paraphrase or "" for pair in said], [pair.memory for pair in said]),
        "hint": ([pair.hint for pair in pairs], [pair.memory for pair in pairs]),
    }
    with private_stack() as stack:
        stack.start_workers()
        port = stack.start_gateway(NAMESPACE)
        bring_in([{"namespace": NAMESPACE, "content": text} for text in texts], stack.variables)
        for kind, (queries, meant) in kinds.items():
            default, whole = (asyncio.run(replies(port, queries, **more)) for more in ({}, EVERYTHING))
            show(kind, len(texts), default, whole, meant)


if __name__ == "__main__":
    main()
