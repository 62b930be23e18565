"""The other reads: lists page by page, one memory, one command, counts."""

import asyncio
from datetime import UTC, datetime, timedelta
from functools import partial
from types import SimpleNamespace
from typing import Any, Final
from uuid import UUID

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import UNSET, UnsetType

from engramq.schemas.commands import (
    CommandReport,
    ForgetMemory,
    Forgotten,
    GetCommand,
    GetMemory,
    ListRecentMemories,
    MemoryFound,
    MemoryList,
    MemoryStats,
    Ping,
    Pong,
    ProjectCount,
    Stats,
    SupersedeMemory,
)
from engramq.schemas.envelope import Principal
from engramq.schemas.faults import EngramqError, FaultCode
from engramq.schemas.ids import uuid7
from engramq.schemas.vocabulary import (
    ALL_SCOPES,
    DEFAULT_NAMESPACE,
    CommandStatus,
    MemoryState,
    Partition,
    Scope,
    Sector,
)
from engramq.workers.db.database import Store
from engramq.workers.db.transaction import Transaction
from engramq.workers.memories import reading
from engramq.workers.memories.reading import counts, list_recent
from tests.assignments import assignment
from tests.conftest import Database
from tests.refusals import refused
from tests.workers.search.recall.conftest import Scene, ids

FIRST_DAY = datetime(2024, 1, 1, tzinfo=UTC)
INSERT_NODE = """
    insert into nodes (id, tenant, label, partition) values (%s, make_tenant('n'), 'Memory', %s)
"""
INSERT_MEMORY = """
    insert into memories (node_id, partition, tenant, content, confidence, source, verification, state, lexemes,
        created_by, created_at)
    values (%s, %s, make_tenant('n'), 'x', 1, 'extracted', 'unverified', 'pending', '', 'me', %s)
"""


@pytest.mark.promise("MT-5")
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    moments=st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=25),
    limit=st.integers(1, 7),
)
def test_pages_show_every_memory_once_newest_first_even_when_made_at_the_same_moment(
    database: Database, moments: list[tuple[int, bool]], limit: int
) -> None:
    side = {True: Partition.TRUSTED, False: Partition.UNTRUSTED}
    made = [(FIRST_DAY + timedelta(microseconds=at), UUID(uuid7()), side[trusted]) for at, trusted in moments]
    with psycopg.connect(database.owner_url) as connection:
        connection.execute("delete from nodes")
        for moment, memory_id, partition in made:
            connection.execute(INSERT_NODE, (memory_id, partition))
            connection.execute(INSERT_MEMORY, (memory_id, partition, moment))

    async def listed(command: ListRecentMemories, tx: Transaction) -> MemoryList:
        context: Any = SimpleNamespace(envelope=assignment(command).envelope)
        return await list_recent(tx, command, context)

    async def walk() -> list[str]:
        seen: list[str] = []
        cursor: str | UnsetType = UNSET
        async with await Store.open(database.url, pool_size=1) as store:
            while True:
                command = ListRecentMemories(partitions=tuple(Partition), limit=limit, cursor=cursor)
                page = await store.read("n", partial(listed, command))
                assert len(page.memories) <= limit
                seen += ids(page.memories)
                if page.next_cursor is None:
                    return seen
                cursor = page.next_cursor

    assert asyncio.run(walk()) == [str(memory_id) for _, memory_id, _ in sorted(made, reverse=True)]


@pytest.mark.parametrize("looked_up", [0, 2, 1_000])
async def test_rare_tags_and_common_ones_list_the_same(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, looked_up: int
) -> None:
    """At a million memories a tag that no statistics knew took 1.9 s by time, and takes some 10 ms by its index."""
    monkeypatch.setattr(reading, "TAGGED_MAX", looked_up)
    stored = [
        await scene.keep(f"The kettle no. {number}", tags=("red", "tall") if number % 2 else ("red",))
        for number in range(5)
    ]
    assert ids((await scene.recent(tags=("red",))).memories) == stored[::-1]
    page = await scene.recent(tags=("tall", "red"), limit=1)
    assert ids(page.memories) == [stored[3]]
    assert isinstance(page.next_cursor, str)
    assert ids((await scene.recent(tags=("tall", "red"), cursor=page.next_cursor)).memories) == [stored[1]]
    assert not (await scene.recent(tags=("green",))).memories


async def test_a_cursor_that_is_none_is_refused(scene: Scene) -> None:
    for cursor in ("x", "|", f"2024-01-01|{uuid7()}", f"2024-01-01T00:00:00.000000Z|{uuid7()[:-1]}"):
        with refused(FaultCode.INVALID_PARAMETER) as faults:
            await scene.world.complete(assignment(ListRecentMemories(cursor=cursor)))
        assert faults[0].field == "cursor"


@pytest.mark.promise("MT-14")
async def test_anothers_and_malformed_ids_are_unknown_ids(scene: Scene) -> None:
    foreign = await scene.keep("theirs", namespace="other")
    for memory_id in (foreign, foreign.upper() + "x", "x", uuid7(), "", "{" + foreign + "}"):
        reply = await scene.world.ask(MemoryFound, GetMemory(memory_id=memory_id, include_untrusted=True))
        assert (reply.memory, reply.status) == (None, "not_found")


async def test_get_memory_shows_what_lists_hide(scene: Scene) -> None:
    archived = await scene.keep("gone")
    await scene.world.ask(Forgotten, ForgetMemory(memory_id=archived))
    scene.world.model.down = True
    pending = await scene.keep("to come")
    for memory_id, state in ((archived, MemoryState.ARCHIVED), (pending, MemoryState.PENDING)):
        reply = await scene.world.ask(MemoryFound, GetMemory(memory_id=memory_id))
        assert reply.memory is not None
        assert reply.memory.state is state


async def test_a_command_that_ended_is_told_to_who_gave_it_and_to_an_admin(scene: Scene) -> None:
    kept = await scene.keep("x")
    giver = Principal(name="giver", scopes=(Scope.READ, Scope.WRITE))
    given_command = assignment(ForgetMemory(memory_id=kept), principal=giver)
    done = await scene.world.complete(given_command)
    ask = GetCommand(command_id=given_command.envelope.id)
    assert isinstance(done.reply, Forgotten)
    for principal in (giver, Principal(name="boss", scopes=ALL_SCOPES)):
        report = await scene.world.ask(CommandReport, ask, principal=principal)
        assert report.status is CommandStatus.DONE
        told = {"status": "archived", "id": kept, "command_id": given_command.envelope.id}
        assert report.reply == told | {"still_hidden": []}
    stranger = Principal(name="stranger", scopes=(Scope.READ, Scope.WRITE, Scope.VERIFY))
    unknown = CommandReport(status=CommandStatus.UNKNOWN)
    assert await scene.world.ask(CommandReport, ask, principal=stranger) == unknown
    assert await scene.world.ask(CommandReport, ask, principal=giver, namespace="other") == unknown
    for command_id in (uuid7(), "x", kept):
        assert await scene.world.ask(CommandReport, GetCommand(command_id=command_id)) == unknown


async def test_a_refused_command_is_told_as_its_caller_read_it(scene: Scene) -> None:
    kept = await scene.keep("x")
    refused_command = assignment(SupersedeMemory(old_memory_id=kept, new_memory_id=kept))
    with pytest.raises(EngramqError) as caught:
        await scene.world.complete(refused_command)
    report = await scene.world.ask(CommandReport, GetCommand(command_id=refused_command.envelope.id))
    assert report.status is CommandStatus.FAILED
    assert report.reply is not None
    assert (report.reply["status"], report.reply["code"]) == ("error", "self_loop")
    assert report.reply["error"] == caught.value.fault.error
    assert report.reply["command_id"] == refused_command.envelope.id


async def test_stats_name_projects_of_untrusted_memories_only_where_these_are_asked_for(scene: Scene) -> None:
    """Whoever may store an untrusted memory may call its project what they like."""
    for number in range(3):
        await scene.keep(f"of the rover, {number}", project="rover")
    await scene.keep("of none")
    await scene.keep("a turn", project="rover", partition=Partition.UNTRUSTED)
    await scene.keep("obeyed by nobody", project="obey me", partition=Partition.UNTRUSTED)
    await scene.keep("of somebody else", project="theirs", namespace="other")
    trusted = await scene.world.ask(Stats, MemoryStats(), project="rover")
    assert trusted.project == "rover"
    assert [(project.project, project.memories, project.untrusted_count) for project in trusted.projects] == [
        ("rover", 4, 1),
        (None, 1, 0),
    ]
    both = await scene.world.ask(Stats, MemoryStats(partitions=tuple(Partition)))
    assert [(project.project, project.memories, project.untrusted_count) for project in both.projects] == [
        ("rover", 4, 1),
        (None, 1, 0),
        ("obey me", 1, 1),
    ]
    assert both.projects_omitted == 0


async def test_untrusted_memories_of_a_project_are_counted_and_move_it_nowhere(scene: Scene) -> None:
    """Whoever stores many untrusted memories says nothing about which projects are large."""
    for number in range(3):
        await scene.keep(f"a turn, {number}", project="small", partition=Partition.UNTRUSTED)
    for project in ("small", "large", "large"):
        await scene.keep("known", project=project)
    stats = await scene.world.ask(Stats, MemoryStats())
    assert [(item.project, item.memories, item.untrusted_count) for item in stats.projects] == [
        ("large", 2, 0),
        ("small", 4, 3),
    ]
    apart = await scene.world.ask(Stats, MemoryStats(partitions=(Partition.UNTRUSTED,)))
    assert [(item.project, item.memories, item.untrusted_count) for item in apart.projects] == [("small", 4, 3)]


async def test_stats_count_both_partitions_and_name_every_word(scene: Scene) -> None:
    await scene.keep("a", sector=Sector.EMOTIONAL)
    await scene.keep("b", partition=Partition.UNTRUSTED)
    old, new = await scene.keep("c"), await scene.keep("d")
    await scene.world.complete(assignment(SupersedeMemory(old_memory_id=old, new_memory_id=new)))
    await scene.keep("e", namespace="other")
    stats = await scene.world.ask(Stats, MemoryStats())
    assert (stats.project, stats.projects) == (None, [ProjectCount(project=None, memories=3, untrusted_count=1)])
    assert (stats.memories, stats.superseded) == (4, 1)
    assert stats.by_partition == {"trusted": 3, "untrusted": 1}
    assert stats.by_sector == {
        "emotional": 1,
        "episodic": 0,
        "semantic": 3,
        "procedural": 0,
        "reflective": 0,
        "none": 0,
    }
    assert stats.by_state == {"pending": 0, "active": 4, "archived": 0}
    assert [(edge.layer, edge.relation, edge.count) for edge in stats.edges] == [("association", "supersedes", 1)]
    assert set(stats.queues) == {"embedding", "sectors", "edges", "promotion", "recall", "imports", "upkeep"}
    assert stats.embedder["name"] == "hash"
    reader = Principal(name="reader", scopes=(Scope.READ, Scope.WRITE))
    assert (await scene.world.ask(Stats, MemoryStats(), principal=reader)).queues == {}, "they are of all namespaces"


async def test_a_ping_comes_back(scene: Scene) -> None:
    assert await scene.world.ask(Pong, Ping(payload=b"\x00\xff")) == Pong(payload=b"\x00\xff")


ROWS_READ: Final = b"""
    select sum(seq_tup_read + coalesce(idx_tup_fetch, 0))::int as rows from pg_stat_xact_user_tables
    where relname in ('memories_trusted', 'memories_untrusted')
"""


@pytest.mark.own_database
async def test_stats_read_no_memory(scene: Scene) -> None:
    """A row is wide: at 100,000 memories a pass over all of them took a third of a second."""
    for number in range(3):
        await scene.keep(f"of the rover, {number}", project="rover")
    scene.world.rows("analyze memories")  # else nobody knows that none of them ends

    async def rows_read(tx: Transaction) -> int:
        row = await tx.row(ROWS_READ)
        assert row is not None
        return int(row["rows"])

    async def rows_counted(tx: Transaction) -> int:
        await tx.send(b"set local enable_seqscan = off")  # three rows are read faster than an index
        before = await rows_read(tx)
        counted = await counts(tx)
        assert (counted["memories"], counted["projects"][0].memories) == (3, 3)
        return await rows_read(tx) - before

    assert await scene.world.store.read(DEFAULT_NAMESPACE, rows_counted) == 0
