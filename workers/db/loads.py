"""Run bulk loads, whose rows come into the vector index when it is built anew at their end.

A row of an open load is in no vector index, and searches compare it exactly. Once nothing has come for a while the load
is over: its rows are let in, the index is built anew beside readers and writers, and then the load is forgotten.
Each step may be repeated: a build that was broken off is begun again.

Nothing is missed meanwhile. A load is forgotten only after a build that began when its rows had been let in, and a
build ends only when nobody uses the index that it replaces. At load_covered, schema.sql says why the condition of
the index may read a table.
"""

from itertools import groupby
from typing import Any, Final

from engramq.schemas.vocabulary import Partition
from engramq.workers.db.database import Store
from engramq.workers.db.statements import WatchedConnection
from engramq.workers.db.transaction import (
    AT_LENGTH,
    BEGIN,
    Row,
    Transaction,
    ask,
    execute,
    settings_to_take,
)

IDLE_S: Final = 5.0  # without a batch, after which a load is over
LOAD_ROWS: Final = 20_000  # after which it is over too, and another one begins: scanning so many takes 30 ms
# If no index is ever built, as when no upkeep runs, a scan stays bounded: what comes then is indexed row by row.
LOADS_MAX: Final = 4  # of a tenant, that wait for their index
FULL_ROWS: Final = 30_000  # of one load
# When rows come as a load: so many, and such a share of everybody's, since inserting one costs as much as building in
# about four.
LARGE_ROWS: Final = 3_000
LARGE_SHARE: Final = 0.25
BUILD_MAX: Final = "4h"  # of one build: 3,000 rows a second


async def open_load(tx: Transaction, partition: Partition, model_id: int) -> None:
    """Begin a load, unless one is open. Whatever comes until it is over stays out of the vector index."""
    if not tx.sharded:  # where the condition of an index may ask no table: see deploy/citus.sql
        await tx.send("open_load", partition=partition, model_id=model_id, most=LOADS_MAX)


async def load_of(tx: Transaction, partition: Partition, model_id: int, *, rows: int) -> int | None:
    """Return the open load that so many new rows belong to, held open until the end of the transaction; or None."""
    row = await tx.row("touch_load", partition=partition, model_id=model_id, rows=rows, most=FULL_ROWS)
    return None if row is None else int(row["id"])


async def next_load(tx: Transaction, partition: Partition, model_id: int, *, rows: int) -> int | None:
    """Return an open load with room for so many new rows of a transaction that brings many loads' worth of them.

    A load that is full is over and another one begins; None when as many wait as searches may scan. A transaction
    that only does this and commits shows nobody a load that is over without its rows.
    """
    for _ in range(2):
        await open_load(tx, partition, model_id)
        load = await load_of(tx, partition, model_id, rows=rows)
        if load is not None:
            return load
        await tx.send("cover_full_load", partition=partition, model_id=model_id, full=FULL_ROWS)
    return None


async def index_loads(store: Store, *, idle_s: float = IDLE_S, most: int = LOAD_ROWS) -> int:
    """Bring the rows of loads that are over into the vector index; return how many loads there were.

    Does nothing while another process does. Raises EngramqError or ResultUnknown when the database is away.
    """
    over = await store.ask("loads_over", idle_s=idle_s, most=most)
    if not over:
        return 0
    await _each(store, over, "cover_load")
    if not await store.alone(lambda connection: _build_under_lock(store, connection, over)):
        return 0
    await _each(store, over, "end_load")
    await store.alone(lambda connection: execute(connection, "analyze_loaded", {}, prepare=False))
    return len(over)


async def _each(store: Store, loads: list[Row], query: str) -> None:
    for namespace, several in _group(loads, "namespace"):
        ids = [load["id"] for load in several]

        async def write(tx: Transaction, ids: list[int] = ids) -> None:
            await tx.send(query, ids=ids)

        await store.write(namespace, write)


async def _build_under_lock(store: Store, connection: WatchedConnection, loads: list[Row]) -> bool:
    """Build the indexes of loads anew, whose rows are let in already; return False while another process builds.

    Behind a pooler no session keeps a lock or settings. There a transaction keeps the lock meanwhile, and sees nothing
    that the build would have to wait for; the build itself runs as the role is set.
    """
    settings = settings_to_take(connection, AT_LENGTH)
    if settings is None:
        locked = await (await execute(connection, "lock_builds", {})).fetchone()
        if locked is None or not locked["locked"]:
            return False
        await execute(connection, "build_settings", {"timeout": BUILD_MAX})
        await _build(connection, loads)
        return True
    await connection.execute(BEGIN, prepare=False)
    await execute(connection, "take_settings", settings, prepare=False)
    locked = await (await execute(connection, "lock_builds_here", {})).fetchone()
    if locked is None or not locked["locked"]:
        return False
    await store.alone(lambda other: _build(other, loads))
    return True


async def _build(connection: WatchedConnection, loads: list[Row]) -> None:
    await ask(connection, "drop_broken_indexes", {})
    for (partition, model_id), _ in _group(loads, "partition", "model_id"):
        for row in await ask(connection, "build_command", {"partition": partition, "model_id": model_id}):
            await connection.execute(row["command"], prepare=False)


def _group(rows: list[Row], *names: str) -> list[tuple[Any, list[Row]]]:
    def key(row: Row) -> Any:
        return row[names[0]] if len(names) == 1 else tuple(row[name] for name in names)

    return [(value, list(several)) for value, several in groupby(sorted(rows, key=key), key=key)]
