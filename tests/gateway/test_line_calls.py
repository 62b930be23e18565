"""A call that a stdio session answers ahead of the SDK reads, byte for byte, as the SDK would have answered it."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from engramq.gateway.framing import Line
from engramq.gateway.mcp import lines as mcp_lines
from engramq.gateway.run import Gateway
from engramq.gateway.stdio_sessions import Hello, Serve
from engramq.schemas.commands import MemoryStats, StoreMemory
from engramq.schemas.keys import Keys
from tests.gateway.both_ways import NEWER, OLDER, Gateways, call_of, encoded, same_each_time, two_gateways
from tests.gateway.test_arguments import MINIMAL
from tests.gateway.test_tool_calls import TOOL, UNUSUAL, unusual_bodies, unusual_messages
from tests.gateway.worker_side import WorkerSide

pytestmark = pytest.mark.anyio

ERAS = [OLDER, NEWER]
CLIENT = {"name": "test", "version": "1"}
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": "first",
    "method": "initialize",
    "params": {"protocolVersion": OLDER, "capabilities": {}, "clientInfo": CLIENT},
}
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}
PING = {"jsonrpc": "2.0", "id": "ping", "method": "ping"}
BOUND_S = 8.0


class Conversation:
    """A session that is fed line by line; `heard` are its answers without what varies."""

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
        self.heard.append(same_each_time(message))
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


@pytest.fixture
async def gateways(redis_url: str, keys: Keys) -> AsyncIterator[Gateways]:
    async with two_gateways(redis_url, keys.prefix, reply_timeout_s=10.0) as both:
        yield both


async def asked_in_turn(gateway: Gateway, messages: list[Any], unanswered: int = 0) -> list[bytes]:
    """Say each message when the one before is answered, but for the first ones, which have no answer of their own."""
    async with conversation(gateway) as held:
        for count, message in enumerate(messages):
            await held.say(message)
            await held.answers(count + 1 - unanswered)
        return held.heard


async def assert_same(gateways: Gateways, messages: list[Any]) -> list[bytes]:
    """Check that every message is answered, the same by both gateways, and return the answers."""
    direct, by_sdk = [await asked_in_turn(gateway, messages) for gateway, _ in gateways]
    assert direct == by_sdk
    return direct


def cancellation_of(request_id: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": request_id}}


def opened(version: str) -> list[Any]:
    return [INITIALIZE] if version == OLDER else [call_of("guide", {}, version=NEWER)]


@pytest.mark.parametrize("version", ERAS)
async def test_every_tool_answers_the_same(gateways: Gateways, version: str) -> None:
    given = [(tool, arguments) for tool, some in MINIMAL.items() for arguments in (some, {**some, UNUSUAL: UNUSUAL})]
    calls = [call_of(tool, arguments, version=version) for tool, arguments in given]
    answers = await assert_same(gateways, [*opened(version), *calls])
    assert sum(b'"isError":false' in answer for answer in answers) >= len(MINIMAL)


@pytest.mark.parametrize("version", ERAS)
async def test_unusual_lines_are_answered_the_same(gateways: Gateways, version: str) -> None:
    lines = [encoded(message) for _, message in unusual_messages(version)]
    lines += [body for name, body in unusual_bodies(version).items() if name != "nothing"]
    heard = []
    for gateway, _ in gateways:
        async with conversation(gateway) as held:
            await held.say(opened(version)[0])
            await held.answers(1)
            for number, line in enumerate(lines):  # some have no answer; each has an id of its own if it may
                own = line.replace(b'"id":1,', b'"id":"line %d",' % number).replace(b'"id":1.0,', b'"id":7777.0,')
                # What is cancelled while it is under way is not answered, and how long that is, nobody knows.
                await held.say(own.replace(b'"requestId":1', b'"requestId":"nobody"'))
        heard.append(sorted(held.heard))
    assert heard[0] == heard[1]


async def test_a_call_before_the_handshake_is_refused_as_ever(gateways: Gateways) -> None:
    early, call = call_of(TOOL), call_of(TOOL)
    answers = await assert_same(gateways, [early, PING, early, INITIALIZE, call, INITIALIZE, call])
    assert [b'"error"' in answer for answer in answers] == [True, False, True, False, False, False, False]


@pytest.mark.parametrize("wrong", [{}, {"protocolVersion": 5}])
async def test_a_handshake_that_failed_opens_nothing(gateways: Gateways, wrong: dict[str, Any]) -> None:
    answers = await assert_same(gateways, [{**INITIALIZE, "params": wrong}, call_of(TOOL), INITIALIZE, call_of(TOOL)])
    assert [b'"error"' in answer for answer in answers] == [True, True, False, False]


@pytest.mark.parametrize("version", ERAS)
async def test_the_other_era_is_refused_as_ever(gateways: Gateways, version: str) -> None:
    other = OLDER if version == NEWER else NEWER
    messages = [*opened(version), call_of(TOOL, version=other), INITIALIZE, call_of(TOOL, version=version)]
    assert b'"error"' in (await assert_same(gateways, messages))[1]


@pytest.mark.parametrize("version", ERAS)
@pytest.mark.parametrize(("request_id", "named"), [(7, 7), (7, "7"), ("7", 7), ("a", "a")])
async def test_a_cancelled_call_is_never_answered(
    gateways: Gateways, version: str, request_id: Any, named: Any
) -> None:
    for gateway, workers in gateways:
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
async def test_one_slow_call_holds_up_no_other(gateways: Gateways, version: str) -> None:
    for gateway, workers in gateways:
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


@pytest.mark.parametrize("version", ERAS)
async def test_a_call_that_outlasts_its_session_says_so(
    gateways: Gateways, version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp_lines, "LAST_WORDS_S", 0.05)
    heard = []
    for gateway, workers in gateways:
        workers.script[StoreMemory] = lambda _command, _envelope: None
        async with conversation(gateway) as held:
            await held.say(opened(version)[0])
            await held.answers(1)
            await held.say({**call_of("store_memory", version=version), "id": "slow"})
            await until_asked(workers)
        heard.append(held.heard)
    assert heard[0] == heard[1]
    assert b'"Connection closed"' in heard[0][-1]
