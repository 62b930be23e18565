"""Erasing what a principal wrote in the graph, beside its memories."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from engramq.schemas.codec import reply_body
from engramq.schemas.commands import (
    AddEdge,
    AddNode,
    ChangeNeedsConsent,
    CommandReport,
    Connect,
    Connected,
    DeleteEdge,
    DeleteNode,
    DeletionNeedsConsent,
    EdgeAdded,
    GetCommand,
    GraphDeleted,
    GraphRestored,
    NodeAdded,
    Purged,
    PurgeMemories,
    RestoreGraph,
    SupersedeMemory,
)
from engramq.schemas.envelope import Principal
from engramq.schemas.vocabulary import ALL_SCOPES, Partition
from engramq.workers.memories import purge as purging
from engramq.workers.memories import purge_graph
from engramq.workers.queue.contract import LeaseLost
from tests.assignments import OWNER, assignment, losing_lease, repeated
from tests.workers.conftest import World

CRAWLER = Principal(name="crawler", scopes=ALL_SCOPES)


async def keep(world: World, content: str, by: Principal = OWNER) -> str:
    return (await world.keep(content, principal=by)).stored.id


async def fact(world: World, source: str, target: str, by: Principal = OWNER, **more: Any) -> EdgeAdded:
    command = AddEdge(source_name=source, target_name=target, relation="KNOWS", **more)
    return await world.ask(EdgeAdded, command, principal=by)


async def connected(world: World, source: str, target: str, by: Principal = OWNER, **more: Any) -> None:
    await world.ask(Connected, Connect(source=source, target=target, relation="supports", **more), principal=by)


async def purge(world: World, **given: Any) -> Purged:
    return await world.ask(Purged, PurgeMemories(**given))


def names(world: World) -> set[str]:
    return {row["name"] for row in world.rows("select name from nodes where name is not null")}


def facts(world: World) -> set[str]:
    found = world.rows(
        "select s.name || '-' || t.name as fact from edges e join nodes s on s.id = e.source_id "
        "join nodes t on t.id = e.target_id where e.layer = 'knowledge'"
    )
    return {row["fact"] for row in found}


def nowhere(world: World, *words: str, but: tuple[str, ...] = ()) -> bool:
    """Whether no row of any table but these has one of these words."""
    tables = world.rows(
        "select oid::regclass::text as name from pg_class where relkind = 'r' and relnamespace = 'public'::regnamespace"
    )
    for table in (item for item in tables if item["name"] not in but):
        text = str(world.rows(f"select t::text as line from {table['name']} t"))
        assert not [word for word in words if word in text], table
    return True


async def deleted(world: World, **what: str) -> int:
    """Delete an edge (edge_id) or node (node_id) and return the id of the deletion."""
    command = DeleteEdge(**what) if "edge_id" in what else DeleteNode(**what)
    done = await world.ask(GraphDeleted, command)
    assert isinstance(done.audit_id, int)
    return done.audit_id


async def restored(world: World, audit_id: int) -> GraphRestored:
    return await world.ask(GraphRestored, RestoreGraph(audit_id=audit_id))


def links(world: World) -> int:
    return int(world.rows("select count(*) as n from edges where layer = 'association'")[0]["n"])


@pytest.mark.promise("OV-12")
async def test_a_principals_purge_lists_snippets_and_takes_its_nodes_edges_and_links(world: World) -> None:
    ours = [await keep(world, f"Our memory {number}") for number in range(3)]
    theirs = await keep(world, "The crawler's memory", CRAWLER)
    await connected(world, ours[0], ours[1])
    await connected(world, ours[1], ours[2], CRAWLER)
    await connected(world, ours[0], theirs)  # goes with the memory, and so does the crawler's own
    await connected(world, ours[1], theirs, CRAWLER)
    await fact(world, "Ada", "Bob")
    await fact(world, "Ada", "Eve", CRAWLER, properties={"is_constitutive": True})
    await fact(world, "Eve", "Mallory", CRAWLER, properties={"secret": "swordfish"})
    held = await world.ask(NodeAdded, AddNode(name="Held"), principal=CRAWLER)
    await fact(world, "Bob", "Held")
    await world.ask(NodeAdded, AddNode(name="Trudy", properties={"secret": "swordfish"}), principal=CRAWLER)

    listed = await purge(world, created_by="crawler")

    assert (listed.matched, listed.erased) == (1, 0)
    assert [preview.preview for preview in listed.memory_previews or ()] == ["The crawler's memory"]
    assert (listed.node_count, listed.edge_count, listed.constitutive_count, listed.link_count) == (3, 2, 1, 1)
    assert {preview.preview for preview in listed.node_previews or ()} == {
        "Entity: Eve",
        "Entity: Mallory",
        "Entity: Trudy",
    }
    assert {preview.preview for preview in listed.edge_previews or ()} == {
        "Ada --KNOWS--> Eve",
        "Eve --KNOWS--> Mallory",
    }
    (link,) = list(listed.link_previews or [])
    assert link.preview is not None
    assert " --supports--> Our memory" in link.preview
    assert (listed.kept_node_count, [preview.id for preview in listed.kept_node_previews or ()]) == (1, [held.node_id])
    assert (len(names(world)), links(world)) == (6, 4)

    command = assignment(PurgeMemories(created_by="crawler", erase=True, reason="poisoned"))
    done = (await world.complete(command)).reply
    assert isinstance(done, Purged)
    assert (done.erased, done.node_count, done.edge_count, done.constitutive_count, done.link_count) == (1, 3, 2, 1, 1)
    assert {preview.id for preview in done.edge_previews or ()} == {
        preview.id for preview in listed.edge_previews or ()
    }
    assert [preview.preview for preview in done.kept_node_previews or ()] == ["Entity: Held"]
    assert (names(world), facts(world), links(world)) == ({"Ada", "Bob", "Held"}, {"Ada-Bob", "Bob-Held"}, 1)
    entries = world.rows("select action, reason, old, new from audit_log where command_id = %s", command.envelope.id)
    actions = [entry["action"] for entry in entries]
    assert actions == ["erase", "delete_edge", "delete_edge", "disconnect", *["delete_node"] * 3, "purge"]
    assert {entry["reason"] for entry in entries} == {"poisoned"}
    assert entries[-1]["new"]["edges"] == 2
    assert "KNOWS" not in str(entries)
    assert (await world.complete(repeated(command, attempt=2))).reply == done
    again = await purge(world, created_by="crawler")
    assert (again.matched, again.node_count, again.edge_count, again.link_count) == (0, 0, 0, 0)
    assert nowhere(world, "Mallory", "swordfish", "Eve", "Trudy")


async def test_a_repeated_graph_command_shows_what_was_purged_no_more(world: World) -> None:
    command = assignment(
        AddEdge(source_name="Ada", target_name="Eve", relation="KNOWS", properties={"secret": "swordfish"}),
        principal=CRAWLER,
    )
    await world.complete(command)
    await purge(world, created_by="crawler", erase=True)
    again = (await world.complete(repeated(command, attempt=2))).reply
    assert isinstance(again, EdgeAdded)
    assert (again.relation, again.properties) == ("", {})
    assert facts(world) == set()


async def test_links_that_wait_go_too_and_supersessions_stay(world: World) -> None:
    old, new = await keep(world, "The office is in Graz"), await keep(world, "The office is in Linz")
    await world.complete(assignment(SupersedeMemory(old_memory_id=old, new_memory_id=new), principal=CRAWLER))
    world.model.down = True
    pending = await keep(world, "Not embedded yet")
    await connected(world, new, pending, CRAWLER)
    assert world.count("deferred_links") == 1
    listed = await purge(world, created_by="crawler")
    assert listed.link_count == 1
    assert [preview.preview for preview in listed.link_previews or ()] == [
        "The office is in Linz --supports--> Not embedded yet"
    ]
    assert (await purge(world, created_by="crawler", erase=True)).link_count == 1
    assert world.count("deferred_links") == 0
    assert [row["relation"] for row in world.rows("select relation from edges")] == ["supersedes"]


async def test_times_count_for_the_graph_and_filters_of_memories_leave_it(world: World) -> None:
    await keep(world, "in a thread", CRAWLER)
    await fact(world, "Ada", "Eve", CRAWLER)
    past, future = datetime.now(UTC) - timedelta(days=1), datetime.now(UTC) + timedelta(days=1)
    for given, edges in (
        ({"since": past}, 1),
        ({"since": past, "until": future}, 1),
        ({"since": future}, 0),
        ({"until": past}, 0),
    ):
        listed = await purge(world, created_by="crawler", **given)
        assert (listed.edge_count, listed.node_count, bool(listed.notice)) == (edges, 2 * edges, False), given
    for other in ({"thread": "t"}, {"source_type": "x"}, {"partition": Partition.TRUSTED}):
        for erase in (False, True):
            reply = await purge(world, created_by="crawler", erase=erase, **other)
            assert reply.edge_count == 0
            assert "Knowledge nodes, edges and links stay" in str(reply_body(reply)["notice"]), other
    assert (await purge(world, since=past)).notice
    assert facts(world) == {"Ada-Eve"}


async def test_a_purge_of_a_graph_that_was_broken_off_is_finished_and_tells_the_whole(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(purging, "ERASED_AT_ONCE", 3)
    for number in range(8):
        await fact(world, "Ada", f"Eve {number}", CRAWLER)
    command = assignment(PurgeMemories(created_by="crawler", erase=True))
    losing = losing_lease(command)
    kinds = [replace(kind, take=losing(kind.take)) for kind in purge_graph.ERASED]
    monkeypatch.setattr(purge_graph, "ERASED", kinds)
    with pytest.raises(LeaseLost):
        await world.complete(command)
    assert len(facts(world)) == 5
    reply = (await world.complete(repeated(command, attempt=2))).reply
    assert isinstance(reply, Purged)
    assert (reply.edge_count, reply.node_count, names(world)) == (8, 9, set())


async def test_the_ledger_keeps_no_snippets_of_a_list(world: World) -> None:
    await fact(world, "Ada", "Eve", CRAWLER)
    await keep(world, "The crawler's memory", CRAWLER)
    command = assignment(PurgeMemories(created_by="crawler"))
    await world.complete(command)
    (row,) = world.rows("select answer::text as answer from ledger where command = 'purge_memories'")
    assert not [word for word in ("Eve", "KNOWS", 'memory"') if word in row["answer"].replace("memory_", "")]
    report = await world.ask(CommandReport, GetCommand(command_id=command.envelope.id))
    assert report.reply is not None
    assert report.reply["edge_previews"][0]["preview"] == "Ada --KNOWS--> Eve"


async def test_what_was_deleted_before_and_is_kept_goes_too(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(purging, "ERASED_AT_ONCE", 2)
    ours = await fact(world, "Ada", "Bob")
    theirs = await fact(world, "Ada", "Eve", CRAWLER, properties={"secret": "swordfish"})
    await fact(world, "Bob", "Eve")
    mixed = await fact(world, "Ada", "Mallory")
    await fact(world, "Mallory", "Bob", CRAWLER)
    kept = await deleted(world, edge_id=ours.edge_id)
    edge = await deleted(world, edge_id=theirs.edge_id)
    node = await deleted(world, node_id=theirs.target_id)  # with an edge of ours
    of_ours = await deleted(world, node_id=mixed.target_id)  # with an edge of the crawler's
    early = await purge(world, created_by="crawler", until=datetime.now(UTC) - timedelta(days=1))
    assert early.deleted_count == 0
    listed = await purge(world, created_by="crawler")
    assert (listed.matched, listed.edge_count, listed.node_count, listed.deleted_count) == (0, 0, 0, 3)
    command = assignment(PurgeMemories(created_by="crawler", erase=True, reason="poisoned"))
    done = (await world.complete(command)).reply
    assert isinstance(done, Purged)
    assert done.deleted_count == 3
    assert (await world.complete(repeated(command, attempt=2))).reply == done
    assert nowhere(world, "Eve", "swordfish")
    entries = world.rows("select * from audit_log where command_id = %s order by id", command.envelope.id)
    assert [entry["action"] for entry in entries] == ["erase_deleted"] * 3 + ["purge"]
    assert {entry["old"]["deletion"] for entry in entries[:3]} == {edge, node, of_ours}
    assert entries[-1]["new"]["deleted"] == 3
    assert (await purge(world, created_by="crawler")).deleted_count == 0

    gone = await restored(world, edge)
    assert (gone.status, gone.edge_id) == ("not_restored", theirs.edge_id)
    assert "a purge has erased" in str(gone.error)
    left = await restored(world, node)  # our edge is kept, and cannot come back without its end
    assert (left.status, left.not_restored_count, left.not_restored[0].restore_first) == ("not_restored", 1, [])
    assert (await restored(world, kept)).status == "restored"
    whole = await restored(world, of_ours)
    assert (whole.status, whole.edges_restored, whole.edges_purged) == ("restored", 1, 1)
    assert facts(world) == {"Ada-Bob", "Ada-Mallory"}


async def test_restoring_what_a_purge_erased_at_once_says_so(world: World) -> None:
    edge = await fact(world, "Ada", "Eve", CRAWLER)
    await purge(world, created_by="crawler", erase=True)
    entries = world.rows("select id from audit_log where action in ('delete_edge', 'delete_node')")
    assert len(entries) == 3
    for entry in entries:
        reply = await restored(world, entry["id"])
        assert reply.status == "not_restored"
        assert "cannot be undone" in str(reply.error)
    assert edge.edge_id in {row["edge_id"] for row in world.rows("select target_id::text as edge_id from audit_log")}


async def test_what_was_written_again_is_left_in_entries_of_changes_alone(world: World) -> None:
    for poison in ("swordfish one", "swordfish two"):
        await fact(world, "Ada", "Eve", CRAWLER, properties={"p": poison})
        await node(world, "Mallory", CRAWLER, p=poison)
    await purge(world, created_by="crawler", erase=True)
    assert nowhere(world, "swordfish", but=("audit_log",))
    told = world.rows("select action from audit_log where old::text || new::text || coalesce(reason, '') ~ 'swordfish'")
    assert {row["action"] for row in told} <= {"update_edge", "update_node"}


async def node(world: World, name: str, by: Principal = OWNER, **properties: Any) -> NodeAdded:
    return await world.ask(NodeAdded, AddNode(name=name, properties=properties), principal=by)


async def test_nodes_that_stay_lose_what_the_principal_wrote_and_keep_what_others_did(world: World) -> None:
    poison = dict.fromkeys("abc", "swordfish")
    first = assignment(AddNode(name="Held", properties=poison), principal=CRAWLER)
    await world.complete(first)
    await node(world, "Held", year=1843, b="ours")
    await node(world, "Held", CRAWLER, swordfish=1, year=1843)  # of which the year says nothing new
    await fact(world, "Bob", "Held")
    await node(world, "Bare", CRAWLER)
    await fact(world, "Bob", "Bare")
    before = world.rows("select properties from nodes where name = 'Held'")
    listed = await purge(world, created_by="crawler")
    assert (listed.kept_node_count, listed.emptied_count) == (2, 1)
    archived = await purge(world, created_by="crawler", archive=True)
    assert (archived.kept_node_count, archived.emptied_count) == (2, 0)
    assert world.rows("select properties from nodes where name = 'Held'") == before

    command = assignment(PurgeMemories(created_by="crawler", erase=True, reason="poisoned"))
    done = (await world.complete(command)).reply
    assert isinstance(done, Purged)
    assert (done.kept_node_count, done.emptied_count, done.node_count) == (2, 1, 0)
    assert world.rows("select properties, updated_by from nodes where name = 'Held'") == [
        {"properties": {"b": "ours", "year": 1843}, "updated_by": OWNER.name}
    ]
    (entry, _) = world.rows("select * from audit_log where command_id = %s order by id", command.envelope.id)
    assert (entry["action"], entry["reason"]) == ("erase_properties", "poisoned")
    assert (entry["old"], entry["new"]) == ({"property_count": 3}, {"erased": True})
    again = (await world.complete(repeated(first, attempt=2))).reply
    assert isinstance(again, NodeAdded)
    assert (again.name, again.properties) == ("Held", {})
    assert nowhere(world, "swordfish", but=("audit_log",))
    assert (await purge(world, created_by="crawler")).emptied_count == 0


async def test_proposals_of_a_principal_and_about_its_edges_go(world: World) -> None:
    flag = {"is_constitutive": True}
    await fact(world, "Ada", "Eve", CRAWLER, properties=flag)
    ours = await fact(world, "Ada", "Bob", properties=flag)
    past = await fact(world, "Ada", "Cay", CRAWLER, properties=flag)
    await propose_change(world, "Eve", OWNER, {"about": "Eve's secret"})
    await propose_change(world, "Bob", CRAWLER, {"secret": "swordfish"})
    await propose_change(world, "Bob", OWNER, {"since": 1831})
    await world.ask(DeletionNeedsConsent, DeleteEdge(edge_id=ours.edge_id, reason="swordfish"), principal=CRAWLER)
    await world.ask(DeletionNeedsConsent, DeleteEdge(edge_id=past.edge_id))
    await world.complete(assignment(DeleteEdge(edge_id=past.edge_id), principal=CRAWLER))
    await deleted(world, edge_id=past.edge_id)  # by consent of both; its proposal is used, and stays until the purge
    assert world.count("proposals") == 5
    early = await purge(world, created_by="crawler", until=datetime.now(UTC) - timedelta(days=1))
    assert early.proposal_count == 0
    assert (await purge(world, created_by="crawler")).proposal_count == 4
    command = assignment(PurgeMemories(created_by="crawler", erase=True))
    done = (await world.complete(command)).reply
    assert isinstance(done, Purged)
    assert (done.proposal_count, done.edge_count, done.constitutive_count, done.deleted_count) == (4, 1, 1, 1)
    (left,) = world.rows("select change from proposals")
    assert left["change"] == {"properties": {"since": 1831}}
    assert world.count("approvals") == 1
    entries = world.rows(
        "select * from audit_log where command_id = %s and action = 'erase_proposal'", command.envelope.id
    )
    assert len({entry["old"]["proposal_id"] for entry in entries}) == 4
    assert facts(world) == {"Ada-Bob"}


async def propose_change(world: World, target: str, by: Principal, properties: dict[str, Any]) -> None:
    command = AddEdge(source_name="Ada", target_name=target, relation="KNOWS", properties=properties)
    await world.ask(ChangeNeedsConsent, command, principal=by)
