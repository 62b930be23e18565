"""MCP messages as clients of either era write them, put to an application over HTTP."""

import json
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

import anyio
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.types import Message

from engramq.gateway.identity.local_peer import CONNECTION, LocalConnection
from engramq.schemas import limits
from tests.gateway.test_arguments import MINIMAL

OLDER: Final = "2025-11-25"
NEWER: Final = "2026-07-28"
PREFIX: Final = "io.modelcontextprotocol/"
ENVELOPE: Final[Mapping[str, Any]] = {
    f"{PREFIX}protocolVersion": NEWER,
    f"{PREFIX}clientInfo": {"name": "test", "version": "1"},
    f"{PREFIX}clientCapabilities": {},
}
VERSIONS: Final = (None, *HANDSHAKE_PROTOCOL_VERSIONS, NEWER)

Exchange = tuple[tuple[int, list[tuple[bytes, bytes]]], bytes]


@asynccontextmanager
async def running(app: Any) -> AsyncIterator[Any]:
    """Run an ASGI application's lifespan."""
    events = [{"type": "lifespan.startup"}]
    started, stopping = anyio.Event(), anyio.Event()

    async def receive() -> Message:
        if not events:
            await stopping.wait()
            return {"type": "lifespan.shutdown"}
        return events.pop()

    async def send(_message: Message) -> None:
        started.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(app, {"type": "lifespan", "asgi": {"version": "3.0"}, "state": {}}, receive, send)
        await started.wait()
        yield app
        stopping.set()


async def exchange(app: Any, headers: list[tuple[str, str]], body: bytes, parts: int = 1) -> Exchange:
    """Post a body in so many parts and return status, headers and body of the answer."""
    size = max(1, -(-len(body) // parts))
    pieces = [body[at : at + size] for at in range(0, len(body), size)] or [b""]
    answer: list[Message] = []

    async def receive() -> Message:
        if not pieces:
            await anyio.sleep_forever()  # the caller stays until it is answered
        return {"type": "http.request", "body": pieces.pop(0), "more_body": bool(pieces)}

    async def send(message: Message) -> None:
        answer.append(message)

    raw = [(name.encode(), value.encode("latin-1")) for name, value in [("host", "127.0.0.1"), *headers]]
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "scheme": "http",
        "path": "/mcp", "raw_path": b"/mcp", "root_path": "", "query_string": b"", "headers": raw,
        "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 2),
        CONNECTION: LocalConnection(("127.0.0.1", 1), ("127.0.0.1", 2), lambda _peer, _server: os.geteuid()),
        "state": {},
    }  # fmt: skip
    with anyio.fail_after(20):
        await app(scope, receive, send)
    said = b"".join(message.get("body", b"") for message in answer[1:])
    return (answer[0]["status"], answer[0]["headers"]), said


def call_of(tool: str, arguments: Any = None, *, version: str | None = OLDER, **params: Any) -> dict[str, Any]:
    """Return a call as a client of that version makes it."""
    given = MINIMAL[tool] if arguments is None else arguments
    meta = {"_meta": {**ENVELOPE}} if version == NEWER else {}
    return {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": tool, "arguments": given, **meta, **params},
    }


def headers_of(version: str | None, tool: str) -> list[tuple[str, str]]:
    """Return the headers that such a client sends."""
    headers = [("content-type", "application/json"), ("accept", "application/json, text/event-stream")]
    if version is not None:
        headers.append(("mcp-protocol-version", version))
    if version == NEWER:
        headers += [("mcp-method", "tools/call"), ("mcp-name", tool)]
    return headers


def encoded(message: Any) -> bytes:
    """Return a message as most clients write it."""
    return json.dumps(message, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass")


def unusual_bodies(version: str) -> dict[str, bytes]:
    """Return calls that are written in unusual ways, and bodies that are none."""
    plain = encoded(call_of("get_edge", version=version))
    noted = encoded(call_of("store_memory", {"content": "x", "metadata": {"a": "HERE"}}, version=version))

    def with_value(value: bytes) -> bytes:
        return noted.replace(b'"HERE"', value)

    nested = {f"{levels} levels": with_value(b"[" * levels + b"]" * levels) for levels in (30, 180, 186, 190, 200, 250)}
    numbers = (b"1e16", b"1E400", b"-0", b"-0.0", b"1e-5", b"0.1e1", b"NaN", b"Infinity", b"01", b"1.", b"1" * 5_000)
    texts = (b'"\\ud800"', b'"\\ud83d\\ude00"', b'"\\\\ud800"', b'"\xff"', b'"\xed\xa0\x80"', b'"\x01"', b'"\\u0000"')
    return {
        **nested,
        **{repr(value[:20]): with_value(value) for value in (*numbers, *texts)},
        "nothing": b"",
        "white space": b" \t\r\n" + plain + b"\n ",
        "byte order mark": b"\xef\xbb\xbf" + plain,
        "utf-16": plain.decode().encode("utf-16"),
        "cut off": plain[:-1],
        "more": plain + b"x",
        "two": plain + plain,
        "an id twice": plain.replace(b'"id":1', b'"id":1,"id":2'),
        "a method twice": plain.replace(b'"id":1', b'"id":1,"method":"tools/list"'),
        "an argument twice": plain.replace(b'"relation":', b'"relation":5,"relation":'),
        "escaped keys": plain.replace(b'"method"', b'"m\\u0065thod"'),
        "too large": plain[:-1] + b" " * limits.BODY_BYTES + b"}",
        "almost too large": plain[:-1] + b" " * (limits.BODY_BYTES - len(plain)) + b"}",
    }
