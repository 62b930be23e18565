"""What import_memories leaves to be done, whatever becomes of its worker and of the model."""

import pytest
from msgspec import UNSET

from engramq.schemas.commands import (
    EmbedPending,
    ImportMemories,
    ImportRow,
    MemoriesImported,
    PendingEmbedded,
    StoreMemory,
)
from engramq.schemas.faults import invalid
from engramq.schemas.vocabulary import OnDuplicate, ReceiptStatus, WorkerKind
from engramq.workers.queue.contract import Completion, FollowUp
from tests.assignments import assignment, repeated
from tests.workers.conftest import World


def imported(outcome: Completion) -> MemoriesImported:
    assert isinstance(outcome.reply, MemoriesImported)
    return outcome.reply


def left_to_embed(follow_ups: tuple[FollowUp, ...]) -> list[tuple[str, ...]]:
    commands = [item.command for item in follow_ups]
    assert all(isinstance(command, EmbedPending) for command in commands)
    return [command.memory_ids for command in commands if isinstance(command, EmbedPending)]


async def test_the_model_is_not_asked_and_what_it_has_to_do_is_handed_on_in_parts(world: World) -> None:
    given = assignment(ImportMemories(records=tuple(ImportRow(content=f"Barrel {number}") for number in range(250))))
    outcome = await world.complete(given)
    receipts = imported(outcome).receipts
    assert receipts is not UNSET
    parts = left_to_embed(outcome.follow_ups)
    assert [len(item) for item in parts] == [100, 100, 50]
    assert [item for part in parts for item in part] == [receipt.memory_id for receipt in receipts]

    again = await world.complete(repeated(given, attempt=2))
    assert left_to_embed(again.follow_ups) == parts, "the first try may have died before it could ask for it"
    assert world.model.embedded == 0
    for part in parts:
        await world.ask(PendingEmbedded, EmbedPending(memory_ids=part))
    assert {row["state"] for row in world.rows("select state from memories")} == {"active"}


@pytest.mark.promise("QP-13")
def test_the_model_works_for_it_where_no_store_waits() -> None:
    assert EmbedPending.mailbox is ImportMemories.mailbox is WorkerKind.IMPORTS
    assert StoreMemory.mailbox is not EmbedPending.mailbox


async def test_only_what_was_written_is_handed_on_each_memory_once(world: World) -> None:
    kept = (await world.keep("the same", external_id="same")).stored.id
    rows = (
        ImportRow(fault=invalid("content", "content is missing.", "Give it.").fault),
        ImportRow(content="new", external_id="new"),
        ImportRow(content="newer", external_id="new"),
        ImportRow(content="the same", external_id="same"),
        ImportRow(content="web", source_type="research"),
    )
    outcome = await world.complete(assignment(ImportMemories(records=rows, on_duplicate=OnDuplicate.UPDATE)))
    reply = imported(outcome)
    assert reply.receipts is not UNSET
    assert [receipt.status for receipt in reply.receipts] == [
        ReceiptStatus.REJECTED,
        ReceiptStatus.STORED,
        ReceiptStatus.UPDATED,
        ReceiptStatus.SKIPPED,
        ReceiptStatus.STORED,
    ]
    assert (reply.receipts[0].field, reply.receipts[0].error) == ("content", "content is missing. Give it.")
    assert (reply.accepted, reply.rejected, reply.kept_apart) == (4, 1, 1)
    assert reply.rejected_rows == [receipt for receipt in reply.receipts or () if receipt.status == "rejected"]
    ids = [receipt.memory_id for receipt in reply.receipts]
    assert ids[3] == kept
    assert left_to_embed(outcome.follow_ups) == [(ids[1], ids[4])]
