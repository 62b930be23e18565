"""Batches: once, with a receipt for each row."""

import asyncio
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from msgspec import UNSET

from engramq.schemas.commands import BatchImported, ForgetMemory, Forgotten, ImportBatch, ImportRecord, LinkActivated
from engramq.schemas.envelope import Principal
from engramq.schemas.ids import uuid7
from engramq.schemas.vocabulary import (
    ALL_SCOPES,
    DEFAULT_NAMESPACE,
    MemorySource,
    OnDuplicate,
    Partition,
    ReceiptStatus,
    Sector,
    Verification,
)
from tests.assignments import assignment
from tests.workers.conftest import World

STORED, SKIPPED, UPDATED, REJECTED = (
    ReceiptStatus.STORED,
    ReceiptStatus.SKIPPED,
    ReceiptStatus.UPDATED,
    ReceiptStatus.REJECTED,
)
STRANGER = Principal(name="stranger", scopes=ALL_SCOPES, untrusted=True)


def row(content: str, **fields: Any) -> ImportRecord:
    return ImportRecord(content=content, **fields)


async def bring_in(
    world: World, *rows: ImportRecord, on_duplicate: OnDuplicate = OnDuplicate.SKIP, **envelope: Any
) -> BatchImported:
    return await world.ask(BatchImported, ImportBatch(records=rows, on_duplicate=on_duplicate), **envelope)


def statuses(reply: BatchImported) -> list[ReceiptStatus]:
    return [receipt.status for receipt in reply.receipts]


async def test_every_row_gets_a_receipt_in_its_order(world: World) -> None:
    await world.keep("taken", external_id="e1")
    reply = await bring_in(
        world,
        row("first", position=1, metadata={"a": [1]}),
        row("again", external_id="e1"),
        row("web page", source_type="research", partition=Partition.TRUSTED),
        row("second", external_id="e2", sector=Sector.PROCEDURAL),
        row("second again", external_id="e2"),
    )
    assert statuses(reply) == [STORED, SKIPPED, REJECTED, STORED, SKIPPED]
    assert [receipt.index for receipt in reply.receipts] == [0, 1, 2, 3, 4]
    assert (reply.stored, reply.updated, reply.skipped, reply.rejected) == (2, 0, 2, 1)
    assert reply.receipts[2].field == "partition"
    assert reply.receipts[3].memory_id == reply.receipts[4].memory_id
    assert reply.degraded is UNSET
    kept = {item["content"]: item for item in world.rows("select * from memories")}
    assert kept.keys() == {"taken", "first", "second"}
    assert (kept["first"]["metadata"], kept["first"]["position"], kept["first"]["state"]) == ({"a": [1]}, 1, "active")
    assert (kept["second"]["sector"], kept["second"]["sector_source"]) == ("procedural", "manual")


async def test_what_was_imported_is_found_by_vector(world: World) -> None:
    reply = await bring_in(world, *(row(f"Turbine {number} was serviced") for number in range(250)))
    assert reply.stored == 250
    (similar, *_) = (await world.keep("Turbine 77 was serviced")).similar_memories
    assert similar.id == reply.receipts[77].memory_id
    newest = world.rows("select content from memories order by created_at desc, node_id desc offset 1 limit 2")
    assert [item["content"] for item in newest] == ["Turbine 249 was serviced", "Turbine 248 was serviced"]


async def test_update_says_again_what_a_memory_is_but_for_what_others_decided(world: World) -> None:
    manual = await world.keep("one", external_id="e1", sector=Sector.EMOTIONAL, metadata={"a": 1}, speaker="Ana")
    changed = row(
        "one, corrected",
        external_id="e1",
        sector=Sector.SEMANTIC,
        metadata={"b": 2},
        confidence=0.5,
        verification=Verification.APPROVED,
    )
    reply = await bring_in(
        world, changed, row("two", external_id="e2"), row("two!", external_id="e2"), on_duplicate=OnDuplicate.UPDATE
    )
    assert statuses(reply) == [UPDATED, STORED, UPDATED]
    kept = {item["content"]: item for item in world.rows("select * from memories")}
    assert kept.keys() == {"one, corrected", "two!"}
    one = kept["one, corrected"]
    assert str(one["node_id"]) == manual.stored.id == reply.receipts[0].memory_id
    assert (one["partition"], one["verification"], one["sector"]) == ("trusted", "unverified", "emotional")
    assert (one["metadata"], one["confidence"], one["speaker"]) == ({"a": 1, "b": 2}, 0.5, "Ana")
    assert [near.content for near in (await world.keep("one, corrected")).similar_memories] == ["one, corrected"]
    (entry, _) = world.rows("select * from audit_log order by id")
    assert (entry["action"], str(entry["target_id"])) == ("update", manual.stored.id)
    assert "corrected" not in str(entry)


async def test_an_untrusted_principal_does_not_update_a_trusted_row(world: World) -> None:
    await world.keep("vouched for", external_id="e1")
    reply = await bring_in(
        world,
        row("poison", external_id="e1"),
        row("web", external_id="e2"),
        row("web again", external_id="e2"),
        on_duplicate=OnDuplicate.UPDATE,
        principal=STRANGER,
    )
    assert statuses(reply) == [REJECTED, STORED, UPDATED]
    assert {(item["content"], item["partition"]) for item in world.rows("select * from memories")} == {
        ("vouched for", "trusted"),
        ("web again", "untrusted"),
    }


@pytest.mark.promise("TP-8", "TP-21")
async def test_no_row_gets_past_the_router_by_repeating_a_trusted_external_id(world: World) -> None:
    await world.keep("vouched for", external_id="e1")
    rows = (
        row("poison", external_id="e1", source_type="research"),
        row("plain", external_id="e1", partition=Partition.UNTRUSTED),
    )
    reply = await bring_in(world, *rows, on_duplicate=OnDuplicate.UPDATE)
    assert [(receipt.status, receipt.field) for receipt in reply.receipts] == [(REJECTED, "external_id")] * 2
    both = row("new", external_id="e2"), row("poison", external_id="e2", source_type="research")
    assert statuses(await bring_in(world, *both, on_duplicate=OnDuplicate.UPDATE)) == [STORED, REJECTED]
    assert statuses(await bring_in(world, *rows)) == [SKIPPED, SKIPPED]
    assert {item["content"] for item in world.rows("select * from memories")} == {"vouched for", "new"}


@pytest.mark.promise("TP-21")
@pytest.mark.parametrize("on_duplicate", OnDuplicate)
async def test_who_takes_external_ids_first_keeps_nothing_trusted_out_in_silence(
    world: World, on_duplicate: OnDuplicate
) -> None:
    await bring_in(world, row("squatted", external_id="invoice-42"), principal=STRANGER)
    reply = await bring_in(world, row("the invoice", external_id="invoice-42"), on_duplicate=on_duplicate)
    (receipt,) = reply.receipts
    assert (receipt.status, receipt.field) == (REJECTED, "external_id")
    assert "untrusted memory" in str(receipt.error)
    again = row("squatted", external_id="invoice-42", source_type="research")
    assert statuses(await bring_in(world, again)) == [SKIPPED]
    assert [item["content"] for item in world.rows("select * from memories")] == ["squatted"]


@pytest.mark.promise("TP-21")
@pytest.mark.parametrize("verdict", [Verification.VERIFIED, Verification.APPROVED])
async def test_what_was_vouched_for_is_not_exchanged_before_its_promotion(world: World, verdict: Verification) -> None:
    read = row("read by somebody", external_id="e1", source_type="research")
    (made,) = (await bring_in(world, read)).receipts
    world.rows("update memories set verification = %s", verdict)
    other = row("slipped in", external_id="e1", source_type="research")
    (receipt,) = (await bring_in(world, other, on_duplicate=OnDuplicate.UPDATE)).receipts
    assert (receipt.status, receipt.field) == (REJECTED, "content")
    assert str(made.memory_id) in str(receipt.error)
    assert [item["content"] for item in world.rows("select * from memories")] == ["read by somebody"]
    # The same text may say more of itself, and who vouches for another may exchange it.
    again = row("read by somebody", external_id="e1", source_type="research", metadata={"page": 4})
    vouched = row("corrected", external_id="e1", source_type="research", verification=Verification.APPROVED)
    assert statuses(await bring_in(world, again, vouched, on_duplicate=OnDuplicate.UPDATE)) == [UPDATED, UPDATED]
    (one,) = world.rows("select * from memories")
    assert (one["content"], one["partition"], one["verification"]) == ("corrected", "untrusted", verdict)


async def test_another_content_gets_other_similarity_links_but_keeps_what_was_counted(world: World) -> None:
    changed, same, *others = [
        (await world.keep(f"word{number}", external_id=f"e{number}")).stored.id for number in range(5)
    ]
    world.rows("update memories set links_made_at = now()")
    ends = (changed, others[0], 0), (others[1], changed, 0), (changed, others[2], 1), (same, others[0], 0)
    for source, target, count in ends:
        world.rows(
            "insert into edges (id, tenant, layer, source_id, target_id, relation, weight, origin, "
            "reinforcement_count) values (%s, make_tenant(%s), 'association', least(%s::uuid, %s), "
            "greatest(%s::uuid, %s), 'similar', 0.8, 'similarity', %s)",
            *(UUID(uuid7()), DEFAULT_NAMESPACE, source, target, source, target, count),
        )
    rows = row("another matter", external_id="e0"), row("word1", external_id="e1", speaker="Ana")
    given = assignment(ImportBatch(records=rows, on_duplicate=OnDuplicate.UPDATE))
    outcome = await world.complete(given)
    left = {frozenset((str(item["source_id"]), str(item["target_id"]))) for item in world.rows("select * from edges")}
    assert left == {frozenset((changed, others[2])), frozenset((same, others[0]))}
    unlinked = world.rows("select node_id from memories where links_made_at is null")
    assert [str(item["node_id"]) for item in unlinked] == [changed]
    (linking,) = [item.command for item in outcome.follow_ups if isinstance(item.command, LinkActivated)]
    assert changed in {memory.memory_id for memory in linking.memories}


@pytest.mark.promise("MT-11")
async def test_without_the_model_all_rows_are_kept_pending(world: World) -> None:
    standing = await world.keep("standing", external_id="e1")
    world.model.down = True
    reply = await bring_in(
        world, row("standing", external_id="e1", speaker="Ana"), row("new"), on_duplicate=OnDuplicate.UPDATE
    )
    assert statuses(reply) == [UPDATED, STORED]
    assert reply.degraded is True
    states = {str(item["node_id"]): (item["state"], item["speaker"]) for item in world.rows("select * from memories")}
    assert states == {standing.stored.id: ("active", "Ana"), str(reply.receipts[1].memory_id): ("pending", None)}


async def test_a_file_imported_again_is_not_embedded_again(world: World) -> None:
    rows = [row(f"line {number}", external_id=f"e{number}") for number in range(20)]
    await bring_in(world, *rows)
    embedded = world.model.embedded
    world.model.down = True
    assert statuses(await bring_in(world, *rows)) == [SKIPPED] * 20
    assert world.model.embedded == embedded


async def test_racing_batches_share_external_ids_without_a_deadlock_or_a_double(world: World) -> None:
    names = [f"e{number}" for number in range(40)]
    batches = [
        [row(f"{name} of {number}", external_id=name) for name in names[:: 1 - 2 * (number % 2)]] for number in range(6)
    ]
    replies = await asyncio.gather(*(bring_in(world, *rows) for rows in batches))
    assert sum(reply.stored for reply in replies) == 40
    assert sum(reply.skipped for reply in replies) == 200
    assert world.count("memories") == 40


async def test_metadata_of_an_update_may_not_grow_beyond_its_limit(world: World) -> None:
    await world.keep("large", external_id="e1", metadata={"a": "x" * 40_000})
    reply = await bring_in(
        world, row("large", external_id="e1", metadata={"b": "x" * 40_000}), on_duplicate=OnDuplicate.UPDATE
    )
    assert statuses(reply) == [REJECTED]
    assert reply.receipts[0].field == "metadata"


async def test_an_archived_memory_stays_archived_when_it_is_imported_again(world: World) -> None:
    stored = await world.keep("old news", external_id="e1")
    await world.ask(Forgotten, ForgetMemory(memory_id=stored.stored.id))
    await bring_in(world, row("old news", external_id="e1"), on_duplicate=OnDuplicate.UPDATE)
    assert [item["state"] for item in world.rows("select * from memories")] == ["archived"]


@pytest.mark.promise("IM-9")
async def test_an_update_leaves_alone_what_the_row_does_not_name(world: World) -> None:
    await bring_in(
        world,
        row(
            "tea at four",
            external_id="e1",
            confidence=0.4,
            source=MemorySource.EXPLICIT,
            thread="t",
            sector=Sector.EPISODIC,
        ),
    )
    before = world.rows("select * from memories")[0]
    reply = await bring_in(world, row("tea at four", external_id="e1", speaker="Ana"), on_duplicate=OnDuplicate.UPDATE)
    assert statuses(reply) == [UPDATED]
    (after,) = world.rows("select * from memories")
    differing = {name for name in before if before[name] != after[name]} - {"updated_at", "lexemes"}
    assert differing == {"speaker"}
    assert [entry["new"] for entry in world.rows("select new from audit_log where action = 'update'")] == [
        {"changed": ["speaker"]}
    ]


@pytest.mark.promise("IM-9")
async def test_an_update_keeps_a_new_source_type_and_says_so(world: World) -> None:
    vouched = {"verification": Verification.VERIFIED}
    await bring_in(world, row("use pgvector", external_id="e1", source_type="task_outcome", **vouched))
    again = row("use pgvector", external_id="e1", source_type="lesson_learned", confidence=0.4, **vouched)
    reply = await bring_in(world, again, on_duplicate=OnDuplicate.UPDATE)
    assert statuses(reply) == [UPDATED]
    (kept,) = world.rows("select source_type, confidence, verification from memories")
    assert kept == {"source_type": "lesson_learned", "confidence": 0.4, "verification": "verified"}
    assert [entry["new"] for entry in world.rows("select new from audit_log where action = 'update'")] == [
        {"changed": ["confidence", "source_type"]}
    ]


@pytest.mark.promise("IM-9")
async def test_an_update_that_says_nothing_new_changes_and_reports_nothing(world: World) -> None:
    same = row(
        "tea at four", external_id="e1", confidence=0.4, metadata={"a": 1}, occurred_at=datetime(2026, 3, 1, tzinfo=UTC)
    )
    await bring_in(world, same)
    before = world.rows("select * from memories")
    reply = await bring_in(world, same, on_duplicate=OnDuplicate.UPDATE)
    assert (statuses(reply), reply.updated, reply.skipped) == ([SKIPPED], 0, 1)
    assert world.rows("select * from memories") == before
    assert world.count("audit_log") == 0


@pytest.mark.promise("OV-15")
async def test_rows_bring_tags_and_a_project_or_go_into_that_of_their_importer(world: World) -> None:
    reply = await bring_in(
        world,
        row("tagged", tags=("a", "b"), external_id="e1"),
        row("elsewhere", project="venus", tags=("a",)),
        row("plain", external_id="e2"),
        project="mars",
    )
    assert statuses(reply) == [STORED, STORED, STORED]
    kept = {item["content"]: (item["tags"], item["project"]) for item in world.rows("select * from memories")}
    assert kept == {"tagged": (["a", "b"], "mars"), "elsewhere": (["a"], "venus"), "plain": (None, "mars")}

    again = await bring_in(
        world,
        row("tagged", tags=("a", "b"), external_id="e1"),
        row("plain", external_id="e2", tags=("c",)),
        project="venus",
        on_duplicate=OnDuplicate.UPDATE,
    )
    assert statuses(again) == [SKIPPED, UPDATED]
    moved = await bring_in(
        world, row("tagged", tags=(), project="venus", external_id="e1"), on_duplicate=OnDuplicate.UPDATE
    )
    assert statuses(moved) == [UPDATED]
    kept = {item["content"]: (item["tags"], item["project"]) for item in world.rows("select * from memories")}
    assert kept == {"tagged": (None, "venus"), "elsewhere": (["a"], "venus"), "plain": (["c"], "mars")}
    changed = [item["new"]["changed"] for item in world.rows("select new from audit_log order by id")]
    assert changed == [["tags"], ["project", "tags"]]
