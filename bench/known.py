"""Whether what is known is said: lookups as agents write them, in homes of 10 to 100,000 memories (KN-1 to KN-4).

    python -m bench.known [--sizes 10,40,...] [--large] [--quick] [--only homes,times,...] [--misses]
                          [--write] [--from FILE ...]

known.jsonl has two homes of 40 memories, and queries of twelve shapes; nothing is ever learned from them, or chosen by
them (what is learned from is tools/relevance/lookups.jsonl). Around each home stand texts of tools.relevance.fillers.
The sizes grow in one namespace: a home is asked, more is imported, it is asked again. `--large`: 100,000 too;
`--quick`: three small sizes. Through the MCP gateway, with default parameters. The other sets are those of
`bench.known_sets`.

Prints a JSON line for each size and shape. `shown`: the share of the queries for which a memory that answers is among
the hits; `first`: is the first hit; `yes`, `unsure`, `no`: what `answered` says. `with_hit`: of queries that nothing
answers. `denied`: how often `answered` was "no" beside hits. `all`: the sum over all shapes that something answers.
--misses also prints the queries for which nothing right is shown: never tune by them. --write writes tables of it all
into docs/recall.md; with --from of lines that were printed before.
"""

import argparse
import asyncio
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import mean
from typing import Final

import msgspec
import psycopg

from bench import known_sets
from bench.common import McpClient, PrivateStack, emit, private_stack
from bench.page import Generated, Line, read_printed, table
from bench.retrieval import bring_in, wait_for_vectors
from tools.relevance import fillers
from tools.relevance.lookups import ANSWERED, HELD, SHAPES, UNANSWERED, Home, Lookup, holders, homes

BENCH: Final = "known"
SECTION: Final = Generated("bench.known")
PAGE: Final = Path(__file__).resolve().parents[1] / "docs" / "recall.md"
SET: Final = Path(__file__).with_suffix(".jsonl")
HOMES: Final = "homes"
SMALL: Final = 10  # memories of the smallest home: every fourth of 40
SIZES: Final = (SMALL, 40, 100, 300, 1_000, 3_000, 10_000)
QUICK: Final = (SMALL, 40, 300)
LARGE: Final = 100_000
ASKING: Final = ("unknown", "near_miss")  # shapes that something around a home may answer


class Told(msgspec.Struct, frozen=True):
    """A query, the keys of the memories that answer it, the keys of the hits, and what `answered` said."""

    asked: Lookup
    right: frozenset[str]
    hits: list[str]
    answered: str

    @property
    def is_shown(self) -> bool:
        """Whether a memory that answers is among the hits."""
        return not self.right.isdisjoint(self.hits)

    @property
    def is_first(self) -> bool:
        """Whether the first hit answers."""
        return bool(self.hits) and self.hits[0] in self.right


def part(home: Home, size: int) -> dict[str, str]:
    """Return the home among so many memories: a part of it, or all of it and what stands around it."""
    own = list(home.memories.items())
    if size < len(own):
        return dict(own[:: len(own) // size][:size])
    return {**home.memories, **{f"filler/{n}": text for n, text in enumerate(fillers.texts(size - len(own)))}}


def expected(home: Home, memories: Mapping[str, str]) -> list[tuple[Lookup, frozenset[str]]]:
    """Return what is asked of a home of these memories, and which of them answer each."""
    found = []
    for asked in home.asked:
        right = {key for key in asked.expects if key in memories}
        if asked.shape in (*HELD, *ASKING):
            right |= {*holders(asked.query, memories.items())}
        if bool(right) == (asked.shape in ANSWERED):
            found.append((asked, frozenset(right)))
    return found


def figures(told: Sequence[Told]) -> Line:
    """Return the figures of queries of one shape, as the head of this module defines them."""
    shares: Line = {"n": len(told), "with_hit": mean(bool(item.hits) for item in told)}
    if any(item.right for item in told):
        shares |= {"shown": mean(item.is_shown for item in told), "first": mean(item.is_first for item in told)}
    shares |= {word: mean(item.answered == word for item in told) for word in ("yes", "unsure", "no")}
    return shares | {"denied": sum(item.answered == "no" and bool(item.hits) for item in told)}


def groups(told: Sequence[Told]) -> Iterator[tuple[str, list[Told]]]:
    """Yield the queries of each shape, and all that something answers."""
    yield from ((shape, [item for item in told if item.asked.shape == shape]) for shape in SHAPES)
    yield "held", [item for item in told if item.asked.shape in HELD]
    yield "all", [item for item in told if item.asked.shape in ANSWERED]


async def ask(port: int, queries: Sequence[tuple[Lookup, frozenset[str]]]) -> list[Told]:
    """Ask, one after the other."""
    told = []
    async with McpClient.connect(port) as client:
        for asked, right in queries:
            reply = await client.call("search_memories", query=asked.query)
            hits = [hit["external_id"] for hit in reply["memories"]]
            told.append(Told(asked, right, hits, reply["answered"]))
    return told


def ask_homes(stack: PrivateStack, sizes: Sequence[int], *, misses: bool) -> Iterator[Line]:
    """Let each home grow, ask it at each size, and print and yield a line for each shape."""
    asked_of = homes(SET)
    ports = {home.name: stack.start_gateway(home.name) for home in asked_of}
    stored: dict[str, set[str]] = {home.name: set() for home in asked_of}
    for size in sizes:
        told: list[Told] = []
        for home in asked_of:
            memories = part(home, size)
            new = {key: text for key, text in memories.items() if key not in stored[home.name]}
            put(stack, home.name, new)
            stored[home.name] |= new.keys()
            told += asyncio.run(ask(ports[home.name], expected(home, memories)))
        for shape, several in groups(told):
            if several:
                yield emit(BENCH, shape, set=HOMES, memories=size, **figures(several))
        if misses:
            for item in told:
                if item.asked.shape in ANSWERED and not item.is_shown:
                    print(json.dumps({"memories": size, **msgspec.to_builtins(item.asked), "hits": item.hits}))


def put(stack: PrivateStack, namespace: str, memories: Mapping[str, str]) -> None:
    """Import memories, by their keys, and wait for their vectors."""
    rows = [{"namespace": namespace, "external_id": key, "content": text} for key, text in memories.items()]
    bring_in(rows, stack.variables)
    with psycopg.connect(stack.owner_url) as owner:
        wait_for_vectors(owner)


def measure(names: Sequence[str], sizes: Sequence[int], *, misses: bool) -> Iterator[Line]:
    """Measure these sets, and print and yield their lines."""
    with private_stack() as stack:
        stack.start_workers()
        for name in names:
            if name == HOMES:
                yield from ask_homes(stack, sizes, misses=misses)
            else:
                yield from known_sets.measure(stack, name, datetime.now(UTC).date())


def read(files: Iterable[Path]) -> list[Line]:
    """Return the lines of these files; later ones replace earlier ones."""
    told = {(line["set"], line["measure"], line.get("memories")): line for line in read_printed(files, BENCH)}
    return list(told.values())


def section(lines: Sequence[Line]) -> str:
    """Return the section, markers included."""
    loads, cpus = [line["load_1m"] for line in lines], lines[0]["cpus"]
    said = f"{datetime.now(UTC).date().isoformat()}, load {min(loads):.0f} to {max(loads):.0f} on {cpus} cores."
    of_homes = [line for line in lines if line["set"] == HOMES]
    of_sets = [line for name in known_sets.SETS for line in lines if line["set"] == name]
    tables = [*_of_homes(of_homes)] if of_homes else []
    if of_sets:
        tables.append(table(["set", "asked", "right", "figures"], map(_of_set, of_sets)))
    return "\n\n".join([SECTION.begin, said, *tables, SECTION.end])


def _of_homes(lines: Sequence[Line]) -> Iterator[str]:
    """Yield the tables of what something answers and of what nothing does, by size, and how often hits are denied."""
    sizes = list(dict.fromkeys(line["memories"] for line in lines))
    heads = ["shape", "asked", *(f"{size:,}" for size in sizes)]
    for title, columns, shapes in (
        ("A memory that answers is shown, and is the first hit", ("shown", "first"), (*ANSWERED, "held", "all")),
        ("Nothing answers, and something is shown", ("with_hit",), UNANSWERED),
    ):
        rows = []
        for shape in shapes:
            by_size = {line["memories"]: line for line in lines if line["measure"] == shape}
            cells = [_figures(by_size[size], columns) if size in by_size else "" for size in sizes]
            rows.append([shape, str(max(line["n"] for line in by_size.values())), *cells])
        yield f"{title}:"
        yield table(heads, rows)
    yield f'"no" was said beside hits {sum(line["denied"] for line in lines if line["measure"] in SHAPES)} times.'


def _figures(line: Line, columns: Sequence[str]) -> str:
    return ", ".join(f"{line[column]:.2f}" for column in columns)


def _of_set(line: Line) -> list[str]:
    shares = ", ".join(f"{name} {_figures(line, [name])}" for name in line if name not in known_sets.PLAIN)
    return [f"{line['set']}: {line['measure']}", str(line["n"]), _figures(line, ["right"]), shares]


def main() -> None:
    """Measure, print, and perhaps write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", help="memories of a home, with commas")
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", help="sets, with commas")
    parser.add_argument("--misses", action="store_true")
    parser.add_argument("--write", action="store_true", help="into docs/recall.md")
    parser.add_argument("--from", dest="files", type=Path, nargs="+", metavar="FILE", default=[])
    chosen = parser.parse_args()
    sizes = [int(size) for size in chosen.sizes.split(",")] if chosen.sizes else [*(QUICK if chosen.quick else SIZES)]
    names = chosen.only.split(",") if chosen.only else [HOMES, *known_sets.SETS]
    if chosen.files:
        lines = read(chosen.files)
    else:
        lines = list(measure(names, sorted(sizes + [LARGE] * chosen.large), misses=chosen.misses))
    if chosen.write:
        SECTION.write(PAGE, section(lines))


if __name__ == "__main__":
    main()
