"""Stdio sessions on the unix socket: hello, framing, many clients at once, and a stop that loses no answer."""

import json
import stat
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.abc import ByteReceiveStream
from mcp.client import Client
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from engramq.gateway.run import Gateway
from engramq.gateway.stdio_sessions import BoundedLineReader, Line, listen, serve_stdio_sessions
from engramq.schemas import limits
from engramq.schemas.keys import Keys
from engramq.schemas.settings import SettingsError
from engramq.schemas.vocabulary import SYSTEM_NAMESPACE, SYSTEM_PRINCIPAL
from tests.gateway.conftest import gateway_over
from tests.gateway.replies import check_reply
from tests.gateway.test_arguments import MINIMAL
from tests.gateway.worker_side import WorkerSide

HELLO: dict[str, Any] = {"engramq": 1, "namespace": "ns", "principal": "me", "tools": "full", "output_schemas": False}
ERAS = ["legacy", "2026-07-28"]
PARSE_ERROR, INVALID_REQUEST = -32700, -32600


class StdioSession:
    """One connection, one JSON object a line."""

    def __init__(self, stream: anyio.abc.SocketStream) -> None:
        self.stream = stream
        self._lines: AsyncGenerator[Line] = BoundedLineReader(stream, 64 * limits.BODY_BYTES).lines()

    async def say(self, message: Any) -> None:
        await self.stream.send(json.dumps(message).encode() + b"\n")

    async def hear(self) -> Any:
        """Return the next message, None when there are no more."""
        with anyio.fail_after(20):
            line = await anext(self._lines, None)
        return None if line is None else json.loads(line.head)

    async def ask(self, method: str, params: dict[str, Any] | None = None, request_id: Any = 1) -> Any:
        await self.say({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params or {}})
        return await self.hear()

    async def initialize(self) -> None:
        client = {"name": "test", "version": "1"}
        version = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}
        assert (await self.ask("initialize", version, 0))["result"]["serverInfo"]["name"] == "engramq"
        await self.say({"jsonrpc": "2.0", "method": "notifications/initialized"})

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        result = (await self.ask("tools/call", {"name": tool, "arguments": arguments}))["result"]
        return check_reply(tool, result["structuredContent"], is_error=result["isError"])


@asynccontextmanager
async def connected(path: Path) -> AsyncIterator[StdioSession]:
    async with await anyio.connect_unix(path) as stream:
        yield StdioSession(stream)


@asynccontextmanager
async def greeted(path: Path, **changes: Any) -> AsyncIterator[StdioSession]:
    async with connected(path) as session:
        await session.say({**HELLO, **changes})
        assert await session.hear() == {"ok": True}
        yield session


class Served:
    """A gateway that serves stdio sessions on `path` until `stopping` is set; `ended` once it has stopped."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.stopping = anyio.Event()
        self.ended = anyio.Event()


@asynccontextmanager
async def serving(gateway: Gateway, path: Path) -> AsyncIterator[Served]:
    served = Served(path)
    listener = await listen(path)

    async def serve() -> None:
        await serve_stdio_sessions(
            listener, gateway.open_stdio_session, served.stopping, lambda _request: gateway.overview()
        )
        served.ended.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(serve)
        yield served
        served.stopping.set()


@pytest.fixture
async def served(gateway: Gateway, workers: WorkerSide, socket_path: Path) -> AsyncIterator[Served]:
    async with serving(gateway, socket_path) as served:
        yield served


@asynccontextmanager
async def sdk_transport(path: Path) -> AsyncIterator[tuple[Any, Any]]:
    """The SDK's client end on a session's socket, as its stdio transport is on pipes."""
    received, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](100)
    outgoing, sent = anyio.create_memory_object_stream[SessionMessage](100)
    async with greeted(path) as session, anyio.create_task_group() as tasks:

        async def pump_in() -> None:
            async with received:
                while (message := await session.hear()) is not None:
                    await received.send(SessionMessage(jsonrpc_message_adapter.validate_python(message, by_name=False)))

        async def pump_out() -> None:
            async for item in sent:
                await session.say(item.message.model_dump(by_alias=True, exclude_unset=True, mode="json"))

        tasks.start_soon(pump_in)
        tasks.start_soon(pump_out)
        async with incoming, outgoing, sent:
            yield incoming, outgoing
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize("era", ERAS)
async def test_the_sdk_client_is_served_in_both_eras(served: Served, era: str) -> None:
    async with Client(sdk_transport(served.path), mode=era) as client:
        assert len((await client.list_tools()).tools) == len(MINIMAL)
        for tool, arguments in MINIMAL.items():
            result = await client.call_tool(tool, arguments)
            check_reply(tool, result.structured_content, is_error=result.is_error)


async def test_each_front_is_who_its_hello_says_with_the_tools_it_asks_for(served: Served, workers: WorkerSide) -> None:
    async with greeted(served.path) as one, greeted(served.path, namespace="other", tools="memory_stats") as two:
        await one.initialize()
        await two.initialize()
        await two.call("memory_stats")
        await one.call("memory_stats")
        assert [tool["name"] for tool in (await two.ask("tools/list"))["result"]["tools"]] == ["memory_stats"]
        assert (await two.ask("tools/call", {"name": "store_memory", "arguments": {}}))["error"]["code"] == -32602
    assert [(item.namespace, item.principal.name) for item in workers.seen] == [("other", "me"), ("ns", "me")]


@pytest.mark.parametrize(
    ("hello", "error"),
    [
        ({**HELLO, "engramq": 2}, "does not understand"),
        ({**HELLO, "namespace": " "}, "ENGRAMQ_NAMESPACE: ' ' cannot be used: must be a text of 1 to 255"),
        ({**HELLO, "namespace": SYSTEM_NAMESPACE}, "ENGRAMQ_NAMESPACE: "),
        ({**HELLO, "principal": SYSTEM_PRINCIPAL}, "ENGRAMQ_PRINCIPAL: 'engramq' cannot be used: must be another one"),
        ({**HELLO, "principal": None}, "does not understand"),
        ({**HELLO, "project": " "}, "ENGRAMQ_PROJECT: ' ' cannot be used: must be a text of 1 to 255 characters"),
        ({**HELLO, "tools": "store_memory,nonsense"}, "there is no tool 'nonsense'"),
        ({}, "does not understand"),
        ([], "does not understand"),
        ({**HELLO, "principal": "x" * 20_000}, "too long"),
    ],
)
async def test_a_hello_that_cannot_be_served_is_told_why(served: Served, hello: Any, error: str) -> None:
    async with connected(served.path) as session:
        await session.say(hello)
        answer = await session.hear()
        assert answer["ok"] is False
        assert error in answer["error"]
        assert await session.hear() is None


async def test_a_front_that_hangs_up_early_harms_nobody(served: Served) -> None:
    for said in (b"", b"{", json.dumps(HELLO).encode() + b"\n", json.dumps(HELLO).encode() + b'\n{"jsonrpc"'):
        async with await anyio.connect_unix(served.path) as stream:
            if said:
                await stream.send(said)
    async with greeted(served.path) as session:
        await session.initialize()
        assert (await session.call("memory_stats"))["status"] == "success"


@pytest.mark.promise("SE-4")
async def test_broken_lines_are_answered_and_the_connection_lives(served: Served, workers: WorkerSide) -> None:
    async with greeted(served.path) as session:
        await session.initialize()
        for line, code in (
            (b"{", PARSE_ERROR),
            (b"\xff\xfe", PARSE_ERROR),
            (b"[" * 100_000, PARSE_ERROR),
            (b'{"jsonrpc":"2.0","id":1' + b"0" * 5_000 + b',"method":"ping"}', PARSE_ERROR),
            (b"[]", INVALID_REQUEST),
            (b"null", INVALID_REQUEST),
            (b'{"jsonrpc":"1.0","id":1,"method":"ping"}', INVALID_REQUEST),
        ):
            await session.stream.send(line + b"\n")
            assert (await session.hear())["error"]["code"] == code, line[:80]
        assert (await session.ask("ping", request_id="\ud800"))["id"] == "\ud800"
        assert (await session.ask("\ud800"))["error"]["code"] == -32601
        assert (await session.call("store_memory", content="\ud800"))["field"] == "content"
        assert (await session.call("store_memory", content="x", confidence=float("nan")))["field"] == "confidence"
        assert workers.seen == []
        assert (await session.call("memory_stats"))["status"] == "success"


@pytest.mark.promise("SE-4")
async def test_a_line_over_the_limit_is_refused_and_its_sender_told(served: Served) -> None:
    call = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "store_memory", "arguments": {}}}
    other_order = {"method": "tools/call", "params": call["params"], "jsonrpc": "2.0", "id": "seven"}
    async with greeted(served.path) as session:
        await session.initialize()
        for message in (call, other_order):
            message["params"] = {"name": "store_memory", "arguments": {"content": "x" * limits.BODY_BYTES}}
            await session.say(message)
            answer = await session.hear()
            assert (answer["id"], answer["error"]["code"]) == (message["id"], INVALID_REQUEST)
            assert str(limits.BODY_BYTES) in answer["error"]["message"]
        just = json.dumps({**call, "params": {"name": "memory_stats", "arguments": {}}}).encode()
        await session.stream.send(just + b" " * (limits.BODY_BYTES - len(just)) + b"\n")
        assert (await session.hear())["result"]["structuredContent"]["status"] == "success"
        await session.stream.send(just + b" " * (limits.BODY_BYTES - len(just) + 1) + b"\n")
        assert (await session.hear())["error"]["code"] == INVALID_REQUEST


async def test_answers_under_way_reach_a_client_that_has_closed_its_sending_side(
    served: Served, workers: WorkerSide
) -> None:
    async with greeted(served.path) as session:
        await session.initialize()
        for number in range(20):
            params = {"name": "store_memory", "arguments": {"content": f"text {number}"}}
            await session.say({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params})
        await session.stream.send_eof()
        answers = [await session.hear() for _ in range(20)]
        assert {answer["id"] for answer in answers} == set(range(20))
        assert all(answer["result"]["structuredContent"]["status"] == "stored" for answer in answers)
        assert await session.hear() is None


async def test_a_stop_answers_what_is_under_way_and_accepts_no_more(served: Served, workers: WorkerSide) -> None:
    async with greeted(served.path) as session, greeted(served.path) as idle:
        await session.initialize()
        params = {"name": "store_memory", "arguments": {"content": "x"}}
        await session.say({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
        with anyio.fail_after(10):
            while not workers.seen:
                await anyio.lowlevel.checkpoint()
        served.stopping.set()
        assert (await session.hear())["result"]["structuredContent"]["status"] == "stored"
        assert await session.hear() is None
        assert await idle.hear() is None
        with anyio.fail_after(10):
            await served.ended.wait()


@pytest.mark.promise("OV-15")
async def test_calls_of_a_front_are_in_the_project_of_its_hello(served: Served, workers: WorkerSide) -> None:
    async with greeted(served.path, project="mars") as one, greeted(served.path) as two:
        for session in (one, two):
            await session.initialize()
            await session.call("store_memory", content="x")
    assert [seen.project for seen in workers.seen] == ["mars", ""]


@pytest.mark.long
async def test_fifty_fronts_share_one_gateway(served: Served, workers: WorkerSide) -> None:
    async def one(number: int) -> None:
        async with greeted(served.path, principal=f"p{number}") as session:
            await session.initialize()
            for _ in range(4):
                await session.call("store_memory", content="x", session=f"s{number}")

    async with anyio.create_task_group() as tasks:
        for number in range(50):
            tasks.start_soon(one, number)
    assert len(workers.seen) == 200
    assert {(seen.principal.name, seen.session) for seen in workers.seen} == {(f"p{n}", f"s{n}") for n in range(50)}


@pytest.mark.long
async def test_initialize_is_answered_before_redis_is_there(keys: Keys, socket_path: Path) -> None:
    async with (
        gateway_over("unix:///nowhere/redis.sock", keys) as gateway,
        serving(gateway, socket_path),
        greeted(socket_path) as session,
    ):
        await session.initialize()
        assert (await session.call("store_memory", content="x"))["code"] == "unavailable"
        assert (await session.call("get_memory", memory_id="@stored"))["code"] == "unavailable"
        assert (await session.call("list_recent_memories", cursor="x"))["code"] == "unavailable"


async def test_the_socket_is_for_this_user_only(served: Served) -> None:
    assert stat.S_IMODE(served.path.stat().st_mode) == 0o600


async def test_a_socket_is_not_taken_from_a_living_gateway_but_from_a_dead_one(
    served: Served, socket_path: Path
) -> None:
    with pytest.raises(SettingsError, match="another gateway serves"):
        await listen(served.path)
    served.stopping.set()
    with anyio.fail_after(10):
        await served.ended.wait()
    assert await anyio.Path(socket_path).exists()  # left behind, as after a kill
    async with await listen(socket_path):
        assert await anyio.Path(socket_path).is_socket()


async def test_a_folder_that_others_may_enter_is_refused(socket_path: Path) -> None:
    socket_path.parent.chmod(0o755)
    with pytest.raises(SettingsError, match="closed to others"):
        await listen(socket_path)


class Chunks(ByteReceiveStream):
    """A stream that hands out bytes in pieces of the given size."""

    def __init__(self, data: bytes, size: int) -> None:
        self._pieces = [data[start : start + size] for start in range(0, len(data), size)]

    async def receive(self, max_bytes: int = 65_536) -> bytes:
        if not self._pieces:
            raise anyio.EndOfStream
        return self._pieces.pop(0)

    async def aclose(self) -> None:
        self._pieces.clear()


@pytest.mark.parametrize("size", [1, 3, 10, 1_000])
async def test_lines_are_the_same_however_they_are_cut(size: int) -> None:
    long = b"<" + b"x" * 998 + b">"
    data = b"one\n\n  \ntwo\r\n" + long + b"\nthree\n" + long + b"\nlast"
    lines = [line async for line in BoundedLineReader(Chunks(data, size), 10).lines()]
    assert [line.size for line in lines] == [3, 4, 1_000, 5, 1_000, 4]
    assert [line.head for line in lines if line.size <= 10] == [b"one", b"two\r", b"three", b"last"]
    assert [(line.head[:1], line.tail[-1:]) for line in lines if line.size > 10] == [(b"<", b">")] * 2
    assert max(len(line.head) for line in lines) <= 300 + 10
    assert {line.tail for line in lines if line.size > 10} == {long[-300:]}


@pytest.mark.parametrize("length", [11, 299, 301, 65_536, 65_537, 200_000])
async def test_of_a_line_that_is_too_long_size_and_both_ends_are_known(length: int) -> None:
    long = b"<" + b"x" * (length - 2) + b">"
    for data in (long + b"\nnext\n", long):
        first, *others = [line async for line in BoundedLineReader(Chunks(data, 10), 10).lines()]
        assert (first.size, first.head[:10], first.tail) == (length, long[:10], long[-300:])
        assert [line.head for line in others] == ([b"next"] if data != long else [])
