"""A window: one agent's connection to the server, and what went over it."""

import json
from collections import Counter
from collections.abc import AsyncIterator, Generator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from mcp.client import Client
from mcp.client.stdio import StdioServerParameters

from bench.agents.hosts import Fill, Host, filled
from bench.agents.plan import ACTIVE, SUPERSEDED, Book, Step, work
from bench.tokens import tokens

BOUND_S: Final = 60.0
INVALID: Final = "invalid_parameter"


@dataclass(frozen=True)
class Doors:
    """Where the server is: its URL, and the command (with its environment) that speaks stdio."""

    url: str
    command: str
    environment: Mapping[str, str]


@dataclass
class Figures:
    """What the calls of a window came to.

    `tokens` are those of all replies, by tool; `crossed` tells each reply that was about something else than it should.
    """

    calls: int = 0
    tokens: Counter[str] = field(default_factory=Counter)
    refused: list[str] = field(default_factory=list)
    crossed: list[str] = field(default_factory=list)


class Window:
    """One agent at work on its own project."""

    def __init__(self, client: Client, host: Host, project: str, schemas: Mapping[str, Any]) -> None:
        self._client = client
        self._host = host
        self._project = project
        self._schemas = schemas
        self._session: dict[str, str] = {}
        self.book = Book()
        self.figures = Figures()

    async def begin(self) -> None:
        """Get a session where the server cannot tell windows apart by itself: over HTTP."""
        if self._host.over_http:
            body = await self._call("begin_session", {})
            self._session = {"session": body["session"]}

    def work(self, number: int) -> Generator[Step, dict[str, Any], None]:
        """Return a piece of work on this window's project."""
        return work(self._project, number, self.book)

    async def take(self, step: Step) -> dict[str, Any]:
        """Call what the step says, and look whether the reply is about the memories that it should be about."""
        body = await self._call(step.tool, step.arguments)
        if step.about:
            touched = ids_of(step.tool, body)
            stood_for = {one["id"] for one in body.get("resolved_references", {}).values()}
            if touched != set(step.about) or not stood_for <= touched:
                self.figures.crossed.append(f"{self._project}: {step.tool}({step.arguments}) -> {json.dumps(body)}")
        return body

    async def look_back(self) -> None:
        """Look whether every memory of this window still is what the window has left it as."""
        for memory_id, state in self.book.states.items():
            result = await self._client.call_tool("get_memory", {"memory_id": memory_id})
            memory = _body(result)[1].get("memory") or {}
            found = SUPERSEDED if memory.get("superseded_by") else memory.get("state", ACTIVE)
            if found != state or not memory.get("content", "").startswith(self._project):
                self.figures.crossed.append(f"{self._project}: {memory_id} should be {state}: {json.dumps(memory)}")

    async def _call(self, tool: str, given: dict[str, Any]) -> dict[str, Any]:
        """Call as the host does; what is refused for its form is called again with what is needed alone."""
        schema = self._schemas[tool]
        needed = given | (self._session if "session" in schema["properties"] else {})
        body = await self._send(tool, filled(schema, needed, self._host.fill))
        if body["status"] == INVALID and self._host.fill is not Fill.OMITTED:
            body = await self._send(tool, needed)
        return body

    async def _send(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        result = await self._client.call_tool(tool, arguments)
        text, body = _body(result)
        self.figures.calls += 1
        self.figures.tokens[tool] += tokens(text)
        if result.is_error:
            self.figures.refused.append(f"{self._project}: {tool}: {body['error']}")
        return body


def ids_of(tool: str, body: Mapping[str, Any]) -> set[str]:
    """Return the memories that a reply says it was about."""
    match tool:
        case "connect":
            ids = [body.get("source_id"), body.get("target_id")]
        case "connects":
            ids = [one.get(end) for one in body.get("results", ()) for end in ("source_id", "target_id")]
        case "record_outcome":
            ids = [one["memory_id"] for one in body.get("updated", ())]
        case "supersede_memory":
            ids = [body.get(one, {}).get("id") for one in ("old", "new")]
        case "forget_memory":
            ids = [body.get("id")]
        case "get_breadcrumbs":
            ids = [body.get("last_stored_id")]
        case _:
            ids = [(body.get("memory") or {}).get("id")]
    return {one for one in ids if one is not None}


@asynccontextmanager
async def window(doors: Doors, host: Host, project: str) -> AsyncIterator[Window]:
    """Open a window: a connection of its own, over stdio a process of its own."""
    relay = StdioServerParameters(command=doors.command, args=["stdio"], env=dict(doors.environment))
    # The handshake is what most hosts still speak.
    async with Client(doors.url if host.over_http else relay, mode="legacy", read_timeout_seconds=BOUND_S) as client:
        schemas = {tool.name: tool.input_schema for tool in (await client.list_tools()).tools}
        yield Window(client, host, project, schemas)


def _body(result: Any) -> tuple[str, dict[str, Any]]:
    (block,) = result.content
    return block.text, json.loads(block.text)
