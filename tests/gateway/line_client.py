"""Connect the SDK's own client to a gateway in lines, as stdio sessions are."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

import anyio
import mcp_types as types
from mcp.client import Client
from mcp.shared.message import SessionMessage

from engramq.gateway.identity.authorization import Caller
from engramq.gateway.mcp.lines import serve_lines
from engramq.gateway.mcp.listing import Profile
from engramq.gateway.mcp.server import dump_model
from engramq.gateway.service import Service
from engramq.gateway.stdio_sessions import Line

Streams = tuple[anyio.abc.ObjectReceiveStream[SessionMessage | Exception], anyio.abc.ObjectSendStream[SessionMessage]]


@asynccontextmanager
async def line_client(service: Service, profile: Profile, caller: Caller, era: str) -> AsyncIterator[Client]:
    """Connect a client of this caller for as long as the block lasts."""
    async with Client(_transport(service, profile, caller), mode=era) as client:
        yield client


@asynccontextmanager
async def _transport(service: Service, profile: Profile, caller: Caller) -> AsyncIterator[Streams]:
    to_gateway, from_client = anyio.create_memory_object_stream[SessionMessage](10)
    to_client, from_gateway = anyio.create_memory_object_stream[SessionMessage | Exception](10)

    async def lines() -> AsyncGenerator[Line]:
        async with from_client:
            async for item in from_client:
                data = dump_model(item.message)
                yield Line(data, len(data), data[-300:])

    async def send(message: bytes) -> None:
        await to_client.send(SessionMessage(types.jsonrpc_message_adapter.validate_json(message, by_name=False)))

    async with anyio.create_task_group() as tasks, to_gateway, to_client, from_gateway:
        tasks.start_soon(serve_lines, service, profile, caller, lines(), send)
        yield from_gateway, to_gateway
        tasks.cancel_scope.cancel()
