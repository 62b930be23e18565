"""The loop: two windows of a host take the same steps at the same moment, on a stack as `engramq up` starts it."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Generator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final

from mcp.client import Client
from mcp.client.stdio import StdioServerParameters

from bench.replies import Doors, tokens
from tests.agents.hosts import Fill, Host, filled

ACTIVE: Final = "active"
SUPERSEDED: Final = "superseded"
ARCHIVED: Final = "archived"


@dataclass(frozen=True)
class Step:
    """One call, and the memories that it acts on: those that its reply has to name, and no others."""

    tool: str
    arguments: dict[str, Any]
    about: tuple[str, ...] = ()


@dataclass
class Book:
    """What an agent has stored, and the state that it has left each memory in."""

    states: dict[str, str] = field(default_factory=dict)

    def note(self, body: dict[str, Any]) -> str:
        """Note a memory that was stored now; return its id."""
        memory_id: str = body["stored"]["id"]
        self.states[memory_id] = ACTIVE
        return memory_id


def work(project: str, number: int, book: Book) -> Generator[Step, dict[str, Any], None]:
    """Yield the calls of one piece of work; each is answered with the body of its reply."""
    person = f"Dana of {project}"
    yield Step("search_memories", {"query": f"how is {project} deployed?"})
    deploy = book.note((yield _store(
        f"{project}, task {number}: the service is deployed from the release branch every Tuesday at 10:00, after the "
        "integration tests on staging have passed; the pipeline stops by itself when one of them fails."
    )))  # fmt: skip
    rollback = book.note((yield _store(
        f"{project}, task {number}: a release is rolled back with the command `ship rollback`, which restores the last "
        "image within two minutes and leaves the database as it is; migrations are never undone by it."
    )))  # fmt: skip
    yield Step(
        "connect",
        {"source": "@stored", "target": deploy, "relation": "elaborates", "note": "what to do when it fails"},
        about=(rollback, deploy),
    )
    approval = book.note((yield _store(f"{project}, task {number}: releases are approved by {person} in person.")))
    found = yield Step("search_memories", {"query": f"who approves releases of {project}, task {number}?", "limit": 5})
    yield Step(
        "record_outcome",
        {"memory_ids": [_place(found, approval)], "signal": 0.9, "note": "the release went out"},
        about=(approval,),
    )
    successor = book.note((yield _store(
        f"{project}, task {number}: since November releases are approved by whoever is on call, no longer by {person}."
    )))  # fmt: skip
    yield Step(
        "supersede_memory",
        {"old_memory_id": _place(found, approval), "new_memory_id": "@stored"},
        about=(approval, successor),
    )
    book.states[approval] = SUPERSEDED
    yield Step(
        "update_memory",
        {"memory_id": "@stored", "metadata": {"ticket": f"OPS-{number}"}, "confidence": 0.9},
        about=(successor,),
    )
    yield Step("get_memory", {"memory_id": "@stored"}, about=(successor,))
    yield Step("list_recent_memories", {"limit": 10})
    yield from _facts(project, person)
    mistake = book.note((yield _store(f"{project}, task {number}: the staging database may be dropped at any time.")))
    yield Step("forget_memory", {"memory_id": "@stored", "reason": "this was about another system"}, about=(mistake,))
    book.states[mistake] = ARCHIVED
    found = yield Step("search_memories", {"query": f"what do we do when a release of {project} fails?", "limit": 5})
    edge = {"source": _place(found, rollback), "target": successor, "relation": "supports"}
    yield Step("connects", {"edges": [edge]}, about=(rollback, successor))
    yield Step("get_breadcrumbs", {}, about=(mistake,))


def _facts(project: str, person: str) -> Generator[Step, dict[str, Any], None]:
    edge = {"source_name": person, "target_name": project, "relation": "MAINTAINS"}
    yield Step("graph_add_edge", {**edge, "properties": {"since": "2025"}})
    yield Step("get_edge", edge)
    yield Step("graph_query_neighbors", {"node_name": project})


def _store(content: str) -> Step:
    return Step("store_memory", {"content": content})


def _place(found: dict[str, Any], memory_id: str) -> str:
    """Return how an agent names a memory: by its place in what was found last, else by its id."""
    ids = [memory["id"] for memory in found.get("memories", ())]
    return f"@recalled[{ids.index(memory_id)}]" if memory_id in ids else memory_id


BOUND_S: Final = 60.0
INVALID: Final = "invalid_parameter"


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
            stood_for = {item["id"] for item in body.get("resolved_references", {}).values()}
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
        schema = self._schemas.get(tool, {"type": "object", "properties": {}})  # not listed, and called by name
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
            ids = [item.get(end) for item in body.get("results", ()) for end in ("source_id", "target_id")]
        case "record_outcome":
            ids = [item["memory_id"] for item in body.get("updated", ())]
        case "supersede_memory":
            ids = [body.get(name, {}).get("id") for name in ("old", "new")]
        case "forget_memory":
            ids = [body.get("id")]
        case "get_breadcrumbs":
            ids = [body.get("last_stored_id")]
        case _:
            ids = [(body.get("memory") or {}).get("id")]
    return {item for item in ids if item is not None}


@asynccontextmanager
async def window(doors: Doors, host: Host, project: str) -> AsyncIterator[Window]:
    """Open a window: a connection of its own, over stdio a process of its own."""
    relay = StdioServerParameters(command=doors.command, args=["stdio"], env=dict(doors.environment), cwd="/")
    # The handshake is what most hosts still speak.
    async with Client(doors.url if host.over_http else relay, mode="legacy", read_timeout_seconds=BOUND_S) as client:
        schemas = {tool.name: tool.input_schema for tool in (await client.list_tools()).tools}
        yield Window(client, host, project, schemas)


def _body(result: Any) -> tuple[str, dict[str, Any]]:
    (block,) = result.content
    return block.text, json.loads(block.text)


PROJECTS: Final = ("Project Alder", "Project Birch")


async def play(doors: Doors, host: Host, rounds: int) -> Figures:
    """Let two windows of the host do so many pieces of work each; return what both came to."""
    names = [f"{project} ({host.name})" for project in PROJECTS]
    async with window(doors, host, names[0]) as first, window(doors, host, names[1]) as second:
        windows = (first, second)
        await asyncio.gather(*(each.begin() for each in windows))
        for number in range(1, rounds + 1):
            await _in_step(windows, number)
        for each in windows:
            await each.look_back()
    return added([each.figures for each in windows])


async def _in_step(windows: Sequence[Window], number: int) -> None:
    """Take the same step in all windows at once, the next when all are answered: nothing could cross more easily."""
    at_work = [each.work(number) for each in windows]
    steps = [next(item) for item in at_work]
    while True:
        bodies = await asyncio.gather(*(each.take(step) for each, step in zip(windows, steps, strict=True)))
        try:
            steps = [item.send(body) for item, body in zip(at_work, bodies, strict=True)]
        except StopIteration:
            return


def added(several: Sequence[Figures]) -> Figures:
    """Return the sums of all figures."""
    return Figures(
        calls=sum(item.calls for item in several),
        tokens=sum((item.tokens for item in several), Counter()),
        refused=list(chain.from_iterable(item.refused for item in several)),
        crossed=list(chain.from_iterable(item.crossed for item in several)),
    )
