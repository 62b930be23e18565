"""Conversations in lines: every line is answered, none holds up another, and a cancelled call is never answered."""

import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from engramq.gateway.mcp import lines as mcp_lines
from engramq.gateway.run import Gateway
from engramq.gateway.stdio_sessions import Hello, Line, Serve
from engramq.schemas.commands import MemoryStats, StoreMemory
from tests.gateway.wire import NEWER, OLDER, call_of, encoded, unusual_bodies
from tests.gateway.worker_side import WorkerSide

ERAS = [OLDER, NEWER]
TOOL = "guide"
CLIENT = {"name": "test", "version": "1"}
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": "first",
    "method": "initialize",
    "params": {"protocolVersion": OLDER, "capabilities": {}, "clientInfo": CLIENT},
}
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}
BOUND_S = 8.0


class Conversation:
    """A session that is fed line by line; `heard` are its answers."""

    def __init__(self) -> None:
        self.say_raw, self._lines = anyio.create_memory_object_stream[bytes](100)
        self.heard: list[bytes] = []
        self._changed = anyio.Event()

    async def lines(self) -> AsyncGenerator[Line]:
        async with self._lines:
            async for line in self._lines:
                yield Line(line, len(line), line[-300:])

    async def serve(self, serve: Serve) -> None:
        await serve(self.lines(), self.send)

    async def send(self, message: bytes) -> None:
        self.heard.append(message)
        self._changed.set()

    async def say(self, message: Any) -> None:
        await self.say_raw.send(message if isinstance(message, bytes) else encoded(message))

    async def answers(self, count: int) -> list[bytes]:
        """Return all answers as soon as there are so many."""
        with anyio.fail_after(BOUND_S):
            while len(self.heard) < count:
                self._changed = anyio.Event()
                await self._changed.wait()
        return self.heard


@asynccontextmanager
async def conversation(gateway: Gateway) -> AsyncIterator[Conversation]:
    held = Conversation()
    serve = gateway.open_stdio_session(Hello(engramq=1, namespace="ns", principal="me"))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(held.serve, serve)
        yield held
        held.say_raw.close()


def cancellation_of(request_id: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": request_id}}


def opened(version: str) -> list[Any]:
    return [INITIALIZE] if version == OLDER else [call_of("guide", {}, version=NEWER)]


@pytest.mark.parametrize("version", ERAS)
async def test_unusual_lines_are_answered_and_the_conversation_goes_on(
    gateway: Gateway, workers: WorkerSide, version: str
) -> None:
    async with conversation(gateway) as held:
        await held.say(opened(version)[0])
        await held.answers(1)
        for name, body in unusual_bodies(version).items():
            if name != "nothing":
                await held.say(body)
                answers = await held.answers(len(held.heard) + 1)
                assert {"result", "error"} & json.loads(answers[-1]).keys(), name


@pytest.mark.parametrize("version", ERAS)
@pytest.mark.parametrize(("request_id", "named"), [(7, 7), (7, "7"), ("7", 7), ("a", "a")])
async def test_a_cancelled_call_is_never_answered(
    gateway: Gateway, workers: WorkerSide, version: str, request_id: Any, named: Any
) -> None:
    workers.script[MemoryStats] = lambda _command, _envelope: None
    async with conversation(gateway) as held:
        await held.say(opened(version)[0])
        await held.answers(1)
        await held.say({**call_of("memory_stats", version=version), "id": request_id})
        await until_asked(workers)
        await held.say(cancellation_of(named))
        await held.say({**call_of(TOOL, version=version), "id": "last"})
        answers = await held.answers(2)
    assert len(held.heard) == 2
    assert b'"id":"last"' in answers[1]


async def until_asked(workers: WorkerSide) -> None:
    with anyio.fail_after(BOUND_S):
        while not workers.seen:
            await anyio.lowlevel.checkpoint()


@pytest.mark.parametrize("version", ERAS)
async def test_one_slow_call_holds_up_no_other(gateway: Gateway, workers: WorkerSide, version: str) -> None:
    workers.script[StoreMemory] = lambda _command, _envelope: None
    async with conversation(gateway) as held:
        await held.say(opened(version)[0])
        await held.answers(1)
        await held.say({**call_of("store_memory", version=version), "id": "slow"})
        for number in range(20):
            await held.say({**call_of(TOOL, version=version), "id": number})
        answers = await held.answers(21)
        assert not any(b'"slow"' in answer for answer in answers)
        await held.say(cancellation_of("slow"))  # nobody needs to wait for its time to be up


async def test_a_call_ends_with_its_session(
    gateway: Gateway, workers: WorkerSide, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp_lines, "LAST_WORDS_S", 0.05)
    workers.script[StoreMemory] = lambda _command, _envelope: None
    async with conversation(gateway) as held:
        await held.say({**call_of("store_memory", version=NEWER), "id": "slow"})
        await until_asked(workers)
    assert held.heard == []
