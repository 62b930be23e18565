"""Who reads what the audit log says of something private: its owner when the entry was written, for good (PV-5)."""

from functools import partial
from typing import Any
from uuid import UUID

import pytest

from engramq.schemas.commands import (
    AuditList,
    AuditVerified,
    Card,
    CommandReport,
    Decided,
    DecideProposal,
    ForgetMemory,
    Forgotten,
    GetCommand,
    GetMemory,
    ListAudit,
    MakeReceipt,
    MemoryChanged,
    MemoryFound,
    Purged,
    PurgeMemories,
    ReceiptMade,
    StoreMemory,
    UpdateMemory,
    Verified,
    VerifyAudit,
    VerifyMemory,
    WhyMemory,
)
from engramq.schemas.digests import digest_of
from engramq.schemas.envelope import Principal
from engramq.schemas.receipts import SignedReceipt
from engramq.schemas.records import AuditEntry
from engramq.schemas.vocabulary import (
    ALL_SCOPES,
    DEFAULT_NAMESPACE,
    AuditAction,
    CommandStatus,
    Decision,
    Scope,
    Verification,
    Visibility,
)
from engramq.workers.db import audit
from engramq.workers.db.privacy import change_privacy
from engramq.workers.db.viewers import EVERYTHING
from engramq.workers.tenants.handlers import hand_over
from tests.assignments import assignment
from tests.workers.conftest import World

pytestmark = pytest.mark.promise("PV-5")

ADA = Principal(name="ada", scopes=ALL_SCOPES)
BOB = Principal(name="bob", scopes=ALL_SCOPES)
ROOT = Principal(name="root", scopes=ALL_SCOPES)
JUDGE = Principal(name="judge", scopes=(Scope.READ, Scope.WRITE, Scope.VERIFY))
REASON = "my knee"


async def kept(world: World, content: str = "The heron nests by the pond", **fields: Any) -> str:
    return (await world.keep(content, principal=ADA, visibility=Visibility.PRIVATE, **fields)).stored.id


async def judged(world: World, memory_id: str) -> None:
    command = VerifyMemory(memory_id=memory_id, verification=Verification.VERIFIED, reason=REASON)
    await world.ask(Verified, command, principal=ADA)


async def erased(world: World, memory_id: str) -> None:
    command = ForgetMemory(memory_id=memory_id, erase=True, reason=REASON)
    assert (await world.ask(Forgotten, command, principal=ADA)).status == "erased"


async def entries(world: World, reader: Principal, **wanted: Any) -> list[AuditEntry]:
    return (await world.ask(AuditList, ListAudit(**wanted), principal=reader)).entries


async def told(world: World, reader: Principal, **wanted: Any) -> list[str | None]:
    """Return the reasons that somebody reads, the newest entry first."""
    return [entry.reason for entry in await entries(world, reader, **wanted)]


async def test_why_something_private_was_erased_is_told_to_its_owner_alone(world: World) -> None:
    private = await kept(world)
    await erased(world, private)
    assert await told(world, ADA) == [REASON]
    for reader in (ROOT, BOB):
        (entry,) = await entries(world, reader)
        assert (entry.target_id, entry.old, entry.new, entry.reason) == (private, None, None, None)


async def test_what_a_memory_was_tagged_with_before_it_was_shared_is_told_to_its_owner_alone(world: World) -> None:
    private = await kept(world, tags=["knee"])
    found = await world.ask(MemoryFound, GetMemory(memory_id=private), principal=ADA)
    assert found.memory is not None
    update = UpdateMemory(
        memory_id=private, visibility=Visibility.SHARED, remove_tags=("knee",), seen=digest_of(found.memory)
    )
    await world.ask(MemoryChanged, update, principal=ADA)
    assert await told(world, ADA, action=AuditAction.UPDATE) == ["Removed tags: knee"]
    assert await told(world, BOB, action=AuditAction.UPDATE) == [None]


async def test_a_purge_by_an_administrator_leaves_its_entries_with_the_owner(world: World) -> None:
    await kept(world)
    purge = PurgeMemories(created_by="ada", private=True, erase=True, reason="she left")
    assert (await world.ask(Purged, purge, principal=ROOT)).erased == 1
    assert await told(world, ADA, action=AuditAction.ERASE) == ["she left"]
    assert await told(world, BOB, action=AuditAction.ERASE) == [None]


@pytest.mark.parametrize("of", ["displaced", "still_hidden", "superseded_by"])
@pytest.mark.parametrize("gone", [False, True])
async def test_an_entry_that_names_something_private_is_its_owners(world: World, of: str, gone: bool) -> None:
    """Of a shared link too that displaced a private one, and when nobody has that any more."""
    private, shared = await kept(world), (await world.keep("A pond")).stored.id
    named = {
        "displaced": [{"memory_id": shared, "other_id": private, "weight": 0.97}],
        "still_hidden": [private],
        "superseded_by": private,
    }
    audited = partial(
        audit.write, actor="ada", action=AuditAction.CONNECT, target=UUID(shared), old={}, new={of: named[of]}
    )
    await world.store.seen_by(EVERYTHING).write(DEFAULT_NAMESPACE, audited)
    if gone:
        await erased(world, private)
    for reader, new in ((ADA, {of: named[of]}), (ROOT, None)):
        (entry,) = await entries(world, reader, action=AuditAction.CONNECT)
        assert entry.new == new
    by_name = [entry.action for entry in await entries(world, ROOT, target=private)]
    assert AuditAction.CONNECT not in by_name, "that it names the private one is not told either"


async def test_what_names_something_private_that_is_gone_is_its_owners(world: World) -> None:
    private, shared = await kept(world), (await world.keep("A pond")).stored.id
    await erased(world, private)
    old = {"source_id": private, "target_id": shared, "relation": "my knee"}
    audited = partial(
        audit.write, actor="ada", action=AuditAction.RESOLVE_DEFERRED, target=UUID(private), old=old, new={}
    )
    await world.store.seen_by(EVERYTHING).write(DEFAULT_NAMESPACE, audited)
    for reader, seen in ((ADA, old), (ROOT, None)):
        (entry,) = await entries(world, reader, action=AuditAction.RESOLVE_DEFERRED)
        assert entry.old == seen


async def test_neither_sharing_nor_an_heir_opens_earlier_entries(world: World) -> None:
    for number in range(2):
        private = await kept(world, f"The heron nests by pond {number}")
        await judged(world, private)
        if number:
            everything = world.store.seen_by(EVERYTHING)
            await everything.write(DEFAULT_NAMESPACE, lambda tx: hand_over(tx, ADA.identity, BOB.identity, "root"))
        else:
            await world.share(private, ADA, reason="Bob asked")
            assert await told(world, BOB) == ["Bob asked", None]
            cards = [await world.ask(Card, WhyMemory(memory_id=private), principal=who) for who in (ADA, BOB)]
            assert [REASON in repr(card) for card in cards] == [True, False]
        judgement = [await told(world, who, action=AuditAction.VERIFY, target=private) for who in (ADA, BOB, ROOT)]
        assert judgement == [[REASON], [None], [None]]


async def test_why_somebody_consents_to_share_is_told_to_the_owner_alone(world: World) -> None:
    await world.store.write(DEFAULT_NAMESPACE, lambda tx: change_privacy(tx, consent=True))
    private = await kept(world)
    asked = await world.share(private, ADA)
    assert asked.proposal_id is not None
    decision = DecideProposal(proposal_id=str(asked.proposal_id), decision=Decision.APPROVE, reason=REASON)
    await world.ask(Decided, decision, principal=JUDGE)
    decided = [await told(world, who, action=AuditAction.DECIDE) for who in (ADA, ROOT)]
    assert decided == [[REASON], [None]]


async def test_no_command_about_something_private_is_known_once_that_is_gone(world: World) -> None:
    storing = assignment(
        StoreMemory(content="The heron nests by the pond", visibility=Visibility.PRIVATE), principal=ADA
    )
    stored = (await world.complete(storing)).reply
    private = str(stored.stored.id)  # type: ignore[attr-defined]  # the reply of a store
    await erased(world, private)
    for reader, status in ((ADA, CommandStatus.DONE), (ROOT, CommandStatus.UNKNOWN)):
        report = await world.ask(CommandReport, GetCommand(command_id=storing.envelope.id), principal=reader)
        assert report.status is status


@pytest.mark.promise("SE-20")
async def test_a_receipt_says_what_is_private_to_its_owner_alone_and_holds_for_all(world: World) -> None:
    private = await kept(world)
    await erased(world, private)
    for reader, reads in ((ADA, True), (ROOT, False)):
        receipt = (await world.ask(ReceiptMade, MakeReceipt(erased=private), principal=reader)).receipt
        assert isinstance(receipt, SignedReceipt)
        (entry,) = receipt.proven
        assert (REASON in (entry.body or ""), entry.problem(), entry.owner) == (reads, None, "ada")
    checked = await world.ask(AuditVerified, VerifyAudit(), principal=ROOT)
    assert (checked.broken, checked.unchained, checked.places) == (None, 0, 1)
    world.rows("update audit_log set owner = null where owner is not null returning 1")
    checked = await world.ask(AuditVerified, VerifyAudit(), principal=ROOT)
    assert checked.broken is not None
    assert checked.broken.problem == "its facts or its place were changed"
