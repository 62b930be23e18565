"""Every log line that is about a command names it and its trace."""

import asyncio
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engramq.schemas.commands import Ping, Pong
from engramq.schemas.faults import FaultCode, refuse
from engramq.telemetry.spans import JsonFormatter, NameSubject
from engramq.workers.queue.contract import Assignment, Completion, ResultUnknown, SessionUse
from engramq.workers.queue.job import MAX_TRIES
from tests.conftest import Database
from tests.queue.conftest import keys, server, stage
from tests.queue.stage import ADA, NAMESPACE, Stage, an_actor
from tests.telemetry.tracing.processes import environment_of, live
from tests.telemetry.tracing.test_traces import CLIENTS, TRACE

__all__ = ["keys", "server", "stage"]
pytestmark = pytest.mark.promise("OP-7")
log = logging.getLogger("engramq.workers.test")

OF_COMMANDS = frozenset({"Background task failed", "Command set aside", "Command will be tried again"})


class Kept(logging.Handler):
    """Keeps log lines as a gateway or worker writes them."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(JsonFormatter())
        self.addFilter(NameSubject())
        self.lines: list[dict[str, Any]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(json.loads(self.format(record)))

    def of_commands(self) -> list[dict[str, Any]]:
        return [line for line in self.lines if line["logger"] == log.name or line["message"] in OF_COMMANDS]


@pytest.fixture
def kept() -> Iterator[Kept]:
    handler, root = Kept(), logging.getLogger("engramq")
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    yield handler
    root.removeHandler(handler)
    root.setLevel(level)


async def test_all_that_a_command_leads_to_names_it_and_its_trace(stage: Stage, kept: Kept) -> None:
    ended = asyncio.Event()

    async def after_reply(_use: SessionUse | None) -> None:
        log.info("after")
        ended.set()
        raise RuntimeError("a background task that fails")

    async def handle(assignment: Assignment) -> Completion:
        command = assignment.envelope.command
        assert isinstance(command, Ping)
        log.info("in the handler")
        await asyncio.to_thread(log.info, "in a thread")
        await asyncio.create_task(_say("in a task"))
        match command.payload:
            case b"refused":
                raise refuse(FaultCode.UNAVAILABLE, "not now")
            case b"retried" if assignment.envelope.attempt == 1:
                raise ResultUnknown("once")
            case b"defect":
                raise RuntimeError("always")
        return Completion(Pong(payload=command.payload), after_reply=after_reply)

    await stage.workers(an_actor(handle))
    bus = await stage.bus()
    for payload in (b"well", b"refused", b"retried"):
        await bus.ask(Ping(payload=payload), namespace=NAMESPACE, principal=ADA, traceparent=CLIENTS)
    await bus.ask(Ping(payload=b"defect"), namespace=NAMESPACE, principal=ADA, traceparent=CLIENTS, timeout_s=30)
    async with asyncio.timeout(20):
        await ended.wait()
        while sum(line["message"] == "Background task failed" for line in kept.lines) < 2:
            await asyncio.sleep(0.01)
    lines = kept.of_commands()
    said = [line["message"] for line in lines]
    assert {"in the handler", "in a thread", "in a task", "after", "Background task failed"} <= set(said)
    assert said.count("Command will be tried again") == 1 + MAX_TRIES - 1
    assert said.count("Command set aside") == 1
    assert {line["trace_id"] for line in lines} == {TRACE}
    assert len({line["command_id"] for line in lines}) == 4
    assert all(line["command_id"] for line in lines)


async def _say(words: str) -> None:
    log.info(words)


@pytest.mark.long
def test_gateway_and_worker_name_a_call_in_the_same_way(
    database: Database, redis_url: str, key_prefix: str, tmp_path: Path
) -> None:
    environment = environment_of(database.url, redis_url, key_prefix, tmp_path, embedder_url="http://127.0.0.1:9/v1")
    environment["ENGRAMQ_EMBEDDER"] = "openai:none"  # an endpoint that is away: stores are said to be without a vector
    with live(environment) as stack:
        stored = stack.call("store_memory", {"content": "The harbour freezes."}, traceparent=CLIENTS)
        told = stack.gateway.said("Tool call")
        worked = stack.worker.said("Stored without a vector")
        assert told["command_id"] == worked["command_id"] == stored["command_id"]
        assert told["trace_id"] == worked["trace_id"] == TRACE
        stack.call("guide", {})
        mine = stack.gateway.said("Tool call")["trace_id"]
        assert len(mine) == 32
        assert mine != TRACE
