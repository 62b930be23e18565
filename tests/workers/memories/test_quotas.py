"""Quotas of memories and bytes: of a namespace, of a principal, at every door that stores."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest

from engramq.schemas.commands import (
    BatchImported,
    ForgetMemory,
    Forgotten,
    ImportBatch,
    ImportRecord,
    PurgeMemories,
    StoreMemory,
    UpdateMemory,
)
from engramq.schemas.envelope import Principal
from engramq.schemas.faults import EngramqError, FaultCode, refuse
from engramq.schemas.settings import Settings, read_settings
from engramq.schemas.vocabulary import ALL_SCOPES, DEFAULT_NAMESPACE, OnDuplicate, Visibility
from engramq.workers.db.database import Store
from engramq.workers.db.transaction import Transaction
from engramq.workers.memories import quotas
from engramq.workers.memories.quotas import Allowance, ProcessQuotas
from tests.assignments import assignment
from tests.refusals import refused
from tests.workers.conftest import World

OTHER = Principal(name="other", scopes=ALL_SCOPES)


T = TypeVar("T")
BOUND_S = 10.0


def bounded(**bounds: int) -> Settings:
    return read_settings({"ENGRAMQ_QUOTAS": ", ".join(f"{name}={value}" for name, value in bounds.items())})


def bound(world: World, **bounds: int) -> ProcessQuotas:
    world.use(settings=bounded(**bounds))
    return world.services[ProcessQuotas]


async def store(world: World, content: str, **envelope: Any) -> None:
    await world.complete(assignment(StoreMemory(content=content), **envelope))


async def verdict(world: World, content: str, **fields: Any) -> str:
    """Store a memory and return what became of it: stored, or the code of the refusal."""
    try:
        await world.complete(assignment(StoreMemory(content=content, **fields)))
    except EngramqError as refusal:
        return str(refusal.fault.code)
    return "stored"


class Counts:
    """How often it was counted."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun, read = 0, Store.read

        def reading(store: Store, namespace: str, work: Any, **how: Any) -> Any:
            self.begun += getattr(work, "__qualname__", "").startswith(ProcessQuotas.count.__qualname__)
            return read(store, namespace, work, **how)

        monkeypatch.setattr(Store, "read", reading)


class FailingStore(Store):
    """A store whose reads fail if `failing` is set."""

    def __init__(self, store: Store) -> None:
        self.__dict__.update(store.__dict__)
        self.failing = True

    async def read(self, namespace: str, work: Callable[[Transaction], Awaitable[T]], *, by_keys: bool = False) -> T:
        if self.failing:
            raise refuse(FaultCode.UNAVAILABLE, "The database refused (57014).")
        return await super().read(namespace, work, by_keys=by_keys)


async def imported(world: World, *contents: str, **more: Any) -> BatchImported:
    records = tuple(ImportRecord(content=content, external_id=f"x{i}") for i, content in enumerate(contents))
    return await world.ask(BatchImported, ImportBatch(records=records, **more))


@pytest.mark.parametrize(
    ("bounds", "setting"),
    [
        ({"memories": 2}, "memories in ENGRAMQ_QUOTAS"),
        ({"bytes": 7}, "bytes in ENGRAMQ_QUOTAS"),
        ({"principal_memories": 2}, "principal_memories in ENGRAMQ_QUOTAS"),
        ({"principal_bytes": 7}, "principal_bytes in ENGRAMQ_QUOTAS"),
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
    if "principal" in setting:
        await store(world, "three", principal=OTHER)
    else:
        with refused(FaultCode.QUOTA_EXCEEDED):
            await store(world, "three", principal=OTHER)


async def test_archiving_makes_no_room_and_erasing_does_at_once(world: World) -> None:
    bound(world, memories=1)
    memory_id = (await world.keep("one")).stored.id
    await world.ask(Forgotten, ForgetMemory(memory_id=memory_id))
    assert await verdict(world, "two") == "quota_exceeded"
    await world.ask(Forgotten, ForgetMemory(memory_id=memory_id, erase=True))
    assert await verdict(world, "two") == "stored"
    assert await verdict(world, "three") == "quota_exceeded"
    await world.complete(assignment(PurgeMemories(created_by="I/O", erase=True)))
    assert await verdict(world, "three") == "stored"


async def test_a_refused_store_takes_no_room(world: World) -> None:
    bound(world, memories=3)
    assert await verdict(world, "one", external_id="x") == "stored"
    for _ in range(4):
        assert await verdict(world, "one", external_id="x") == "external_id_taken"
    assert [await verdict(world, content) for content in ("two", "three", "four")] == [
        "stored",
        "stored",
        "quota_exceeded",
    ]
    assert world.count("memories") == 3


@pytest.mark.parametrize("bounds", [{"memories": 5}, {"principal_bytes": 10}])
async def test_stores_at_once_fill_a_quota_and_no_more(
    world: World, monkeypatch: pytest.MonkeyPatch, bounds: dict[str, int]
) -> None:
    counts = Counts(monkeypatch)
    bound(world, **bounds)
    verdicts = await asyncio.gather(*(verdict(world, f"m{number % 10}") for number in range(12)))
    assert sorted(verdicts) == ["quota_exceeded"] * 7 + ["stored"] * 5
    assert world.count("memories") == 5
    assert counts.begun <= 6  # one serves many


async def test_what_a_transaction_has_taken_counts_for_all_and_is_given_back(world: World) -> None:
    bounds = ProcessQuotas(bounded(memories=2), world.store)

    async def take(tx: Transaction) -> None:
        allowance = Allowance(bounds, tx, "ada", 0.0)
        for _ in range(2):
            allowance.take("x", {})
        for other in (allowance, Allowance(bounds, tx, "ben", 0.0)):
            with refused(FaultCode.QUOTA_EXCEEDED):
                other.take("x", {})
        raise refuse(FaultCode.FORBIDDEN, "Undone.")

    for _ in range(2):
        with refused(FaultCode.FORBIDDEN):
            await world.store.write("acme", take)
    assert bounds.namespace("acme").written == []


async def test_a_count_serves_for_some_seconds_and_none_is_made_without_a_quota(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = Counts(monkeypatch)
    await store(world, "free")
    assert counts.begun == 0
    bounds = bound(world, memories=4)
    for content in ("one", "two"):
        await store(world, content)
    assert counts.begun == 1
    bounds.namespace(DEFAULT_NAMESPACE).until = 0.0  # it has served
    await store(world, "three")
    assert counts.begun == 2
    for _ in range(3):  # each refusal rests on a count that is younger than what it refuses
        assert await verdict(world, "four") == "quota_exceeded"
    assert counts.begun >= 5


async def test_a_count_that_fails_is_told_and_not_made_again_at_once(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    settings, failing = bounded(memories=3), FailingStore(world.store)
    bounds = ProcessQuotas(settings, failing)
    world.use(bounds, settings=settings)
    for content in ("one", "two", "three"):
        assert await verdict(world, content) == "stored"
    assert await verdict(world, "four") == "quota_exceeded"  # by what this process has stored itself
    assert caplog.text.count("A quota was not counted") == 1
    failing.failing = False
    bounds.namespace(DEFAULT_NAMESPACE).until = 0.0
    assert await verdict(world, "four") == "quota_exceeded"
    assert (bounds.namespace(DEFAULT_NAMESPACE).failed, caplog.text.count("A quota was not counted")) == (False, 1)


async def test_rows_of_an_import_over_a_quota_are_rejected_and_the_others_stored(world: World) -> None:
    bound(world, memories=3, bytes=30)
    reply = await imported(world, "one", "two", "three", "four")
    assert (reply.stored, reply.rejected) == (3, 1)
    (rejected,) = [receipt for receipt in reply.receipts if receipt.status == "rejected"]
    assert (rejected.index, rejected.field) == (3, "content")
    assert "(memories in ENGRAMQ_QUOTAS)" in str(rejected.error)
    assert (await imported(world, "one", "two", "three")).skipped == 3
    reply = await imported(world, "a much longer content than before", "dos", on_duplicate=OnDuplicate.UPDATE)
    assert [str(receipt.status) for receipt in reply.receipts] == ["rejected", "updated"]
    assert "(bytes in ENGRAMQ_QUOTAS)" in str(reply.receipts[0].error)
    assert {row["content"] for row in world.rows("select content from memories")} == {"one", "dos", "three"}


async def test_a_row_that_is_rejected_for_another_reason_takes_no_room(world: World) -> None:
    bound(world, bytes=60_020)
    wide = {"a": "y" * 60_000}
    await world.ask(BatchImported, ImportBatch(records=(ImportRecord(content="x", external_id="x0", metadata=wide),)))
    records = (
        ImportRecord(content="x", external_id="x0", metadata={"b": "y" * 10_000}),  # merged it would be too large
        ImportRecord(content="z", external_id="x1"),
    )
    reply = await world.ask(BatchImported, ImportBatch(records=records, on_duplicate=OnDuplicate.UPDATE))
    assert [(str(receipt.status), receipt.field or None) for receipt in reply.receipts] == [
        ("rejected", "metadata"),
        ("stored", None),
    ]


async def test_an_import_can_make_the_room_that_its_next_row_takes(world: World) -> None:
    bound(world, bytes=12)
    await imported(world, "ten bytes.")
    reply = await imported(world, "six b.", "six b.", on_duplicate=OnDuplicate.UPDATE)
    assert [str(receipt.status) for receipt in reply.receipts] == ["updated", "rejected"]  # new rows are written first
    reply = await imported(world, "six b.", "six b.", on_duplicate=OnDuplicate.UPDATE)
    assert [str(receipt.status) for receipt in reply.receipts] == ["skipped", "stored"]


async def test_metadata_count_as_much_as_contents(world: World) -> None:
    bound(world, bytes=100)
    metadata = {"kéy": ["y" * 60, 1, None]}
    memory_id = (await world.keep("x", metadata=metadata)).stored.id
    counted = world.services[ProcessQuotas]
    await counted.count(DEFAULT_NAMESPACE, time.monotonic())
    known = counted.namespace(DEFAULT_NAMESPACE).counted
    assert (known[None, "memories"], known[None, "bytes"]) == (1, quotas.size_of("x", metadata))
    with refused(FaultCode.QUOTA_EXCEEDED):
        await world.keep("x", metadata=metadata)
    with refused(FaultCode.QUOTA_EXCEEDED):
        await world.complete(assignment(UpdateMemory(memory_id=memory_id, metadata={"more": "y" * 30})))
    assert world.rows("select metadata from memories") == [{"metadata": metadata}]
    await world.complete(assignment(UpdateMemory(memory_id=memory_id, metadata={"m": 1}, add_tags=("also",))))
    await world.complete(assignment(UpdateMemory(memory_id=memory_id, clear=("metadata",))))
    assert await verdict(world, "y" * 99) == "stored"


@pytest.mark.promise("PV-1")
async def test_a_refusal_by_a_quota_does_not_say_how_much_is_there(world: World) -> None:
    bound(world, bytes=100, principal_bytes=100)
    private = StoreMemory(content="x" * 57, visibility=Visibility.PRIVATE)
    await world.complete(assignment(private, principal=OTHER))
    for owner in (Principal(name="ben", scopes=ALL_SCOPES), Principal(name="other", scopes=ALL_SCOPES, untrusted=True)):
        with refused(FaultCode.QUOTA_EXCEEDED) as faults:
            await store(world, "y" * 50, principal=owner)
        assert "no more than 100 bytes" in faults[0].error
        assert "57" not in faults[0].error


@pytest.mark.parametrize("full", ["updater", "creator"])
async def test_who_makes_anothers_memory_larger_needs_room_and_so_does_its_creator(world: World, full: str) -> None:
    bound(world, principal_bytes=20)
    await imported(world, "x" * 10)  # the creator has room for 10 more
    if full == "updater":
        await store(world, "y" * 15, principal=OTHER)
    records = (ImportRecord(content="x" * (16 if full == "updater" else 21), external_id="x0"),)
    command = ImportBatch(records=records, on_duplicate=OnDuplicate.UPDATE)
    (receipt,) = (await world.ask(BatchImported, command, principal=OTHER)).receipts
    assert str(receipt.status) == "rejected"
    assert ("The principal" if full == "updater" else "The memory's creator") in str(receipt.error)
    command = ImportBatch(records=(ImportRecord(content="x" * 15, external_id="x0"),), on_duplicate=OnDuplicate.UPDATE)
    assert (await world.ask(BatchImported, command, principal=OTHER)).updated == 1
    with refused(FaultCode.QUOTA_EXCEEDED):  # it counts as its creator's
        await store(world, "z" * 6)
    await store(world, "z" * 5)
