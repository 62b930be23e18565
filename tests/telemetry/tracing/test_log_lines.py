"""Every log line that is about a command names it and its trace; all that is ever said is listed here."""

import ast
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
from engramq.workers.queue.contract import Job, Outcome, OutcomeUnknown, SessionUse
from engramq.workers.queue.job import MAX_TRIES
from tests.architecture.source import modules
from tests.conftest import Database
from tests.queue.conftest import keys, server, stage
from tests.queue.stage import ADA, NAMESPACE, Stage, an_actor
from tests.telemetry.tracing.processes import environment_of, live
from tests.telemetry.tracing.test_traces import CLIENTS, TRACE

__all__ = ["keys", "server", "stage"]
pytestmark = [pytest.mark.anyio, pytest.mark.promise("OP-7")]
log = logging.getLogger("engramq.workers.test")

# About one command (or the commands of one job): said by its task, which names it, or with its id.
OF_COMMANDS = {
    "A former model reads nothing",
    "A lease was lost",
    "A memory was not restored",
    "A namespace was not copied",
    "A read did not end in order",
    "A refusal tells no references",
    "A refusal was not recorded",
    "Background task dropped",
    "Background task failed",
    "Command set aside",
    "Command will be tried again",
    "Edge reclassified",
    "Graph purged",
    "Imported without vectors",
    "Memories purged",
    "Memories stay pending",
    "Stored without a vector",
    "Tenant deleted",
    "The database refuses",
    "The model takes no text of this memory",
    "Tool call",
    "Tool call failed",
    "Vectors of other models were left out",
}
# About the process, its servers, its clients before they are known, or the work of several commands together.
OF_THE_PROCESS = {
    "A JWT was refused",
    "A check was not made",
    "A job could not be ended",
    "A message of a webhook may be sent again",
    "A pooler is before the database",
    "A quota was not counted",
    "A request ended early",
    "A stdio session failed",
    "A stdio session hung up",
    "An answer cannot be read",
    "Another account's request refused",
    "Another embedder was chosen later",
    "Append-only file written anew",
    "Arithmetic chosen",
    "Authentication failed",
    "Database migrated",
    "Embedded anew",
    "Embedding anew",
    "Embedding models retired",
    "Follow-ups were lost; the sweep finds the work",
    "Nobody says whether the database is at another server",
    "Sessions are cut: the database is at another server now",
    "Memories stay without a sector",
    "A page cannot be read",
    "Metrics tell nothing of queue and workers: the look took too long",
    "Metrics tell nothing of the store: the database is away",
    "More was erased while the append-only file was written anew",
    "No int8 arithmetic: float32 is used",
    "No load was indexed: the database is away",
    "No pieces embedded",
    "No pieces embedded: the database is away",
    "No token of the home",
    "No webhook told",
    "No webhook told: the database is away",
    "No words made anew: the database is away",
    "Not told how far it is: the database is away",
    "Nothing embedded anew",
    "Nothing embedded anew: the database is away",
    "Nothing swept: the database is away",
    "Periodic work failed",
    "Picking jobs failed",
    "Redis cannot be reached",
    "Redis refuses",
    "Redis cannot be used",
    "Redis is not there yet",
    "Redis refused a job",
    "Redis refused a read",
    "Redis went away",
    "Retention was not applied",
    "Serving MCP over HTTP",
    "Serving health",
    "Serving metrics",
    "Serving stdio sessions",
    "Stopping",
    "The issuer's keys cannot be fetched",
    "The home's embedder cannot be kept",
    "The kernel tells no owners",
    "The model takes no pieces of this memory",
    "The queue's connection has failed for good",
    "The watchdog cannot be told",
    "Traces are sent again",
    "Traces cannot be sent, and are dropped",
    "Unreadable bytes set aside",
    "Vector index built for bulk loads",
    "Waiting for the database",
    "What was erased is still in Redis's append-only file",
    "Words made anew",
    "Workers serve",
    "Workers stop",
}


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


def messages() -> Iterator[str]:
    """Yield what each log call of gateway, workers and telemetry says."""
    for module in modules("gateway", "workers", "telemetry"):
        for node in ast.walk(module.tree):
            match node:
                case ast.Call(func=ast.Attribute(value=ast.Name(id="log")), args=[ast.Constant(value=str(said)), *_]):
                    yield said


def test_each_log_line_is_known_to_be_about_a_command_or_not() -> None:
    assert set(messages()) == OF_COMMANDS | OF_THE_PROCESS
    assert not OF_COMMANDS & OF_THE_PROCESS


async def test_all_that_a_command_leads_to_names_it_and_its_trace(stage: Stage, kept: Kept) -> None:
    ended = asyncio.Event()

    async def after_reply(_use: SessionUse | None) -> None:
        log.info("after")
        ended.set()
        raise RuntimeError("a background task that fails")

    async def handle(job: Job) -> Outcome:
        command = job.envelope.command
        assert isinstance(command, Ping)
        log.info("in the handler")
        await asyncio.to_thread(log.info, "in a thread")
        await asyncio.create_task(_say("in a task"))
        match command.payload:
            case b"refused":
                raise refuse(FaultCode.UNAVAILABLE, "not now")
            case b"retried" if job.envelope.attempt == 1:
                raise OutcomeUnknown("once")
            case b"defect":
                raise RuntimeError("always")
        return Outcome(Pong(payload=command.payload), after_reply=after_reply)

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
