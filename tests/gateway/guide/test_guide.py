"""The guide has an entry for every tool, each with an example that works as it stands."""

import functools
import operator
import re
from typing import Any

import msgspec
import pytest

from engramq.gateway.mcp.audience import ALL_TOOLS, audience_of
from engramq.gateway.mcp.guide import TEXTS, overview_for, topics_for
from engramq.schemas.commands import TOOLS
from engramq.schemas.faults import missing
from engramq.schemas.vocabulary import ALL_SCOPES, Thing
from tests.scenarios.stage import Agent, Stage, agent_of

REFUSED = {"error", "invalid_parameter", "not_found", "pending", "ambiguous", "consent_required", "invalid_sector"}
# What an example shows beside its status.
SHOWN: dict[str, dict[str, Any]] = {
    "search_memories": {"count": 1}, "connect": {"action": "created"}, "disconnect": {"action": "removed"},
    "connects": {"created": 1, "reinforced": 1, "errors": []},
    "graph_find_path": {"path_found": True, "path_length": 2}, "graph_list_edges": {"count": 1},
    "graph_query_neighbors": {"count": 1}, "decide_proposal": {"status": "recorded", "approvals": 1},
    "get_command": {"status": "done"}, "memory_promote_to_trusted": {"status": "promoted"},
    "verify_memory": {"old": "unverified", "new": "verified"}, "forget_memory": {"status": "archived"},
    "restore_memory": {"status": "restored"}, "import_memories": {"accepted": 2, "rejected": 1},
    "supersede_memory": {"status": "superseded"},
}  # fmt: skip
EVERYBODY = audience_of(ALL_TOOLS, ALL_SCOPES, untrusted=False)


@pytest.mark.promise("CN-45")
def test_the_overview_names_every_tool() -> None:
    assert [name for area in overview_for(EVERYBODY).topics.values() for name in area] == list(TOOLS)


def test_an_entry_is_short_says_what_the_listing_does_not_and_names_tools_that_exist() -> None:
    for tool in TOOLS:
        entry = TOOLS[tool].guide
        assert entry.example.tool == tool
        for name in TEXTS:
            text = getattr(entry, name)
            assert 0 < len(text) <= 330, name
            assert TOOLS[tool].summary not in text
        written = " ".join(getattr(entry, name) for name in TEXTS)
        named = set(re.findall(r"\b(?:get|graph|search|list|store|supersede|update|forget|restore)_[a-z_]+", written))
        replied = " ".join(field for reply in TOOLS[tool].replies for field in reply.__struct_fields__)
        assert {name for name in named if name not in replied.split()} <= set(TOOLS)


@pytest.mark.promise("CN-45", "CN-44")
@pytest.mark.long
async def test_the_example_of_every_tool_works_as_it_stands(stage: Stage) -> None:
    service = await stage.gateway()
    for tool in TOOLS:
        async with agent_of(service, f"the namespace of {tool}") as agent:
            entry = (await agent.call("guide", topic=tool))["entry"]
            body = await follow(agent, [*entry["before"], entry["example"]])
            assert {name: body[name] for name in SHOWN.get(tool, {})} == SHOWN.get(tool, {}), tool


@pytest.mark.promise("CN-45")
@pytest.mark.long
async def test_the_examples_work_in_any_order_in_one_namespace(stage: Stage) -> None:
    service = await stage.gateway()
    for order in (list(TOOLS), list(TOOLS)[::-1]):
        async with agent_of(service, f"a newcomer who begins with {order[0]}") as agent:
            for tool in order:
                await follow(
                    agent,
                    [*msgspec.to_builtins(TOOLS[tool].guide.before), msgspec.to_builtins(TOOLS[tool].guide.example)],
                )


async def follow(agent: Agent, steps: list[dict[str, Any]]) -> dict[str, Any]:
    """Make the calls one after the other and return the last reply."""
    seen: dict[str, Any] = {}
    body: dict[str, Any] = {}
    for step in steps:
        arguments = {name: filled(value, seen) for name, value in step["arguments"].items()}
        body = await agent.call(step["tool"], **arguments)
        proposes = step is not steps[-1] and "proposal_id" in body  # for the step that decides
        assert body["status"] not in REFUSED or proposes, (step, body)
        seen |= body
    return body


def filled(value: Any, seen: dict[str, Any]) -> Any:
    """Put what an earlier reply held in the place that names it: <stored.id> is the field id of stored."""
    place = re.fullmatch(r"<([a-z_.]+)>", value) if isinstance(value, str) else None
    return value if place is None else functools.reduce(operator.getitem, place[1].split("."), seen)


@pytest.mark.promise("CN-45")
async def test_the_guide_answers_without_any_worker(guided: Agent) -> None:
    overview = await guided.call("guide")
    assert (overview["status"], overview["topic"]) == ("success", "overview")
    assert len(overview["entry"]["way_of_working"]) == 6
    assert overview == await guided.call("guide", topic="overview")
    entry = await guided.call("guide", topic="connect")
    assert (entry["status"], entry["topic"]) == ("success", "connect")
    assert set(entry["entry"]) == {*TEXTS, "before", "example"}
    topics = list(topics_for(EVERYBODY))
    absent = {"status": "not_found", "topics": topics, **missing(Thing.TOPIC)}
    for unknown in ("Connect", "everything", "🦆", "@stored"):
        assert await guided.call("guide", topic=unknown) == absent
    assert overview == await guided.call("guide", topic=None) == await guided.call("guide", topic="")
    for wrong in (" ", 5, "x" * 256, "a\0"):
        refused = await guided.call("guide", topic=wrong)
        assert (refused["status"], refused["field"]) == ("invalid_parameter", "topic")


async def test_the_guide_can_be_read_as_resources(guided: Agent) -> None:
    for uri, arguments in (("engramq://guide", {}), ("engramq://guide/get_edge", {"topic": "get_edge"})):
        (content,) = (await guided.client.read_resource(uri)).contents
        answered = await guided.client.call_tool("guide", arguments)
        assert content.text == answered.content[0].text  # type: ignore[union-attr] # both are texts
