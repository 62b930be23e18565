"""Kept totals are what a count of the memories would be, whatever wrote, and follow time without a write."""

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import psycopg
import pytest
from msgspec import UNSET

from engramq.schemas.commands import (
    Command,
    CountFacets,
    CountMemories,
    DeleteTenant,
    FacetCounts,
    ForgetMemory,
    ImportBatch,
    ImportRecord,
    MemoryStats,
    MemoryTimeline,
    PromoteMemory,
    PurgeMemories,
    RenameProject,
    RestoreMemory,
    Stats,
    Stored,
    StoreMemory,
    SupersedeMemory,
    UpdateMemory,
    VerifyMemory,
)
from engramq.schemas.envelope import Principal
from engramq.schemas.faults import EngramqError
from engramq.schemas.settings import read_settings
from engramq.schemas.vocabulary import (
    ALL_SCOPES,
    EVERY_PROJECT,
    Partition,
    Sector,
    Verification,
    Visibility,
)
from engramq.workers.memories import reading
from tests.assignments import OWNER, assignment
from tests.workers.conftest import World

PAST, LATER = datetime(2024, 3, 9, tzinfo=UTC), datetime(2999, 1, 1, tzinfo=UTC)
BOTH = tuple(Partition)
LENA = Principal(name="lena", scopes=ALL_SCOPES)
KEPT: Final = """
    select owner, partition, project, sector, state, is_superseded, is_rejected, day, sum(memories)::int as memories
    from memory_totals group by 1, 2, 3, 4, 5, 6, 7, 8 having sum(memories) <> 0
"""
COUNTED: Final = """
    select owner, partition, project, sector, state, is_superseded, is_rejected, day, memories::int as memories
    from memories_counted
"""


def totals(world: World, query: str) -> list[tuple[Any, ...]]:
    return sorted((tuple(row.values()) for row in world.rows(query)), key=repr)


def commands(chance: random.Random, ids: list[str]) -> list[Callable[[], Command]]:
    """Return what writes memories, each with values by chance."""

    def one() -> str:
        return chance.choice(ids)

    def times() -> dict[str, Any]:
        some = {
            "occurred_at": PAST + timedelta(hours=chance.randrange(900)),
            "expires_at": chance.choice((PAST, LATER)),
        }
        some |= {"valid_until": chance.choice((PAST, LATER))}
        return {name: value for name, value in some.items() if chance.random() < 0.3}

    def store() -> Command:
        more: dict[str, Any] = {
            "visibility": chance.choice(tuple(Visibility)),
            "project": chance.choice(("shop", "bakery")),
        }
        chosen = {name: value for name, value in more.items() if chance.random() < 0.5}
        kind: dict[str, Any] = {"partition": Partition.UNTRUSTED} if chance.random() < 0.4 else {}
        return StoreMemory(content=f"fact {chance.random()}", **kind, **chosen, **times())

    def rows() -> Command:
        records = tuple(ImportRecord(content=f"row {chance.random()}", project="atlas", **times()) for _ in range(3))
        return ImportBatch(records=records)

    return [
        store,
        store,
        rows,
        lambda: UpdateMemory(memory_id=one(), sector=chance.choice(tuple(Sector)), **times()),
        lambda: UpdateMemory(memory_id=one(), clear=(chance.choice(("project", "valid_until", "expires_at")),)),
        lambda: SupersedeMemory(old_memory_id=one(), new_memory_id=one()),
        lambda: ForgetMemory(memory_id=one()),
        lambda: RestoreMemory(memory_id=one()),
        lambda: VerifyMemory(memory_id=one(), verification=chance.choice(tuple(Verification))),
        lambda: PromoteMemory(record_id=one()),
        lambda: RenameProject(old_name="bakery", new_name="shop", merge=True),
        lambda: PurgeMemories(project="atlas", erase=chance.random() < 0.3, archive=False),
    ]


@pytest.mark.parametrize("seed", range(3))
async def test_totals_are_what_a_count_tells_after_any_writes(world: World, seed: int) -> None:
    chance = random.Random(seed)
    stored = [(await world.keep(f"first {number}")).stored.id for number in range(3)]
    done = 0
    for number in range(60):
        make = chance.choice(commands(chance, stored))
        with suppress(EngramqError):  # memories may be archived, or somebody else's
            reply = (await world.complete(assignment(make(), principal=chance.choice((OWNER, OWNER, LENA))))).reply
            done += 1
            stored += [reply.stored.id] if isinstance(reply, Stored) else []
        if number % 20 == 10:
            world.model.down = not world.model.down
            await world.upkeep.archive_expired()
            await world.upkeep.fold_totals()
        assert totals(world, KEPT) == totals(world, COUNTED), make
    assert done > 30
    before = totals(world, KEPT)
    await world.upkeep.fold_totals()
    assert totals(world, KEPT) == before
    assert world.rows("select 1 from memory_totals where not is_folded or memories <= 0") == []
    await world.complete(assignment(DeleteTenant()))
    assert world.count("memory_totals") == 0


async def test_what_was_written_past_the_trigger_is_mended(world: World) -> None:
    await world.keep("here", project="shop")
    await world.upkeep.fold_totals()
    world.rows("update memory_totals set project = 'bakery', memories = 7")
    await world.upkeep.mend_totals()
    assert totals(world, KEPT) == totals(world, COUNTED)
    stats = await world.ask(Stats, MemoryStats())
    assert [(entry.project, entry.memories) for entry in stats.projects] == [("shop", 1)]


async def test_projects_and_facets_count_what_lists_show(world: World) -> None:
    for state in ("shown", "shown too", "archived", "rejected", "superseded", "expired", "over"):
        ends: dict[str, dict[str, Any]] = {
            "expired": {"expires_at": PAST},
            "over": {"valid_from": PAST - timedelta(1), "valid_until": PAST},
        }
        memory = (await world.keep(state, project="shop", **ends.get(state, {}))).stored
        if state == "archived":
            await world.complete(assignment(ForgetMemory(memory_id=memory.id)))
        elif state == "rejected":
            await world.complete(assignment(VerifyMemory(memory_id=memory.id, verification=Verification.REJECTED)))
        elif state == "superseded":
            new = (await world.keep("in its place")).stored
            await world.complete(assignment(SupersedeMemory(old_memory_id=memory.id, new_memory_id=new.id)))
    await world.keep("captured", project="bakery", partition=Partition.UNTRUSTED)
    stats = await world.ask(Stats, MemoryStats(partitions=BOTH))
    assert {entry.project: entry.memories for entry in stats.projects} == {"shop": 2, None: 1, "bakery": 1}
    assert (stats.memories, stats.superseded, stats.by_state["archived"]) == (9, 1, 2)
    facets = await world.ask(FacetCounts, CountFacets(project=EVERY_PROJECT))
    assert facets.by_project == {"shop": 2}
    assert facets.by_partition == {"trusted": 3, "untrusted": 1}
    assert facets.by_state == {"pending": 0, "active": 3, "archived": 2}
    shop = await world.ask(FacetCounts, CountFacets(project="shop", project_only=True))
    assert (shop.by_project, shop.by_partition) == ({"shop": 2}, {"trusted": 2, "untrusted": 0})
    old = await world.ask(FacetCounts, CountFacets(project="shop", project_only=True, include_superseded=True))
    assert old.by_partition == {"trusted": 4, "untrusted": 0}


async def test_a_deletion_leaves_no_project_whoever_counts_meanwhile(world: World) -> None:
    await world.keep("fact", project="shop")
    lock = (
        "select pg_advisory_xact_lock(hashtextextended('engramq.memory_totals', (select min(tenant) from namespaces)))"
    )
    waits = "select 1 from pg_locks where locktype = 'advisory' and not granted"
    with psycopg.connect(world.database.owner_url) as counting:
        counting.execute(lock)
        async with asyncio.TaskGroup() as tasks:
            deleting = tasks.create_task(world.complete(assignment(DeleteTenant())))
            while not deleting.done() and not world.rows(waits):
                await asyncio.wait([deleting], timeout=0.01)
            counting.rollback()
    assert world.count("memory_totals") == 0


@pytest.mark.promise("PV-1")
async def test_totals_tell_nobody_of_what_is_private_to_others(world: World) -> None:
    await world.keep("mine", visibility=Visibility.PRIVATE, project="secret")
    assert (await world.ask(Stats, MemoryStats())).memories == 1
    others = await world.ask(Stats, MemoryStats(), principal=LENA)
    assert (others.memories, others.projects) == (0, [])


@pytest.mark.parametrize(
    ("zone", "hours"),
    [
        ("UTC", 31),
        ("Asia/Kathmandu", 1),
        ("America/Los_Angeles", 31),
        ("Pacific/Kiritimati", 201),
        ("Asia/Tokyo", 8_001),
    ],
)
async def test_the_timeline_by_totals_is_that_of_the_rows(
    world: World, monkeypatch: pytest.MonkeyPatch, zone: str, hours: int
) -> None:
    world.use(settings=read_settings({"ENGRAMQ_TIMEZONE": zone}))
    for number in range(40):
        at = PAST + timedelta(hours=number * hours, minutes=7 * number)
        await world.keep(f"at {number}", occurred_at=at, project="shop" if number % 2 else "bakery")
    middle, much = PAST + timedelta(hours=20 * hours), timedelta(hours=9 * hours)
    spans: list[dict[str, Any]] = [
        {}, {"since": PAST}, {"since": middle}, {"until": middle - timedelta(minutes=1)},
        {"since": middle - much, "until": middle + much + timedelta(hours=5)},
        {"since": middle - timedelta(hours=2), "until": middle + timedelta(hours=2, minutes=20)},
        {"since": PAST + timedelta(days=1), "until": PAST + timedelta(days=3, microseconds=-1)},
    ]  # fmt: skip
    for command in (
        *(CountMemories(project=EVERY_PROJECT, **span) for span in spans),
        *(CountMemories(project="shop", project_only=True, **span) for span in spans),
    ):
        by_totals = await world.ask(MemoryTimeline, command)
        with monkeypatch.context() as patched:
            patched.setattr(reading, "IN_TOTALS", frozenset())
            assert await world.ask(MemoryTimeline, command) == by_totals
        if command.since is UNSET and command.until is UNSET:
            assert sum(span.memory_count for span in by_totals.spans) == (20 if command.project_only else 40)
