"""Idempotency, commands asked about later, gateways that come and go, and what the model's absence does."""

import asyncio

import pytest

from engramq.gateway.service import Service
from engramq.schemas.vocabulary import Scope, WorkerKind
from tests.conftest import Database
from tests.scenarios.stage import Stage, agent_of, running_workers, stage_settings, staged, until

BOUND_S = 20.0


@pytest.fixture
async def service(stage: Stage) -> Service:
    return await stage.gateway()


@pytest.mark.promise("MT-18", "CN-39")
async def test_one_key_makes_one_memory_also_when_eight_ask_at_once_and_gateways_change(stage: Stage) -> None:
    services = [await stage.gateway() for _ in range(3)]

    async def store(service: Service, content: str = "Pay the invoice", principal: str = "I/O") -> dict[str, object]:
        async with agent_of(service, principal=principal) as agent:
            return await agent.call("store_memory", content=content, idempotency_key="invoice-1")

    at_once = await asyncio.gather(*(store(services[number % 3]) for number in range(8)))
    later = await store(await stage.gateway())
    assert all(body == at_once[0] for body in [*at_once, later])
    conflict = await store(services[0], "Pay another invoice")
    assert conflict["code"] == "idempotency_conflict"
    somebody_else = await store(services[0], principal="somebody else")
    assert somebody_else["status"] == "stored"
    async with agent_of(services[0]) as agent:
        other_tool = await agent.call("forget_memory", memory_id="@stored", idempotency_key="invoice-1")
        assert other_tool["code"] == "idempotency_conflict"
        assert await agent.recent() == ["Pay the invoice", "Pay the invoice"]


@pytest.mark.promise("MT-18")
async def test_a_repeated_reference_is_the_same_request_and_an_erased_memory_is_told_of(service: Service) -> None:
    async with agent_of(service) as agent:
        first = await agent.call("store_memory", content="Here today", idempotency_key="store")
        forgotten = await agent.call("forget_memory", memory_id="@stored", idempotency_key="forget")
        await agent.store("Something else")
        assert await agent.call("forget_memory", memory_id="@stored", idempotency_key="forget") == forgotten
        await agent.call("forget_memory", memory_id=first["stored"]["id"], erase=True)
        replay = await agent.call("store_memory", content="Here today", idempotency_key="store")
        assert (replay["status"], replay["id"]) == ("erased", first["stored"]["id"])
        assert await agent.recent() == ["Something else"]


@pytest.mark.long
@pytest.mark.promise("MT-20")
async def test_without_a_model_text_is_kept_and_found_and_marked_degraded_until_it_is_back(
    database: Database, redis_url: str, key_prefix: str
) -> None:
    dead_end = stage_settings(
        database,
        redis_url,
        key_prefix,
        embedder="openai:m@384",
        embedder_url="http://127.0.0.1:9",
        test_sweep_interval_s="3600",
    )
    async with staged(dead_end) as stage, agent_of(await stage.gateway()) as agent:
        body = await agent.call("store_memory", content="The ferry leaves at noon")
        assert (body["status"], body["degraded"], body["stored"]["state"]) == ("stored", True, "pending")
        found = await agent.call("search_memories", query="When does the ferry leave?")
        assert found["degraded"] is True
        assert [(memory["content"], memory["similarity"]) for memory in found["memories"]] == [
            ("The ferry leaves at noon", None)
        ]
    healthy = stage_settings(database, redis_url, key_prefix)
    async with staged(healthy) as stage, agent_of(await stage.gateway()) as agent:

        async def is_active() -> bool:
            shown = await agent.call("get_memory", memory_id=body["stored"]["id"])
            return bool(shown["memory"]["state"] == "active")

        await until(is_active)
        (memory,) = await agent.search("ferry leaves noon", ranking="similarity")
        assert memory["similarity"] > 0.3


async def test_a_write_that_no_worker_takes_is_pending_and_done_when_one_comes(
    database: Database, redis_url: str, key_prefix: str
) -> None:
    impatient = stage_settings(database, redis_url, key_prefix, reply_timeout_s="0.3")
    async with staged(impatient, workers=False) as stage:
        service = await stage.gateway()
        async with agent_of(service) as agent:
            pending = await agent.call("store_memory", content="Eventually")
            assert pending["status"] == "pending"
            nothing = await agent.call("search_memories", query="Eventually")
            assert nothing["code"] == "unavailable"

            async def is_done() -> bool:
                report = await agent.call("get_command", command_id=pending["command_id"])
                return bool(report["status"] == "done" and report["reply"]["stored"]["content"] == "Eventually")

            async with (
                running_workers(impatient),
                agent_of(service, principal="somebody else", scopes=(Scope.READ,)) as other,
                agent_of(service, principal="an admin") as admin,
            ):
                await until(is_done)
                asked = {"command_id": pending["command_id"]}
                assert (await other.call("get_command", **asked))["status"] == "unknown"
                assert (await admin.call("get_command", **asked))["status"] == "done"


@pytest.mark.promise("SE-13")
@pytest.mark.long
async def test_an_admin_may_ask_about_anybodys_command_while_it_waits_too(
    database: Database, redis_url: str, key_prefix: str
) -> None:
    impatient = stage_settings(database, redis_url, key_prefix, reply_timeout_s="2")
    async with running_workers(impatient, WorkerKind.RECALL), staged(impatient, workers=False) as stage:
        service = await stage.gateway()
        async with (
            agent_of(service, principal="writer", scopes=(Scope.READ, Scope.WRITE)) as writer,
            agent_of(service, principal="somebody else", scopes=(Scope.READ, Scope.WRITE, Scope.VERIFY)) as other,
            agent_of(service, principal="an admin") as admin,
            agent_of(service, namespace="another tenant", principal="writer") as stranger,
        ):
            asked = {"command_id": (await writer.call("store_memory", content="Unserved"))["command_id"]}
            told = [(await item.call("get_command", **asked))["status"] for item in (writer, admin, other, stranger)]
    assert told == ["pending", "pending", "unknown", "unknown"]


@pytest.mark.long
@pytest.mark.promise("QP-8", "QP-9")
async def test_a_full_mailbox_refuses_at_once_and_serves_again_when_it_has_drained(
    database: Database, redis_url: str, key_prefix: str
) -> None:
    tight = stage_settings(database, redis_url, key_prefix, mailbox_bound="5", reply_timeout_s="5")
    async with staged(tight, workers=False) as stage:
        service = await stage.gateway()

        async def store(number: int) -> dict[str, object]:
            async with agent_of(service, principal=f"agent {number}") as agent:
                return await agent.call("store_memory", content=f"Note {number}")

        waiting = [asyncio.create_task(store(number)) for number in range(20)]
        refused = [
            body for body in [await item for item in asyncio.as_completed(waiting, timeout=BOUND_S)] if "code" in body
        ]
        assert len(refused) == 15
        assert {body["code"] for body in refused} == {"overloaded"}
        assert all(isinstance(body["retry_after_s"], float) for body in refused)

        async def is_served() -> bool:
            body = await store(99)
            assert body["status"] == "stored" or body["code"] == "overloaded", body
            return bool(body["status"] == "stored")

        async with running_workers(tight):
            await until(is_served)
