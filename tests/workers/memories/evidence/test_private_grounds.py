"""Private memories and evidence: nobody cites, or is told of, what they do not see."""

from typing import Any

import pytest
from msgspec import UNSET

from engramq.schemas.commands import (
    ForgetMemory,
    Forgotten,
    GetMemory,
    ListRecentMemories,
    MemoryChanged,
    MemoryFound,
    MemoryList,
    Purged,
    PurgeMemories,
    Unshared,
    UnshareMemory,
    UpdateMemory,
)
from engramq.schemas.envelope import Principal
from engramq.schemas.evidence import Citation
from engramq.schemas.faults import Fault, FaultCode
from engramq.schemas.ids import uuid7
from engramq.schemas.vocabulary import ALL_SCOPES, EvidenceFilter, Scope, Visibility
from tests.assignments import assignment
from tests.refusals import refused
from tests.workers.conftest import World

pytestmark = pytest.mark.promise("EV-3", "PV-1")

ADA = Principal(name="ada", scopes=(Scope.READ, Scope.WRITE))
BOB = Principal(name="bob", scopes=(Scope.READ, Scope.WRITE))
ROOT = Principal(name="root", scopes=ALL_SCOPES)


def on(memory_id: str) -> tuple[Citation, ...]:
    return (Citation(memory_id=memory_id),)


async def kept(world: World, content: str, who: Principal, ground: str = "", **fields: Any) -> str:
    """Store a memory, on this ground if there is one, and return its id."""
    evidence = on(ground) if ground else UNSET
    return str((await world.keep(content, principal=who, evidence=evidence, **fields)).stored.id)


async def refusal(world: World, command: Any) -> Fault:
    with refused(FaultCode.INVALID_PARAMETER) as faults:
        await world.complete(assignment(command, principal=BOB))
    return faults[0]


async def test_a_private_memory_of_another_is_refused_as_one_that_is_not_there(world: World) -> None:
    private = await kept(world, "Ada looks for another job", ADA, visibility=Visibility.PRIVATE)
    own = await kept(world, "Bob bakes bread", BOB)
    faults = [
        await refusal(world, UpdateMemory(memory_id=own, evidence=on(memory_id))) for memory_id in (private, uuid7())
    ]
    assert (faults[0].error, faults[0].recovery) == (faults[1].error, faults[1].recovery)
    await world.ask(MemoryChanged, UpdateMemory(memory_id=own, evidence=on(own)), principal=BOB)


async def test_what_rests_on_a_memory_in_private_is_shown_to_its_owner_alone(world: World) -> None:
    ground = await kept(world, "The oven was bought in 2019", BOB)
    private = await kept(world, "So Ada sells it", ADA, ground, visibility=Visibility.PRIVATE)
    shared = await kept(world, "Its guarantee ended in 2021", ADA, ground)
    listed = await world.ask(Purged, PurgeMemories(created_by="bob"), principal=ROOT)
    assert [each.id for each in listed.still_resting_on or ()] == [shared]
    assert listed.still_resting_count == 1
    reply = await world.ask(Forgotten, ForgetMemory(memory_id=ground), principal=BOB)
    assert [each.id for each in reply.still_resting_on or ()] == [shared]
    assert reply.still_resting_count == 1
    both = ListRecentMemories(evidence=EvidenceFilter.STALE)
    for who, seen in ((BOB, {shared}), (ADA, {shared, private})):
        stale = (await world.ask(MemoryList, both, principal=who)).memories
        assert {memory.id for memory in stale} == seen
    done = await world.ask(Purged, PurgeMemories(created_by="bob", erase=True), principal=ROOT)
    assert [each.id for each in done.still_resting_on or ()] == [shared]
    assert done.still_resting_count == 1


async def test_a_ground_that_somebody_keeps_private_reads_to_others_as_one_that_has_gone(world: World) -> None:
    private = await kept(world, "Ada looks for another job", ADA, visibility=Visibility.PRIVATE)
    shared = await kept(world, "Ada is busy on Mondays", ADA, private)
    states = {}
    for who in (ADA, BOB):
        memory = (await world.ask(MemoryFound, GetMemory(memory_id=shared), principal=who)).memory
        assert memory is not None
        states[who.name] = [citation["state"] for citation in memory.evidence]
    assert states == {"ada": ["fresh"], "bob": ["gone"]}


async def test_what_others_cite_is_not_made_private_again(world: World) -> None:
    ground = await kept(world, "The oven was bought in 2019", ADA)
    own = await kept(world, "Ada saves for repairs", ADA, ground)
    resting = await kept(world, "Its guarantee ended in 2021", BOB, ground)
    reply = await world.ask(Unshared, UnshareMemory(memory_id=ground), principal=ADA)
    assert (reply.status, reply.built_on) == ("refused", [resting])
    reply = await world.ask(Unshared, UnshareMemory(memory_id=own), principal=ADA)
    assert reply.status == "private"
