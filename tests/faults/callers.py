"""Clients of a stack as load: one call at a time each, over HTTP kept alive or over `engramq stdio`."""

import asyncio
import json
import re
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from bench.common import ToolClient

CALL_BOUND_S = 60.0
ERA = "2026-07-28"
_PREFIX = "io.modelcontextprotocol/"
_META = {
    f"{_PREFIX}protocolVersion": ERA,
    f"{_PREFIX}clientInfo": {"name": "faults", "version": "1"},
    f"{_PREFIX}clientCapabilities": {},
}
_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_CLOSE = re.compile(rb"connection: *close", re.IGNORECASE)

Body = dict[str, Any]


class NotSent(Exception):
    """Nobody took the call: it has surely had no effect."""


class Cut(Exception):
    """The connection broke after the call was sent: whether it had an effect is unknown."""


class LoadClient(ToolClient, Protocol):
    """A client whose `call` returns refusals too, and raises NotSent or Cut."""

    async def aclose(self) -> None:
        """Hang up."""


class HttpCaller:
    """Keeps one connection to one of the gateways, and takes the next one when that has gone, as behind a balancer."""

    def __init__(self, ports: Callable[[], Sequence[int]], number: int) -> None:
        self._ports = ports
        self._turn = number
        self._line: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def aclose(self) -> None:
        self._hang_up()

    async def call(self, tool: str, **arguments: Any) -> Body:
        reader, writer = await self._connected()
        params = {"name": tool, "arguments": arguments, "_meta": _META}
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
        head = (
            "POST /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
            f"accept: application/json, text/event-stream\r\nmcp-protocol-version: {ERA}\r\nmcp-method: tools/call\r\n"
            f"mcp-name: {tool}\r\ncontent-length: {len(body)}\r\n\r\n"
        )
        try:
            writer.write(head.encode() + body)
            async with asyncio.timeout(CALL_BOUND_S):
                answered = await reader.readuntil(b"\r\n\r\n")
                length = _LENGTH.search(answered)
                data = await reader.readexactly(int(length[1]) if length else 0)
        except (OSError, EOFError, TimeoutError) as problem:
            self._hang_up()
            raise Cut(type(problem).__name__) from problem
        if _CLOSE.search(answered):
            self._hang_up()
        if b" 503 " in answered.partition(b"\r\n")[0]:
            raise NotSent("503")
        return structured(json.loads(data))

    async def _connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._line is not None and (self._line[0].at_eof() or self._line[1].is_closing()):
            self._hang_up()
        for _ in range(len(self._ports())):
            if self._line is not None:
                break
            ports = self._ports()
            self._turn += 1
            try:
                self._line = await asyncio.open_connection("127.0.0.1", ports[self._turn % len(ports)], limit=2**24)
            except OSError:
                continue
        if self._line is None:
            raise NotSent("no gateway")
        return self._line

    def _hang_up(self) -> None:
        if self._line is not None:
            self._line[1].close()
            self._line = None


class StdioCaller:
    """An `engramq stdio` process, as an MCP client starts one."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._number = 0

    @classmethod
    async def start(cls, engramq: str, environment: dict[str, str]) -> "StdioCaller":
        """Start one and shake hands; raises Cut when it does not answer."""
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            engramq, "stdio", "--tools", "full", env=environment, cwd="/", stdin=pipe, stdout=pipe, limit=2**24
        )
        caller = cls(process)
        client = {"name": "faults", "version": "1"}
        await caller._ask("initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo=client)
        caller._tell({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return caller

    async def call(self, tool: str, **arguments: Any) -> Body:
        return structured(await self._ask("tools/call", name=tool, arguments=arguments))

    async def aclose(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        async with asyncio.timeout(CALL_BOUND_S):
            await self._process.wait()

    def _tell(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message).encode() + b"\n")

    async def _ask(self, method: str, **params: Any) -> dict[str, Any]:
        assert self._process.stdout is not None
        self._number += 1
        self._tell({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params})
        try:
            async with asyncio.timeout(CALL_BOUND_S):
                while line := await self._process.stdout.readline():
                    answer: dict[str, Any] = json.loads(line)
                    if answer.get("id") == self._number:
                        return answer
        except TimeoutError as problem:
            raise Cut("no answer in time") from problem
        raise Cut("the relay has ended")


def structured(answer: dict[str, Any]) -> Body:
    """Return the structured reply of a call; raises Cut for an error of the protocol: it says nothing of effects."""
    result = answer.get("result")
    if result is None or "structuredContent" not in result:
        raise Cut(str(answer.get("error", {}).get("message"))[:60])
    body: Body = result["structuredContent"]
    return body
