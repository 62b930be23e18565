"""Quotas of memories and bytes: of a namespace, of a principal, at every door that stores."""

from typing import Any

import pytest

from engramq.schemas.commands import (
    BatchImported,
    ForgetMemory,
    Forgotten,
    ImportBatch,
    ImportRecord,
    PurgeMemories,
    StoreMemory,
)
from engramq.schemas.envelope import Principal
from engramq.schemas.faults import EngramqError, FaultCode
from engramq.schemas.settings import read_settings
from engramq.schemas.vocabulary import ALL_SCOPES, OnDuplicate
from engramq.workers.db.transaction import Transaction
from engramq.workers.memories import quotas
from engramq.workers.memories.quotas import Quotas, Room
from tests.jobs import job
from tests.refusals import refused
from tests.workers.conftest import World

pytestmark = pytest.mark.anyio

OTHER = Principal(name="other", scopes=ALL_SCOPES)


def bound(world: World, **bounds: int) -> None:
    world.use(settings=read_settings({f"ENGRAMQ_QUOTA_{name.upper()}": str(value) for name, value in bounds.items()}))


async def store(world: World, content: str, **envelope: Any) -> None:
    await world.outcome(job(StoreMemory(content=content), **envelope))


async def imported(world: World, *contents: str, **more: Any) -> BatchImported:
    records = tuple(ImportRecord(content=content, external_id=f"x{i}") for i, content in enumerate(contents))
    return await world.ask(BatchImported, ImportBatch(records=records, **more))


@pytest.mark.parametrize(
    ("bounds", "setting"),
    [
        ({"memories": 2}, "ENGRAMQ_QUOTA_MEMORIES"),
        ({"bytes": 7}, "ENGRAMQ_QUOTA_BYTES"),
        ({"principal_memories": 2}, "ENGRAMQ_QUOTA_PRINCIPAL_MEMORIES"),
        ({"principal_bytes": 7}, "ENGRAMQ_QUOTA_PRINCIPAL_BYTES"),
    ],
)
async def test_what_is_over_a_quota_is_refused_by_its_name(world: World, bounds: dict[str, int], setting: str) -> None:
    bound(world, **bounds)
    await store(world, "öne")  # 4 bytes
    await store(world, "two")
    with pytest.raises(EngramqError) as refusal:
        await store(world, "three")
    fault = refusal.value.fault
    assert fault.code is FaultCode.QUOTA_EXCEEDED
    assert f"({setting})" in fault.error
    assert "raise the setting" in fault.recovery
    await store(world, "three", namespace="elsewhere")
    if "PRINCIPAL" in setting:
        await store(world, "three", principal=OTHER)
    else:
        with refused(FaultCode.QUOTA_EXCEEDED):
            await store(world, "three", principal=OTHER)


async def test_archiving_makes_no_room_and_erasing_does(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quotas, "REFUSED_S", 0.0)  # a refusal always rests on a count of now
    bound(world, memories=1)
    memory_id = (await world.keep("one")).stored.id
    await world.ask(Forgotten, ForgetMemory(memory_id=memory_id))
    with refused(FaultCode.QUOTA_EXCEEDED):
        await store(world, "two")
    await world.outcome(job(PurgeMemories(created_by="I/O", erase=True)))
    await store(world, "two")


async def test_rows_of_an_import_over_a_quota_are_rejected_and_the_others_stored(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quotas, "REFUSED_S", 0.0)
    bound(world, memories=3, bytes=30)
    reply = await imported(world, "one", "two", "three", "four")
    assert (reply.stored, reply.rejected) == (3, 1)
    (rejected,) = [one for one in reply.receipts if one.status == "rejected"]
    assert (rejected.index, rejected.field) == (3, "content")
    assert "ENGRAMQ_QUOTA_MEMORIES" in str(rejected.error)
    assert (await imported(world, "one", "two", "three")).skipped == 3
    reply = await imported(world, "a much longer content than before", "dos", on_duplicate=OnDuplicate.UPDATE)
    assert [str(one.status) for one in reply.receipts] == ["rejected", "updated"]
    assert "ENGRAMQ_QUOTA_BYTES" in str(reply.receipts[0].error)
    assert {row["content"] for row in world.rows("select content from memories")} == {"one", "dos", "three"}


async def test_a_count_serves_for_some_seconds_and_none_is_made_without_a_quota(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, counts = 0.0, 0
    count = Quotas.count

    async def counting(self: Quotas, tx: Transaction) -> quotas.Totals:
        nonlocal counts
        counts += 1
        return await count(self, tx)

    monkeypatch.setattr(Quotas, "count", counting)
    await store(world, "free")
    assert counts == 0
    settings = read_settings({"ENGRAMQ_QUOTA_MEMORIES": "4"})
    world.use(Quotas(settings, lambda: now), settings=settings)
    for content in ("one", "two"):
        await store(world, content)
    assert counts == 1
    now = quotas.COUNTED_S
    await store(world, "three")
    assert counts == 2
    for _ in range(3):  # rests on the count of this very second
        with refused(FaultCode.QUOTA_EXCEEDED):
            await store(world, "four")
    assert counts == 2
    now += quotas.REFUSED_S
    with refused(FaultCode.QUOTA_EXCEEDED):
        await store(world, "four")
    assert counts == 3


async def test_what_a_transaction_has_taken_counts_when_it_counts_anew(world: World) -> None:
    now = 0.0
    settings = read_settings({"ENGRAMQ_QUOTA_MEMORIES": "2"})
    bounds = Quotas(settings, lambda: now)

    async def take(tx: Transaction) -> None:
        nonlocal now
        room: Room = bounds.room(tx, "ada")
        for _ in range(2):
            await room.take("x")
        now += quotas.REFUSED_S
        with refused(FaultCode.QUOTA_EXCEEDED):
            await room.take("x")

    await world.store.write("acme", take)
