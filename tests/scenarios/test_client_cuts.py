"""What is left of our replies once clients have cut them; docs/clients-measured.md says what each cuts."""

import json
import re
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any, Final

import pytest

from engramq.gateway.replies import ReplyStyle
from engramq.schemas import limits
from engramq.schemas.commands import TOOLS
from tests.scenarios.stage import Agent, Stage, agent_of

LONG: Final = ("The lighthouse keeper wrote down every ship that passed. " * 600)[: limits.CONTENT_CHARS]
LINKS: Final = limits.BATCH_LINKS


def claude_code(text: str) -> str:
    """Over 50,000 characters a reply goes into a file, and the model sees its first 2 KB."""
    return text if len(text) <= 50_000 else text[:2_000]


def codex(text: str) -> str:
    """12,000 characters stay, half of them from each end."""
    return text if len(text) <= 12_000 else text[:6_000] + text[-6_000:]


def gemini_cli(text: str) -> str:
    """Over 40,000 characters the first 8,000 and the last 32,000 stay."""
    return text if len(text) <= 40_000 else text[:8_000] + text[-32_000:]


CUTS: Final[tuple[Callable[[str], str], ...]] = (claude_code, codex, gemini_cli)


def text_of(body: dict[str, Any]) -> str:
    return json.dumps(body, separators=(",", ":"), ensure_ascii=False)


@pytest.fixture
async def agent(stage: Stage) -> AsyncIterator[Agent]:
    """A client that is answered as clients are that ask for nothing else."""
    service = replace(await stage.gateway(), style=ReplyStyle())
    async with agent_of(service) as connected:
        yield connected


@pytest.mark.promise("CL-2")
@pytest.mark.long
async def test_no_client_cuts_a_default_reply_or_one_that_a_hint_advises(agent: Agent) -> None:
    ids = [(await agent.store(f"{number} {LONG}"[: limits.CONTENT_CHARS]))["id"] for number in range(6)]
    ids += [(await agent.store(f"{number} {LONG[:1_700]}"))["id"] for number in range(5)]
    for number in range(40):
        edge = {"source_name": "hub", "target_name": f"spoke {number}", "relation": "HAS"}
        await agent.call("graph_add_edge", **edge, properties={"why": "x" * 300})
    large: dict[str, Any] = {"properties": {f"drawing {number}": "x" * 900 for number in range(30)}}
    fact = {"source_name": "Ada", "target_name": "Engine", "relation": "DESIGNED"}
    calls: dict[str, dict[str, Any]] = {
        "graph_add_node": {"name": "hub", **large}, "graph_add_edge": {**fact, **large},
        "get_node_by_name": {"name": "hub"}, "get_edge": fact,
        "graph_find_path": {"start_node": "hub", "end_node": "spoke 9"},
        "search_memories": {"query": LONG[:1_000], "limit": 50, "min_relevance": 0},
        "list_recent_memories": {"limit": 5}, "get_memory": {"memory_id": ids[0]},
        "survey_memories": {"topic": "ships of the lighthouse keeper", "limit": 100},
        "update_memory": {"memory_id": ids[1], "metadata": {"log": "z" * 30_000}, "detail": "full"},
        "supersede_memory": {"old_memory_id": ids[2], "new_memory_id": ids[3], "detail": "full"},
        "connect_by_query": {"source_query": LONG[:9_000], "target_query": LONG[-9_000:], "dry_run": True},
        "record_outcome": {"memory_ids": ids, "signal": 1}, "graph_query_neighbors": {"node_name": "hub"},
        "graph_list_edges": {"node_name": "hub", "limit": 500}, "get_breadcrumbs": {}, "guide": {}, "memory_stats": {},
    }  # fmt: skip
    walked = await agent.call("graph_query_neighbors", node_name="hub")
    assert walked["truncated"]
    assert walked["count"] == len(walked["neighbors"]) < 40 == walked["count"] + walked["omitted"]
    advised = 0
    for tool, arguments in calls.items():
        body = await agent.call(tool, **arguments)
        assert len(text_of(body)) <= limits.REPLY_CHARS or not TOOLS[tool].bounded, tool
        budgets = {int(number) for number in re.findall(r"max_chars=(\d+)", text_of(body))}
        advised += len(budgets)
        assert all(budget <= limits.ADVISED_CHARS for budget in budgets), tool
        replies = [body]
        if not TOOLS[tool].write and tool != "connect_by_query":
            replies += [await agent.call(tool, **{**arguments, "max_chars": budget}) for budget in budgets]
        for reply in replies:
            assert [cut(text_of(reply)) for cut in CUTS] == [text_of(reply)] * len(CUTS), tool
    assert advised, "some reply says with which budget the rest is shown"


@pytest.mark.promise("CL-2")
@pytest.mark.long
async def test_what_went_wrong_in_the_largest_batch_is_in_what_each_client_leaves(agent: Agent) -> None:
    ids = [(await agent.store(f"Ship {number} passed"))["id"] for number in range(21)]
    pairs = [(source, target) for source in ids for target in ids if source < target][:LINKS]
    edges: list[dict[str, Any]] = [{"source": source, "target": target, "note": "n" * 200} for source, target in pairs]
    wrong = LINKS // 2
    edges[wrong] = {"source": ids[0], "target": ids[0]}
    batch = await agent.call("connects", edges=edges)
    assert batch["errors"], "they go before what went well"
    assert [cut(text_of(batch)) for cut in CUTS] == [text_of(batch)] * len(CUTS)
    assert await read_on(agent, batch, ("results", "errors")) == set(range(LINKS))
    whole = await agent.call("get_command", command_id=batch["command_id"], max_chars=limits.REPLY_CHARS_MAX)
    assert wrong in {error["index"] for error in whole["reply"]["errors"]}


@pytest.mark.promise("CL-2")
async def test_receipts_of_a_large_import_come_in_parts(agent: Agent) -> None:
    records: list[dict[str, Any]] = [{"content": f"Ship {number} passed"} for number in range(300)]
    records[250] = {"content": " "}
    done = await agent.call("import_memories", records=records)
    assert (done["accepted"], done["rejected"]) == (299, 1)
    report = await agent.call("get_command", command_id=done["command_id"])
    assert await read_on(agent, report, ("receipts",)) == set(range(300))
    beyond = await agent.call("get_command", command_id=done["command_id"], first=300)
    assert (beyond["status"], beyond["field"]) == ("invalid_parameter", "first")


async def read_on(agent: Agent, body: dict[str, Any], names: tuple[str, ...]) -> set[int]:
    """Return the indexes of all items of a reply, going on as it says, each part within a default reply."""
    told: set[int] = set()
    while True:
        assert len(text_of(body)) <= limits.REPLY_CHARS
        inner = body.get("reply") or body
        told |= {item["index"] for name in names for item in inner[name]}
        if "omitted" not in inner:
            return told
        ((command_id, first),) = re.findall(r'^get_command\(command_id="(.+)", first=(\d+)\) goes on\.$', inner["rest"])
        assert int(first) not in told
        body = await agent.call("get_command", command_id=command_id, first=int(first))


@pytest.mark.promise("CL-2", "AG-4")
async def test_properties_that_are_left_out_are_named_and_shown_on_request(agent: Agent) -> None:
    fact = {"source_name": "Ada", "target_name": "Engine", "relation": "DESIGNED"}
    for size in (8_500, 40_000):
        asked: dict[str, Any] = {"properties": {"drawing": "x" * size}}
        written = [
            await agent.call("graph_add_edge", **fact, **asked),
            await agent.call("graph_add_node", name="Ada", **asked),
        ]
        for body in (*written, await agent.call("get_edge", **fact), await agent.call("get_node_by_name", name="Ada")):
            assert (body["properties"], body["omitted_fields"]) == ({}, ["properties"])
            assert ("larger max_chars" in body["rest"]) is (size > limits.ADVISED_CHARS)
        for tool, named in (("get_edge", fact), ("get_node_by_name", {"name": "Ada"})):
            whole = await agent.call(tool, **named, max_chars=50_000)
            assert whole["properties"] == asked["properties"]
            assert "rest" not in whole
