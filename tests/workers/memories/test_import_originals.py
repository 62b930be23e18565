"""Rows that were exported from here: what they may replace, and what one that names another's memory becomes."""

from typing import Any

import pytest
from msgspec import UNSET

from engramq.schemas import limits
from engramq.schemas.commands import BatchImported, ImportBatch, ImportRecord, Original, Stored, text_digest
from engramq.schemas.envelope import Principal
from engramq.schemas.evidence import Citation
from engramq.schemas.faults import EngramqError
from engramq.schemas.vocabulary import ALL_SCOPES, ReceiptStatus, Visibility
from tests.workers.conftest import World

STRANGER = Principal(name="stranger", scopes=ALL_SCOPES, untrusted=True)
ADA = Principal(name="ada", scopes=ALL_SCOPES)
BEA = Principal(name="bea", scopes=ALL_SCOPES)


async def bring_in(
    world: World, kept: Stored, content: str, principal: Principal = ADA, **fields: Any
) -> BatchImported:
    """Import a row that was exported from a memory, and was edited since."""
    original = Original(memory_id=kept.stored.id, sha256=text_digest(kept.stored.content), edited=True)
    record = ImportRecord(content=content, **fields)
    batch = ImportBatch(records=(record,), originals=(original,), identities=(bytes(limits.IDENTITY_BYTES),))
    return await world.ask(BatchImported, batch, principal=principal)


def memories(world: World) -> list[tuple[str, str, str | None, bool]]:
    """Return text, partition, owner and whether it is replaced, of each memory."""
    columns = "content, partition, owner, superseded_by is not null as is_replaced"
    return [tuple(row.values()) for row in world.rows(f"select {columns} from memories order by content")]


async def test_whose_words_are_untrusted_replaces_nothing_trusted_and_is_kept_apart_once(world: World) -> None:
    kept = await world.keep("Tea is green", external_id="tea")
    for status in (ReceiptStatus.STORED, ReceiptStatus.SKIPPED):
        reply = await bring_in(world, kept, "Tea is blue", STRANGER, external_id="tea")
        assert ([receipt.status for receipt in reply.receipts], reply.corrected) == ([status], UNSET)
    assert memories(world) == [("Tea is blue", "untrusted", None, False), ("Tea is green", "trusted", None, False)]


async def test_the_private_memory_of_another_is_not_there(world: World) -> None:
    kept = await world.keep("For Bea alone", principal=BEA, visibility=Visibility.PRIVATE)
    reply = await bring_in(world, kept, "For Ada", visibility=Visibility.SHARED)
    assert (reply.stored, reply.corrected) == (1, UNSET)
    assert memories(world) == [("For Ada", "trusted", None, False), ("For Bea alone", "trusted", "bea", False)]


@pytest.mark.parametrize("visibility", list(Visibility))
async def test_a_correction_is_whose_its_memory_is(world: World, visibility: Visibility) -> None:
    kept = await world.keep("Tea is green", principal=ADA, visibility=visibility)
    (other,) = {*Visibility} - {visibility}
    refused = await bring_in(world, kept, "Tea is blue", visibility=other)
    assert [(receipt.status, receipt.field) for receipt in refused.receipts] == [(ReceiptStatus.REJECTED, "content")]
    reply = await bring_in(world, kept, "Tea is red")
    owner = "ada" if visibility is Visibility.PRIVATE else None
    assert (reply.stored, reply.corrected) == (1, 1)
    assert memories(world) == [("Tea is green", "trusted", owner, True), ("Tea is red", "trusted", owner, False)]
    (noted,) = world.rows("select actor, old, new from audit_log where action = 'supersede'")
    assert (noted["actor"], noted["new"]) == ("ada", {"superseded_by": reply.receipts[0].memory_id})


async def test_what_rests_on_an_untrusted_memory_replaces_nothing_trusted(world: World) -> None:
    heard = await world.keep("I was told so", source_type="web")
    kept = await world.keep("Tea is green")
    reply = await bring_in(world, kept, "Tea is blue", evidence=(Citation(memory_id=heard.stored.id),))
    assert (reply.stored, reply.corrected) == (1, UNSET)
    assert ("Tea is blue", "untrusted", None, False) in memories(world)
    assert ("Tea is green", "trusted", None, False) in memories(world)


async def test_of_two_rows_that_would_replace_one_memory_the_second_is_rejected(world: World) -> None:
    first = await world.keep("Tea is green", principal=ADA)
    reply = await bring_in(world, first, "Tea is blue")
    named = [(first.stored.id, "Tea is green"), (str(reply.receipts[0].memory_id), "Tea is blue")]
    batch = ImportBatch(
        records=(ImportRecord(content="Tea is red"), ImportRecord(content="Tea is white")),
        originals=tuple(Original(memory_id=key, sha256=text_digest(text), edited=True) for key, text in named),
    )
    both = await world.ask(BatchImported, batch, principal=ADA)
    assert [receipt.status for receipt in both.receipts] == [ReceiptStatus.STORED, ReceiptStatus.REJECTED]
    assert [text for text, _, _, is_replaced in memories(world) if not is_replaced] == ["Tea is red"]


def test_originals_have_one_entry_for_each_record() -> None:
    with pytest.raises(EngramqError, match="2 originals for 1 records"):
        ImportBatch(records=(ImportRecord(content="tea"),), originals=(None, None)).check()
