"""Storing memories, through the handler, on a real database."""

import asyncio
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import msgspec
import pytest
from msgspec import UNSET

from engramq.schemas.commands import (
    EmbedPending,
    ForgetMemory,
    Forgotten,
    PendingEmbedded,
    Stored,
    StoreMemory,
    Superseded,
    SupersedeMemory,
)
from engramq.schemas.envelope import Principal
from engramq.schemas.faults import FaultCode
from engramq.schemas.vocabulary import (
    ALL_SCOPES,
    DEFAULT_NAMESPACE,
    MemorySource,
    MemoryState,
    Partition,
    Sector,
    SectorSource,
    Verification,
)
from engramq.workers.db import vectors
from engramq.workers.db.queries import sized_sql
from engramq.workers.db.vectors import Embedding
from engramq.workers.memories.pending import Vectorized, activate
from engramq.workers.queue.contract import LeaseLost
from tests.assignments import assignment, repeated
from tests.refusals import refused
from tests.workers.conftest import World


@pytest.mark.promise("MT-1", "MT-2", "TP-3")
async def test_a_store_returns_the_memory_with_its_defaults(world: World) -> None:
    stored = await world.keep("The deploy needs port 8443 open")
    memory = stored.stored
    assert stored.status == "stored"
    assert stored.similar_memories == []
    assert stored.degraded is UNSET
    assert (memory.confidence, memory.source) == (1.0, MemorySource.EXTRACTED)
    assert (memory.partition, memory.verification, memory.state) == (
        Partition.TRUSTED,
        Verification.UNVERIFIED,
        MemoryState.ACTIVE,
    )
    assert (memory.sector, memory.sector_source) == (Sector.SEMANTIC, None)
    assert memory.usefulness == 0.75
    assert memory.created_at == memory.updated_at
    assert memory.created_at.endswith("Z")
    assert len(memory.created_at) == 27
    assert stored.command_id
    assert "embedding" not in msgspec.to_builtins(memory)


@pytest.mark.promise("MT-2", "MT-12")
async def test_what_a_caller_says_is_kept(world: World) -> None:
    said: dict[str, Any] = {
        "confidence": 0.25,
        "source": MemorySource.EXPLICIT,
        "source_type": "lesson_learned",
        "verification": Verification.APPROVED,
        "sector": Sector.PROCEDURAL,
        "speaker": "Ana",
        "occurred_at": datetime(2026, 3, 1, 12, 30, tzinfo=UTC),
        "thread": "retro",
        "position": 7,
        "external_id": "row-1",
        "metadata": {"nested": {"ünï": [1, 2.5, None, "😀"]}},
    }
    memory = (await world.keep("Roll back first, ask later", **said)).stored
    assert memory.occurred_at == "2026-03-01T12:30:00.000000Z"
    assert memory.sector_source is SectorSource.MANUAL
    for name in said.keys() - {"occurred_at"}:
        assert getattr(memory, name) == said[name]


@pytest.mark.promise("MT-3")
async def test_similar_memories_are_visible_ones_of_its_partition_best_first(world: World) -> None:
    text = "The staging cluster runs Kubernetes 1.31 on three nodes"
    exact = await world.keep(text)
    near = await world.keep("The staging cluster runs Kubernetes 1.29 on three nodes")
    hidden = await world.keep(text)
    archived = await world.keep(text)
    rejected = await world.keep(text, verification=Verification.REJECTED)
    untrusted = await world.keep(text, partition=Partition.UNTRUSTED)
    other = await world.keep(text, namespace="somebody-else")
    await world.keep("Nobody waters the plants on Fridays")
    await world.ask(Superseded, SupersedeMemory(old_memory_id=hidden.stored.id, new_memory_id=near.stored.id))
    await world.ask(Forgotten, ForgetMemory(memory_id=archived.stored.id))
    shown = (await world.keep(text)).similar_memories
    assert [memory.id for memory in shown] == [exact.stored.id, near.stored.id]
    assert shown[0].similarity is not UNSET
    assert shown[0].similarity > shown[1].similarity >= 0.5  # type: ignore[operator]
    never = {item.stored.id for item in (hidden, archived, rejected, untrusted, other)}
    assert never.isdisjoint(memory.id for memory in shown)


@pytest.mark.promise("MT-3")
async def test_at_most_five_similar_memories_are_shown(world: World) -> None:
    for _ in range(7):
        await world.keep("The same words over and over")
    assert len((await world.keep("The same words over and over")).similar_memories) == 5


@pytest.mark.own_database
@pytest.mark.promise("MT-3")
async def test_the_vector_index_shows_the_same_similar_memories_as_an_exact_scan(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(60):
        await world.keep(f"Sensor {number % 6} reported {number} degrees", namespace=f"plant {number % 2}")
    exact = await world.keep("Sensor 3 reported 9 degrees", namespace="plant 1")
    await world.ask(Forgotten, ForgetMemory(memory_id=exact.stored.id, erase=True), namespace="plant 1")
    monkeypatch.setattr(vectors, "SMALL_ROWS", 0)
    monkeypatch.setattr(vectors, "EXACT_ROWS", 0)
    for setting in ("enable_seqscan", "enable_sort"):  # the table is too small for the planner to take the index
        world.rows(f"alter database {world.database.name} set {setting} = off")
    await world.store._pool.drop_idle()
    by_index = await world.keep("Sensor 3 reported 9 degrees", namespace="plant 1")
    assert len(exact.similar_memories) == 5
    assert [(memory.id, memory.similarity) for memory in by_index.similar_memories] == [
        (memory.id, memory.similarity) for memory in exact.similar_memories
    ]
    embedding = vectors.Embedding.of(1, (await world.model.embed(["x"]))[0])
    values: dict[str, Any] = {
        "model_id": 1,
        "partitions": ["trusted"],
        "partition": "trusted",
        "include_superseded": False,
        "as_of": None,
        "project": None,
        "k": 5,
    }
    values |= {"embedding": embedding.half, "farthest": 0.5}
    query = b"explain " + sized_sql("nearest_by_index", 384)
    plan = await world.store.read("plant 1", lambda tx: tx.rows(query, **values))
    assert any("memories_trusted_embedding" in row["QUERY PLAN"] for row in plan)


@pytest.mark.promise("TP-4", "TP-21")
async def test_an_untrusted_store_is_shown_trusted_ones_only(world: World) -> None:
    trusted = await world.keep("Bees dance to show the way")
    first = await world.keep("Bees dance to show the way", source_type="research")
    second = await world.keep("Bees dance to show the way", source_type="research")
    assert first.stored.partition is Partition.UNTRUSTED
    assert first.stored.untrusted is True
    assert first.stored.warning
    assert [memory.id for memory in second.similar_memories] == [trusted.stored.id]
    assert len((await world.keep("Bees dance to show the way")).similar_memories) == 1


@pytest.mark.promise("TP-2")
async def test_partitions_are_two_tables_of_one(world: World) -> None:
    await world.keep("for everybody")
    await world.keep("from the web", source_type="research")
    assert [world.count("memories_trusted"), world.count("memories_untrusted"), world.count("memories")] == [1, 1, 2]


@pytest.mark.promise("MT-1")
async def test_an_external_id_belongs_to_the_first(world: World) -> None:
    first = await world.keep("one", external_id="doc-1")
    with refused(FaultCode.EXTERNAL_ID_TAKEN) as faults:
        await world.keep("two", external_id="doc-1")
    assert faults[0].memory_id == first.stored.id
    assert (await world.keep("two", external_id="doc-1", namespace="another")).stored.external_id == "doc-1"
    assert world.count("memories") == 2


@pytest.mark.promise("TP-21")
async def test_nobody_is_told_to_use_an_untrusted_memory_that_took_the_external_id(world: World) -> None:
    squatter = await world.keep("squatted", external_id="invoice-42", source_type="research")
    with refused(FaultCode.EXTERNAL_ID_TAKEN) as faults:
        await world.keep("the invoice", external_id="invoice-42")
    assert faults[0].memory_id == squatter.stored.id
    assert "untrusted" in faults[0].error
    assert "Use the memory" not in faults[0].recovery


async def test_of_eight_stores_with_one_external_id_one_wins_and_is_named(world: World) -> None:
    jobs = [assignment(StoreMemory(content=f"claim {number}", external_id="doc-1")) for number in range(8)]
    results = await asyncio.gather(*(world.complete(item) for item in jobs), return_exceptions=True)
    winners = [result.reply.stored.id for result in results if not isinstance(result, BaseException)]  # type: ignore[attr-defined]
    named = {result.fault.memory_id for result in results if isinstance(result, BaseException)}  # type: ignore[attr-defined]
    assert len(winners) == 1
    assert named == set(winners)
    assert world.count("memories") == 1


@pytest.mark.promise("MT-11")
async def test_without_the_model_a_memory_is_kept_pending_and_completed_later(world: World) -> None:
    world.model.down = True
    stored = await world.keep("The backup runs at four")
    assert stored.degraded is True
    assert stored.stored.state is MemoryState.PENDING
    assert stored.similar_memories == []
    found = world.rows("select node_id from memories where lexemes @@ lexeme_query(tenant, 'backup')")
    assert [str(row["node_id"]) for row in found] == [stored.stored.id]
    world.model.down = False
    follow_ups = await world.upkeep.look()
    for item in follow_ups:
        await world.ask(PendingEmbedded, item.command, namespace=item.namespace)
    assert world.rows("select state, embedding is not null as whole from memories") == [
        {"state": "active", "whole": True}
    ]
    assert [memory.id for memory in (await world.keep("The backup runs at four")).similar_memories] == [
        stored.stored.id
    ]


@pytest.mark.promise("MT-11")
async def test_giving_vectors_leaves_alone_what_is_not_pending(world: World) -> None:
    world.model.down = True
    pending = [await world.keep(f"waiting {number}", sector=Sector.EPISODIC) for number in range(3)]
    await world.ask(Forgotten, ForgetMemory(memory_id=pending[0].stored.id))
    world.model.down = False
    ids = (*(item.stored.id for item in pending), "not-an-id")
    assert (await world.ask(PendingEmbedded, EmbedPending(memory_ids=ids))).activated == 2
    assert (await world.ask(PendingEmbedded, EmbedPending(memory_ids=ids))).activated == 0
    assert sorted((row["state"], row["sector_source"]) for row in world.rows("select * from memories")) == [
        ("active", "manual"),
        ("active", "manual"),
        ("archived", "manual"),
    ]


async def test_a_vector_that_comes_late_is_not_given_to_another_content(world: World) -> None:
    world.model.down = True
    kept = UUID((await world.keep("as it was")).stored.id)
    world.model.down = False
    model_id = await world.store.register_embedding_model("hash", "", 384)
    (vector,) = await world.model.embed(["as it was"])
    late = Vectorized(kept, "as it was", Embedding.of(model_id, vector))
    world.rows("update memories set content = 'as it is'")
    assert await world.store.write(DEFAULT_NAMESPACE, lambda tx: activate(tx, [late])) == []
    assert [row["state"] for row in world.rows("select state from memories")] == ["pending"]
    assert (await world.ask(PendingEmbedded, EmbedPending(memory_ids=(str(kept),)))).activated == 1


@pytest.mark.promise("MT-18")
async def test_the_same_idempotency_key_stores_once_and_returns_the_first_reply(world: World) -> None:
    command = StoreMemory(content="only once", metadata={"a": 1}, external_id="x")
    first = await world.complete(assignment(command, idempotency_key="k"))
    embedded = world.model.embedded
    again = await world.complete(assignment(command, idempotency_key="k"))
    assert msgspec.to_builtins(again.reply) == msgspec.to_builtins(first.reply)
    assert (first.replayed, again.replayed) == (False, True)
    assert world.model.embedded == embedded
    assert world.count("memories") == 1


@pytest.mark.promise("MT-18")
async def test_the_same_key_with_other_arguments_or_another_tool_is_a_conflict(world: World) -> None:
    first = await world.complete(assignment(StoreMemory(content="one"), idempotency_key="k"))
    with refused(FaultCode.IDEMPOTENCY_CONFLICT) as faults:
        await world.complete(assignment(StoreMemory(content="two"), idempotency_key="k"))
    assert isinstance(first.reply, Stored)
    assert faults[0].memory_id == first.reply.stored.id
    with refused(FaultCode.IDEMPOTENCY_CONFLICT):
        await world.complete(assignment(ForgetMemory(memory_id=first.reply.stored.id), idempotency_key="k"))
    assert world.count("memories") == 1
    await world.complete(assignment(ForgetMemory(memory_id=first.reply.stored.id, erase=True)))
    with refused(FaultCode.IDEMPOTENCY_CONFLICT) as faults:
        await world.complete(assignment(StoreMemory(content="two"), idempotency_key="k"))
    assert faults[0].memory_id is UNSET


@pytest.mark.promise("MT-18")
async def test_anothers_same_key_is_another_memory(world: World) -> None:
    command = StoreMemory(content="mine or yours")
    await world.complete(assignment(command, idempotency_key="k"))
    await world.complete(assignment(command, idempotency_key="k", principal=Principal(name="you", scopes=ALL_SCOPES)))
    await world.complete(assignment(command, idempotency_key="k", namespace="theirs"))
    assert world.count("memories") == 3


async def test_a_refused_store_leaves_its_key_free(world: World) -> None:
    refusal = StoreMemory(content="x", source_type="research", partition=Partition.TRUSTED)
    with refused(FaultCode.UNTRUSTED_SOURCE):
        await world.complete(assignment(refusal, idempotency_key="k"))
    await world.complete(assignment(StoreMemory(content="x"), idempotency_key="k"))
    assert world.count("memories") == 1


async def test_a_command_delivered_twice_at_once_has_one_effect_and_one_answer(world: World) -> None:
    first = assignment(StoreMemory(content="delivered often"))
    outcomes = await asyncio.gather(*(world.complete(repeated(first)) for _ in range(8)))
    assert len({outcome.reply.stored.id for outcome in outcomes}) == 1  # type: ignore[attr-defined]
    assert not any(outcome.replayed for outcome in outcomes)
    assert world.count("memories") == 1


@pytest.mark.promise("QP-12")
async def test_a_worker_whose_lease_is_lost_before_the_commit_leaves_nothing(world: World) -> None:
    late = assignment(StoreMemory(content="too late"))
    late.lease.lost = True
    with pytest.raises(LeaseLost):
        await world.complete(late)
    assert [world.count("nodes"), world.count("memories"), world.count("ledger")] == [0, 0, 0]


@pytest.mark.promise("QP-12", "MT-19")
async def test_a_late_attempt_of_its_store_does_not_bring_an_erased_memory_back(world: World) -> None:
    first = assignment(StoreMemory(content="forget me"), idempotency_key="k")
    reply = (await world.complete(first)).reply
    assert isinstance(reply, Stored)
    await world.ask(Forgotten, ForgetMemory(memory_id=reply.stored.id, erase=True))
    for late in (repeated(first), repeated(first, attempt=2), assignment(first.envelope.command, idempotency_key="k")):
        answer = (await world.complete(late)).reply
        assert isinstance(answer, Forgotten)
        assert (answer.status, answer.id) == ("erased", reply.stored.id)
    assert world.count("memories") == 0
