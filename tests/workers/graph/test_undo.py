"""Deleting keeps what was deleted, and restoring brings it back as it was."""

import asyncio
from functools import partial
from typing import Any

import pytest

from engramq.schemas import limits
from engramq.schemas.commands import (
    AddNode,
    DecideProposal,
    DeleteEdge,
    DeleteNode,
    GetNodeByName,
    ListDeleted,
    RestoreGraph,
)
from engramq.schemas.envelope import Principal
from engramq.schemas.faults import FaultCode
from engramq.schemas.ids import parse_time
from engramq.schemas.vocabulary import ALL_SCOPES, Decision, Scope
from engramq.workers.upkeep.schedule import trim
from tests.assignments import assignment
from tests.refusals import refused
from tests.workers.graph.facts import NOWHERE, UNKNOWN_ID, asked, fact, reclassified
from tests.workers.graph.harness import ADA, BOB, CAY, Harness


def graph(harness: Harness) -> list[Any]:
    """Return every row of nodes and edges, whole."""
    return [
        row["row"]
        for table in ("nodes", "edges")
        for row in harness.rows(f"select to_jsonb(t) as row from {table} t order by id")
    ]


async def deleted(harness: Harness, **what: str) -> int:
    """Delete an edge (edge_id) or node (node_id) and return the id of the audit entry."""
    command = DeleteEdge(**what) if "edge_id" in what else DeleteNode(**what)
    body = await harness.body(command)
    assert body["status"] == "deleted", body
    return int(body["audit_id"])


async def restored(harness: Harness, audit_id: int, **more: Any) -> dict[str, Any]:
    return await harness.body(RestoreGraph(audit_id=audit_id, **more))


async def listed(harness: Harness, **how: Any) -> list[dict[str, Any]]:
    body = await harness.body(ListDeleted(), **how)
    assert body["truncated"] is False
    return list(body["deletions"])


RICH: dict[str, Any] = {
    "weight": 0.3,
    "properties": {"deep": [1, {"é": 2**63}], "tiny": 1e-300},
    "valid_from": parse_time("2020-01-01"),
    "valid_until": parse_time("2999-01-01T00:00:00.000001Z"),
}


async def test_a_restored_edge_is_what_it_was_in_every_column(harness: Harness) -> None:
    edge_id = (await harness.body(fact(**RICH)))["edge_id"]
    await harness.body(reclassified("reflective"), by=BOB)
    before = graph(harness)
    audit_id = await deleted(harness, edge_id=edge_id)
    assert await harness.body(asked()) == NOWHERE
    body = await restored(harness, audit_id, reason="a mistake")
    assert body == {
        "status": "restored",
        "audit_id": audit_id,
        "edge_id": edge_id,
        "edges_restored": 1,
        "not_restored": [],
        "not_restored_count": 0,
        "edges_purged": 0,
    }
    assert graph(harness) == before
    assert harness.rows("select * from deleted_graph") == []


async def test_a_restored_node_has_its_edges_again(harness: Harness) -> None:
    await harness.body(AddNode(name="Ada", properties={"born": 1815}), by=CAY)
    await harness.body(fact(**RICH), by=BOB)
    await harness.body(fact("Bob", "FEARS", "Ada"))
    await harness.body(fact("Ada", "LOVES", "Ada"))
    await harness.body(fact("Bob", "LIKES", "Cay"))
    node_id = (await harness.body(GetNodeByName(name="Ada")))["node_id"]
    before = graph(harness)
    audit_id = await deleted(harness, node_id=node_id)
    assert len(graph(harness)) == 3
    body = await restored(harness, audit_id)
    assert (body["status"], body["node_id"], body["edges_restored"]) == ("restored", node_id, 3)
    assert graph(harness) == before


async def test_a_deletion_says_how_and_until_when_it_is_undone(harness: Harness) -> None:
    edge_id = (await harness.body(fact()))["edge_id"]
    body = await harness.body(DeleteEdge(edge_id=edge_id))
    (entry,) = harness.audit(edge_id)
    assert (body["audit_id"], entry["action"]) == (entry["id"], "delete_edge")
    assert body["hint"] == f"`engramq graph restore {entry['id']}` undoes this."
    assert (parse_time(body["restore_until"]) - entry["at"]).days == limits.DELETED_KEPT_DAYS
    other = (await harness.body(fact(), namespace="Ada's"))["edge_id"]
    body = await harness.body(DeleteEdge(edge_id=other), namespace="Ada's")
    assert """--namespace 'Ada'"'"'s'`""" in body["hint"]
    missing = await harness.body(DeleteEdge(edge_id=edge_id))
    assert (set(missing), missing["what"]) == ({"status", "edge_id", "what", "hint"}, "edge")


async def test_restoring_is_audited_with_the_deletion_that_it_undoes(harness: Harness) -> None:
    edge = await harness.body(fact())
    audit_id = await deleted(harness, edge_id=edge["edge_id"])
    await restored(harness, audit_id, reason="a mistake")
    _, entry = harness.audit(edge["edge_id"])
    assert (entry["action"], entry["actor"], entry["reason"]) == ("restore_edge", "ada", "a mistake")
    ends = {"source_id": edge["source_id"], "target_id": edge["target_id"]}
    assert entry["new"] == {"deletion": audit_id, "relation": "KNOWS", **ends}
    audit_id = await deleted(harness, node_id=edge["source_id"])
    await restored(harness, audit_id)
    entry = harness.audit(edge["source_id"])[-1]
    assert (entry["action"], entry["new"]) == ("restore_node", {"deletion": audit_id, "edges": 1, "not_restored": 0})


async def test_restoring_twice_says_so_and_changes_nothing(harness: Harness) -> None:
    edge = await harness.body(fact())
    for what in ({"edge_id": edge["edge_id"]}, {"node_id": edge["source_id"]}):
        audit_id = await deleted(harness, **what)
        await restored(harness, audit_id)
        before = graph(harness), harness.row("select count(*) as n from audit_log")
        body = await restored(harness, audit_id)
        assert body["status"] == "already_restored"
        assert str(audit_id) in body["error"]
        assert (graph(harness), harness.row("select count(*) as n from audit_log")) == before


async def test_of_two_at_once_one_restores_and_the_other_says_so(harness: Harness) -> None:
    edge = await harness.body(fact())
    for what in ({"edge_id": edge["edge_id"]}, {"node_id": edge["source_id"]}):
        audit_id = await deleted(harness, **what)
        bodies = await asyncio.gather(*(restored(harness, audit_id) for _ in range(4)))
        assert sorted(body["status"] for body in bodies) == ["already_restored"] * 3 + ["restored"]


async def test_an_edge_whose_like_is_there_again_is_not_restored(harness: Harness) -> None:
    edge_id = (await harness.body(fact()))["edge_id"]
    audit_id = await deleted(harness, edge_id=edge_id)
    stored = (await harness.body(fact(weight=0.2)))["edge_id"]
    before = harness.everything()
    body = await restored(harness, audit_id)
    assert body["status"] == "not_restored"
    assert "Ada (Entity) --KNOWS--> Bob (Entity)" in body["error"]
    assert [item["why"] for item in body["not_restored"]] == ["there_again"]
    assert body["hint"] == "To have this back, delete the one that is there first: the two cannot both be."
    assert harness.everything() == before
    await deleted(harness, edge_id=stored)
    assert (await restored(harness, audit_id))["status"] == "restored"
    assert (await harness.body(asked()))["edge_id"] == edge_id


async def test_a_node_whose_name_is_there_again_is_not_restored(harness: Harness) -> None:
    edge = await harness.body(fact())
    audit_id = await deleted(harness, node_id=edge["source_id"])
    again = (await harness.body(AddNode(name="Ada")))["node_id"]
    before = harness.everything()
    body = await restored(harness, audit_id)
    assert (body["status"], body["node_id"], body["edges_restored"]) == ("not_restored", edge["source_id"], 0)
    assert "Ada (Entity)" in body["error"]
    assert harness.everything() == before
    await deleted(harness, node_id=again)
    assert (await restored(harness, audit_id))["edges_restored"] == 1


async def test_an_edge_without_one_of_its_ends_waits_for_it(harness: Harness) -> None:
    edge = await harness.body(fact())
    first = await deleted(harness, edge_id=edge["edge_id"])
    second = await deleted(harness, node_id=edge["target_id"])
    body = await restored(harness, first)
    assert body["status"] == "not_restored"
    (left,) = body["not_restored"]
    assert left == {
        "edge_id": edge["edge_id"],
        "preview": "Ada (Entity) --KNOWS--> Bob (Entity)",
        "why": "end_missing",
        "restore_first": [second],
    }
    assert (
        body["hint"]
        == "Restore the deletion in `restore_first`, which brings the missing ends back. Then restore this again."
    )
    assert (await restored(harness, second))["edges_restored"] == 0
    assert (await restored(harness, first))["status"] == "restored"


async def test_an_end_that_is_gone_for_good_is_said_to_be(harness: Harness) -> None:
    edge = await harness.body(fact())
    first = await deleted(harness, edge_id=edge["edge_id"])
    await deleted(harness, node_id=edge["source_id"])
    harness.rows("delete from deleted_graph where is_node")
    body = await restored(harness, first)
    (left,) = body["not_restored"]
    assert (left["preview"], left["restore_first"]) == (
        f"a node that is gone ({edge['source_id']}) --KNOWS--> Bob (Entity)",
        [],
    )
    assert body["hint"].startswith("An end that nothing brings back is gone for good")
    assert left["preview"] in body["error"]


async def test_an_unknown_id_has_a_hint_about_ids(harness: Harness) -> None:
    for command in (DeleteEdge(edge_id=UNKNOWN_ID), DeleteNode(node_id=UNKNOWN_ID), DeleteEdge(edge_id="nope")):
        body = await harness.body(command)
        assert (body["status"], " of this id. " in body["hint"]) == ("not_found", True), body
        assert "exactly as written" not in body["hint"]


async def test_what_a_node_could_not_bring_along_comes_with_another_call(harness: Harness) -> None:
    edge = await harness.body(fact())
    await harness.body(fact("Ada", "LIKES", "Cay"))
    before = graph(harness)
    first = await deleted(harness, node_id=edge["source_id"])
    second = await deleted(harness, node_id=edge["target_id"])
    body = await restored(harness, first)
    assert (body["status"], body["edges_restored"], body["not_restored_count"]) == ("restored", 1, 1)
    assert body["not_restored"][0]["restore_first"] == [second]
    assert "restore" in body["hint"]
    (waiting, _) = [item["what"] for item in await listed(harness)][::-1]
    assert waiting == "1 edge of the node Ada (Entity), which is restored"
    await restored(harness, second)
    assert (await restored(harness, first))["edges_restored"] == 1
    assert (await restored(harness, first))["status"] == "already_restored"
    assert graph(harness) == before


async def test_what_is_no_deletion_is_not_found(harness: Harness) -> None:
    edge = await harness.body(fact())
    await harness.body(fact(weight=0.5))
    (entry,) = harness.audit(edge["edge_id"])
    for audit_id in (entry["id"], 999_999, limits.AUDIT_ID_MAX):
        body = await restored(harness, audit_id)
        assert (body["status"], body["audit_id"]) == ("not_found", audit_id)
        assert "engramq graph deleted" in body["hint"]
    foreign = await deleted(harness, edge_id=edge["edge_id"])
    assert (await harness.body(RestoreGraph(audit_id=foreign), namespace="elsewhere"))["status"] == "not_found"


async def test_after_thirty_days_a_deletion_is_final(harness: Harness) -> None:
    edge = await harness.body(fact())
    old = await deleted(harness, edge_id=edge["edge_id"])
    node = await deleted(harness, node_id=edge["source_id"])
    days = limits.DELETED_KEPT_DAYS
    harness.rows(f"update deleted_graph set deleted_at = now() - interval '{days} days' where deletion = %s", old)
    harness.rows(
        f"update deleted_graph set deleted_at = now() - interval '{days} days' + interval '1 minute' "
        "where deletion = %s",
        node,
    )
    assert [item["audit_id"] for item in await listed(harness)] == [node]
    body = await restored(harness, old)
    assert body["status"] == "not_found"
    assert str(days) in body["error"]
    assert await harness.store.write("default_user", partial(trim, query="trim_deleted")) == 1
    assert {row["deletion"] for row in harness.rows("select deletion from deleted_graph")} == {node}
    assert (await restored(harness, node))["status"] == "restored"


async def test_what_can_be_restored_is_listed_in_words(harness: Harness) -> None:
    edge = await harness.body(fact(source_label="Person"))
    await harness.body(fact("Bob", "LIKES", "Cay"))
    first = (await harness.body(DeleteEdge(edge_id=edge["edge_id"], reason="untrue"), by=BOB))["audit_id"]
    second = (await harness.body(DeleteNode(node_id=edge["target_id"])))["audit_id"]
    node, fact_ = await listed(harness)
    assert (node["audit_id"], fact_["audit_id"]) == (second, first)
    assert (node["what"], node["edge_count"]) == ("the node Bob (Entity) and 1 edge", 1)
    assert (node["node_id"], node["edge_id"]) == (edge["target_id"], None)
    assert fact_["what"] == "the edge Ada (Person) --KNOWS--> Bob (Entity)"
    assert (fact_["deleted_by"], fact_["reason"], fact_["edge_id"]) == ("bob", "untrue", edge["edge_id"])
    assert await listed(harness, namespace="elsewhere") == []
    body = await harness.body(ListDeleted(limit=1))
    assert ([deletion["audit_id"] for deletion in body["deletions"]], body["truncated"]) == ([second], True)


async def test_restoring_takes_no_consent_though_deleting_did(harness: Harness) -> None:
    edge_id = (await harness.body(fact(properties={"is_constitutive": True})))["edge_id"]
    proposal = (await harness.body(DeleteEdge(edge_id=edge_id)))["proposal_id"]
    await harness.body(DecideProposal(proposal_id=proposal, decision=Decision.APPROVE), by=BOB)
    audit_id = await deleted(harness, edge_id=edge_id)
    assert (await harness.body(RestoreGraph(audit_id=audit_id), by=ADA))["status"] == "restored"
    assert (await harness.body(DeleteEdge(edge_id=edge_id)))["status"] == "consent_required"


@pytest.mark.parametrize("scopes", [(Scope.READ, Scope.WRITE, Scope.VERIFY), ALL_SCOPES])
async def test_whoever_is_no_trusted_admin_neither_restores_nor_lists(
    harness: Harness, scopes: tuple[Scope, ...]
) -> None:
    edge = await harness.body(fact())
    audit_id = await deleted(harness, edge_id=edge["edge_id"])
    caller = Principal(name="mallory", scopes=scopes, untrusted=scopes == ALL_SCOPES)
    for command in (RestoreGraph(audit_id=audit_id), ListDeleted()):
        with refused(FaultCode.FORBIDDEN) as faults:
            await harness.carry_out(assignment(command, principal=caller))
        assert "admin" in faults[0].error
    assert await harness.body(asked()) == NOWHERE


@pytest.mark.long
async def test_a_node_with_thousands_of_edges_comes_back_whole(harness: Harness) -> None:
    edge = await harness.body(fact("hub", "R", "leaf"))
    harness.rows(
        "with made as (insert into nodes (id, tenant, label, name, partition) select gen_random_uuid(), "
        "tenant_of('default_user'), 'Entity', 'n' || g, 'trusted' from generate_series(1, 5000) g returning id) "
        "insert into edges (id, tenant, layer, source_id, target_id, relation, weight, origin, created_by) "
        "select gen_random_uuid(), tenant_of('default_user'), 'knowledge', %s, id, 'R', random(), 'agent', 'ada' "
        "from made",
        edge["source_id"],
    )
    before = graph(harness)
    audit_id = await deleted(harness, node_id=edge["source_id"])
    assert (await restored(harness, audit_id))["edges_restored"] == 5001
    assert graph(harness) == before
