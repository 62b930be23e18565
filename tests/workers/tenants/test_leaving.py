"""A principal that leaves: what is private to it is handed over or erased, and nobody reads it on the way (PV-4)."""

from typing import Any

import pytest

from engramq.schemas.commands import (
    Decided,
    DecideProposal,
    ForgetMemory,
    Forgotten,
    GetMemory,
    ListProposals,
    MemoryFound,
    ProposalList,
    Purged,
    PurgeMemories,
)
from engramq.schemas.envelope import Principal
from engramq.schemas.evidence import Citation
from engramq.schemas.limits import NAME_CHARS
from engramq.schemas.records import Proposal
from engramq.schemas.vocabulary import ALL_SCOPES, DEFAULT_NAMESPACE, Decision, ProposalState, Scope, Visibility
from engramq.workers.db.privacy import change_privacy
from engramq.workers.db.viewers import EVERYTHING
from engramq.workers.tenants.handlers import count_owned, hand_over
from tests.workers.conftest import World

ADA = Principal(name="ada", scopes=(Scope.READ, Scope.WRITE))
BOB = Principal(name="bob", scopes=(Scope.READ, Scope.WRITE))
ROOT = Principal(name="root", scopes=ALL_SCOPES)


async def kept(world: World, who: Principal, content: str, **fields: Any) -> str:
    stored = await world.keep(content, principal=who, visibility=Visibility.PRIVATE, **fields)
    return stored.stored.id


async def proposals(world: World, who: Principal) -> list[Proposal]:
    return (await world.ask(ProposalList, ListProposals(), principal=who)).proposals


async def found(world: World, who: Principal, memory_id: str) -> bool:
    reply = await world.ask(MemoryFound, GetMemory(memory_id=memory_id, include_untrusted=True), principal=who)
    return reply.memory is not None


@pytest.mark.promise("PV-4")
async def test_the_heir_sees_what_was_private_and_nobody_else(world: World) -> None:
    theirs = await kept(world, BOB, "The reed hides the pond", external_id="pond")
    private = await kept(world, ADA, "The heron nests by the pond", external_id="pond")
    whole = world.store.seen_by(EVERYTHING)
    assert await whole.read(DEFAULT_NAMESPACE, lambda tx: count_owned(tx, ADA.identity)) == 1
    count = await whole.write(DEFAULT_NAMESPACE, lambda tx: hand_over(tx, ADA.identity, BOB.identity, "root"))
    assert count == 1
    assert [await found(world, who, private) for who in (ADA, BOB, ROOT)] == [False, True, False]
    assert await found(world, BOB, theirs)
    (entry,) = world.rows("select actor, action, old, new from audit_log")
    assert (entry["actor"], entry["action"], entry["new"]["principal"]) == ("root", "hand_over", "bob")


@pytest.mark.promise("PV-4", "PV-2")
async def test_a_hand_over_ends_what_was_proposed_to_share(world: World) -> None:
    await world.store.write(DEFAULT_NAMESPACE, lambda tx: change_privacy(tx, consent=True))
    approved, pending = (
        await kept(world, ADA, "The heron nests by the pond"),
        await kept(world, ADA, "The reed is tall"),
    )
    for memory_id in (approved, pending):
        await world.share(memory_id, ADA, reason="secret reason")
    decision = DecideProposal(proposal_id=(await proposals(world, ROOT))[-1].proposal_id, decision=Decision.APPROVE)
    await world.ask(Decided, decision, principal=ROOT)
    whole = world.store.seen_by(EVERYTHING)
    await whole.write(DEFAULT_NAMESPACE, lambda tx: hand_over(tx, ADA.identity, BOB.identity, "root"))
    for who in (ADA, ROOT):
        told = await proposals(world, who)
        assert {proposal.state for proposal in told} == {ProposalState.REJECTED}
        assert "heron" not in str(told)
        assert "secret" not in str(told)
    for memory_id in (approved, pending):
        asked = await world.share(memory_id, BOB)
        assert asked.status == "consent_required"
    (entry,) = world.rows("select new from audit_log where action = 'hand_over'")
    assert (entry["new"]["memories"], entry["new"]["proposals"]) == (2, 2)


@pytest.mark.promise("PV-4")
async def test_handed_over_to_oneself_everything_is_as_it_was(world: World) -> None:
    private = await kept(world, ADA, "The heron nests by the pond", external_id="pond")
    everything = world.store.seen_by(EVERYTHING)
    await everything.write(DEFAULT_NAMESPACE, lambda tx: hand_over(tx, ADA.identity, ADA.identity, "root"))
    assert world.rows("select id::text as id, external_id, owner from nodes") == [
        {"id": private, "external_id": "pond", "owner": "ada"}
    ]


@pytest.mark.promise("PV-4")
async def test_a_purge_erases_what_is_private_and_shows_it_to_nobody(world: World) -> None:
    private = await kept(world, ADA, "The heron nests by the pond", project="divorce")
    shared = (await world.keep("The pond is deep", principal=ADA)).stored.id
    listed = await world.ask(Purged, PurgeMemories(created_by="ada", private=True), principal=ROOT)
    assert (listed.matched, listed.memory_ids, listed.by_project) == (1, [], {})
    purged = await world.ask(Purged, PurgeMemories(created_by="ada", private=True, erase=True), principal=ROOT)
    assert purged.erased == 1
    assert not await found(world, ADA, private)
    assert await found(world, ADA, shared)


@pytest.mark.promise("PV-4")
async def test_what_hooks_captured_for_who_leaves_is_erased_too(world: World) -> None:
    hook = Principal(name="hooks/claude-code", scopes=(Scope.READ, Scope.WRITE), untrusted=True, acts_for="ada")
    captured = await kept(world, hook, "The heron nests by the pond")
    others = await kept(world, BOB, "The pond is deep")
    purged = await world.ask(Purged, PurgeMemories(created_by="ada", private=True, erase=True), principal=ROOT)
    assert purged.erased == 1
    assert not await found(world, ADA, captured)
    assert await found(world, BOB, others)


@pytest.mark.promise("PV-4")
async def test_the_heir_may_erase_what_was_handed_over(world: World) -> None:
    private = await kept(world, ADA, "The heron nests by the pond")
    everything = world.store.seen_by(EVERYTHING)
    await everything.write(DEFAULT_NAMESPACE, lambda tx: hand_over(tx, ADA.identity, BOB.identity, "root"))
    erased = await world.ask(Forgotten, ForgetMemory(memory_id=private, erase=True), principal=BOB)
    assert erased.status == "erased"
    assert world.count("memories") == 0


@pytest.mark.promise("PV-4")
async def test_what_hooks_captured_for_somebody_they_may_erase(world: World) -> None:
    hook = Principal(name="hooks/claude-code", scopes=(Scope.READ, Scope.WRITE), untrusted=True, acts_for="ada")
    captured = await kept(world, hook, "The heron nests by the pond")
    erased = await world.ask(Forgotten, ForgetMemory(memory_id=captured, erase=True), principal=ADA)
    assert erased.status == "erased"


@pytest.mark.promise("PV-4")
async def test_what_others_keep_private_stays_though_it_rests_on_what_goes(world: World) -> None:
    ground = (await world.keep("The pond is deep", principal=ADA)).stored.id
    cites = (Citation(memory_id=ground),)
    private = await kept(world, BOB, "Nobody swims there", evidence=cites)
    await world.keep("Nobody fishes there", principal=BOB, evidence=cites, visibility=Visibility.SHARED)
    listed = await world.ask(Purged, PurgeMemories(created_by="ada", with_resting=True), principal=ROOT)
    assert (listed.matched, listed.still_resting_count) == (1, 1)
    purge = PurgeMemories(created_by="ada", with_resting=True, erase=True)
    purged = await world.ask(Purged, purge, principal=ROOT)
    assert (purged.erased, await found(world, BOB, private)) == (2, True)


@pytest.mark.promise("PV-4")
async def test_no_name_of_a_principal_is_beyond_what_is_erased(world: World) -> None:
    last = Principal(name="\U0010ffff" * NAME_CHARS, scopes=(Scope.READ, Scope.WRITE))
    private = await kept(world, last, "The heron nests by the pond")
    erased = await world.ask(Purged, PurgeMemories(created_by=last.name, erase=True), principal=ROOT)
    assert (erased.erased, await found(world, last, private)) == (1, False)


@pytest.mark.promise("PV-5")
@pytest.mark.parametrize("of_memories", [{"thread": "divorce"}, {"project": "home"}, {"source_type": "blog"}])
async def test_a_purge_by_what_is_in_a_memory_counts_nothing_of_others(
    world: World, of_memories: dict[str, Any]
) -> None:
    private = await kept(world, ADA, "Ada has a lawyer", **of_memories)
    listed = await world.ask(Purged, PurgeMemories(created_by="ada", **of_memories), principal=ROOT)
    erased = await world.ask(Purged, PurgeMemories(created_by="ada", **of_memories, erase=True), principal=ROOT)
    assert (listed.matched, erased.erased) == (0, 0)
    assert await found(world, ADA, private)
