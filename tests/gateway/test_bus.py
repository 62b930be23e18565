"""A bus that fails for good: callers are answered, and its process ends, so that another one is started."""

import asyncio
import gc
import json
import logging
import os
import subprocess
import sys
import time
import weakref
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from redis.asyncio import Redis

from engramq.deploy.cli import main
from engramq.gateway.queue import lane
from engramq.gateway.queue.bus import Bus, BusFailed, Unanswered
from engramq.gateway.run import run_gateway
from engramq.schemas.commands import Command, Ping, Pong, StoreMemory
from engramq.schemas.envelope import Answer, Principal
from engramq.schemas.faults import EngramqError, FaultCode
from engramq.schemas.keys import Keys
from engramq.schemas.settings import read_settings
from engramq.schemas.vocabulary import WorkerKind
from tests.architecture.source import ROOT
from tests.gateway.worker_side import WorkerSide
from tests.lanes import lanes_at

BOUND_S = 20
START_S = 60  # of a process, on a busy machine
LOST = "The queue's connection has failed for good"
HEADERS = {"accept": "application/json", "mcp-protocol-version": "2025-11-25"}
# The gateway's command line with a defect in what reads answers.
BROKEN = """
import sys
from engramq.deploy.cli import main
from engramq.gateway.queue import lane
lane.decode_answer = lambda data: {}["defect"]
sys.exit(main())
"""


@pytest.fixture
def defect(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the task that reads answers end at the first of them."""

    def decode(_data: bytes) -> Answer:
        raise KeyError("defect")

    monkeypatch.setattr("engramq.gateway.queue.lane.decode_answer", decode)


@pytest.fixture
def sending_defect(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the task that sends commands end at the first of them."""

    def encode(_envelopes: Any, _at_ms: int) -> bytes:
        raise KeyError("defect")

    monkeypatch.setattr("engramq.gateway.queue.lane.encode_job", encode)


def bus_over(redis_url: str, keys: Keys, **more: Any) -> Bus:
    return Bus(lanes_at(redis_url, keys), mailbox_bound=100, reply_timeout_s=BOUND_S, **more)


def ask(bus: Bus, command: Command) -> Awaitable[Answer | Unanswered]:
    return bus.ask(command, namespace="ns", principal=Principal(name="me"))


async def outcome(bus: Bus, command: Command) -> str:
    """Return what became of a command, in a word."""
    try:
        answer = await ask(bus, command)
    except EngramqError as refusal:
        return refusal.fault.code.value
    return "pending" if isinstance(answer, Unanswered) else "answered"


def critical(records: list[logging.LogRecord]) -> list[tuple[str, str]]:
    return [(each.getMessage(), each.__dict__["error"]) for each in records if each.levelno == logging.CRITICAL]


def silent(_command: Any, _envelope: Any) -> None:
    """Answer nothing."""


async def seen(workers: WorkerSide, commands: int) -> None:
    """Wait until so many commands have reached the workers."""
    with anyio.fail_after(BOUND_S):
        while len(workers.seen) < commands:
            await workers.redis.ping()


async def test_when_the_bus_fails_writes_are_pending_reads_unavailable_and_the_block_ends(
    redis_url: str, keys: Keys, workers: WorkerSide, defect: None, caplog: pytest.LogCaptureFixture
) -> None:
    workers.script[StoreMemory] = silent
    said: list[str] = []

    async def use() -> None:
        async with bus_over(redis_url, keys) as bus:
            commands = (StoreMemory(content="x"), StoreMemory(content="y"))
            asked = [asyncio.create_task(outcome(bus, command)) for command in commands]
            await seen(workers, 2)
            asked.append(asyncio.create_task(outcome(bus, Ping())))  # its answer ends the task that reads
            try:
                await asyncio.Event().wait()
            finally:
                with anyio.CancelScope(shield=True):
                    said.extend(await asyncio.gather(*asked))

    with pytest.raises(BusFailed, match=r"failed for good \(KeyError\)") as failed:
        await use()
    assert said == ["pending", "pending", "unavailable"]
    assert isinstance(failed.value.__cause__, KeyError)
    assert failed.value.fault.code is FaultCode.UNAVAILABLE
    assert critical(caplog.records) == [(LOST, "KeyError")]
    assert asyncio.current_task().cancelling() == 0  # type: ignore[union-attr]


async def test_what_was_never_sent_is_unavailable_and_so_is_everything_afterwards(
    redis_url: str, keys: Keys, sending_defect: None, caplog: pytest.LogCaptureFixture
) -> None:
    failed = asyncio.Event()
    afterwards: list[str] = []

    async def use() -> None:
        async with bus_over(redis_url, keys, on_failure=failed.set) as bus:
            afterwards.append(await outcome(bus, StoreMemory(content="x")))
            await asyncio.wait_for(failed.wait(), BOUND_S)
            async with asyncio.timeout(1):  # less than any of the waits for Redis
                afterwards.extend([await outcome(bus, Ping()), await outcome(bus, StoreMemory(content="y"))])
                await bus.ready()

    with pytest.raises(EngramqError, match="The queue cannot be reached") as refusal:
        await asyncio.wait_for(use(), BOUND_S)
    assert refusal.value.fault.code is FaultCode.UNAVAILABLE
    assert afterwards == ["unavailable"] * 3
    assert critical(caplog.records) == [(LOST, "KeyError")]


async def test_an_error_of_the_block_itself_is_not_hidden(redis_url: str, keys: Keys, sending_defect: None) -> None:
    async def use() -> None:
        async with bus_over(redis_url, keys, on_failure=asyncio.Event().set) as bus:
            await outcome(bus, Ping())
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await use()


async def test_a_block_that_others_cancel_too_stays_cancelled(redis_url: str, keys: Keys, sending_defect: None) -> None:
    entered = asyncio.Event()

    async def use() -> None:
        async with bus_over(redis_url, keys) as bus:
            entered.set()
            ask_once = asyncio.create_task(outcome(bus, Ping()))
            try:
                await asyncio.Event().wait()
            finally:
                asyncio.current_task().cancel()  # type: ignore[union-attr]
                await asyncio.gather(ask_once, return_exceptions=True)

    using = asyncio.create_task(use())
    await entered.wait()
    await asyncio.wait([using], timeout=BOUND_S)
    assert using.cancelled()


@pytest.mark.parametrize("listening", ["http", "socket"])
async def test_a_gateway_whose_bus_fails_answers_its_callers_and_ends(
    redis_url: str,
    keys: Keys,
    workers: WorkerSide,
    defect: None,
    socket_path: Path,
    caplog: pytest.LogCaptureFixture,
    listening: str,
) -> None:
    caplog.set_level(logging.INFO)
    settings = read_settings({"ENGRAMQ_REDIS_URL": redis_url, "ENGRAMQ_PORT": "0", "ENGRAMQ_KEY_PREFIX": keys.prefix})
    http = listening == "http"
    running = asyncio.create_task(run_gateway(settings, socket_path=None if http else socket_path, http=http))
    body = await (stored_over_http if http else stored_over_socket)(socket_path, caplog)
    assert (body["status"], bool(body["command_id"])) == ("pending", True)
    with pytest.raises(BusFailed):
        await asyncio.wait_for(running, BOUND_S)
    assert critical(caplog.records) == [(LOST, "KeyError")]
    assert not os.path.exists(socket_path)  # noqa: ASYNC240,PTH110 - at once


CALL = {"name": "store_memory", "arguments": {"content": "x"}}
MESSAGE = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": CALL}


async def stored_over_http(_path: Path, caplog: pytest.LogCaptureFixture) -> Any:
    url = await logged(caplog, "Serving MCP over HTTP", lambda record: str(record.__dict__["url"]))
    async with httpx.AsyncClient() as client:
        answer = await client.post(url, json=MESSAGE, headers=HEADERS)
    return answer.json()["result"]["structuredContent"]


async def stored_over_socket(path: Path, caplog: pytest.LogCaptureFixture) -> Any:
    await logged(caplog, "Serving stdio sessions", str)
    reader, writer = await asyncio.open_unix_connection(path)
    initialize = {
        "jsonrpc": "2.0",
        "id": 0,
        "method": "initialize",
        "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}},
    }
    hello = {"engramq": 1, "namespace": "ns", "principal": "me"}
    for message in (hello, initialize, {"jsonrpc": "2.0", "method": "notifications/initialized"}, MESSAGE):
        writer.write(json.dumps(message).encode() + b"\n")
    *_, last = [json.loads(await reader.readline()) for _ in range(3)]
    assert await reader.read() == b""
    writer.close()
    return last["result"]["structuredContent"]


async def logged(caplog: pytest.LogCaptureFixture, message: str, reading: Callable[[logging.LogRecord], str]) -> str:
    """Wait for a log record and return what `reading` makes of it."""
    with anyio.fail_after(BOUND_S):
        while True:
            for record in caplog.records:
                if record.getMessage() == message:
                    return reading(record)
            await anyio.lowlevel.checkpoint()


@pytest.mark.long
async def test_the_process_ends_with_an_error_and_a_critical_record(
    redis_url: str, keys: Keys, workers: WorkerSide
) -> None:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("ENGRAMQ_")}
    environment = {"ENGRAMQ_REDIS_URL": redis_url, "ENGRAMQ_PORT": "0", "ENGRAMQ_KEY_PREFIX": keys.prefix}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", BROKEN, "gateway"), cwd=ROOT, env={**clean, **environment}, stderr=subprocess.PIPE
    )
    assert process.stderr is not None
    async with asyncio.timeout(START_S):
        while (record := json.loads(await process.stderr.readline()))["message"] != "Serving MCP over HTTP":
            pass
        async with httpx.AsyncClient() as client:
            answer = await client.post(record["url"], json=MESSAGE, headers=HEADERS)
        said = (await process.stderr.read()).decode()
        assert await process.wait() != 0
    assert answer.json()["result"]["structuredContent"]["status"] == "pending"
    records = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    assert [(each["message"], each["error"]) for each in records if each["level"] == "CRITICAL"] == [(LOST, "KeyError")]


@pytest.mark.parametrize("command", ["import", "purge"])
async def test_the_command_lines_end_with_a_clear_error(
    redis_url: str,
    keys: Keys,
    workers: WorkerSide,
    defect: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: str,
) -> None:
    for name, value in {"REDIS_URL": redis_url, "KEY_PREFIX": keys.prefix}.items():
        monkeypatch.setenv(f"ENGRAMQ_{name}", value)
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"content": "x"}\n')
    arguments = ["import", str(rows)] if command == "import" else ["purge", "--thread", "t", "--yes"]
    async with Redis.from_url(redis_url) as redis:
        await redis.zadd(keys.of[WorkerKind.IMPORTS].alive, {"a worker": time.time()})
    monkeypatch.setattr(workers, "script", {kind: lambda _c, _e: Pong() for kind in every_command()})
    code = await asyncio.wait_for(asyncio.to_thread(main, arguments), BOUND_S)
    assert code == 3
    assert f"engramq {command}: The connection to the queue has failed for good (KeyError)." in capsys.readouterr().err


def every_command() -> list[type[Command]]:
    found, waiting = [], [Command]
    while waiting:
        kind = waiting.pop()
        found.append(kind)
        waiting += kind.__subclasses__()
    return found


async def test_an_error_in_place_of_answers_is_logged_and_the_list_is_read_again(
    redis_url: str, keys: Keys, workers: WorkerSide, caplog: pytest.LogCaptureFixture
) -> None:
    bus = bus_over(redis_url, keys)
    async with Redis.from_url(redis_url) as redis:
        await redis.set(bus._lanes[0].reply_list, "not a list")
        async with bus:
            refused = "Redis refused a read"
            assert await logged(caplog, refused, lambda record: str(record.__dict__["error"])) == "ResponseError"
            await redis.delete(bus._lanes[0].reply_list)
            assert await outcome(bus, Ping()) == "answered"
        assert critical(caplog.records) == []


async def test_a_call_is_freed_with_its_last_reference(
    redis_url: str, keys: Keys, workers: WorkerSide, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[weakref.ref[Any]] = []

    class Watched(lane.WaitingCall):
        def __init__(self, *fields: Any) -> None:
            super().__init__(*fields)
            calls.append(weakref.ref(self))

    monkeypatch.setattr(lane, "WaitingCall", Watched)
    async with bus_over(redis_url, keys) as bus:
        gc.disable()
        try:
            for _ in range(3):
                assert await outcome(bus, Ping()) == "answered"
            assert [call() for call in calls[:2]] == [None, None]
        finally:
            gc.enable()
