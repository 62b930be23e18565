"""What a model is told to do works: the examples of the listing and of the guide, and what refusals tell to do.

Each is called as it stands, by a client with a session of its own (stdio) and by one without (HTTP), in each profile.
"""

import ast
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import httpx2  # the SDK's client library
import pytest
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client

from engramq.gateway.identity.authorization import Caller
from engramq.gateway.mcp.audience import EVERYDAY, PROFILES
from engramq.gateway.mcp.listing import profile_of
from engramq.gateway.service import Service
from engramq.schemas.commands import TOOLS
from engramq.schemas.envelope import Principal
from engramq.schemas.settings import Settings
from engramq.schemas.vocabulary import ALL_SCOPES
from tests.gateway.guide.test_guide import REFUSED, follow
from tests.gateway.line_client import line_client
from tests.gateway.ui.conftest import served
from tests.scenarios.stage import MODERN, OWN_SESSION, Agent, Stage

PROFILE: Final = pytest.mark.parametrize("profile", PROFILES)
DOOR: Final = pytest.mark.parametrize("session", [OWN_SESSION, ""], ids=["stdio", "http"])
EDGE: Final = {"source_name": "Ada", "target_name": "Engine", "relation": "DESIGNED"}
# Of tools whose example has an <id>: what it stands for is made by these calls, and found there in the last reply.
NEEDS: Final[dict[str, tuple[str, dict[str, Any], str]]] = {
    "verify_memory": ("store_memory", {"content": "A claim", "source_type": "research"}, "stored.id"),
    "memory_promote_to_trusted": ("store_memory", {"content": "A claim", "source_type": "research"}, "stored.id"),
    "restore_memory": ("forget_memory", {"memory_id": "<recalled>"}, "id"),
    "share_memory": ("store_memory", {"content": "My own", "visibility": "private"}, "stored.id"),
    "unshare_memory": ("store_memory", {"content": "Ours", "visibility": "shared"}, "stored.id"),
    **{
        tool: ("store_memory", {"content": "A claim"}, "stored.id")
        for tool in ("why", "update_memory", "supersede_memory", "connect")
    },
    "get_command": ("store_memory", {"content": "A claim"}, "command_id"),
    "graph_delete_edge": ("graph_add_edge", {**EDGE, "relation": "KEPT"}, "edge_id"),
    "graph_delete_node": ("graph_add_node", {"name": "A mistake"}, "node_id"),
}
UNANSWERED: Final = {"decide_proposal"}  # its example decides a proposal of somebody else: see test_consent.py


@asynccontextmanager
async def agent_in(service: Service, profile: str, session: str, namespace: str) -> AsyncIterator[Agent]:
    caller = Caller(namespace, Principal(name="somebody", scopes=ALL_SCOPES), session)
    chosen = profile_of(profile, in_session=bool(session))
    async with line_client(service, chosen, caller, MODERN) as client:
        yield Agent(client)


def example_of(description: str) -> tuple[str, dict[str, Any]]:
    """Return the call that a tool's description ends with."""
    written = re.sub(r"\btrue\b", "True", description.rpartition(" Example: ")[2])
    call = ast.parse(written, mode="eval").body
    assert isinstance(call, ast.Call)
    assert isinstance(call.func, ast.Name)
    return call.func.id, {str(each.arg): ast.literal_eval(each.value) for each in call.keywords}


@pytest.mark.promise("CL-5")
@pytest.mark.long
@DOOR
async def test_the_example_in_the_listing_of_every_tool_works(stage: Stage, session: str) -> None:
    service = await stage.gateway()
    worked: set[str] = set()
    for profile in PROFILES:
        async with agent_in(service, profile, session, "a listing") as agent:
            tools = (await agent.client.list_tools()).tools
        for tool in tools:
            called, arguments = example_of(tool.description or "")
            assert called == tool.name
            if called in UNANSWERED or (example := f"{called} {arguments}") in worked:
                continue  # most examples are the same in all listings
            worked.add(example)
            own = f"examples of {tool.name} in {profile}"
            async with agent_in(service, "full", session, own) as author:
                await prepare(author, arguments, session or "s")
                if called in NEEDS:
                    arguments = await with_ids(author, called, arguments)
            async with agent_in(service, profile, session, own) as reader:
                body = await reader.call(called, **arguments)
            assert body["status"] not in REFUSED, (called, arguments, body)


async def prepare(agent: Agent, arguments: dict[str, Any], session: str) -> None:
    """Make what examples are about: two memories that a search recalls, another one stored, and an edge."""
    here = {"session": session} if "session" in arguments else {}
    for content in ("Ada likes Redis for its latency", "Ada drinks tea"):
        await agent.store(content, **here)
    assert len(await agent.search("what does Ada like and drink?", min_relevance=0, **here)) >= 2
    await agent.store("Ada prefers tea to coffee", **here)
    await agent.call("graph_add_edge", **EDGE)
    await agent.call("graph_add_edge", source_name="Engine", target_name="London", relation="STANDS_IN")


async def with_ids(agent: Agent, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments with an id in place of each <id>; of two the first is that of an older memory."""
    made_by, given, place = NEEDS[tool]
    (recalled, *_) = (await agent.call("list_recent_memories"))["memories"]
    given = {name: recalled["id"] if value == "<recalled>" else value for name, value in given.items()}
    reply: Any = await agent.call(made_by, **given)
    if tool == "memory_promote_to_trusted":
        await agent.call("verify_memory", memory_id=reply["stored"]["id"], verification="verified")
    for name in place.split("."):
        reply = reply[name]
    found = {"<id>": reply}
    if "<digest>" in arguments.values():
        found["<digest>"] = (await agent.call("get_memory", memory_id=reply, detail="full"))["memory"]["digest"]
    filled = {name: found.get(value, value) for name, value in arguments.items()}
    places = [name for name, value in arguments.items() if value == "<id>"]
    return filled | {places[0]: recalled["id"]} if len(places) > 1 else filled


@pytest.mark.promise("CL-5")
@pytest.mark.long
async def test_the_example_in_the_guide_to_every_tool_works_without_a_session(stage: Stage) -> None:
    """With one: tests/gateway/guide/test_guide.py."""
    service = await stage.gateway()
    for tool in TOOLS:
        async with agent_in(service, "full", "", f"guide to {tool}") as agent:
            entry = (await agent.call("guide", topic=tool))["entry"]
            await follow(agent, [*entry["before"], entry["example"]])


@pytest.mark.promise("CL-5")
@PROFILE
async def test_what_the_refusal_of_a_reference_without_a_session_tells_to_do_works(stage: Stage, profile: str) -> None:
    async with agent_in(await stage.gateway(), profile, "", "no session") as agent:
        listed = {tool.name for tool in (await agent.client.list_tools()).tools}
        await agent.store("Ada likes tea")
        refused = await agent.call("forget_memory", memory_id="@stored")
        (name,) = re.findall(r'session="(\w+)"', refused["recovery"])
        assert ("begin_session" in refused["recovery"]) is ("begin_session" in listed)
        stored = await agent.store("Ada likes coffee", session=name)
        forgotten = await agent.call("forget_memory", memory_id="@stored", session=name)
        assert (forgotten["status"], forgotten["id"]) == ("archived", stored["id"])


@pytest.mark.promise("CL-5", "CL-2")
@DOOR
async def test_what_a_cut_reply_tells_to_do_shows_the_rest(stage: Stage, session: str) -> None:
    async with agent_in(await stage.gateway(), EVERYDAY, session, "cut replies") as agent:
        content = " ".join(f"On day {number} the keeper wrote down a ship." for number in range(250))
        await agent.store(content)
        (hit,) = await agent.search("which ships did the keeper write down?", max_chars=3_000, min_relevance=0)
        assert (hit["truncated"], hit["parts"]) == (True, 2)
        parts, rest = [], f'get_memory(memory_id="{hit["id"]}", part=1)'
        while rest:
            called, arguments = example_of(f" Example: {rest.removesuffix(' goes on.')}")
            body = await agent.call(called, **arguments)
            parts.append(body["memory"]["content"])
            rest = body.get("rest", "")
        assert " ".join(parts).split() == content.split()


@pytest.mark.promise("CL-5")
@pytest.mark.long
async def test_examples_and_what_refusals_tell_to_do_work_over_a_socket(settings: Settings) -> None:
    async with (
        served(settings) as here,
        httpx2.AsyncClient(headers={"authorization": f"Bearer {here.secrets['ada']}"}) as http,
        Client(streamable_http_client(f"http://127.0.0.1:{here.port}/mcp", http_client=http)) as client,
    ):
        agent = Agent(client)
        for tool in (await client.list_tools()).tools:
            called, arguments = example_of(tool.description or "")
            await prepare(agent, arguments, "s")
            if called in NEEDS:
                arguments = await with_ids(agent, called, arguments)
            body = await agent.call(called, **arguments)
            assert body["status"] not in REFUSED, (called, arguments, body)
        refused = await agent.call("forget_memory", memory_id="@stored")
        (name,) = re.findall(r'session="(\w+)"', refused["recovery"])
        stored = await agent.store("Ada likes coffee", session=name)
        forgotten = await agent.call("forget_memory", memory_id="@stored", session=name)
        assert (forgotten["status"], forgotten["id"]) == ("archived", stored["id"])
