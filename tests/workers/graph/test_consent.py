"""What constitutes an identity changes only when two different principals consent."""

import asyncio
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from engramq.schemas.commands import AddNode, DecideProposal, DeleteEdge, DeleteNode, ListProposals, ProposalList
from engramq.schemas.digests import WHOLE_BYTES, digest_of
from engramq.schemas.faults import FaultCode, missing
from engramq.schemas.vocabulary import Decision, ProposalState, Sector, Thing
from tests.refusals import refused
from tests.workers.graph.facts import UNKNOWN_ID, approved, asked, decided, fact, proposed, reclassified
from tests.workers.graph.harness import ADA, BOB, CAY, Harness

FLAG = {"is_constitutive": True}
NO_PROPOSAL = {"status": "not_found", **missing(Thing.PROPOSAL)}
BOTH_SPELLINGS = pytest.mark.parametrize("mark", [FLAG, {"edge_type": "constitutive"}])


async def constitutive(harness: Harness, mark: dict[str, Any] = FLAG, *names: str) -> str:
    """Write Ada --KNOWS--> Bob (or what is named) as a constitutive edge and return its id."""
    edge = await harness.body(fact(*names, properties=mark))
    return str(edge["edge_id"])


def sector(harness: Harness, edge_id: str) -> str:
    return str(harness.row("select memory_sector from edges where id = %s", edge_id)["memory_sector"])


@pytest.mark.promise("RS-15")
@pytest.mark.own_database
async def test_an_ordinary_edge_needs_no_look_at_proposals(harness: Harness) -> None:
    ordinary: tuple[dict[str, Any], ...] = ({}, {"is_constitutive": False}, {"edge_type": "x"})
    for number, properties in enumerate(ordinary):
        await harness.body(fact(target=f"Bob {number}", properties=properties))
    harness.rows("revoke select on proposals from engramq_worker")  # a look-up would fail now
    for number in range(len(ordinary)):
        assert (await harness.body(reclassified("episodic", target=f"Bob {number}")))["status"] == "success"


@pytest.mark.promise("RS-19")
@BOTH_SPELLINGS
async def test_without_approval_a_constitutive_edge_stays(harness: Harness, mark: dict[str, Any]) -> None:
    edge_id = await constitutive(harness, mark)
    before = harness.rows("select * from edges")
    body = await harness.body(reclassified("episodic"))
    assert set(body) == {"status", "error", "edge_id", "proposal_id", "approved_by", "expires_at", "hint"}
    assert (body["status"], body["edge_id"], body["approved_by"]) == ("consent_required", edge_id, ["ada"])
    assert "make this same call" in body["hint"]
    assert harness.rows("select * from edges") == before
    assert [entry["action"] for entry in harness.audit(edge_id)] == ["propose"]


@pytest.mark.promise("RS-20")
@pytest.mark.parametrize(
    "lack", ["pending", "rejected", "rejected after approval", "expired", "other sector", "other edge"]
)
async def test_an_approval_that_does_not_count_changes_nothing(harness: Harness, lack: str) -> None:
    edge_id = await constitutive(harness)
    other = await constitutive(harness, FLAG, "Cay", "IS", "Dan")
    if lack == "pending":
        await proposed(harness, edge_id, Sector.EPISODIC)
    elif lack == "rejected":
        proposal = await proposed(harness, edge_id, Sector.EPISODIC)
        assert (await decided(harness, proposal, Decision.REJECT))["state"] == "rejected"
    elif lack == "rejected after approval":
        proposal = await approved(harness, edge_id, Sector.EPISODIC)
        assert (await decided(harness, proposal, Decision.REJECT, by=CAY))["state"] == "rejected"
    elif lack == "expired":
        proposal = await approved(harness, edge_id, Sector.EPISODIC)
        harness.rows("update proposals set expires_at = now() - interval '1 second'")
        assert (await decided(harness, proposal, by=CAY)) == {"status": "closed", "state": "expired", "approvals": 2}
    elif lack == "other sector":
        await approved(harness, edge_id, Sector.PROCEDURAL)
    else:
        await approved(harness, other, Sector.EPISODIC)
    assert (await harness.body(reclassified("episodic")))["status"] == "consent_required"
    assert sector(harness, edge_id) == "semantic"
    assert "last_reclassification" not in (await harness.body(asked()))["properties"]


@pytest.mark.promise("RS-21")
@BOTH_SPELLINGS
async def test_two_principals_approve_once(harness: Harness, mark: dict[str, Any]) -> None:
    edge_id = await constitutive(harness, mark)
    proposal = await approved(harness, edge_id, Sector.EPISODIC)

    body = await harness.body(reclassified("episodic"), by=CAY)

    assert body == {"status": "success", "edge_id": edge_id, "old_sector": "semantic", "new_sector": "episodic"}
    done = harness.audit(edge_id)[-1]
    assert (done["actor"], done["action"]) == ("cay", "reclassify")
    assert done["new"] == {"memory_sector": "episodic", "proposal_id": proposal}
    assert (await decided(harness, proposal)) == {"status": "closed", "state": "used", "approvals": 2}
    assert (await harness.body(reclassified("episodic")))["status"] == "consent_required"
    assert (await harness.body(reclassified("semantic")))["status"] == "consent_required"


@pytest.mark.promise("RS-21")
async def test_one_consent_serves_one_of_eight_that_race(harness: Harness) -> None:
    edge_id = await constitutive(harness)
    await approved(harness, edge_id, Sector.EPISODIC)
    bodies = await asyncio.gather(*(harness.body(reclassified("episodic")) for _ in range(8)))
    assert sorted(body["status"] for body in bodies) == ["consent_required"] * 7 + ["success"]
    assert [row["action"] for row in harness.audit(edge_id)].count("reclassify") == 1


@pytest.mark.promise("RS-22")
async def test_two_proposals_of_one_approval_each_are_no_consent(harness: Harness) -> None:
    edge_id = await constitutive(harness)
    first = await proposed(harness, edge_id, Sector.EPISODIC)
    # Now the second principal would join; versions before made a proposal of its own, which may be there still.
    harness.rows(
        "insert into proposals select (jsonb_populate_record(p, %s)).* from proposals p", Jsonb({"id": UNKNOWN_ID})
    )
    harness.rows(
        "insert into approvals (tenant, proposal_id, principal) select tenant, id, 'bob' from proposals where id <> %s",
        first,
    )
    assert (await harness.body(reclassified("episodic")))["status"] == "consent_required"


@pytest.mark.promise("RS-23")
@BOTH_SPELLINGS
async def test_adding_the_edge_again_cannot_clear_the_flag(harness: Harness, mark: dict[str, Any]) -> None:
    edge_id = await constitutive(harness, mark)
    attempts: list[dict[str, Any]] = [{}, {"is_constitutive": False}, {"edge_type": None}, {"edge_type": "casual"}]
    for attempt in attempts:
        again = await harness.body(fact(properties={**attempt, "a": 1}))
        assert (again["status"], again["edge_id"]) == ("consent_required", edge_id)
    assert (await harness.body(asked()))["properties"] == mark
    assert (await harness.body(reclassified("episodic")))["status"] == "consent_required"


@pytest.mark.promise("RS-19", "RS-23")
@BOTH_SPELLINGS
async def test_adding_the_edge_again_cannot_change_its_sector(harness: Harness, mark: dict[str, Any]) -> None:
    await constitutive(harness, mark)
    feeling = fact(properties={"emotion": "joy"})
    await decided(harness, (await harness.body(feeling))["proposal_id"])
    again = await harness.body(feeling)  # which two principals have approved; a sector was not among it
    assert (again["memory_sector"], again["properties"]) == ("semantic", {**mark, "emotion": "joy"})
    assert (await harness.body(asked()))["memory_sector"] == "semantic"


@pytest.mark.promise("RS-19", "GE-23")
async def test_who_gave_an_idempotency_key_is_told_to_give_another(harness: Harness) -> None:
    edge_id = await constitutive(harness)
    for command in (reclassified("episodic"), DeleteEdge(edge_id=edge_id), fact(weight=0.5)):
        assert "another idempotency_key" not in (await harness.body(command))["hint"]
        keyed = await harness.body(command, idempotency_key=type(command).__name__)
        assert "call this again with another idempotency_key" in keyed["hint"]


@pytest.mark.own_database
@pytest.mark.promise("RS-24")
async def test_when_consent_cannot_be_looked_up_the_edge_stays(harness: Harness) -> None:
    edge_id = await constitutive(harness)
    await approved(harness, edge_id, Sector.EPISODIC)
    before = harness.everything()
    harness.rows("revoke select on approvals from engramq_worker")
    with refused(FaultCode.INTERNAL) as faults:
        await harness.body(reclassified("episodic"))
    assert "approvals" not in faults[0].error
    assert harness.everything() == before
    harness.rows("grant select on approvals to engramq_worker")
    assert (await harness.body(reclassified("episodic")))["status"] == "success"


@pytest.mark.promise("RS-22")
async def test_a_proposal_lasts_48_hours_and_is_listed_with_who_approves(harness: Harness) -> None:
    edge_id = await constitutive(harness)
    body = await harness.body(reclassified("episodic", reason="it happened"))
    proposal = body["proposal_id"]
    for _ in range(2):
        own = await decided(harness, proposal, by=ADA)
        assert (own["approvals"], own["hint"].startswith("You had approved it before")) == (1, True)
    span = harness.row("select expires_at - created_at as span from proposals")["span"]
    assert span.total_seconds() == 48 * 3600
    assert "hint" not in await decided(harness, proposal)
    assert "nothing is lacking" in (await decided(harness, proposal))["hint"]
    (listed,) = (await harness.body(ListProposals()))["proposals"]
    assert listed.pop("created_at") < listed["expires_at"]
    edge = listed["edge"]
    assert listed == {
        "proposal_id": proposal,
        "action": "reclassify",
        "edge_id": edge_id,
        "node_id": None,
        "new_sector": "episodic",
        "state": "approved",
        "proposed_by": "ada",
        "reason": "it happened",
        "approvals": 2,
        "approved_by": ["ada", "bob"],
        "expires_at": body["expires_at"],
        "effect": "Give the edge Ada (Entity) --KNOWS--> Bob (Entity) the sector episodic; now it is semantic.",
        "edge": edge,
        "node": None,
        "change": None,
    }
    assert [edge[end]["name"] for end in ("source", "target")] == ["Ada", "Bob"]
    assert [edge[name] for name in ("edge_id", "relation", "weight", "memory_sector", "properties")] == [
        edge_id,
        "KNOWS",
        1.0,
        "semantic",
        FLAG,
    ]
    asked_for, *_, answered = harness.audit(edge_id)
    assert (asked_for["actor"], asked_for["action"], asked_for["reason"]) == ("ada", "propose", "it happened")
    assert (answered["actor"], answered["action"], answered["new"]["state"]) == ("bob", "decide", "approved")


@pytest.mark.promise("RS-20")
async def test_proposals_are_listed_by_state(harness: Harness) -> None:
    made = {}
    for state in ProposalState:
        made[state] = await proposed(harness, await constitutive(harness, FLAG, "Ada", state), Sector.EPISODIC)
    await decided(harness, made[ProposalState.REJECTED], Decision.REJECT)
    harness.rows("update proposals set expires_at = now() where id = %s returning id", made[ProposalState.EXPIRED])
    await decided(harness, made[ProposalState.USED])
    assert (await harness.body(reclassified("episodic", "Ada", ProposalState.USED)))["status"] == "success"
    await decided(harness, made[ProposalState.APPROVED])
    for state, proposal in made.items():
        listed = (await harness.body(ListProposals(state=state)))["proposals"]
        assert [(item["proposal_id"], item["state"]) for item in listed] == [(proposal, state)]
    newest_first = [item["proposal_id"] for item in (await harness.body(ListProposals()))["proposals"]]
    assert newest_first == list(made.values())[::-1]
    assert (await harness.body(ListProposals(), namespace="elsewhere"))["proposals"] == []


async def test_a_proposal_needs_an_edge_and_a_sector_and_a_decision_needs_a_proposal(harness: Harness) -> None:
    edge_id = await constitutive(harness)
    wrong = await harness.body(reclassified("Episodic"))
    assert wrong["status"] == "invalid_sector"
    assert wrong["error"].startswith("Invalid sector: 'Episodic'. Must be one of: emotional, ")
    for unknown in (UNKNOWN_ID, "nonsense"):
        body = await harness.body(reclassified("episodic", edge_id=unknown))
        assert (body["status"], body["what"]) == ("not_found", Thing.EDGE)
        assert (await decided(harness, unknown)) == NO_PROPOSAL
    assert harness.rows("select * from proposals") == []
    proposal = await proposed(harness, edge_id, Sector.EPISODIC)
    foreign = DecideProposal(proposal_id=proposal, decision=Decision.APPROVE)
    assert (await harness.body(foreign, namespace="elsewhere", by=BOB)) == NO_PROPOSAL


@pytest.mark.promise("TP-29")
async def test_what_was_seen_is_what_is_decided(harness: Harness) -> None:
    edge_id = await constitutive(harness)
    proposal_id = await proposed(harness, edge_id, Sector.EPISODIC)

    async def seen() -> str:
        listed = await harness.do(ListProposals(), by=BOB)
        assert isinstance(listed, ProposalList)
        return digest_of(listed.proposals[0])

    before = await seen()
    for number in range(9):  # of 256 changes one leaves the byte as it was that a digest has of each field
        given = Jsonb({"a": number})
        harness.rows("update edges set weight = .25, properties = properties || %s where id = %s", given, edge_id)
        if (await seen())[2 * WHOLE_BYTES :] != before[2 * WHOLE_BYTES :]:
            break
    for decision in Decision:
        command = DecideProposal(proposal_id=proposal_id, decision=decision, seen=before)
        everything = harness.everything()
        with refused(FaultCode.CONFLICT) as faults:
            await harness.do(command, by=BOB)
        assert faults[0].changed == ["edge"]
        assert (faults[0].digest, harness.everything()) == (await seen(), everything)
        assert "Give the edge Ada" in str(faults[0].now)
    await proposed(harness, edge_id, Sector.EPISODIC, by=CAY)  # who has approved is no part of what is judged
    command = DecideProposal(proposal_id=proposal_id, decision=Decision.APPROVE, seen=await seen())
    assert (await harness.body(command, by=BOB))["state"] == "approved"
    assert (await decided(harness, proposal_id, Decision.REJECT))["state"] == "rejected", "without seen as before"


@pytest.mark.promise("GE-23")
@BOTH_SPELLINGS
async def test_deleting_a_constitutive_edge_is_a_proposal_first(harness: Harness, mark: dict[str, Any]) -> None:
    edge_id = await constitutive(harness, mark)
    first = await harness.body(DeleteEdge(edge_id=edge_id, reason="moved on"))
    assert (first["status"], first["edge_ids"]) == ("consent_required", [edge_id])
    assert first["proposal_id"] in first["hint"]
    for principal, names in ((ADA, ["ada"]), (BOB, ["ada", "bob"])):  # who asks for the same joins
        again = await harness.body(DeleteEdge(edge_id=edge_id), by=principal)
        assert (again["status"], again["proposal_id"]) == ("consent_required", first["proposal_id"])
        assert again["approved_by"] == names
    assert (await harness.body(asked()))["status"] == "success"

    done = await harness.body(DeleteEdge(edge_id=edge_id, reason="moved on"))

    assert (done["status"], done["edge_id"]) == ("deleted", edge_id)
    assert (await harness.body(asked()))["edge"] is None
    last = harness.audit(edge_id)[-1]
    assert (last["action"], last["reason"], last["new"]) == (
        "delete_edge",
        "moved on",
        {"proposal_id": first["proposal_id"]},
    )


@pytest.mark.promise("GE-23")
async def test_consent_to_reclassify_is_none_to_delete_nor_the_other_way(harness: Harness) -> None:
    edge_id = await constitutive(harness)
    await approved(harness, edge_id, Sector.EPISODIC)
    deletion = await harness.body(DeleteEdge(edge_id=edge_id))
    assert deletion["status"] == "consent_required"
    await decided(harness, deletion["proposal_id"])
    assert (await harness.body(reclassified("procedural")))["status"] == "consent_required"
    assert (await harness.body(DeleteEdge(edge_id=edge_id)))["status"] == "deleted"


@pytest.mark.promise("GE-23", "GE-12", "OV-1")
async def test_a_node_takes_a_constitutive_edge_along_only_with_consent(harness: Harness) -> None:
    edge_id = await constitutive(harness)
    await harness.body(fact("Cay", "KNOWS", "Bob"))
    node_id = (await harness.body(AddNode(name="Bob")))["node_id"]
    first = await harness.body(DeleteNode(node_id=node_id))
    assert (first["status"], first["edge_ids"]) == ("consent_required", [edge_id])
    (listed,) = (await harness.body(ListProposals()))["proposals"]
    assert (listed["action"], listed["node_id"], listed["edge_id"]) == ("delete", node_id, None)
    assert listed["node"] == {"node_id": node_id, "label": "Entity", "name": "Bob", "edge_count": 2}
    assert listed["effect"] == (
        "Delete the node Bob (Entity) and its 2 edges, constitutive among them: Ada (Entity) --KNOWS--> Bob (Entity)."
    )
    await decided(harness, first["proposal_id"])
    later = await constitutive(harness, FLAG, "Bob", "IS", "Dan")  # nobody has consented to losing this one

    second = await harness.body(DeleteNode(node_id=node_id))

    assert second["status"] == "consent_required"
    assert sorted(second["edge_ids"]) == sorted([edge_id, later])
    await decided(harness, second["proposal_id"])
    done = await harness.body(DeleteNode(node_id=node_id))
    assert (done["status"], done["node_id"], done["edges_deleted"]) == ("deleted", node_id, 3)
    assert harness.rows("select * from edges") == []


@pytest.mark.promise("GE-23")
async def test_an_untrusted_principal_writes_nothing_here(harness: Harness) -> None:
    edge_id = await constitutive(harness)
    proposal = await proposed(harness, edge_id, Sector.EPISODIC)
    mallory = type(ADA)(name="mallory", scopes=ADA.scopes, untrusted=True)
    before = harness.everything()
    for command in (
        fact("Mallory", "OWNS", "Bob"),
        AddNode(name="Mallory"),
        DeleteEdge(edge_id=edge_id),
        reclassified("episodic"),
        DecideProposal(proposal_id=proposal, decision=Decision.APPROVE),
    ):
        with refused(FaultCode.FORBIDDEN):
            await harness.do(command, by=mallory)
    assert harness.everything() == before


@pytest.mark.promise("OV-2")
async def test_a_repeated_proposal_joins_the_open_one(harness: Harness) -> None:
    edge_id = await constitutive(harness)
    asking = reclassified("episodic")
    first = await harness.body(asking)
    assert first["approved_by"] == ["ada"]
    assert (await harness.body(asking))["proposal_id"] == first["proposal_id"]
    assert len(harness.rows("select * from proposals")) == len(harness.audit(edge_id)) == 1
    other = await harness.body(reclassified("reflective"), by=BOB)
    assert other["proposal_id"] != first["proposal_id"]

    joined = await harness.body(asking, by=BOB)

    assert joined["proposal_id"] == first["proposal_id"]
    assert joined["approved_by"] == ["ada", "bob"]
    last = harness.audit(edge_id)[-1]
    assert (last["actor"], last["action"], last["new"]["state"]) == ("bob", "decide", "approved")
    assert (await harness.body(asking, by=CAY))["status"] == "success"
    assert (await harness.body(asking))["proposal_id"] != first["proposal_id"]


@pytest.mark.promise("OV-2")
async def test_eight_who_propose_at_once_make_one_proposal(harness: Harness) -> None:
    await constitutive(harness)
    asking = reclassified("episodic")
    people = [type(CAY)(name=name, scopes=CAY.scopes) for name in ("cay", "dan", "eve", "fay")]  # none may verify
    bodies = await asyncio.gather(*(harness.body(asking, by=principal) for principal in people * 2))
    assert len({body["proposal_id"] for body in bodies}) == 1
    assert len(harness.rows("select * from proposals")) == 1


@pytest.mark.promise("OV-1")
async def test_a_proposal_about_what_is_gone_says_so(harness: Harness) -> None:
    deletion = await harness.body(DeleteEdge(edge_id=await constitutive(harness)))
    await decided(harness, deletion["proposal_id"])
    (listed,) = (await harness.body(ListProposals()))["proposals"]
    assert listed["effect"] == "Delete the edge Ada (Entity) --KNOWS--> Bob (Entity)."
    assert (await harness.body(DeleteEdge(edge_id=listed["edge_id"])))["status"] == "deleted"
    (listed,) = (await harness.body(ListProposals()))["proposals"]
    assert (listed["edge"], listed["effect"]) == (None, "Nothing: the edge is gone.")


@pytest.mark.promise("OV-4")
async def test_a_flag_that_is_neither_true_nor_false_is_refused(harness: Harness) -> None:
    await harness.body(fact())
    before = harness.everything()
    flags: tuple[Any, ...] = ("true", 1, 0, None, [], {}, "false")
    for flag in flags:
        with refused(FaultCode.INVALID_PARAMETER) as faults:
            await harness.body(fact(properties={"is_constitutive": flag}))
        assert faults[0].field == "properties"
    assert harness.everything() == before
