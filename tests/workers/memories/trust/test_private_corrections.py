"""A correction of a private memory is private unless it says otherwise, and the reply says so (PV-3)."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from msgspec import UNSET

from engramq.schemas.commands import (
    BatchImported,
    ForgetMemory,
    Forgotten,
    GetMemory,
    ImportBatch,
    ImportMemories,
    ImportRecord,
    ImportRow,
    MemoriesImported,
    MemoryFound,
    Superseded,
    SupersedeMemory,
)
from engramq.schemas.envelope import Principal
from engramq.schemas.faults import FaultCode
from engramq.schemas.limits import IDENTITY_BYTES
from engramq.schemas.vocabulary import ALL_SCOPES, OnDuplicate, ReceiptStatus, Visibility
from engramq.workers.embedders.interface import Vectors
from engramq.workers.memories.store import NEAREST
from tests.refusals import refused
from tests.workers.conftest import World
from tests.workers.memories.trust.test_sharing import ADA, BOB, kept

pytestmark = pytest.mark.promise("PV-3")

STRANGER = Principal(name="stranger", scopes=ALL_SCOPES, untrusted=True)
OLD, NEW = "Ada has a visit to the clinic on Monday", "Ada has a visit to the clinic on Tuesday"


async def is_seen(world: World, memory_id: str) -> bool:
    return (await world.ask(MemoryFound, GetMemory(memory_id=memory_id), principal=BOB)).memory is not None


async def test_what_is_like_a_private_memory_is_private_and_says_so(world: World) -> None:
    old = await kept(world, OLD)
    reply = await world.keep(NEW, principal=ADA)
    assert reply.stored.visibility is Visibility.PRIVATE
    assert f"Private, as memory {old} is" in str(reply.notice)
    assert not await is_seen(world, reply.stored.id)
    await world.ask(Superseded, SupersedeMemory(old_memory_id=old, new_memory_id=reply.stored.id), principal=ADA)


async def test_what_may_correct_a_private_memory_is_private_where_no_vector_tells(world: World) -> None:
    old = await kept(world, OLD)
    world.model.down = True
    without = await world.keep(NEW, principal=ADA)
    assert without.stored.visibility is Visibility.PRIVATE
    assert "nothing tells" in str(without.notice)
    assert not await is_seen(world, without.stored.id)
    assert await is_seen(world, (await world.keep(NEW, principal=BOB)).stored.id), "who keeps nothing private"
    world.model.down = False
    await world.ask(Forgotten, ForgetMemory(memory_id=old), principal=ADA)
    waiting = await world.keep(f"{NEW} at nine", principal=ADA)  # the one without a vector is left
    assert waiting.stored.visibility is Visibility.PRIVATE
    assert "nothing tells" in str(waiting.notice)


async def test_what_the_model_cannot_read_is_private_where_it_may_correct_a_private_memory(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def embed_blank(texts: Sequence[str], **_how: bool) -> Vectors:
        return np.zeros((len(texts), world.model.spec.dimensions), dtype=np.float32)

    await kept(world, OLD)
    monkeypatch.setattr(world.model, "embed", embed_blank)
    unread = await world.keep("เอดามีนัดที่คลินิกวันอังคาร", principal=ADA)
    assert unread.stored.visibility is Visibility.PRIVATE
    assert "nothing tells" in str(unread.notice)


async def test_what_an_import_corrects_in_private_is_private_and_comes_in_once(world: World) -> None:
    """From issue 43: a correction by import told everybody what the private memory does not."""
    await kept(world, OLD)
    rows = tuple(ImportRecord(content=content) for content in (NEW, "The heron nests by the pond"))
    batch = ImportBatch(records=rows, identities=(b"1" * IDENTITY_BYTES, b"2" * IDENTITY_BYTES))
    reply = await world.ask(BatchImported, batch, principal=ADA)
    assert (reply.stored, reply.kept_to_author) == (2, 1)
    assert [await is_seen(world, str(receipt.memory_id)) for receipt in reply.receipts] == [False, True]
    again = await world.ask(BatchImported, batch, principal=ADA)
    assert (again.skipped, again.stored) == (2, 0)
    by_bob = await world.ask(BatchImported, batch, principal=BOB)
    assert [receipt.status for receipt in by_bob.receipts] == [ReceiptStatus.STORED, ReceiptStatus.SKIPPED]


@pytest.mark.parametrize("is_many", [False, True])
async def test_what_corrects_a_private_row_of_its_own_batch_is_private(world: World, is_many: bool) -> None:
    private: dict[str, Any] = {"content": OLD, "visibility": Visibility.PRIVATE}
    rows = (private, {"content": NEW}, {"content": "The heron nests by a pond"})
    if is_many:
        many = ImportMemories(records=tuple(ImportRow(**row) for row in rows))
        receipts = (await world.ask(MemoriesImported, many, principal=ADA)).receipts or []
    else:
        batch = ImportBatch(records=tuple(ImportRecord(**row) for row in rows))
        receipts = (await world.ask(BatchImported, batch, principal=ADA)).receipts
    assert [await is_seen(world, str(receipt.memory_id)) for receipt in receipts] == [False, False, True]


async def test_a_private_row_comes_in_once_where_an_untrusted_one_was_erased(world: World) -> None:
    await kept(world, OLD)
    batch = ImportBatch(records=(ImportRecord(content=NEW),), identities=(b"1" * IDENTITY_BYTES,))
    (captured,) = (await world.ask(BatchImported, batch, principal=STRANGER)).receipts
    await world.ask(Forgotten, ForgetMemory(memory_id=str(captured.memory_id), erase=True))
    counts = [await world.ask(BatchImported, batch, principal=ADA) for _ in range(2)]
    assert [(reply.stored, reply.skipped) for reply in counts] == [(1, 0), (0, 1)]


async def test_a_shared_memory_gets_no_private_correction_by_an_import(world: World) -> None:
    row = ImportRecord(content="Ada is at the lake", external_id="e")
    await world.ask(BatchImported, ImportBatch(records=(row,)), principal=ADA)
    await kept(world, OLD)
    for content, status in ((NEW, ReceiptStatus.REJECTED), ("Ada is at the lake", ReceiptStatus.SKIPPED)):
        changed = ImportBatch(
            records=(ImportRecord(content=content, external_id="e"),), on_duplicate=OnDuplicate.UPDATE
        )
        (receipt,) = (await world.ask(BatchImported, changed, principal=ADA)).receipts
        assert receipt.status is status
    assert (receipt.field, receipt.error) == (UNSET, UNSET)


@pytest.mark.parametrize("is_down", [False, True])
async def test_many_memories_of_an_agent_are_private_where_they_may_correct_private_ones(
    world: World, is_down: bool
) -> None:
    await kept(world, OLD)
    world.model.down = is_down
    rows = tuple(ImportRow(content=content) for content in (NEW, "The heron nests by the pond"))
    reply = await world.ask(MemoriesImported, ImportMemories(records=rows), principal=ADA)
    assert (reply.accepted, reply.kept_to_author) == (2, 2 if is_down else 1)
    assert {row["state"] for row in world.rows("select state from memories where content <> %s", OLD)} == {"pending"}
    shared = await world.ask(
        MemoriesImported, ImportMemories(records=(ImportRow(content=NEW, visibility=Visibility.SHARED),)), principal=ADA
    )
    assert shared.kept_to_author is UNSET


async def test_who_says_that_everybody_sees_it_is_heeded(world: World) -> None:
    old = await kept(world, OLD)
    reply = await world.keep(NEW, principal=ADA, visibility=Visibility.SHARED)
    assert await is_seen(world, reply.stored.id)
    with refused(FaultCode.FORBIDDEN) as faults:
        await world.ask(MemoryFound, SupersedeMemory(old_memory_id=old, new_memory_id=reply.stored.id), principal=ADA)
    assert f"Make {reply.stored.id} private first: unshare_memory." in str(faults[0].recovery)


async def test_what_is_private_to_others_or_about_something_else_changes_nothing(world: World) -> None:
    await kept(world, OLD)
    for content, who in ((NEW, BOB), ("The heron nests by the pond", ADA)):
        reply = await world.keep(content, principal=who)
        assert (reply.stored.visibility or Visibility.SHARED) is Visibility.SHARED
        assert "Private" not in str(reply.notice)


async def test_a_shared_memory_that_somebody_plants_beside_it_publishes_no_correction(world: World) -> None:
    await kept(world, OLD)
    for number in range(NEAREST):
        await world.keep(f"{NEW} {number}", principal=BOB)
    assert (await world.keep(f"{NEW} now", principal=ADA)).stored.visibility is Visibility.PRIVATE
