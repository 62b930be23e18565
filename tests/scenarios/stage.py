"""The whole pipeline in one process over real servers: gateway, queue, workers of every kind, database of its own."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import pytest
from mcp.client import Client

from engramq.gateway.cursors import CursorSecret
from engramq.gateway.identity.authorization import Caller
from engramq.gateway.mcp.listing import profile_of
from engramq.gateway.queue.bus import open_bus
from engramq.gateway.replies import ReplyStyle
from engramq.gateway.service import Service
from engramq.gateway.sessions import Breadcrumbs
from engramq.schemas import limits
from engramq.schemas.connection import lanes_of
from engramq.schemas.envelope import Principal
from engramq.schemas.keys import Keys
from engramq.schemas.settings import Settings, read_settings
from engramq.schemas.vocabulary import (
    ALL_SCOPES,
    DEFAULT_LANGUAGE,
    DEFAULT_NAMESPACE,
    DEFAULT_PRINCIPAL,
    Detail,
    Scope,
    WorkerKind,
)
from engramq.workers import app
from engramq.workers.app import run
from engramq.workers.db.database import Store
from tests.conftest import Database, shared_stores
from tests.gateway.line_client import line_client
from tests.gateway.replies import check_reply

READY_S = 30.0
WHOLE = ReplyStyle(Detail.FULL, limits.REPLY_CHARS_MAX)  # what is stored is compared, field by field
OWN_SESSION = "the agent's own"
LEGACY, MODERN = "legacy", "2026-07-28"


@dataclass
class Agent:
    """A client of the SDK with a few words less: every reply is checked against the tool's promised shape."""

    client: Client

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        result = await self.client.call_tool(tool, arguments)
        (block,) = result.content
        assert block.type == "text"
        assert json.loads(block.text) == result.structured_content
        return check_reply(tool, result.structured_content, is_error=bool(result.is_error))

    async def refusal_of(self, tool: str, **arguments: Any) -> str:
        """Make a call that is refused for a parameter, and return its name."""
        body = await self.call(tool, **arguments)
        assert body["status"] == "invalid_parameter", body
        return str(body["field"])

    async def store(self, content: str, **arguments: Any) -> dict[str, Any]:
        """Store a memory and return it."""
        body = await self.call("store_memory", content=content, **arguments)
        assert body["status"] == "stored", body
        stored: dict[str, Any] = body["stored"]
        return stored

    async def search(self, query: str, **arguments: Any) -> list[dict[str, Any]]:
        body = await self.call("search_memories", query=query, **arguments)
        assert body["status"] == "success", body
        assert body["count"] == len(body["memories"])
        memories: list[dict[str, Any]] = body["memories"]
        return memories

    async def found(self, query: str, **arguments: Any) -> list[str]:
        """Return the contents of what a search finds."""
        return [memory["content"] for memory in await self.search(query, **{"limit": 50, **arguments})]

    async def recent(self, **arguments: Any) -> list[str]:
        """Return the contents of the newest memories."""
        body = await self.call("list_recent_memories", **{"limit": 100, **arguments})
        return [memory["content"] for memory in body["memories"]]


@dataclass
class Stage:
    """A running pipeline. Gateways can be added; each is a replica with a bus of its own."""

    settings: Settings
    keys: Keys
    resources: AsyncExitStack = field(default_factory=AsyncExitStack)

    async def gateway(self) -> Service:
        """Start another gateway."""
        settings = self.settings
        lanes = lanes_of(settings)
        bus = await self.resources.enter_async_context(open_bus(settings, lanes=lanes))
        client = lanes.server.client(timeout_s=5.0)
        self.resources.push_async_callback(client.aclose)
        secret = CursorSecret(client, lanes.first)
        return Service(
            bus, Breadcrumbs(client, lanes), secret, style=WHOLE, redact=settings.redact, zone=settings.timezone
        )


@asynccontextmanager
async def agent_of(
    service: Service,
    namespace: str = DEFAULT_NAMESPACE,
    principal: str = DEFAULT_PRINCIPAL,
    era: str = MODERN,
    scopes: tuple[Scope, ...] = ALL_SCOPES,
    *,
    untrusted: bool = False,
    session: str = OWN_SESSION,
    project: str = "",
) -> AsyncIterator[Agent]:
    """Connect a client as this principal, whose channel has a session, and maybe a project, as a stdio front has."""
    caller = Caller(namespace, Principal(name=principal, scopes=scopes, untrusted=untrusted), session, project)
    async with line_client(service, profile_of("full"), caller, era) as client:
        yield Agent(client)


def stage_settings(database: Database, redis_url: str, key_prefix: str, **changes: str) -> Settings:
    """Return settings for a pipeline of its own; `changes` are variables without their prefix, in lower case."""
    variables = {
        "database_url": database.url,
        "redis_url": redis_url,
        "key_prefix": key_prefix,
        "embedder": "hash",
        "webhooks_key": "k" * 32,  # else one is made in the home of whoever runs the tests
        "test_sweep_interval_s": "0.2",
        "reply_timeout_s": "60",  # of a busy machine too
        "port": "0",
        "min_relevance": "0",
        **changes,
    }
    return read_settings({f"ENGRAMQ_{name.upper()}": value for name, value in variables.items()})


def with_settings(**changes: str) -> pytest.MarkDecorator:
    """Let the pipeline of a test have these settings, with those of `stage_settings`."""
    return pytest.mark.parametrize("settings", [changes], indirect=True, ids=[""])


@asynccontextmanager
async def running_workers(settings: Settings, *kinds: WorkerKind) -> AsyncIterator[None]:
    """Run workers of these kinds, or of every kind, for as long as the block lasts.

    Where the module has a store open on their database they work with it: see tests/conftest.py.
    """
    stop, ready = asyncio.Event(), asyncio.Event()
    shared = shared_stores.get(settings.database_url) if settings.language == DEFAULT_LANGUAGE else None
    async with asyncio.TaskGroup() as group:
        with nullcontext() if shared is None else _opened_before(shared):
            group.create_task(run(kinds or tuple(WorkerKind), settings, stop=stop, ready=ready, handle_signals=False))
            try:
                await asyncio.wait_for(ready.wait(), READY_S)
            except BaseException:
                stop.set()
                raise
        try:
            yield
        finally:
            stop.set()


@contextmanager
def _opened_before(store: Store) -> Iterator[None]:
    """Have workers that start within the block use this store, and leave it open."""

    async def open_store(_settings: Settings, **_ended: bool) -> AbstractAsyncContextManager[Store]:
        store._tenants.clear()  # namespaces went with the rows of the test before
        return nullcontext(store)

    with patch.object(app, "open_store", open_store):
        yield


async def until(condition: Callable[[], Awaitable[bool]], bound_s: float = 60.0) -> None:
    """Return when the condition holds; fails when it does not within the bound."""
    async with asyncio.timeout(bound_s):
        while not await condition():
            await asyncio.sleep(0.02)


@asynccontextmanager
async def staged(settings: Settings, *, workers: bool = True) -> AsyncIterator[Stage]:
    """Run a pipeline for as long as the block lasts."""
    async with AsyncExitStack() as resources:
        if workers:
            await resources.enter_async_context(running_workers(settings))
        stage = Stage(settings, Keys(settings.key_prefix))
        async with stage.resources:
            yield stage
