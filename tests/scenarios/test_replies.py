"""What replies cost an agent, through the whole pipeline: in tokens, in characters, and in what they repeat."""

import json
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from bench.replies import tokens
from engramq.gateway.replies import ReplyStyle
from engramq.schemas import limits
from engramq.schemas.commands import TOOLS
from tests.scenarios.stage import Agent, Stage, agent_of, until

HIT = "Ada drinks green tea at her desk before the stand-up, item {}"
LONG_HIT = (
    "The release train of the billing service leaves on the second Tuesday of a month, number {}: Ada reads the change "
    "log, Tom tags the commit, the pipeline builds the images, and nobody deploys anything else until the dashboards "
    "have been quiet for a whole hour; then the on-call engineer writes a line about it."
)
KILOBYTES_32 = ("The lighthouse keeper wrote down every ship that passed. " * 600)[: limits.CONTENT_CHARS]


def cost(body: dict[str, Any]) -> int:
    """Return the o200k tokens of a reply's text."""
    return tokens(json.dumps(body, separators=(",", ":"), ensure_ascii=False))


@pytest.fixture
async def agent(stage: Stage) -> AsyncIterator[Agent]:
    """A client that is answered as clients are who ask for nothing else."""
    service = replace(await stage.gateway(), style=ReplyStyle())
    async with agent_of(service) as connected:
        yield connected


@pytest.mark.promise("AG-1", "AG-2")
async def test_five_short_hits_cost_at_most_450_tokens(agent: Agent) -> None:
    for number in range(5):
        await agent.store(HIT.format(number))
    found = await agent.call("search_memories", query="what does Ada drink at her desk?")
    assert found["count"] == 5
    assert all(58 <= len(memory["content"]) <= 62 for memory in found["memories"])
    assert cost(found) <= 450
    whole = await agent.call("search_memories", query="what does Ada drink at her desk?", detail="full")
    assert [memory["id"] for memory in whole["memories"]] == [memory["id"] for memory in found["memories"]]
    assert {"usefulness", "score", "partition", "verification"} <= set(whole["memories"][0])


@pytest.mark.promise("CL-4")
async def test_ten_short_memories_in_full_fit_into_a_reply(agent: Agent) -> None:
    for number in range(10):
        await agent.store(HIT.format(number), speaker="Ada", tags=["tea"])
    whole: dict[str, Any] = {}

    async def are_classified() -> bool:
        whole.update(await agent.call("list_recent_memories", detail="full", max_chars=limits.REPLY_CHARS_MAX))
        return all(memory["sector_source"] for memory in whole["memories"])

    await until(are_classified)
    full = await agent.call("list_recent_memories", detail="full")
    assert (full["count"], "omitted" in full) == (10, False)
    assert len(json.dumps(full, separators=(",", ":"), ensure_ascii=False)) <= limits.REPLY_CHARS
    for short, memory in zip(full["memories"], whole["memories"], strict=True):
        left_out = memory.keys() - short.keys()
        assert left_out
        assert {name: memory[name] for name in left_out} == dict.fromkeys(left_out)
        assert short == {name: value for name, value in memory.items() if name not in left_out}
        assert not left_out & {"sector_source", "similarity"}


@pytest.mark.promise("AG-2", "AG-3")
async def test_a_store_costs_at_most_80_tokens_and_with_five_similar_ones_460(agent: Agent) -> None:
    alone = await agent.call("store_memory", content="Nothing is like this", metadata={"why": "to be repeated"})
    assert cost(alone) <= 80
    assert "like this" not in json.dumps(alone)
    assert "repeated" not in json.dumps(alone)
    for number in range(5):
        await agent.store(LONG_HIT.format(number))
    stored = await agent.call("store_memory", content=LONG_HIT.format(9), speaker="Ada", metadata={"why": "again"})
    assert len(stored["similar_memories"]) == 5
    assert all(290 <= len(LONG_HIT.format(number)) <= 310 for number in range(5))
    assert cost(stored) <= 460
    assert all(len(memory["preview"]) <= 160 for memory in stored["similar_memories"])


@pytest.mark.long
@pytest.mark.promise("AG-4", "AG-5")
async def test_memories_of_32_kb_do_not_make_a_reply_of_10_kb(agent: Agent) -> None:
    ids: list[str] = []
    for number in range(12):
        stored = await agent.call("store_memory", content=f"{number} {KILOBYTES_32}"[: limits.CONTENT_CHARS])
        ids.append(stored["stored"]["id"])
        assert len(json.dumps(stored)) < 10_000
    first, second, third, *_ = ids
    calls: dict[str, dict[str, Any]] = {
        "search_memories": {"query": KILOBYTES_32[:2_000], "limit": 50}, "list_recent_memories": {"limit": 100},
        "get_memory": {"memory_id": first}, "connect": {"source": first, "target": second, "note": "n" * 2_000},
        "connect_by_query": {"source_query": KILOBYTES_32, "target_query": KILOBYTES_32, "dry_run": True},
        "update_memory": {"memory_id": first, "confidence": 0.5},
        "supersede_memory": {"old_memory_id": second, "new_memory_id": third}, "restore_memory": {"memory_id": second},
        "verify_memory": {"memory_id": first, "verification": "verified"},
        "memory_promote_to_trusted": {"record_id": first}, "record_outcome": {"memory_ids": ids[:3], "signal": 1},
        "disconnect": {"source": first, "target": second}, "forget_memory": {"memory_id": first}, "get_breadcrumbs": {},
        "memory_stats": {}, "list_proposals": {}, "guide": {},
    }  # fmt: skip
    bodies = {tool: await agent.call(tool, **arguments) for tool, arguments in calls.items()}
    bodies["get_command"] = await agent.call("get_command", command_id=bodies["supersede_memory"]["command_id"])
    for tool, body in bodies.items():
        assert len(json.dumps(body)) < 10_000, tool
        sent = json.dumps(body, separators=(",", ":"), ensure_ascii=False)
        assert len(sent) <= limits.REPLY_CHARS or not TOOLS[tool].bounded, tool
    for tool in ("search_memories", "list_recent_memories", "get_memory", "supersede_memory", "connect_by_query"):
        assert bodies[tool]["rest"], tool
    assert bodies["get_command"]["reply"]["old"]["truncated"] is True
    whole = await agent.call("get_memory", memory_id=third, max_chars=200_000)
    assert "truncated" not in whole["memory"]
    assert len(whole["memory"]["content"]) == limits.CONTENT_CHARS


@pytest.mark.promise("AG-4")
async def test_a_page_that_ends_early_goes_on_at_the_next(agent: Agent) -> None:
    contents = [f"{number} {LONG_HIT}" for number in range(30)]
    for content in contents:
        await agent.store(content)
    seen: list[str] = []
    cursor: str | None = None
    pages = 0
    while pages == 0 or cursor is not None:
        more = {} if cursor is None else {"cursor": cursor}
        page = await agent.call("list_recent_memories", limit=20, max_chars=2_000, **more)
        assert len(json.dumps(page, separators=(",", ":"))) <= 2_000
        seen += [memory["content"] for memory in page["memories"]]
        cursor, pages = page["next_cursor"], pages + 1
        assert cursor is None or "omitted" in page
    assert pages > 3
    assert [content.split()[0] for content in seen] == [str(number) for number in reversed(range(30))]


@pytest.mark.promise("AG-4")
@pytest.mark.parametrize(("detail", "most"), [("full", 500), ("brief", 500), ("full", 1_500)])
async def test_every_page_shows_something_however_small_it_is(agent: Agent, detail: str, most: int) -> None:
    names = {"speaker": "s" * 255, "thread": "t" * 255}
    ids = [(await agent.store(KILOBYTES_32, external_id=f"{number}" * 255, **names))["id"] for number in range(5)]
    seen: list[str] = []
    more: dict[str, str] = {}
    while len(seen) < 10:
        page = await agent.call("list_recent_memories", limit=3, detail=detail, max_chars=most, **more)
        assert len(json.dumps(page, separators=(",", ":"), ensure_ascii=False)) <= most
        seen += [memory["id"] for memory in page["memories"]]
        if page["next_cursor"] is None:
            break
        more = {"cursor": page["next_cursor"]}
    assert seen == ids[::-1]


@pytest.mark.promise("AG-4")
async def test_what_a_reply_says_of_the_rest_gets_it(agent: Agent) -> None:
    content = KILOBYTES_32[:20_000]
    stored = await agent.call("store_memory", content=content, detail="full", max_chars=4_000)
    assert stored["stored"]["truncated"] is True
    first = await agent.call("get_memory", **said(stored["rest"]))
    found = await agent.call("get_memory", memory_id=stored["stored"]["id"])
    assert found["memory"]["content"] == first["memory"]["content"]
    parts = [found]
    while "rest" in parts[-1]:
        parts.append(await agent.call("get_memory", **said(parts[-1]["rest"])))
    assert len(parts) == found["parts"] == 3
    assert "".join(part["memory"]["content"] for part in parts) == content

    asked = {"source_query": content[:2_000], "target_query": "Who wrote down every ship?", "dry_run": True}
    tried = await agent.call("connect_by_query", **asked)
    assert tried["rest"].endswith("get_memory(memory_id, part) shows one whole, in parts.")
    short = (await agent.store("The keeper has a dog"))["id"]
    asked = {"source_query": "The keeper has a dog", "target_query": "a dog", "dry_run": True, "max_chars": 500}
    tried = await agent.call("connect_by_query", **asked)
    again = await agent.call("connect_by_query", **{**asked, **said(tried["rest"])})
    assert (again["source_id"], "rest" in again) == (short, False)

    (resource,) = (await agent.client.read_resource(f"engramq://memory/{stored['stored']['id']}")).contents
    assert json.loads(resource.text)["memory"]["content"] == content  # type: ignore[union-attr]


def said(rest: str) -> dict[str, Any]:
    """Return the arguments that a reply names."""
    return {name: json.loads(value) for name, value in re.findall(r'(\w+)=("[^"]*"|\w+)', rest)}


@pytest.mark.promise("AG-4")
async def test_links_that_were_made_together_are_all_told_again(agent: Agent) -> None:
    ids = [(await agent.store(HIT.format(number)))["id"] for number in range(12)]
    pairs = [(item, other) for item in ids[:6] for other in ids[6:]]
    edges = [{"source": pair, "target": other, "note": "n" * 300} for pair, other in pairs]
    made = await agent.call("connects", edges=edges)
    report = await agent.call("get_command", command_id=made["command_id"], max_chars=limits.REPLY_CHARS_MAX)
    assert len(json.dumps(made, separators=(",", ":"))) <= limits.REPLY_CHARS
    notes = [result["note"] for result in report["reply"]["results"]]
    assert notes == [edge["note"] for edge in edges]
    assert len(made["results"]) == len(notes) - made["omitted"] > 0


@pytest.mark.promise("AG-1")
async def test_a_replay_is_rendered_as_it_is_asked_for(agent: Agent) -> None:
    given = {"content": "Once and for all", "speaker": "Ada", "idempotency_key": "k"}
    brief = await agent.call("store_memory", **given)
    whole = await agent.call("store_memory", **given, detail="full", max_chars=1000)
    assert brief["stored"] == {"id": whole["stored"]["id"]}
    assert whole["stored"]["speaker"] == "Ada"
    assert await agent.call("store_memory", **given, detail="brief") == brief
    # What is meant is compared, not how it was written.
    again = await agent.call("store_memory", **given, confidence="1.0", thread=None, metadata="")
    assert again == brief


@pytest.mark.promise("AG-18")
async def test_a_store_that_is_kept_apart_says_so_and_what_to_do(agent: Agent) -> None:
    apart = await agent.call("store_memory", content="A zebra server restarts weekly", source_type="observation")
    assert apart["stored"]["partition"] == "untrusted"
    assert (await agent.call("search_memories", query="zebra server"))["count"] == 0
    assert "untrusted" in apart["notice"]
    found = await agent.call("search_memories", query="zebra server", partitions=["untrusted"])
    assert [memory["id"] for memory in found["memories"]] == [apart["stored"]["id"]]
    assert found["memories"][0]["warning"]
