"""Servers that are there and refuse: named in error, log, readiness and status, each shown by a real one."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from redis.exceptions import BusyLoadingError, ResponseError

from engramq.deploy.cli.status import health_line
from engramq.deploy.local.supervisor.supervise import health
from engramq.gateway.run import Gateway
from engramq.schemas.checks import Health
from engramq.schemas.commands import Ping, Pong, Stored, StoreMemory
from engramq.schemas.envelope import Answer
from engramq.schemas.faults import EngramqError, FaultCode
from engramq.schemas.redis_problems import refusal_of
from engramq.schemas.vocabulary import WorkerKind
from engramq.workers.queue.contract import Assignment, Completion, RunAssignment, WorkerSpec
from tests.gateway.conftest import gateway_over
from tests.gateway.test_stdio_sessions import serving
from tests.queue.conftest import keys, own_server, own_stage
from tests.queue.server import Server
from tests.queue.stage import ADA, NAMESPACE, Stage, an_actor, echo
from tests.queue.worker_process import a_memory

__all__ = ["keys", "own_server", "own_stage"]

Turn = Callable[[Server, Any], Awaitable[None]]
PASSWORD = "sesame"
BOUND_S = 10.0


async def store(_assignment: Assignment) -> Completion:
    return Completion(Stored(stored=a_memory("x")))


async def fill_memory(_server: Server, redis: Any) -> None:
    await redis.config_set("maxmemory", "1mb")


async def free_memory(_server: Server, redis: Any) -> None:
    await redis.config_set("maxmemory", "0")


async def follow(_server: Server, redis: Any) -> None:
    await redis.execute_command("REPLICAOF", "127.0.0.1", "1")


async def lead(_server: Server, redis: Any) -> None:
    await redis.execute_command("REPLICAOF", "NO", "ONE")


async def want_replicas(_server: Server, redis: Any) -> None:
    await redis.config_set("min-replicas-to-write", "1")


async def want_none(_server: Server, redis: Any) -> None:
    await redis.config_set("min-replicas-to-write", "0")


async def want_password(_server: Server, redis: Any) -> None:
    await redis.config_set("requirepass", PASSWORD)
    await redis.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    await asyncio.sleep(0)  # the gateway sees that its connections are closed


async def want_no_password(_server: Server, redis: Any) -> None:
    await redis.config_set("requirepass", "")


async def fill_disk(server: Server, redis: Any) -> None:
    server.limit_files(0)
    with suppress(ResponseError):
        async with asyncio.timeout(BOUND_S):
            while True:  # the first write is answered before it fails to reach the disk
                await redis.set("fill", "disk")


async def free_disk(server: Server, redis: Any) -> None:
    server.limit_files(-1)
    async with asyncio.timeout(BOUND_S):
        while (await redis.info("persistence"))["aof_last_write_status"] != "ok":
            await asyncio.sleep(0.05)


def all_actors(answer: RunAssignment) -> list[WorkerSpec]:
    """Return an actor of every kind, since without one the installation is degraded."""
    return [an_actor(answer, store, kind=kind) for kind in WorkerKind]


async def until_ready(gateway: Gateway) -> None:
    """Return when workers of every kind have given a sign of life, a moment after they listen."""
    async with asyncio.timeout(BOUND_S):
        while (await gateway.overview()).without_details().status != "ready":
            await asyncio.sleep(0.05)


@pytest.fixture
async def gateway(own_server: Server, own_stage: Stage) -> AsyncIterator[Gateway]:
    await own_stage.workers(*all_actors(echo))
    async with gateway_over(own_server.url, own_stage.keys) as gateway:
        yield gateway


async def asked(gateway: Gateway, command: Ping | StoreMemory) -> Answer:
    answer = await gateway._bus.ask(command, namespace=NAMESPACE, principal=ADA)
    assert isinstance(answer, Answer)
    return answer


@pytest.mark.promise("QP-17")
@pytest.mark.parametrize(
    ("refuse", "mend", "name", "code", "status"),
    [
        (fill_memory, free_memory, "Redis is out of memory.", FaultCode.OVERLOADED, "degraded"),
        (follow, lead, "Redis is a read-only replica.", FaultCode.UNAVAILABLE, "unavailable"),
        (want_replicas, want_none, "Redis has too few replicas to take writes.", FaultCode.UNAVAILABLE, "unavailable"),
        (
            want_password,
            want_no_password,
            "Redis wants a password, or another one.",
            FaultCode.UNAVAILABLE,
            "unavailable",
        ),
        (fill_disk, free_disk, "Redis cannot write to its disk.", FaultCode.UNAVAILABLE, "unavailable"),
    ],
)
async def test_what_redis_refuses_is_named_everywhere_and_over_when_it_is(
    refuse: Turn, mend: Turn, name: str, code: FaultCode, status: str,
    gateway: Gateway, own_server: Server, own_stage: Stage, caplog: pytest.LogCaptureFixture, socket_path: Path,
) -> None:  # fmt: skip
    await until_ready(gateway)
    own = own_stage.redis
    await refuse(own_server, own)
    try:
        with caplog.at_level(logging.ERROR), pytest.raises(EngramqError) as refusal:
            async with asyncio.timeout(1.5):
                await asked(gateway, StoreMemory(content="x" * 1000))
        fault = refusal.value.fault
        assert (fault.code, fault.error) == (code, name)
        assert "Nothing was applied" in fault.recovery
        assert name in [vars(record).get("error") for record in caplog.records]
        assert len([record for record in caplog.records if record.name.startswith("engramq.gateway")]) < 5
        found = (await gateway.overview()).without_details()
        assert (found.status, found.refused) == (status, [name])
        if status == "degraded":
            assert isinstance((await asked(gateway, Ping())).reply, Pong), "reads go on"
        async with serving(gateway, socket_path):
            told = await asyncio.to_thread(health, socket_path)
        assert told is not None
        assert name in health_line(told)
        assert health_line(told).startswith(f"{status}: ")
    finally:
        await mend(own_server, own)
    async with asyncio.timeout(BOUND_S):
        while (await gateway.overview()).without_details().missing:
            await asyncio.sleep(0.05)
    assert isinstance((await asked(gateway, StoreMemory(content="x"))).reply, Stored)
    await until_ready(gateway)
    assert (await gateway.overview()).without_details() == Health("ready")


@pytest.mark.long
@pytest.mark.promise("QP-17")
async def test_a_redis_that_still_loads_its_data_is_named_and_waited_for(own_server: Server, own_stage: Stage) -> None:
    pipe = own_stage.redis.pipeline(transaction=False)
    for number in range(60_000):
        pipe.set(f"key-{number}", "x" * 50)
    await pipe.execute()
    own_server.kill()
    own_server.start(wait=False, key_load_delay="100")
    async with gateway_over(own_server.url, own_stage.keys) as gateway:
        async with asyncio.timeout(BOUND_S):
            while not (found := (await gateway.overview()).without_details()).refused:
                assert found.missing == ["redis"]
        assert (found.missing, found.refused) == (["redis"], ["Redis is still loading its data."])
        await own_stage.redis.config_set("key-load-delay", "0")
        await own_stage.workers(*all_actors(echo))
        async with asyncio.timeout(BOUND_S):
            while (await gateway.overview()).without_details().status != "ready":
                await asyncio.sleep(0.05)


@pytest.mark.promise("QP-17")
@pytest.mark.parametrize(
    ("pong", "expected"),
    [
        (Pong(refused="The database is read-only."), Health("degraded", refused=["The database is read-only."])),
        (
            Pong(refused="The database cannot be reached.", reads=False),
            Health("unavailable", ["database"], ["The database cannot be reached."]),
        ),
    ],
)
async def test_readiness_tells_what_the_database_refuses(
    own_server: Server, own_stage: Stage, pong: Pong, expected: Health
) -> None:
    async def answer(_assignment: Assignment) -> Completion:
        return Completion(pong)

    await own_stage.workers(*all_actors(answer))
    async with gateway_over(own_server.url, own_stage.keys) as gateway:
        async with asyncio.timeout(BOUND_S):
            while (
                len((found := (await gateway.overview()).without_details()).checks) > 1
            ):  # a sign of life is still to come
                await asyncio.sleep(0.05)
        (check,) = found.checks
        assert (check.name, check.told) == ("database", pong.refused)
        assert check.mend
        assert msgspec.structs.replace(found, checks=[]) == expected


def test_a_server_that_makes_another_error_refuses_nothing() -> None:
    assert refusal_of(ResponseError("WRONGTYPE of a key")) == ""
    assert refusal_of(OSError("MISCONF")) == ""
    assert refusal_of(BusyLoadingError("x")) == "Redis is still loading its data."


def test_without_a_gateway_the_status_says_so(tmp_path: Path) -> None:
    assert health(tmp_path / "nobody.sock") is None
    assert health_line({}) == "-"
