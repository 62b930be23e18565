"""All writers lock memories in the order of their ids: else two of them wait for each other until one is undone."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import msgspec
import pytest

from engramq.schemas.commands import (
    Command,
    ForgetMemory,
    ImportBatch,
    ImportRecord,
    PurgeMemories,
    ShareMemory,
    SupersedeMemory,
    UpdateMemory,
)
from engramq.schemas.digests import digest_of
from engramq.schemas.evidence import Citation
from engramq.schemas.vocabulary import DEFAULT_NAMESPACE, OnDuplicate, Visibility
from engramq.workers.db.memory_rows import lock
from engramq.workers.db.viewers import EVERYTHING
from tests.assignments import assignment
from tests.running import opened
from tests.scenarios.stage import until
from tests.workers.conftest import World
from tests.workers.graph.harness import ADA

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NO_WAIT = b"select from nodes where tenant = %(tenant)s and id = %(id)s for no key update nowait"

Making = Callable[[str, str], Command]  # of the older and the newer memory


def on(memory_id: str) -> tuple[Citation, ...]:
    return (Citation(memory_id=memory_id),)


def bring_in(external_id: str, **fields: Any) -> Command:
    record = ImportRecord(content="The heron nests in the reed", external_id=external_id, **fields)
    return ImportBatch(records=(record,), on_duplicate=OnDuplicate.UPDATE)


async def held_in_order(world: World, older: str, newer: str, command: Command) -> None:
    """Carry a command out while the older memory is locked: it waits, and does not hold the newer one."""

    async def waits() -> bool:
        return working.done() or bool(world.rows("select pid from pg_locks where not granted"))

    async with opened(world.store.seen_by(EVERYTHING), DEFAULT_NAMESPACE) as tx:
        await lock(tx, UUID(older))
        working = asyncio.create_task(world.complete(assignment(command, principal=ADA)))
        await until(waits)
        assert not working.done()
        await tx.rows(NO_WAIT, id=UUID(newer))
    await working


@pytest.mark.parametrize(
    "make",
    [
        lambda older, newer: UpdateMemory(memory_id=newer, evidence=on(older)),
        lambda _older, newer: bring_in("older", evidence=on(newer)),
        lambda older, _newer: bring_in("newer", evidence=on(older)),
    ],
    ids=["update", "import to the older", "import to the newer"],
)
async def test_who_cites_a_memory_locks_it_in_the_order_of_all_writers(world: World, make: Making) -> None:
    said: dict[str, Any] = {"principal": ADA, "visibility": Visibility.SHARED}
    older, newer = [
        (await world.keep(f"The heron nests {where}", external_id=name, **said)).stored.id
        for name, where in (("older", "by the pond"), ("newer", "in the reed"))
    ]
    await held_in_order(world, older, newer, make(older, newer))


@pytest.mark.parametrize(
    "make",
    [
        lambda _older, newer: UpdateMemory(memory_id=newer, valid_from=NOW),
        lambda _older, newer: UpdateMemory(memory_id=newer, visibility=Visibility.PRIVATE),
        lambda _older, _newer: bring_in("newer", valid_from=NOW, visibility=Visibility.PRIVATE),
        lambda _older, newer: ShareMemory(memory_id=newer),
        lambda _older, newer: ForgetMemory(memory_id=newer, erase=True),
        lambda _older, _newer: PurgeMemories(thread="reed", private=True, erase=True),
    ],
    ids=["update", "visibility", "import", "share", "erase", "purge"],
)
async def test_who_changes_what_a_memory_replaced_locks_it_in_that_order(world: World, make: Making) -> None:
    said: dict[str, Any] = {"principal": ADA, "visibility": Visibility.PRIVATE}
    older = (await world.keep("The heron nests by the pond", **said)).stored.id
    stored = (await world.keep("The heron nests in the reed", external_id="newer", thread="reed", **said)).stored
    await world.complete(assignment(SupersedeMemory(old_memory_id=older, new_memory_id=stored.id), principal=ADA))
    command = make(older, stored.id)
    if isinstance(command, ShareMemory):
        command = msgspec.structs.replace(command, seen=digest_of(stored))
    await held_in_order(world, older, stored.id, command)
