"""Private memories are shared by their owner, audited, and taken back as long as nobody has built on them (PV-2)."""

import asyncio
from typing import Any
from uuid import UUID

import pytest
from msgspec import UNSET

from engramq.gateway.mcp.audience import audience_of, choose_tools, reword_for
from engramq.schemas.commands import (
    Activated,
    AuditList,
    Connect,
    Connected,
    Decided,
    DecideProposal,
    ForgetMemory,
    Forgotten,
    GetMemory,
    ImportMemories,
    ImportRow,
    LinkActivated,
    ListAudit,
    ListProposals,
    ListRecentMemories,
    MemoriesImported,
    MemoryChanged,
    MemoryFound,
    MemoryList,
    ProposalList,
    SearchMemories,
    Shared,
    ShareMemory,
    Stored,
    StoreMemory,
    Superseded,
    SupersedeMemory,
    Unshared,
    UnshareMemory,
    UpdateMemory,
)
from engramq.schemas.digests import digest_of
from engramq.schemas.envelope import Principal
from engramq.schemas.evidence import Citation
from engramq.schemas.faults import FaultCode
from engramq.schemas.ids import uuid7
from engramq.schemas.records import Proposal
from engramq.schemas.vocabulary import (
    ALL_SCOPES,
    DEFAULT_NAMESPACE,
    AuditAction,
    Decision,
    OnDuplicate,
    ProposalState,
    Scope,
    Visibility,
)
from engramq.workers.db.memory_rows import lock
from engramq.workers.db.privacy import change_privacy
from engramq.workers.db.viewers import EVERYTHING
from engramq.workers.links.similarity import SimilarityLinker
from tests.assignments import assignment
from tests.refusals import refused
from tests.running import opened
from tests.scenarios.stage import until
from tests.workers.conftest import World

ADA = Principal(name="ada", scopes=(Scope.READ, Scope.WRITE))
BOB = Principal(name="bob", scopes=(Scope.READ, Scope.WRITE))
ROOT = Principal(name="root", scopes=ALL_SCOPES)
ADA_AS_ADMIN = Principal(name="ada", scopes=ALL_SCOPES)
JUDGE = Principal(name="judge", scopes=(Scope.READ, Scope.WRITE, Scope.VERIFY))
SHADE = Principal(name="ada", scopes=ALL_SCOPES, untrusted=True)


async def kept(world: World, content: str, who: Principal = ADA, **fields: Any) -> str:
    """Store a private memory and return its id."""
    stored = (await world.keep(content, principal=who, visibility=Visibility.PRIVATE, **fields)).stored
    assert stored.visibility is Visibility.PRIVATE
    return stored.id


async def sees(world: World, who: Principal, memory_id: str) -> bool:
    """Say whether somebody finds a memory by its id, and by a search for all there is."""
    found = await world.ask(MemoryFound, GetMemory(memory_id=memory_id), principal=who)
    hits = await world.ask(MemoryList, SearchMemories(query="heron pond reed", limit=50), principal=who)
    by_search = memory_id in {memory.id for memory in hits.memories}
    assert (found.memory is not None) is by_search
    return by_search


async def shown(world: World, who: Principal, memory_id: str, visibility: Visibility, **more: Any) -> Any:
    """Share a memory or make it private; return what the reply says of that."""
    if visibility is Visibility.SHARED and "seen" not in more:
        look = GetMemory(memory_id=memory_id, include_untrusted=True)
        found = await world.ask(MemoryFound, look, principal=who)
        assert found.memory is not None
        more["seen"] = digest_of(found.memory)
    command = UpdateMemory(memory_id=memory_id, visibility=visibility, **more)
    changed = await world.ask(MemoryChanged, command, principal=who)
    assert changed.memory is not None
    return changed.memory.visibility


async def connected(world: World, who: Principal, source: str, target: str) -> Connected:
    return await world.ask(Connected, Connect(source=source, target=target), principal=who)


async def links(world: World, who: Principal, memory_id: str) -> set[str]:
    found = await world.ask(MemoryFound, GetMemory(memory_id=memory_id), principal=who)
    return {link.memory_id for link in (found.links or ())}


@pytest.mark.promise("PV-1", "PV-2")
async def test_what_is_shared_is_seen_by_everybody_and_audited(world: World) -> None:
    private = await kept(world, "The heron nests by the pond")
    assert [await sees(world, who, private) for who in (ADA, BOB, ROOT, SHADE)] == [True, False, False, False]
    assert await shown(world, ADA, private, Visibility.SHARED) is Visibility.SHARED
    assert [await sees(world, who, private) for who in (ADA, BOB, ROOT)] == [True, True, True]
    entries = (await world.ask(AuditList, ListAudit(target=private), principal=ROOT)).entries
    assert [(entry.action, entry.actor) for entry in entries] == [(AuditAction.SHARE, "ada")]
    assert await shown(world, ADA, private, Visibility.PRIVATE) is Visibility.PRIVATE
    assert [await sees(world, who, private) for who in (ADA, BOB, ROOT)] == [True, False, False]


@pytest.mark.promise("PV-2")
async def test_a_tool_shares_with_a_reason_and_takes_it_back(world: World) -> None:
    private = await kept(world, "The heron nests by the pond")
    for memory_id in (private, uuid7()):
        missed = await world.ask(Shared, ShareMemory(memory_id=memory_id), principal=BOB)
        assert (missed.status, missed.memory_id) == ("not_found", memory_id)
    with refused(FaultCode.CONFLICT):
        await world.ask(Shared, ShareMemory(memory_id=private, seen="00" * 40), principal=ADA)
    for _ in range(2):  # the second time nothing changes
        shared = await world.share(private, ADA, reason="Bob asked")
        assert shared.status == "shared"
    assert await sees(world, BOB, private)
    with refused(FaultCode.FORBIDDEN):
        await world.ask(Unshared, UnshareMemory(memory_id=private), principal=BOB)
    for _ in range(2):
        assert (await world.ask(Unshared, UnshareMemory(memory_id=private), principal=ADA)).status == "private"
    assert not await sees(world, BOB, private)
    entries = (await world.ask(AuditList, ListAudit(), principal=ADA_AS_ADMIN)).entries
    told = [(entry.action, entry.reason) for entry in entries if entry.target_id == private]
    assert told == [(AuditAction.UNSHARE, None), (AuditAction.SHARE, "Bob asked")]


@pytest.mark.promise("PV-2")
async def test_what_others_built_on_is_named_instead_of_hidden(world: World) -> None:
    mine = (await world.keep("The heron nests by the pond", principal=ADA)).stored.id
    theirs = (await world.keep("The reed hides the pond", principal=BOB)).stored.id
    await connected(world, BOB, theirs, mine)
    kept_shared = await world.ask(Unshared, UnshareMemory(memory_id=mine), principal=ADA)
    assert (kept_shared.status, kept_shared.built_on) == ("refused", [theirs])
    assert await sees(world, BOB, mine)


@pytest.mark.promise("PV-2")
async def test_a_verdict_on_another_text_than_was_seen_shares_nothing(world: World) -> None:
    private = await kept(world, "The heron nests by the pond")
    with refused(FaultCode.CONFLICT):
        await shown(world, ADA, private, Visibility.SHARED, seen="00" * 40)
    assert not await sees(world, BOB, private)


@pytest.mark.promise("PV-2")
async def test_what_somebody_has_built_on_stays_shared(world: World) -> None:
    mine = (await world.keep("The heron nests by the pond", principal=ADA)).stored.id
    theirs = (await world.keep("The reed hides the pond", principal=BOB)).stored.id
    await connected(world, BOB, theirs, mine)
    with refused(FaultCode.FORBIDDEN) as faults:
        await shown(world, ADA, mine, Visibility.PRIVATE)
    assert theirs in faults[0].error
    in_private = await kept(world, "A reed grows in the pond", BOB)
    other = (await world.keep("The heron eats frogs of the pond", principal=ADA)).stored.id
    await connected(world, BOB, in_private, other)
    with refused(FaultCode.FORBIDDEN) as faults:
        await shown(world, ADA, other, Visibility.PRIVATE)
    assert faults[0].error == "Others have built on it.", "what stands on it in private is not named"
    with refused(FaultCode.FORBIDDEN):
        await shown(world, BOB, other, Visibility.PRIVATE)


@pytest.mark.promise("PV-2")
async def test_what_the_untrusted_one_of_that_name_stored_is_not_the_trusted_ones(world: World) -> None:
    theirs = (await world.keep("The heron nests by the pond", principal=SHADE)).stored.id
    with refused(FaultCode.FORBIDDEN):
        await world.ask(Unshared, UnshareMemory(memory_id=theirs), principal=ADA)
    mine = await kept(world, "The reed hides the pond", source_type="research")
    for visibility in (Visibility.SHARED, Visibility.PRIVATE):  # untrusted too, but she shared it
        assert await shown(world, ADA, mine, visibility) is visibility


@pytest.mark.promise("PV-2")
async def test_what_a_hook_captured_for_somebody_is_theirs_to_share_and_to_take_back(world: World) -> None:
    hook = Principal(name="hooks/claude-code", scopes=(Scope.READ, Scope.WRITE), untrusted=True, acts_for="ada")
    captured = await kept(world, "The heron nests by the pond", who=hook)
    assert await shown(world, ADA, captured, Visibility.SHARED) is Visibility.SHARED
    with refused(FaultCode.FORBIDDEN):
        await shown(world, BOB, captured, Visibility.PRIVATE)
    assert await shown(world, ADA, captured, Visibility.PRIVATE) is Visibility.PRIVATE


@pytest.mark.promise("PV-1")
async def test_links_of_a_private_memory_are_private(world: World) -> None:
    mine, theirs = await kept(world, "The heron nests by the pond"), await kept(world, "A reed in the pond", BOB)
    shared = (await world.keep("The pond is deep", principal=BOB)).stored.id
    await connected(world, ADA, mine, shared)
    await connected(world, BOB, theirs, shared)
    assert await links(world, ADA, shared) == {mine}
    assert await links(world, BOB, shared) == {theirs}
    assert await links(world, ROOT, shared) == set()
    for who, own, other in ((ADA, mine, theirs), (BOB, theirs, mine)):
        with refused(FaultCode.MEMORY_NOT_ACTIVE) as faults:
            await world.complete(assignment(Connect(source=own, target=other), principal=who))
        assert "is not known" in faults[0].error
    await shown(world, ADA, mine, Visibility.SHARED)
    assert await links(world, ROOT, shared) == {mine}
    assert await links(world, BOB, shared) == {mine, theirs}


@pytest.mark.promise("PV-1")
async def test_nothing_private_replaces_what_everybody_sees(world: World) -> None:
    shared = (await world.keep("The pond is deep", principal=ADA)).stored.id
    private = await kept(world, "The pond is shallow")
    for old, new in ((shared, private), (private, shared)):
        with refused(FaultCode.FORBIDDEN):
            await world.complete(assignment(SupersedeMemory(old_memory_id=old, new_memory_id=new), principal=ADA))
    assert await sees(world, BOB, shared)


@pytest.mark.promise("PV-1")
async def test_an_external_id_tells_nothing_of_what_is_private(world: World) -> None:
    private = await kept(world, "The heron nests by the pond", external_id="nest-1")
    theirs = (await world.keep("A nest in the reed", principal=BOB, external_id="nest-1")).stored
    assert theirs.external_id == "nest-1"
    with refused(FaultCode.EXTERNAL_ID_TAKEN) as faults:
        await shown(world, ADA, private, Visibility.SHARED)
    assert faults[0].memory_id == theirs.id


@pytest.mark.promise("PV-1")
async def test_similar_memories_are_linked_to_nothing_that_others_keep_private(world: World) -> None:
    text = "The heron nests by the pond in the reed"
    mine, theirs = await kept(world, text), await kept(world, text, BOB)
    shared = (await world.keep(text, principal=ROOT)).stored
    assert (await world.keep(text, principal=ROOT)).similar_memories != []
    linker = world.services[SimilarityLinker]
    command = LinkActivated(memories=tuple(Activated(memory_id=each) for each in (mine, theirs, shared.id)))
    await world.complete(assignment(command))
    linker.schedule("default_user", command.memories)
    async with asyncio.timeout(20.0):
        await linker.link_scheduled()
    owners = world.rows(
        "select s.owner as source, t.owner as target, e.owner from edges e "
        "join nodes s on s.id = e.source_id join nodes t on t.id = e.target_id"
    )
    assert owners
    for row in owners:
        ends = {row["source"], row["target"]} - {None}
        assert len(ends) <= 1, "a link between what two principals keep private"
        assert row["owner"] == next(iter(ends), None)


async def configured(world: World, **how: Any) -> None:
    await world.store.write(DEFAULT_NAMESPACE, lambda tx: change_privacy(tx, **how))


async def proposals(world: World, who: Principal) -> list[Proposal]:
    return (await world.ask(ProposalList, ListProposals(), principal=who)).proposals


@pytest.mark.promise("PV-2")
async def test_where_the_namespace_asks_for_consent_somebody_else_gives_it_first(world: World) -> None:
    private = await kept(world, "The heron nests by the pond")
    await configured(world, consent=True)
    with refused(FaultCode.FORBIDDEN):
        await shown(world, ADA, private, Visibility.SHARED)
    for _ in range(2):  # asking again makes no second proposal, nor does it approve twice
        asked = await world.share(private, ADA)
        assert (asked.status, asked.approved_by) == ("consent_required", ["ada"])
        assert reword_for(str(asked.hint), audience_of(choose_tools("full"), ADA.scopes, untrusted=False)) == asked.hint
    assert not await sees(world, BOB, private)
    (proposal,) = await proposals(world, JUDGE)
    assert (proposal.memory_id, proposal.proposal_id) == (private, asked.proposal_id)
    assert proposal.effect == "Let everybody see this memory: The heron nests by the pond"
    assert [len(await proposals(world, who)) for who in (ADA, BOB, SHADE)] == [1, 0, 0]
    decision = DecideProposal(proposal_id=proposal.proposal_id, decision=Decision.APPROVE)
    decided = await world.ask(Decided, decision, principal=JUDGE)
    assert decided.state is ProposalState.APPROVED
    assert not await sees(world, JUDGE, private)
    done = await world.share(private, ADA)
    assert done.status == "shared"
    assert await sees(world, BOB, private)
    await world.ask(Unshared, UnshareMemory(memory_id=private), principal=ADA)
    again = await world.share(private, ADA)
    assert again.status == "consent_required", "consent is used once"


@pytest.mark.promise("PV-2")
async def test_what_somebody_rejected_stays_private(world: World) -> None:
    private = await kept(world, "The heron nests by the pond")
    await configured(world, consent=True)
    asked = await world.share(private, ADA)
    decision = DecideProposal(proposal_id=str(asked.proposal_id), decision=Decision.REJECT)
    await world.ask(Decided, decision, principal=JUDGE)
    assert (await world.share(private, ADA)).status == "consent_required"
    assert not await sees(world, JUDGE, private)


async def asked_and_approved(world: World, private: str, **verdict: Any) -> str:
    """Let the owner ask for consent to share a memory, and somebody give it; return the proposal's id."""
    asked = await world.share(private, ADA)
    decision = DecideProposal(proposal_id=str(asked.proposal_id), decision=Decision.APPROVE, **verdict)
    await world.ask(Decided, decision, principal=JUDGE)
    return str(asked.proposal_id)


async def exchanged(world: World, external_id: str, **fields: Any) -> None:
    """Let an import of the owner write the memory with this external id anew."""
    row = ImportRow(external_id=external_id, visibility=Visibility.PRIVATE, **fields)
    command = ImportMemories(records=(row,), on_duplicate=OnDuplicate.UPDATE)
    done = await world.ask(MemoriesImported, command, principal=ADA)
    assert done.updated == 1, done


CANTEEN = "The heron in the canteen closes at two"


@pytest.mark.promise("PV-2")
@pytest.mark.parametrize("change", [{"content": "Bob is a heron"}, {"content": CANTEEN, "metadata": {"x": 1}}])
async def test_consent_is_to_share_what_was_read_and_nothing_else(world: World, change: dict[str, Any]) -> None:
    private = await kept(world, CANTEEN, external_id="k1")
    await configured(world, consent=True)
    first = await asked_and_approved(world, private)
    await exchanged(world, "k1", **change)
    again = await world.share(private, ADA)
    assert (again.status, again.approved_by) == ("consent_required", ["ada"])
    assert again.proposal_id != first
    assert not await sees(world, BOB, private)


@pytest.mark.promise("PV-2")
async def test_no_verdict_is_on_a_memory_that_was_exchanged_under_it(world: World) -> None:
    private = await kept(world, CANTEEN, external_id="k1")
    await configured(world, consent=True)
    asked = await world.share(private, ADA)
    (read,) = await proposals(world, JUDGE)
    await exchanged(world, "k1", content="Bob is a heron")
    for seen in (digest_of(read), UNSET):
        decision = DecideProposal(proposal_id=str(asked.proposal_id), decision=Decision.APPROVE, seen=seen)
        with refused(FaultCode.CONFLICT):
            await world.ask(Decided, decision, principal=JUDGE)
    (now,) = await proposals(world, JUDGE)
    assert "heron" not in str(now)


@pytest.mark.promise("PV-2")
async def test_who_consents_reads_all_that_would_be_shared(world: World) -> None:
    content = "The heron nests by the pond. " * 100 + "The salary is 90000"
    fields: dict[str, Any] = {
        "tags": ("pay",),
        "metadata": {"to": "Bob"},
        "speaker": "Cay",
        "evidence": (Citation(url="https://a.b"),),
    }
    private = await kept(world, content, **fields)
    await configured(world, consent=True)
    await world.share(private, ADA)
    (proposal,) = await proposals(world, JUDGE)
    assert proposal.change is not None
    assert proposal.change.new == {
        "content": content,
        "tags": ["pay"],
        "metadata": {"to": "Bob"},
        "speaker": "Cay",
        "evidence": [{"url": "https://a.b"}],
        "confidence": 1.0,
        "source": "extracted",
    }


@pytest.mark.promise("PV-2")
@pytest.mark.parametrize("how", ["reject", "use", "take back", "archive"])
async def test_nobody_reads_in_a_proposal_what_nobody_asks_to_share_any_more(world: World, how: str) -> None:
    private = await kept(world, CANTEEN)
    await configured(world, consent=True)
    match how:
        case "reject":
            asked = await world.share(private, ADA, reason="canteen")
            assert "canteen" in str((await proposals(world, JUDGE))[0].reason)
            decision = DecideProposal(proposal_id=str(asked.proposal_id), decision=Decision.REJECT)
            await world.ask(Decided, decision, principal=JUDGE)
        case "use":
            await asked_and_approved(world, private)
            await world.share(private, ADA)
            await world.ask(Unshared, UnshareMemory(memory_id=private), principal=ADA)
        case "take back":
            await asked_and_approved(world, private)
            await world.ask(Unshared, UnshareMemory(memory_id=private), principal=ADA)
            again = await world.share(private, ADA)
            assert again.status == "consent_required"
            await world.ask(Unshared, UnshareMemory(memory_id=private), principal=ADA)
        case "archive":
            await world.share(private, ADA)
            await world.ask(Forgotten, ForgetMemory(memory_id=private), principal=ADA)
    assert "canteen" not in str(await proposals(world, JUDGE))


@pytest.mark.promise("PV-2")
async def test_what_has_the_external_id_of_a_private_memory_of_its_author_stays_shared(world: World) -> None:
    private = await kept(world, "The heron nests by the pond", external_id="k1")
    told = {"external_id": "k1", "visibility": Visibility.SHARED}
    shared = (await world.keep("The heron nests in the reed", principal=ADA, **told)).stored.id
    with refused(FaultCode.EXTERNAL_ID_TAKEN) as faults:
        await world.ask(Unshared, UnshareMemory(memory_id=shared), principal=ADA)
    assert faults[0].memory_id == private
    with refused(FaultCode.EXTERNAL_ID_TAKEN):
        await shown(world, ADA, shared, Visibility.PRIVATE)
    assert await sees(world, BOB, shared)


@pytest.mark.promise("PV-2")
async def test_who_cites_what_is_being_made_private_waits_and_is_refused(world: World) -> None:
    shared = UUID((await world.keep("The heron nests by the pond", principal=ADA)).stored.id)
    cites = (Citation(memory_id=str(shared)),)

    async def waits() -> bool:
        return citing.done() or bool(world.rows("select pid from pg_locks where not granted"))

    async with opened(world.store.seen_by(EVERYTHING), DEFAULT_NAMESPACE) as tx:
        await lock(tx, shared)
        store = StoreMemory(content="So do reeds", evidence=cites)
        citing = asyncio.create_task(world.ask(Stored, store, principal=BOB))
        await until(waits)
        await tx.row("unshare", id=shared, owner="ada")
    with refused(FaultCode.INVALID_PARAMETER):
        await citing


@pytest.mark.promise("PV-2")
async def test_no_untrusted_and_no_private_citation_keeps_a_memory_shared(world: World) -> None:
    web = Principal(name="web", scopes=(Scope.READ, Scope.WRITE), untrusted=True)
    mine = (await world.keep("The heron nests by the pond", principal=ADA)).stored.id
    cites = (Citation(memory_id=mine),)
    await world.ask(Stored, StoreMemory(content="So do reeds", evidence=cites), principal=web)
    hidden = StoreMemory(content="So do frogs", evidence=cites, visibility=Visibility.PRIVATE)
    await world.ask(Stored, hidden, principal=BOB)
    built = (await world.ask(Stored, StoreMemory(content="So do newts", evidence=cites), principal=BOB)).stored
    kept_shared = await world.ask(Unshared, UnshareMemory(memory_id=mine), principal=ADA)
    assert (kept_shared.status, kept_shared.built_on) == ("refused", [built.id])
    await world.ask(Forgotten, ForgetMemory(memory_id=built.id, erase=True), principal=BOB)
    assert (await world.ask(Unshared, UnshareMemory(memory_id=mine), principal=ADA)).status == "private"
    assert not await sees(world, BOB, mine)


@pytest.mark.promise("PV-1")
async def test_a_list_by_an_external_id_has_the_private_and_the_shared_memory(world: World) -> None:
    shared = (await world.keep("A nest in the reed", principal=BOB, external_id="nest-1")).stored.id
    private = await kept(world, "The heron nests by the pond", external_id="nest-1")
    listed = ListRecentMemories(external_id="nest-1")
    found = {reader: await world.ask(MemoryList, listed, principal=reader) for reader in (ADA, BOB)}
    assert [memory.id for memory in found[ADA].memories] == [private, shared]
    assert [memory.id for memory in found[BOB].memories] == [shared]


@pytest.mark.promise("PV-2")
async def test_of_a_private_memory_and_what_replaced_it_the_later_one_alone_is_shared(world: World) -> None:
    old, new = await kept(world, "The heron nests by the pond"), await kept(world, "The heron nests in the reed")
    await world.ask(Superseded, SupersedeMemory(old_memory_id=old, new_memory_id=new), principal=ADA)
    with refused(FaultCode.FORBIDDEN) as faults:
        await world.share(old, ADA)
    assert (faults[0].memory_id, faults[0].recovery) == (new, "Share that one.")
    assert (await world.share(new, ADA)).status == "shared"
    seen = (await world.ask(MemoryFound, GetMemory(memory_id=new), principal=BOB)).memory
    assert seen is not None
    assert old not in str(seen)
    await world.ask(Forgotten, ForgetMemory(memory_id=new, erase=True), principal=ROOT)
    left = (await world.ask(MemoryFound, GetMemory(memory_id=old), principal=ADA)).memory
    assert left is not None
    assert new not in str(left), "no id of what is gone"
    hits = await world.ask(MemoryList, SearchMemories(query="heron pond reed"), principal=ADA)
    assert hits.memories == [], "what was replaced stays hidden"
