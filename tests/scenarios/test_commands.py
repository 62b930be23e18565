"""Idempotency, commands asked about later, gateways that come and go, and what the model's absence does."""

import asyncio

import pytest

from engramq.gateway.service import Service
from engramq.schemas.settings import Settings
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
@pytest.mark.promise("QP-2")
async def test_each_of_three_gateways_gets_its_own_replies_from_three_workers(settings: Settings) -> None:
    async with running_workers(settings), running_workers(settings), staged(settings) as stage:
        services = [await stage.gateway() for _ in range(3)]

        async def store(number: int) -> None:
            async with agent_of(services[number % 3], principal=f"agent {number}") as agent:
                content = f"Note number {number}"
                assert (await agent.store(content))["content"] == content

        await asyncio.gather(*(store(number) for number in range(60)))


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


@pytest.mark.promise("CN-40", "CN-41", "CN-42", "CN-43", "CN-44")
async def test_breadcrumbs_follow_a_session_over_gateways_and_belong_to_their_principal(stage: Stage) -> None:
    one, two = await stage.gateway(), await stage.gateway()
    async with agent_of(one) as agent, agent_of(two) as replica, agent_of(two, principal="other") as stranger:
        first = (await agent.store("Lions live in Africa", session="zoo"))["id"]
        second = (await agent.store("Penguins live in the Antarctic", session="zoo"))["id"]
        recalled = [memory["id"] for memory in await agent.search("Where do lions live?", session="zoo")]
        trail = await replica.call("get_breadcrumbs", session="zoo")
        assert trail["last_stored_id"] == second
        assert trail["last_recalled_ids"] == recalled
        assert trail["session_memory_ids"] == [first, second]
        shown = await replica.call("get_memory", memory_id="@recalled[0]", session="zoo")
        assert shown["memory"]["id"] == recalled[0]
        assert (await replica.call("update_memory", memory_id="@stored", session="zoo", confidence=0.5))["memory"][
            "id"
        ] == second
        for nothing in ("@recalled[7]", "@nonsense"):
            assert await replica.refusal_of("get_memory", memory_id=nothing, session="zoo") == "memory_id"
        assert (await stranger.call("get_breadcrumbs", session="zoo"))["session_memory_ids"] == []
        assert (await stranger.call("get_memory", memory_id="@stored", session="zoo"))["field"] == "memory_id"
        begun = await agent.call("begin_session", session="zoo")
        assert begun["session"] == "zoo"
        assert (await replica.call("get_breadcrumbs", session="zoo"))["session_memory_ids"] == []


@pytest.mark.promise("CN-43")
async def test_breadcrumbs_outlive_the_gateway_that_wrote_them(settings: Settings) -> None:
    async with running_workers(settings):
        async with staged(settings, workers=False) as before, agent_of(await before.gateway()) as agent:
            stored = await agent.store("Remember me")
        async with staged(settings, workers=False) as after, agent_of(await after.gateway()) as agent:
            assert (await agent.call("get_breadcrumbs"))["last_stored_id"] == stored["id"]
