"""Emptying what is said about a memory; what the audit log says in somebody's words goes too, who and when stay."""

from typing import Any

import psycopg
import pytest
from msgspec import UNSET

from engramq.schemas.commands import (
    AddEdge,
    AddNode,
    Connect,
    Connected,
    Decided,
    DecideProposal,
    DeleteTenant,
    Disconnect,
    Disconnected,
    EdgeAdded,
    ForgetMemory,
    Forgotten,
    NodeAdded,
    OutcomeRecorded,
    ProjectRenamed,
    Purged,
    PurgeMemories,
    Reclassified,
    ReclassifySector,
    RecordOutcome,
    RenameProject,
    TenantDeleted,
    UpdateMemory,
    Verified,
    VerifyMemory,
)
from engramq.schemas.envelope import Principal
from engramq.schemas.faults import EngramqError
from engramq.schemas.vocabulary import ALL_SCOPES, Decision, Sector, Verification
from engramq.workers.db import audit
from engramq.workers.db.transaction import Transaction
from tests.architecture.source import ROOT
from tests.assignments import assignment
from tests.scenarios.conftest import agent, settings, stage
from tests.scenarios.stage import Agent
from tests.workers.conftest import World

CRAWLER = Principal(name="crawler", scopes=ALL_SCOPES)
MARK = "zwetschkenknoedel"


def entries(world: World) -> list[dict[str, Any]]:
    return world.rows("select action, target_id, old, new, reason from audit_log order by id")


def words(world: World) -> list[str]:
    """Return where the log still has the mark."""
    return [entry["action"] for entry in entries(world) if MARK in str(entry)]


async def keep(world: World, content: str, **more: Any) -> str:
    return (await world.keep(content, **more)).stored.id


async def talk_about(world: World, memory: str, other: str) -> None:
    """Say the mark about a memory in every way that the log takes it."""
    for pair in ((memory, other), (other, memory)):
        await world.ask(Connected, Connect(source=pair[0], target=pair[1], relation="supports", note=MARK))
        await world.ask(Disconnected, Disconnect(source=pair[0], target=pair[1], reason=MARK))
    await world.ask(OutcomeRecorded, RecordOutcome(memory_ids=(memory, other), signal=0.4, note=MARK))
    await world.ask(
        Verified, VerifyMemory(memory_id=memory, verification=Verification.VERIFIED, reason=f"It says {MARK}")
    )


@pytest.mark.promise("OV-18")
async def test_erasing_a_memory_blanks_what_was_said_about_it_and_keeps_the_rest(world: World) -> None:
    erased, other, third = [await keep(world, f"Memory {number}") for number in range(3)]
    await talk_about(world, erased, other)
    verdict = VerifyMemory(memory_id=other, verification=Verification.APPROVED, reason="of another one")
    await world.ask(Verified, verdict)
    await world.ask(OutcomeRecorded, RecordOutcome(memory_ids=(other, third), signal=0.4, note="of others"))
    before = entries(world)
    assert words(world) == ["disconnect", "disconnect", "outcome", "outcome", "verify"]

    await world.ask(Forgotten, ForgetMemory(memory_id=erased, erase=True, reason="He asked for it"))

    after = entries(world)
    assert words(world) == []
    assert [item["action"] for item in after] == [*(item["action"] for item in before), "erase"]
    assert [{**item, "reason": None} for item in before] == [{**item, "reason": None} for item in after[:-1]]
    kept = [item["reason"] for item in after if item["reason"] is not None]
    assert kept == ["of another one", "of others", "of others", "He asked for it"]


@pytest.mark.promise("OV-18")
async def test_a_purge_blanks_what_was_said_about_all_that_it_takes(world: World) -> None:
    erased, other = await keep(world, "Theirs", principal=CRAWLER), await keep(world, "Ours")
    await talk_about(world, erased, other)
    for secret in (f"{MARK} 1", f"{MARK} 2"):
        node = AddNode(name="Eve", properties={"secret": secret})
        await world.ask(NodeAdded, node, principal=CRAWLER)
        edge = AddEdge(source_name="Eve", target_name="Mallory", relation="KNOWS", properties={"secret": secret})
        made = await world.ask(EdgeAdded, edge, principal=CRAWLER)
    marked = AddEdge(
        source_name="Eve", target_name="Trent", relation="KNOWS", properties={"is_constitutive": True, "why": MARK}
    )
    await world.ask(EdgeAdded, marked, principal=CRAWLER)
    proposal = ReclassifySector(
        source_name="Eve", target_name="Trent", relation="KNOWS", new_sector=Sector.EMOTIONAL, reason=MARK
    )
    proposed = await world.ask(Reclassified, proposal, principal=CRAWLER)
    assert proposed.proposal_id is not UNSET
    decision = DecideProposal(proposal_id=proposed.proposal_id, decision=Decision.APPROVE, reason=MARK)
    await world.ask(Decided, decision)
    ours = AddEdge(source_name="Ada", target_name="Bob", relation="KNOWS", properties={"since": 1})
    await world.ask(EdgeAdded, ours)
    await world.ask(EdgeAdded, AddEdge(source_name="Ada", target_name="Bob", relation="KNOWS", properties={"since": 2}))
    assert {"update_node", "update_edge", "propose", "decide", "outcome"} <= set(words(world))

    await world.ask(Purged, PurgeMemories(created_by="crawler", erase=True, reason="a poisoned feed"))

    assert words(world) == []
    assert world.count("proposals") == 0
    changed = [entry for entry in entries(world) if entry["action"] == "update_edge"]
    assert [(item["old"]["properties"], item["new"]["properties"]) for item in changed if item["target_id"]] == [
        ({}, {}), ({"since": 1}, {"since": 2})
    ]  # fmt: skip
    assert str(changed[0]["target_id"]) == made.edge_id
    said = {entry["action"] for entry in entries(world) if entry["reason"] == "a poisoned feed"}
    assert said == {"erase", "delete_edge", "delete_node", "erase_proposal", "purge"}


@pytest.mark.promise("OV-18")
async def test_a_merge_keeps_the_former_project_of_a_memory_until_that_is_erased(world: World) -> None:
    erased, other = await keep(world, "Ours", project=MARK), await keep(world, "Ours, too", project=MARK)
    await world.ask(ProjectRenamed, RenameProject(old_name=MARK, new_name="rover", merge=True))
    assert words(world) == ["update", "update"]
    await world.ask(Forgotten, ForgetMemory(memory_id=erased, erase=True))
    old = {str(entry["target_id"]): entry["old"] for entry in entries(world) if entry["action"] == "update"}
    assert old == {erased: {"project": None}, other: {"project": MARK}}
    await world.ask(TenantDeleted, DeleteTenant(reason="contract ended"))
    assert words(world) == []


@pytest.mark.promise("OV-18")
async def test_deleting_a_namespace_blanks_its_log(world: World) -> None:
    first, second = [await keep(world, f"Memory {number}", namespace="acme") for number in range(2)]
    note = RecordOutcome(memory_ids=(first, second), signal=0.4, note=MARK)
    await world.ask(OutcomeRecorded, note, namespace="acme")
    for namespace in ("acme", "other"):
        for secret in (f"{MARK} 1", f"{MARK} 2"):
            node = AddNode(name="Eve", properties={"secret": secret})
            await world.ask(NodeAdded, node, namespace=namespace)
    assert words(world) == ["outcome", "outcome", "update_node", "update_node"]  # of both namespaces

    await world.ask(TenantDeleted, DeleteTenant(reason="contract ended"), namespace="acme")

    assert words(world) == ["update_node"]  # the other namespace's
    told = {entry["reason"] for entry in entries(world) if entry["action"] == "delete_tenant"}
    assert told == {"contract ended"}


@pytest.mark.promise("SE-10")
async def test_the_workers_role_blanks_nothing_that_is_still_there_and_nothing_of_another_tenant(world: World) -> None:
    memory = await keep(world, "It stays")
    verdict = VerifyMemory(memory_id=memory, verification=Verification.VERIFIED, reason=MARK)
    await world.ask(Verified, verdict)
    foreign = await keep(world, "Another's", namespace="other")
    verdict = VerifyMemory(memory_id=foreign, verification=Verification.VERIFIED, reason=MARK)
    await world.ask(Verified, verdict, namespace="other")
    ids = [row["target_id"] for row in world.rows("select target_id from audit_log")]
    world.rows("delete from nodes where id = %s", foreign)

    async def blank(tx: Transaction) -> None:
        await audit.blank(tx, assignment(verdict).envelope, ids)

    await world.store.write("default_user", blank)
    assert words(world) == ["verify", "verify"]
    with psycopg.connect(world.database.url) as connection:  # no tenant was entered
        connection.execute("select blank_audit(%s, null)", [ids])
        assert connection.execute("select blank_audit_of_deleted(1000)").fetchone() == (0,)
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("update audit_log set reason = null")
    assert words(world) == ["verify", "verify"]


__all__ = ["agent", "settings", "stage"]


@pytest.mark.promise("OV-16")
async def test_fields_and_keys_of_metadata_are_cleared(agent: Agent, world: World) -> None:
    stored = await agent.store(
        "The pump is blue", speaker="Zenzi", thread="pumps", position=3, occurred_at="2026-01-31T09:00:00Z",
        metadata={"wrong": 1, "right": 2},
    )  # fmt: skip
    assert len(await agent.search("Zenzi")) == 1
    given = {"memory_id": stored["id"], "clear": ["speaker", "thread", "wrong", "unknown"]}
    body = await agent.call("update_memory", **given, metadata={"new": 3})
    memory = body["memory"]
    assert (memory["speaker"], memory["thread"], memory["position"]) == (None, None, 3)
    assert memory["metadata"] == {"right": 2, "new": 3}
    lexemes = "select 1 from memories where lexemes::text like '%%zenzi%%'"
    assert world.rows(lexemes) == []
    body = await agent.call("update_memory", memory_id=stored["id"], clear=["metadata", "occurred_at", "position"])
    memory = body["memory"]
    assert (memory["metadata"], memory["occurred_at"], memory["position"]) == ({}, None, None)
    told = [row["new"] for row in world.rows("select new from audit_log order by id")]
    assert told[0]["cleared"] == ["speaker", "thread"]
    assert "wrong" not in str(told)


@pytest.mark.promise("OV-16")
async def test_what_is_given_cannot_be_cleared_too(agent: Agent) -> None:
    stored = await agent.store("The pump is blue", speaker="Ada")
    refused = await agent.call("update_memory", memory_id=stored["id"], speaker="Bob", clear=["speaker"])
    assert (refused["status"], refused["field"]) == ("invalid_parameter", "clear")
    assert (await agent.call("get_memory", memory_id=stored["id"]))["memory"]["speaker"] == "Ada"


@pytest.mark.promise("OV-16")
@pytest.mark.parametrize("name", ["content", "sector", "confidence", "external_id"])
async def test_what_is_never_empty_is_refused_by_name(name: str) -> None:
    with pytest.raises(EngramqError) as refused:
        UpdateMemory(memory_id="m", clear=(name,)).check()
    assert (refused.value.fault.field, name in refused.value.fault.error) == ("clear", True)


@pytest.mark.own_database
@pytest.mark.promise("SE-10")
async def test_over_a_cluster_the_worker_blanks_entries_that_were_somebody_elses_too(world: World) -> None:
    memory = await keep(world, "It goes")
    verdict = VerifyMemory(memory_id=memory, verification=Verification.VERIFIED, reason=MARK)
    await world.ask(Verified, verdict)
    world.rows("update audit_log set owner = 'ada'")
    cluster = (ROOT / "deploy" / "citus.sql").read_text()
    world.database.owner.execute(cluster[cluster.index("alter function blank_audit(") :].encode())
    world.store.sharded = True
    try:
        assert (await world.ask(Forgotten, ForgetMemory(memory_id=memory, erase=True))).status == "erased"
    finally:
        world.store.sharded = False
    assert words(world) == []
