"""Short ways to say facts, questions and decisions."""

from typing import Any

from engramq.schemas.commands import AddEdge, DecideProposal, GetEdge, ReclassifySector
from engramq.schemas.envelope import Principal
from engramq.schemas.vocabulary import Decision, Sector
from tests.workers.graph.harness import ADA, BOB, Harness

NOWHERE = {"edge": None, "status": "not_found"}
OPEN = {"valid_from": None, "valid_until": None}
UNKNOWN_ID = "0190b6a1-8c1e-7d2a-9f00-3c5b7e9d1a42"


def fact(source: str = "Ada", relation: str = "KNOWS", target: str = "Bob", **more: Any) -> AddEdge:
    return AddEdge(source_name=source, target_name=target, relation=relation, **more)


def asked(source: str = "Ada", relation: str = "KNOWS", target: str = "Bob", **more: Any) -> GetEdge:
    return GetEdge(source_name=source, target_name=target, relation=relation, **more)


def reclassified(sector: str, source: str = "Ada", relation: str = "KNOWS", target: str = "Bob", **more: Any) -> Any:
    return ReclassifySector(source_name=source, target_name=target, relation=relation, new_sector=sector, **more)


async def homonyms(harness: Harness) -> list[str]:
    """Write Ada --KNOWS--> Bob for two Adas of different labels; return the ids of both edges, oldest first."""
    return [
        (await harness.body(fact(source_label=label, target_label="Person")))["edge_id"] for label in ("Person", "Ship")
    ]


async def proposed(harness: Harness, edge_id: str, sector: Sector, *, by: Principal = ADA) -> str:
    """Propose a reclassification and return the proposal's id."""
    triple = harness.row(
        "select s.name as source, e.relation, t.name as target from edges e join nodes s on s.id = e.source_id "
        "join nodes t on t.id = e.target_id where e.id = %s",
        edge_id,
    )
    body = await harness.body(reclassified(sector, **triple, edge_id=edge_id), by=by)
    assert body["status"] == "consent_required"
    return str(body["proposal_id"])


async def decided(
    harness: Harness, proposal_id: str, decision: Decision = Decision.APPROVE, *, by: Principal = BOB
) -> dict[str, Any]:
    return await harness.body(DecideProposal(proposal_id=proposal_id, decision=decision), by=by)


async def approved(harness: Harness, edge_id: str, sector: Sector) -> str:
    """Have two principals approve a reclassification and return the proposal's id."""
    proposal_id = await proposed(harness, edge_id, sector)
    assert (await decided(harness, proposal_id))["state"] == "approved"
    return proposal_id
