"""A session of the Python SDK that is installed, whichever it is, as the programs of its version open one."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Any

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

from tests.clients.programs.calling import Job


@asynccontextmanager
async def opened(job: Job) -> AsyncIterator[Any]:
    """Connect over HTTP or stdio, with the handshake done."""
    async with _streams(job) as streams, ClientSession(*streams[:2]) as session:
        await session.initialize()
        yield session


def _streams(job: Job) -> Any:
    if job.url is None:
        return stdio_client(StdioServerParameters(command=job.command, args=job.arguments, env=job.environment))
    http = import_module("mcp.client.streamable_http")  # 1.9 has one name for it, 2.3 the other
    connect = getattr(http, "streamable_http_client", None) or http.streamablehttp_client
    return connect(job.url)


def schema_of(tool: Any) -> dict[str, Any]:
    """Return the schema of a listed tool, whose name changed with version 2."""
    found: dict[str, Any] = tool.input_schema if hasattr(tool, "input_schema") else tool.inputSchema
    return found


def is_refusal(result: Any) -> bool:
    """Tell whether a result is an error, which changed its name too."""
    return bool(result.is_error if hasattr(result, "is_error") else result.isError)
