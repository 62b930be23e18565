"""Archiving all of a principal, a source type, a thread or a time, instead of erasing it."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from engramq.schemas.commands import (
    AddEdge,
    AddNode,
    Connect,
    Connected,
    DeletedList,
    EdgeAdded,
    ForgetMemory,
    Forgotten,
    GraphRestored,
    ListDeleted,
    MemoryChanged,
    NodeAdded,
    Purged,
    PurgeMemories,
    RestoreGraph,
    RestoreMemory,
    Superseded,
    SupersedeMemory,
)
from engramq.schemas.envelope import Principal
from engramq.schemas.faults import FaultCode
from engramq.schemas.vocabulary import ALL_SCOPES
from engramq.workers.memories import purge as purging
from engramq.workers.memories import purge_graph
from engramq.workers.memories.purge_graph import PurgeFilters
from engramq.workers.queue.contract import LeaseLost
from tests.assignments import OWNER, assignment, losing_lease, repeated
from tests.refusals import refused
from tests.workers.conftest import World

CRAWLER = Principal(name="crawler", scopes=ALL_SCOPES)


async def keep(world: World, content: str, thread: str = "bad") -> str:
    return (await world.keep(content, thread=thread)).stored.id


async def replaced(world: World, old: str, new: str) -> None:
    await world.ask(Superseded, SupersedeMemory(old_memory_id=old, new_memory_id=new))


def states(world: World) -> dict[str, str]:
    return {row["content"]: row["state"] for row in world.rows("select content, state from memories")}


async def test_what_is_archived_is_listed_once_audited_and_restorable(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(purging, "ERASED_AT_ONCE", 2)
    ids = [await keep(world, f"bad {number}") for number in range(5)]
    await keep(world, "good", thread="good")
    await world.ask(Forgotten, ForgetMemory(memory_id=ids[0]))
    listed = await world.ask(Purged, PurgeMemories(thread="bad", unarchived=True))
    assert (listed.matched, listed.memory_ids) == (4, ids[1:])
    command = assignment(PurgeMemories(thread="bad", archive=True, reason="odd"))
    done = (await world.complete(command)).reply
    assert isinstance(done, Purged)
    assert (done.matched, done.archived, done.erased, done.memory_ids) == (4, 4, 0, ids[1:])
    assert states(world) == {**{f"bad {number}": "archived" for number in range(5)}, "good": "active"}
    rows = world.rows("select * from audit_log where command_id = %s order by id", command.envelope.id)
    assert [(row["action"], row["reason"]) for row in rows] == [("archive", "odd")] * 4 + [("purge", "odd")]
    assert (rows[0]["old"], rows[0]["new"]) == ({"state": "active", "partition": "trusted"}, {"state": "archived"})
    assert (rows[-1]["new"]["archived"], "erased" in rows[-1]["new"]) == (4, False)
    assert (await world.complete(repeated(command, attempt=2))).reply == done
    assert (await world.ask(Purged, PurgeMemories(thread="bad", archive=True))).archived == 0
    assert (await world.ask(MemoryChanged, RestoreMemory(memory_id=ids[3]))).status == "restored"
    assert states(world)["bad 3"] == "active"


@pytest.mark.parametrize("restore", [False, True])
async def test_what_the_archived_had_replaced_is_named_or_brought_back(world: World, *, restore: bool) -> None:
    first, middle = await keep(world, "true", thread="good"), await keep(world, "false")
    last = await keep(world, "still false")
    await replaced(world, first, middle)
    await replaced(world, middle, last)
    done = await world.ask(Purged, PurgeMemories(thread="bad", archive=True, restore_replaced=restore))
    assert done.archived == 2
    hidden = world.rows("select superseded_by, superseded_at from memories where content = 'true'")[0]
    if restore:
        assert (done.restored, done.still_hidden_count) == ([first], 0)
        assert hidden == {"superseded_by": None, "superseded_at": None}
    else:
        assert [(item.id, item.preview) for item in done.still_hidden or ()] == [(first, "true")]
        assert str(hidden["superseded_by"]) == middle


async def test_to_erase_and_to_archive_exclude_each_other(world: World) -> None:
    await keep(world, "stays")
    for command in (
        PurgeMemories(thread="bad", erase=True, archive=True),
        PurgeMemories(thread="bad", erase=True, unarchived=True),
    ):
        with refused(FaultCode.INVALID_PARAMETER):
            await world.complete(assignment(command))
    with refused(FaultCode.INVALID_PARAMETER):
        await world.complete(assignment(PurgeMemories(archive=True)))
    assert states(world) == {"stays": "active"}


async def fact(world: World, source: str, target: str, by: Principal = OWNER, **more: Any) -> EdgeAdded:
    command = AddEdge(source_name=source, target_name=target, relation="KNOWS", **more)
    return await world.ask(EdgeAdded, command, principal=by)


def graph(world: World) -> list[Any]:
    return [
        row["row"]
        for table in ("nodes", "edges")
        for row in world.rows(f"select to_jsonb(t) as row from {table} t order by id")
    ]


async def test_a_principals_nodes_and_edges_go_and_come_back_as_they_were(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(purging, "ERASED_AT_ONCE", 2)
    memories = [await keep(world, f"ours {number}", thread="ours") for number in range(2)]
    theirs = (await world.keep("The crawler's", principal=CRAWLER)).stored.id
    link = Connect(source=memories[0], target=memories[1], relation="supports")
    await world.ask(Connected, link, principal=CRAWLER)
    await fact(world, "Ada", "Bob")
    await fact(world, "Ada", "Eve", CRAWLER, properties={"is_constitutive": True}, weight=0.3)
    await fact(world, "Eve", "Mallory", CRAWLER, valid_until=datetime(2999, 1, 1, tzinfo=UTC))
    await fact(world, "Eve", "Trudy", CRAWLER)
    held = await world.ask(NodeAdded, AddNode(name="Held"), principal=CRAWLER)
    await fact(world, "Bob", "Held")
    before = graph(world)

    listed = await world.ask(Purged, PurgeMemories(created_by="crawler", unarchived=True))
    counts = (listed.matched, listed.node_count, listed.edge_count, listed.constitutive_count, listed.link_count)
    assert counts == (1, 3, 3, 1, 0)
    assert "Links that this principal made stay" in str(listed.notice)
    assert [preview.id for preview in listed.kept_node_previews or ()] == [held.node_id]
    assert graph(world) == before

    command = assignment(PurgeMemories(created_by="crawler", archive=True, reason="odd"))
    done = (await world.complete(command)).reply
    assert isinstance(done, Purged)
    counts = (done.archived, done.node_count, done.edge_count, done.constitutive_count, done.link_count)
    assert counts == (1, 3, 3, 1, 0)
    assert (done.notice, done.kept_node_count) == (listed.notice, 1)
    assert states(world)["The crawler's"] == "archived"
    named = world.rows("select name from nodes where name is not null order by name")
    assert [row["name"] for row in named] == ["Ada", "Bob", "Held"]
    assert (await world.complete(repeated(command, attempt=2))).reply == done
    again = await world.ask(Purged, PurgeMemories(created_by="crawler", archive=True))
    assert (again.archived, again.node_count, again.edge_count) == (0, 0, 0)

    deletions = (await world.ask(DeletedList, ListDeleted())).deletions
    assert {deletion.reason for deletion in deletions} == {"odd"}
    assert [deletion.what for deletion in deletions if deletion.edge_id] == [
        *("the edge Eve (Entity) --KNOWS--> Trudy (Entity)", "the edge Eve (Entity) --KNOWS--> Mallory (Entity)"),
        "the edge Ada (Entity) --KNOWS--> Eve (Entity)",
    ]
    for item in sorted(deletions, key=lambda deletion: deletion.node_id is None):  # nodes first
        reply = await world.ask(GraphRestored, RestoreGraph(audit_id=item.audit_id))
        assert reply.status == "restored", reply
    assert graph(world) == before
    assert theirs == listed.memory_ids[0]


async def test_what_is_archived_of_a_graph_can_still_be_erased(world: World) -> None:
    await fact(world, "Ada", "Eve", CRAWLER, properties={"secret": "swordfish"})
    await world.ask(Purged, PurgeMemories(created_by="crawler", archive=True))
    assert (world.count("edges"), world.count("deleted_graph")) == (0, 3)
    done = await world.ask(Purged, PurgeMemories(created_by="crawler", erase=True))
    assert (done.deleted_count, world.count("deleted_graph")) == (3, 0)
    assert await world.ask(DeletedList, ListDeleted()) == DeletedList(deletions=[], truncated=False)


async def test_archiving_a_graph_that_was_broken_off_is_finished_and_tells_the_whole(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(purging, "ERASED_AT_ONCE", 3)
    for number in range(8):
        await fact(world, "Ada", f"Eve {number}", CRAWLER)
    command = assignment(PurgeMemories(created_by="crawler", archive=True))
    losing = losing_lease(command)
    kinds = [replace(kind, take=losing(kind.take)) for kind in purge_graph.ARCHIVED]
    monkeypatch.setattr(purge_graph, "ARCHIVED", kinds)
    with pytest.raises(LeaseLost):
        await world.complete(command)
    assert (world.count("edges"), world.count("deleted_graph")) == (5, 3)
    reply = (await world.complete(repeated(command, attempt=2))).reply
    assert isinstance(reply, Purged)
    assert (reply.edge_count, reply.node_count, world.count("deleted_graph")) == (8, 9, 17)


async def test_a_node_on_which_somebody_hangs_an_edge_meanwhile_stays(world: World) -> None:
    node = await world.ask(NodeAdded, AddNode(name="Held"), principal=CRAWLER)
    await fact(world, "Held", "Bob")
    purge = assignment(PurgeMemories(created_by="crawler", archive=True))
    command = purge.envelope.command
    assert isinstance(command, PurgeMemories)
    found, (_, nodes) = [{"id": UUID(node.node_id)}], purge_graph.ARCHIVED  # as it was found before the edge
    await world.store.write(
        purge.envelope.namespace, lambda tx: nodes.take(tx, purge.envelope, PurgeFilters.of(command), found)
    )
    assert (world.count("deleted_graph"), world.count("edges"), world.count("audit_log")) == (0, 1, 0)
