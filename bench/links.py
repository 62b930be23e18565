"""Links: what connect costs over MCP HTTP, and how many links memories end up with when many are stored.

    python -m bench.links [--memories 10000] [--callers 1,64] [--runs 3] [--seconds 2]
                          [--stores 20000] [--storers 64] [--texts MEMORIES.jsonl]

`connect` links two of so many made-up memories at random, `connect_one_pair` always the same two. Then `--stores`
near-identical sentences are stored into a fresh database, and, with --texts, as many of the contents in that file; when
the similarity links of all have been made, `degrees` tells how many links the memories have. `--stores 0` leaves that
out. Prints JSON lines.
"""

import argparse
import asyncio
import itertools
import json
import random
import time
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any, Final

import psycopg

from bench.common import McpClient, PrivateStack, Refused, closed_loop, emit, median_of, percentile, private_stack
from bench.synthetic import Corpus, filled

BENCH: Final = "links"
NAMESPACE: Final = "bench"
CAP: Final = 10  # the default of ENGRAMQ_DEGREE_CAP
LINKED_S: Final = 900.0  # that the links of the last stores may take
IDS: Final = b"select node_id from memories order by random() limit 20000"
UNLINKED: Final = b"select count(*) from memories where links_made_at is null"
DEGREES: Final = b"""
    select count(e.other) from memories m left join (
        select source_id as id, target_id as other from edges where layer = 'association'
        union all select target_id, source_id from edges where layer = 'association'
    ) e on e.id = m.node_id group by m.node_id
"""

Work = Callable[[McpClient], Awaitable[object]]


def measure_connect(chosen: argparse.Namespace) -> None:
    """Measure callers that connect pairs at random, then callers that all connect the same pair."""
    with private_stack() as stack:
        filled(stack, Corpus(chosen.memories), BENCH)
        stack.start_workers()
        port = stack.start_gateway(NAMESPACE)
        ids = [str(item) for item in column(stack, IDS)]
        dice = random.Random(5)

        async def anywhere(client: McpClient) -> None:
            source, target = dice.sample(ids, 2)
            await client.call("connect", source=source, target=target)

        async def one_pair(client: McpClient) -> None:
            await client.call("connect", source=ids[0], target=ids[1])

        works: dict[str, Work] = {"connect": anywhere, "connect_one_pair": one_pair}
        for (measure, work), callers in itertools.product(works.items(), numbers(chosen.callers)):
            asyncio.run(closed_loop(port, callers, chosen.seconds / 2, work))  # not counted: caches fill
            runs = [asyncio.run(closed_loop(port, callers, chosen.seconds, work)) for _ in range(chosen.runs)]
            emit(BENCH, measure, synthetic=True, memories=chosen.memories, callers=callers, **median_of(runs))
        tell_degrees(stack, "after_connects")


def measure_stores(contents: Iterable[str], texts: str, storers: int) -> None:
    """Store these contents, wait until their links have been made, and tell how many links there are."""
    with private_stack() as stack:
        stack.start_workers()
        port = stack.start_gateway(NAMESPACE)
        left = iter(contents)
        started = time.perf_counter()
        stored = asyncio.run(store_all(port, left, storers))
        seconds = time.perf_counter() - started
        until = time.monotonic() + LINKED_S
        while (unlinked := column(stack, UNLINKED)[0]) and time.monotonic() < until:
            time.sleep(0.2)
        linked = time.perf_counter() - started
        emit(BENCH, "stored", texts=texts, stored=stored, seconds=seconds, per_s=stored / seconds,
             links_made_after_s=linked - seconds, unlinked=unlinked)  # fmt: skip
        tell_degrees(stack, texts)


async def store_all(port: int, contents: Iterable[str], storers: int) -> int:
    """Let so many callers store what there is, each content once; return how many were stored."""
    left = iter(contents)

    async def storer() -> int:
        stored = 0
        async with McpClient.connect(port) as client:
            for content in left:
                while True:
                    try:
                        await client.call("store_memory", content=content)
                        break
                    except Refused as refusal:
                        if str(refusal) != "overloaded":
                            raise
                        await asyncio.sleep(0.05)
                stored += 1
        return stored

    return sum(await asyncio.gather(*(storer() for _ in range(storers))))


def tell_degrees(stack: PrivateStack, texts: str) -> None:
    """Print how many links the memories have, and whether anybody has more than the cap."""
    degrees = column(stack, DEGREES)
    spread: dict[str, Any] = {f"p{share}": percentile(degrees, share / 100) for share in (50, 90, 99)}
    emit(
        BENCH,
        "degrees",
        texts=texts,
        memories=len(degrees),
        links=sum(degrees) // 2,
        mean=sum(degrees) / len(degrees),
        **spread,
        most=max(degrees),
        without_links=sum(degree == 0 for degree in degrees),
        at_the_cap=sum(degree == CAP for degree in degrees),
        within_cap=max(degrees) <= CAP,
    )


def near_identical() -> Iterable[str]:
    """Make sentences that differ in a number only."""
    return (f"The nightly backup of the billing database finished without errors, run {n}." for n in itertools.count())


def column(stack: PrivateStack, query: bytes) -> list[Any]:
    """Return the first column of a query's rows."""
    with psycopg.connect(stack.owner_url) as connection:
        return [row[0] for row in connection.execute(query).fetchall()]


def numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(","))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memories", type=int, default=10_000)
    parser.add_argument("--callers", default="1,64")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--stores", type=int, default=20_000)
    parser.add_argument("--storers", type=int, default=64)
    parser.add_argument("--texts", type=Path)
    chosen = parser.parse_args()
    measure_connect(chosen)
    if not chosen.stores:
        return
    measure_stores(itertools.islice(near_identical(), chosen.stores), "near_identical", chosen.storers)
    if chosen.texts:
        with chosen.texts.open(encoding="utf-8") as lines:
            contents = [json.loads(line)["content"] for line in itertools.islice(lines, chosen.stores)]
        measure_stores(contents, "real", chosen.storers)


if __name__ == "__main__":
    main()
