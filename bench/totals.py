"""Store with and without kept totals: `python -m bench.totals [--pairs N] [--stores M]`.

The triggers are there and away in alternating pairs, on one stack with the shipped model; prints a JSON line.
"""

import argparse
import asyncio
import statistics
from typing import Any, Final

import psycopg
from psycopg import sql

from bench.common import McpClient, emit, private_stack, timed
from bench.synthetic import Texts

BENCH: Final = "totals"
TRIGGERS: Final = ("memory_came", "memory_changed")
TOKENS: Final = 24


async def measure(port: int, owner: psycopg.Connection[Any], pairs: int, stores: int) -> None:
    """Print the p50 of a store with the triggers, and its ratio to one without, as the median over the pairs."""
    texts = Texts()
    p50s: dict[bool, list[float]] = {True: [], False: []}
    async with McpClient.connect(port) as client:

        async def store(_number: int) -> None:
            await client.call("store_memory", content=texts.of(TOKENS), project="shop")

        await timed(store, stores)
        for pair in range(pairs):
            for is_kept in (True, False) if pair % 2 else (False, True):
                for name in TRIGGERS:
                    change = "alter table memories {} trigger {}"
                    word = sql.SQL("enable" if is_kept else "disable")
                    owner.execute(sql.SQL(change).format(word, sql.Identifier(name)))
                p50s[is_kept].append(statistics.median(await timed(store, stores)))
    ratios = [kept / without for kept, without in zip(p50s[True], p50s[False], strict=True)]
    emit(
        BENCH, "store", p50_ms=statistics.median(p50s[True]), without_ms=statistics.median(p50s[False]),
        ratio=statistics.median(ratios), least=min(ratios), most=max(ratios), pairs=pairs, stores=stores,
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[0])
    parser.add_argument("--pairs", type=int, default=12)
    parser.add_argument("--stores", type=int, default=60)
    given = parser.parse_args()
    with private_stack() as stack, psycopg.connect(stack.owner_url, autocommit=True) as owner:
        stack.start_workers()
        port = stack.start_gateway("bench")
        asyncio.run(measure(port, owner, given.pairs, given.stores))


if __name__ == "__main__":
    main()
