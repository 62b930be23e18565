"""Weak hits among 1,000 memories: how often what is not known is told so, and what is known is not (AG-19).

    python -m bench.weak [--memories 1000]

The memories and the answerable queries are those of `bench.lookup`; the others ask for things of which none of them
says anything. Through the MCP gateway. Prints a JSON line for each kind of query: the share that has a hit which is not
marked; of the answerable ones that find the right memory first, the share that has it marked.
"""

import argparse
import asyncio
from collections.abc import Sequence
from typing import Any, Final

from bench.common import McpClient, emit, private_stack
from bench.lookup import NAMESPACE, PAIRS
from bench.retrieval import bring_in
from engramq.workers.embedders.confidence import read_pairs
from tools.sectors.corpus import unused_english_texts

BENCH: Final = "weak"
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


async def hits(port: int, queries: Sequence[str]) -> list[list[dict[str, Any]]]:
    """Return the hits of each query."""
    async with McpClient.connect(port) as client:
        return [(await client.call("search_memories", query=item))["memories"] for item in queries]


def show(kind: str, memories: int, found: Sequence[Sequence[dict[str, Any]]], meant: Sequence[str] = ()) -> None:
    """Print how many queries have an unmarked hit, and of those that find what is meant how many have that marked."""
    unmarked = sum(any(not hit.get("weak") for hit in several) for several in found)
    shares: dict[str, Any] = {"with_unmarked": unmarked / len(found)}
    if meant:
        right = [item[0] for item, memory in zip(found, meant, strict=True) if item and item[0]["content"] == memory]
        shares |= {"right": len(right) / len(found), "lost": sum(bool(hit.get("weak")) for hit in right) / len(right)}
    emit(BENCH, kind, memories=memories, queries=len(found), **shares)


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
            show(kind, len(texts), asyncio.run(hits(port, queries)), meant)


if __name__ == "__main__":
    main()
