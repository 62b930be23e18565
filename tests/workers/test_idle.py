"""Upkeep looks where something changed until nothing is left of it, and nowhere else."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from engramq.schemas.commands import (
    ClassifySectors,
    ForgetMemory,
    Forgotten,
    LinkActivated,
    PendingEmbedded,
    StoreMemory,
)
from engramq.schemas.vocabulary import Partition
from engramq.workers.db.database import Store
from engramq.workers.db.transaction import Transaction
from engramq.workers.links import writer
from engramq.workers.memories import change
from engramq.workers.upkeep import schedule, unfinished
from engramq.workers.upkeep.schedule import Upkeep
from engramq.workers.upkeep.unfinished import Unfinished
from tests.assignments import assignment
from tests.workers.conftest import World, world

pytestmark = pytest.mark.promise("SC-10")

__all__ = ["world"]

SETTLED = (
    "update memories set sector_source = 'auto', sector = 'semantic', standing_source = 'auto', links_made_at = now() "
    "where state = 'active'"
)


def upkeep_of(world: World) -> Upkeep:
    """Return upkeep that looks at what was stored just now too."""
    patient = Unfinished(store=world.store, older_than_s=0.0)
    return Upkeep(store=world.store, unfinished=patient, interval_s=5.0, pending_s=0.0)


def grow_old(world: World) -> None:
    """Let all changes be of ten minutes ago, when all of their transactions have ended."""
    world.rows("update changes set minute = minute - interval '10 minutes'")


def changed(world: World) -> set[str]:
    """Return the namespaces that sweeps look at."""
    rows = world.rows("select namespace from changes join namespaces using (tenant) where not swept")
    return {row["namespace"] for row in rows}


def tell_transactions(world: World, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the list that every transaction's namespace comes into, and `*` for questions about all."""
    told: list[str] = []

    def telling(run: Callable[..., Awaitable[Any]], *, of_all: bool) -> Callable[..., Awaitable[Any]]:
        async def noted(self: Store, given: Any, *rest: Any, **named: Any) -> Any:
            told.append("*" if of_all else given)
            return await run(self, given, *rest, **named)

        return noted

    for name in ("read", "write", "look_up", "ask"):
        monkeypatch.setattr(Store, name, telling(getattr(Store, name), of_all=name == "ask"))
    return told


async def everything(upkeep: Upkeep) -> None:
    """Do all that is done on a schedule, once."""
    for item in upkeep.schedule():
        await item.run()


@pytest.mark.own_database  # what is due depends on the tables' statistics
async def test_many_idle_namespaces_are_asked_about_as_often_as_few(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[list[str]] = []
    for count in (2, 40):
        for number in range(count):
            await world.keep("a fact", namespace=f"idle-{number}")
        world.rows(SETTLED)
        grow_old(world)
        upkeep = upkeep_of(world)
        await everything(upkeep)  # looks at all of them for the last time
        assert changed(world) == set()
        assert world.count("changes") == 0
        with monkeypatch.context() as patched:
            told = tell_transactions(world, patched)
            await everything(upkeep)
        asked.append(told)
    assert asked[0] == asked[1] == ["*"] * 8


async def test_a_namespace_is_looked_at_until_nothing_is_left_of_its_change(world: World) -> None:
    upkeep = upkeep_of(world)
    world.model.down = True
    await world.keep("waits for its vector", namespace="busy")
    world.model.down = False
    grow_old(world)
    (pending,) = await upkeep.look()
    assert changed(world) == {"busy"}
    assert (await world.ask(PendingEmbedded, pending.command, namespace="busy")).activated == 1
    found = await upkeep.look()
    assert {type(item.command) for item in found} == {ClassifySectors, LinkActivated}
    assert changed(world) == {"busy"}, "handed on, not done"
    world.rows(SETTLED)
    assert await upkeep.look() == ()
    assert changed(world) == set()


async def test_a_change_of_the_last_minutes_is_looked_at_again(world: World) -> None:
    upkeep = upkeep_of(world)
    await world.keep("just now")
    world.rows(SETTLED)
    assert await upkeep.look() == ()
    assert changed(world) == {"default_user"}, "a transaction that began in that minute may still be under way"


async def test_every_command_that_writes_notes_its_change_once_a_minute(world: World) -> None:
    for number in range(5):
        kept = await world.keep(f"fact {number}")
    # Five stores may cross a minute, which is then noted too.
    assert world.count("changes") == len(world.rows("select distinct minute from changes")) <= 2
    grow_old(world)
    await world.ask(Forgotten, ForgetMemory(memory_id=kept.stored.id))
    assert len(world.rows("select minute from changes where minute > now() - interval '5 minutes'")) == 1


async def test_nobody_waits_for_the_transaction_that_notes_a_change_first(world: World) -> None:
    noted, may_end = asyncio.Event(), asyncio.Event()

    async def slow(tx: Transaction) -> None:
        await change.archive_expired(tx)
        noted.set()
        await may_end.wait()

    first = asyncio.create_task(world.store.write("default_user", slow))
    await asyncio.wait_for(noted.wait(), 10)
    await asyncio.wait_for(world.complete(assignment(StoreMemory(content="meanwhile"))), 10)
    may_end.set()
    await first
    assert world.count("changes") == 2


async def test_a_large_namespace_is_settled_by_a_round_through_all_of_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unfinished, "LOOKED_AT", 2)
    monkeypatch.setattr(unfinished, "ROUND_EVERY_S", 0.0)
    ids = [(await world.keep(f"fact {number}")).stored.id for number in range(7)]
    world.rows(SETTLED)
    world.rows("update memories set links_made_at = null where node_id = %s", ids[0])  # as an import may leave it
    grow_old(world)
    upkeep = upkeep_of(world)
    found: list[str] = []
    for _ in range(12):
        for item in await upkeep.look():
            assert isinstance(item.command, LinkActivated)
            found += [told.memory_id for told in item.command.memories]
    assert set(found) == {ids[0]}
    assert changed(world) == {"default_user"}
    world.rows(SETTLED)
    for _ in range(12):
        await upkeep.look()
    assert changed(world) == set()


async def test_words_are_counted_again_only_where_something_changed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: list[tuple[str, Partition]] = []
    monkeypatch.setattr(schedule, "COUNTED_FROM", 1)

    async def count(tx: Transaction, partition: Partition) -> int:
        counted.append((tx.namespace, partition))
        return 0

    monkeypatch.setattr(schedule, "count_lexemes", count)
    for namespace in ("one", "two"):
        await world.keep("a fact", namespace=namespace)
    grow_old(world)
    await world.upkeep.count_lexemes()
    assert counted == [("one", Partition.TRUSTED), ("two", Partition.TRUSTED)]
    await world.keep("another fact", namespace="two")
    await world.upkeep.count_lexemes()
    assert counted[2:] == [("two", Partition.TRUSTED)]


async def test_links_decay_only_where_the_clock_has_gone_on(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    passed: list[str] = []
    run = writer.decay_links

    async def noting(tx: Transaction, after: Any) -> writer.Decayed:
        passed.append(tx.namespace)
        return await run(tx, after)

    monkeypatch.setattr(writer, "decay_links", noting)
    for namespace in ("one", "two"):
        await world.keep("a fact", namespace=namespace)
    await world.upkeep.decay_links()
    assert passed == []
    world.rows("update namespaces set active_hours = 1.5 where namespace = 'two'")
    await world.upkeep.decay_links()
    await upkeep_of(world).decay_links()  # another process knows it too
    assert passed == ["two"]
    world.rows("update namespaces set active_hours = 2.5 where namespace = 'two'")
    await world.upkeep.decay_links()
    assert passed == ["two", "two"]
