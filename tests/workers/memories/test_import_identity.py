"""A row of an import goes in once, for good: known by its identity, whatever batch and principal brings it."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from engramq.schemas.commands import (
    BatchImported,
    DeleteTenant,
    ForgetMemory,
    Forgotten,
    ImportBatch,
    ImportRecord,
    MemoryChanged,
    Promoted,
    PromoteMemory,
    Purged,
    PurgeMemories,
    RestoreMemory,
    Superseded,
    SupersedeMemory,
    Verified,
    VerifyMemory,
)
from engramq.schemas.envelope import Principal
from engramq.schemas.faults import FaultCode
from engramq.schemas.settings import read_settings
from engramq.schemas.vocabulary import ALL_SCOPES, Absence, OnDuplicate, ReceiptStatus, Verification
from tests.assignments import assignment
from tests.refusals import refused
from tests.workers.conftest import World

pytestmark = pytest.mark.promise("IM-8")

STORED, SKIPPED, UPDATED, REJECTED = (
    ReceiptStatus.STORED,
    ReceiptStatus.SKIPPED,
    ReceiptStatus.UPDATED,
    ReceiptStatus.REJECTED,
)
STRANGER = Principal(name="stranger", scopes=ALL_SCOPES, untrusted=True)
SECOND = Principal(name="second", scopes=ALL_SCOPES)


def identity(number: int) -> bytes:
    return number.to_bytes(16, "big")


async def bring_in(
    world: World, numbers: Sequence[int], *, on_duplicate: OnDuplicate = OnDuplicate.SKIP, **envelope: Any
) -> BatchImported:
    """Import rows that are told apart by their numbers."""
    records = tuple(ImportRecord(content=f"row {number}") for number in numbers)
    command = ImportBatch(records=records, identities=tuple(map(identity, numbers)), on_duplicate=on_duplicate)
    return await world.ask(BatchImported, command, **envelope)


def told(reply: BatchImported) -> list[tuple[ReceiptStatus, Any]]:
    return [(receipt.status, receipt.absence or None) for receipt in reply.receipts]


async def test_rows_go_in_once_whatever_batch_and_principal_brings_them(world: World) -> None:
    first = await bring_in(world, [1, 2, 3])
    embedded = world.model.embedded
    again = await bring_in(world, [3, 4, 1], principal=SECOND)
    assert told(again) == [(SKIPPED, None), (STORED, None), (SKIPPED, None)]
    assert again.receipts[0].memory_id == first.receipts[2].memory_id
    assert world.model.embedded == embedded + 1
    assert sorted(row["content"] for row in world.rows("select content from memories")) == [
        f"row {number}" for number in (1, 2, 3, 4)
    ]


async def test_rows_outlive_the_ledger_and_are_of_one_tenant(world: World) -> None:
    await bring_in(world, [1])
    world.rows("delete from ledger")
    assert told(await bring_in(world, [1])) == [(SKIPPED, None)]
    assert told(await bring_in(world, [1], namespace="other")) == [(STORED, None)]


async def test_what_was_forgotten_or_erased_stays_out_and_says_why(world: World) -> None:
    archived, erased, purged, there = (await bring_in(world, [1, 2, 3, 4])).receipts
    await world.ask(Forgotten, ForgetMemory(memory_id=str(archived.memory_id)))
    await world.ask(Forgotten, ForgetMemory(memory_id=str(erased.memory_id), erase=True))
    at = world.rows("select created_at from memories where node_id = %s", purged.memory_id)[0]["created_at"]
    world.rows("update memories set source_type = 'feed' where node_id = %s", purged.memory_id)
    taken = await world.ask(Purged, PurgeMemories(source_type="feed", erase=True, until=max(at, datetime.now(UTC))))
    assert taken.erased == 1
    reply = await bring_in(world, [1, 2, 3, 4], on_duplicate=OnDuplicate.UPDATE)
    gone = [(SKIPPED, Absence.FORGOTTEN), (SKIPPED, Absence.ERASED), (SKIPPED, Absence.ERASED), (SKIPPED, None)]
    assert told(reply) == gone
    assert (reply.stored, reply.skipped) == (0, 4)
    assert reply.receipts[3].memory_id == there.memory_id
    assert world.count("memories") == 2


async def test_an_external_id_that_was_erased_stays_out_and_one_that_is_forgotten_says_so(world: World) -> None:
    records = tuple(ImportRecord(content=f"row {name}", external_id=name) for name in ("e1", "e2", "e3"))
    command = ImportBatch(records=records, identities=tuple(map(identity, range(3))))
    first = await world.ask(BatchImported, command)
    await world.ask(Forgotten, ForgetMemory(memory_id=str(first.receipts[0].memory_id), erase=True))
    await world.ask(Forgotten, ForgetMemory(memory_id=str(first.receipts[1].memory_id)))
    reply = await world.ask(BatchImported, command)
    assert told(reply) == [(SKIPPED, Absence.ERASED), (SKIPPED, Absence.FORGOTTEN), (SKIPPED, None)]
    # Where somebody has stored the id anew that memory is what the row is about.
    anew = await world.keep("by hand", external_id="e1")
    reply = await world.ask(BatchImported, command)
    assert reply.receipts[0].memory_id == anew.stored.id
    assert told(reply)[0] == (SKIPPED, None)


async def test_a_superseded_memory_says_so_whether_its_row_is_skipped_or_changes_it(world: World) -> None:
    async def bring(content: str, on_duplicate: OnDuplicate) -> list[tuple[ReceiptStatus, Any]]:
        records = (ImportRecord(content=content, external_id="e1"), ImportRecord(content="the other"))
        command = ImportBatch(records=records, identities=(identity(1), identity(2)), on_duplicate=on_duplicate)
        reply = await world.ask(BatchImported, command)
        ids.append([str(receipt.memory_id) for receipt in reply.receipts])
        return told(reply)

    ids: list[list[str]] = []
    assert await bring("the first", OnDuplicate.UPDATE) == [(STORED, None)] * 2
    new = (await world.keep("what holds now")).stored.id
    for old in ids[0]:
        await world.ask(Superseded, SupersedeMemory(old_memory_id=old, new_memory_id=new))
    hidden = (SKIPPED, Absence.SUPERSEDED)
    assert await bring("the first", OnDuplicate.SKIP) == [hidden, hidden]
    assert await bring("the first", OnDuplicate.UPDATE) == [hidden, hidden]
    assert await bring("the first, edited", OnDuplicate.UPDATE) == [(UPDATED, Absence.SUPERSEDED), hidden]
    assert world.rows("select superseded_by::text as by from memories where content = 'the first, edited'") == [
        {"by": new}
    ]
    await world.ask(MemoryChanged, RestoreMemory(memory_id=ids[0][0], reason="it holds after all"))
    assert await bring("the first, twice edited", OnDuplicate.UPDATE) == [(UPDATED, None), hidden]
    assert ids == [ids[0]] * 5


async def test_what_has_expired_stays_out_as_expired_whether_upkeep_was_there_or_not(world: World) -> None:
    past = datetime(2024, 3, 9, tzinfo=UTC)
    records = (ImportRecord(content="x", expires_at=past), ImportRecord(content="y", external_id="y", expires_at=past))
    command = ImportBatch(records=records, identities=(identity(1), identity(2)))
    first = await world.ask(BatchImported, command)
    assert told(await world.ask(BatchImported, command)) == [(SKIPPED, Absence.EXPIRED)] * 2
    await world.upkeep.archive_expired()
    assert told(await world.ask(BatchImported, command)) == [(SKIPPED, Absence.EXPIRED)] * 2
    for receipt in first.receipts:
        await world.ask(MemoryChanged, RestoreMemory(memory_id=str(receipt.memory_id), reason="needed again"))
    assert told(await world.ask(BatchImported, command)) == [(SKIPPED, None)] * 2


async def test_rows_that_stay_out_or_are_skipped_take_no_room(world: World) -> None:
    archived, erased = (await bring_in(world, [1, 2])).receipts
    await world.keep("there", external_id="e")
    await world.ask(Forgotten, ForgetMemory(memory_id=str(archived.memory_id)))
    await world.ask(Forgotten, ForgetMemory(memory_id=str(erased.memory_id), erase=True))
    world.use(settings=read_settings({"ENGRAMQ_QUOTAS": "memories=3"}))
    records = tuple(ImportRecord(content=f"row {number}") for number in (1, 2, 3, 4))
    records = (ImportRecord(content="e", external_id="e"), *records, records[2])
    command = ImportBatch(records=records, identities=tuple(map(identity, (9, 1, 2, 3, 4, 3))))
    skipped = [(SKIPPED, None), (SKIPPED, Absence.FORGOTTEN), (SKIPPED, Absence.ERASED)]
    reply = await world.ask(BatchImported, command)
    assert told(reply) == [*skipped, (STORED, None), (REJECTED, None), (SKIPPED, None)]
    assert str(reply.receipts[4].error).startswith("The namespace may have no more than 3 memories")
    # Rejected for want of room, it is not known: it goes in once there is room.
    await world.ask(Forgotten, ForgetMemory(memory_id=str(archived.memory_id), erase=True))
    assert told(await world.ask(BatchImported, command))[4] == (STORED, None)


async def test_a_row_that_was_refused_goes_in_later(world: World) -> None:
    records = (ImportRecord(content="x", verification=Verification.VERIFIED), ImportRecord(content="y"))
    command = ImportBatch(records=records, identities=(identity(1), identity(2)))
    writer = Principal(name="writer", scopes=("write",))  # type: ignore[arg-type]
    assert told(await world.ask(BatchImported, command, principal=writer)) == [(REJECTED, None), (STORED, None)]
    assert told(await world.ask(BatchImported, command)) == [(STORED, None), (SKIPPED, None)]


async def test_who_imports_first_and_is_not_trusted_keeps_nothing_trusted_out(world: World) -> None:
    (squatted,) = (await bring_in(world, [1], principal=STRANGER)).receipts
    (receipt,) = (await bring_in(world, [1])).receipts
    assert (receipt.status, receipt.field) == (REJECTED, "content")
    assert str(squatted.memory_id) in str(receipt.error)
    assert told(await bring_in(world, [1], principal=STRANGER)) == [(SKIPPED, None)]
    await world.ask(Forgotten, ForgetMemory(memory_id=str(squatted.memory_id), erase=True))
    assert told(await bring_in(world, [1], principal=STRANGER)) == [(SKIPPED, Absence.ERASED)]
    assert told(await bring_in(world, [1])) == [(STORED, None)]
    assert told(await bring_in(world, [1], principal=STRANGER)) == [(SKIPPED, None)]
    assert [row["partition"] for row in world.rows("select partition from memories")] == ["trusted"]


async def test_what_was_promoted_and_erased_stays_out_as_trusted(world: World) -> None:
    (receipt,) = (await bring_in(world, [1], principal=STRANGER)).receipts
    memory_id = str(receipt.memory_id)
    await world.ask(Verified, VerifyMemory(memory_id=memory_id, verification=Verification.APPROVED, reason="read"))
    await world.ask(Promoted, PromoteMemory(record_id=memory_id))
    assert told(await bring_in(world, [1])) == [(SKIPPED, None)]
    await world.ask(Forgotten, ForgetMemory(memory_id=memory_id, erase=True))
    assert told(await bring_in(world, [1])) == [(SKIPPED, Absence.ERASED)]


async def test_racing_batches_bring_each_row_once_without_a_deadlock(world: World) -> None:
    numbers = list(range(120))
    batches = [numbers[part : part + 60][:: 1 - 2 * (part % 2)] for part in (0, 15, 30, 45, 60, 1)]
    replies = await asyncio.gather(*(bring_in(world, batch) for batch in batches))
    assert sum(reply.stored for reply in replies) == 120 == world.count("memories")
    assert sum(reply.skipped for reply in replies) == 240


async def test_one_identity_twice_in_a_batch_is_one_row(world: World) -> None:
    assert told(await bring_in(world, [1, 1])) == [(STORED, None), (SKIPPED, None)]
    assert world.count("memories") == 1


async def test_identities_that_do_not_fit_the_records_are_refused(world: World) -> None:
    records = (ImportRecord(content="a"), ImportRecord(content="b"))
    with refused(FaultCode.INVALID_PARAMETER) as faults:
        await world.complete(assignment(ImportBatch(records=records, identities=(identity(1),))))
    assert faults[0].field == "identities"


async def test_a_namespace_that_was_deleted_takes_its_rows_again(world: World) -> None:
    await bring_in(world, [1, 2])
    await world.complete(assignment(DeleteTenant()))
    assert world.count("imported_rows") == 0
    assert told(await bring_in(world, [1, 2])) == [(STORED, None)] * 2


async def test_rows_of_a_batch_without_identities_are_not_known_again(world: World) -> None:
    """Gateways of the version before send none."""
    for _ in range(2):
        reply = await world.ask(BatchImported, ImportBatch(records=(ImportRecord(content="plain"),)))
        assert told(reply) == [(STORED, None)]
    assert world.count("imported_rows") == 0
