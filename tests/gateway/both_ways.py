"""Requests put to two gateways that differ in one thing: whether calls of tools are answered ahead of the SDK."""

import json
import os
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final

import anyio
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.types import Message

from engramq.gateway.identity.local_peer import CONNECTION, LocalConnection
from engramq.gateway.run import Gateway
from engramq.schemas.keys import Keys
from tests.gateway.conftest import gateway_over
from tests.gateway.test_arguments import MINIMAL
from tests.gateway.worker_side import WorkerSide, worker_side

OLDER: Final = "2025-11-25"
NEWER: Final = "2026-07-28"
PREFIX: Final = "io.modelcontextprotocol/"
ENVELOPE: Final[Mapping[str, Any]] = {
    f"{PREFIX}protocolVersion": NEWER,
    f"{PREFIX}clientInfo": {"name": "test", "version": "1"},
    f"{PREFIX}clientCapabilities": {},
}
VERSIONS: Final = (None, *HANDSHAKE_PROTOCOL_VERSIONS, NEWER)

# Ids made by chance, the clock's instances of sessions and the end of breadcrumbs.
_VARYING: Final = re.compile(
    rb"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}"
    rb"|(?<=s-)[0-9a-f]{12}"
    rb'|(?<=instance":)\d+|(?<=instance\\":)\d+|(?<=expires_at":")[^"\\]+|(?<=expires_at\\":\\")[^"\\]+'
)

Gateways = list[tuple[Gateway, WorkerSide]]  # the one that answers itself, then the SDK's; each with its workers
Exchange = tuple[tuple[int, list[tuple[bytes, bytes]]], bytes]


@asynccontextmanager
async def two_gateways(redis_url: str, name: str, reply_timeout_s: float = 5.0) -> AsyncIterator[Gateways]:
    """Run a gateway that answers calls itself, and one that leaves them to the SDK, each with its own workers."""
    async with AsyncExitStack() as stack:
        both = []
        for by_sdk_alone in (False, True):
            keys = Keys(f"{name}-{by_sdk_alone}")
            workers = await stack.enter_async_context(worker_side(redis_url, keys))
            served = gateway_over(redis_url, keys, reply_timeout_s, by_sdk_alone=by_sdk_alone)
            both.append((await stack.enter_async_context(served), workers))
        yield both


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
    """Post a body in so many parts and return status, headers and body of the answer, what varies left out."""
    size = max(1, -(-len(body) // parts))
    pieces = [body[at : at + size] for at in range(0, len(body), size)] or [b""]
    answer: list[Message] = []

    async def receive() -> Message:
        if not pieces:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": pieces.pop(0), "more_body": bool(pieces)}

    async def send(message: Message) -> None:
        answer.append(message)

    raw = [(name.encode(), value.encode("latin-1")) for name, value in [("host", "127.0.0.1"), *headers]]
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": "/mcp",
        "raw_path": b"/mcp",
        "root_path": "",
        "query_string": b"",
        "headers": raw,
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 2),
        CONNECTION: LocalConnection(("127.0.0.1", 1), ("127.0.0.1", 2), lambda _peer, _server: os.geteuid()),
        "state": {},
    }
    with anyio.fail_after(20):
        await app(scope, receive, send)
    said = b"".join(message.get("body", b"") for message in answer[1:])
    return (answer[0]["status"], answer[0]["headers"]), same_each_time(said)


def same_each_time(answer: bytes) -> bytes:
    """Return an answer without what differs from one time to the next; everything has kept its length."""
    return _VARYING.sub(lambda found: b"." * len(found[0]), answer)


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
