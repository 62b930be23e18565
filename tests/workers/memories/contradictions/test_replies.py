"""What disagrees is shown by stores, searches, the list, the command and REST, and nothing is decided."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.scenarios.stage import Agent, Stage, agent_of
from tests.terminal import Terminal
from tests.workers.memories.contradictions.notes import template_notes

pytestmark = pytest.mark.promise("PR-7")

AUGUST = "The lease of the office ends in August"
DECEMBER = "The lease of the office ends in December"
STORES = (Path(__file__).parent / "stores.txt").read_text("utf-8").splitlines()


async def pairs_of(agent: Agent, **arguments: Any) -> list[dict[str, Any]]:
    """Return all pairs of the list."""
    pairs: list[dict[str, Any]] = []
    cursor = None
    while True:
        page = await agent.call("list_contradictions", **arguments, **({"cursor": cursor} if cursor else {}))
        pairs, cursor = pairs + page["pairs"], page["next_cursor"]
        if cursor is None:
            return pairs


async def test_a_store_and_a_search_quote_both_on_the_later_one(agent: Agent) -> None:
    old = await agent.store(AUGUST)
    body = await agent.call("store_memory", content=DECEMBER, detail="brief")
    new = body["stored"]
    differs = [{"id": old["id"], "said": AUGUST, "here": DECEMBER}]
    assert new["differs_from"] == differs
    assert ["differs_from" in memory for memory in body["similar_memories"]] == [False]
    hits = {hit["id"]: hit for hit in await agent.search("When does the lease of the office end?")}
    assert hits[new["id"]]["differs_from"] == differs
    assert "differs_from" not in hits[old["id"]]
    (alone,) = await agent.search("When does the lease of the office end?", limit=1)
    shown, other = (new, old) if alone["id"] == new["id"] else (old, new)
    (entry,) = alone["differs_from"]  # the other side is not among the hits
    assert (entry["id"], entry.get("newer", False)) == (other["id"], shown is old)
    assert [state["state"] for state in hits.values()] == ["active"] * 2


async def test_events_of_other_people_and_days_do_not_disagree(agent: Agent) -> None:
    for content in (*template_notes("tuned", 24), AUGUST):
        await agent.store(content)
    new = await agent.store(DECEMBER)
    hits = await agent.search("Which calls and meetings were there?") + await agent.search("visits to the office")
    assert len(hits) > 5
    assert {hit["id"] for hit in hits if "differs_from" in hit} <= {new["id"]}
    assert [pair["later"] for pair in await pairs_of(agent)] == [new["id"]]


async def test_what_happened_earlier_is_the_earlier_whenever_it_is_stored(agent: Agent) -> None:
    new = await agent.store(DECEMBER, occurred_at="2026-05-01T00:00:00Z")
    body = await agent.call("store_memory", content=AUGUST, occurred_at="2026-04-01T00:00:00Z")
    assert "differs_from" not in body["stored"]
    (similar,) = body["similar_memories"]
    assert similar["differs_from"] == [{"id": body["stored"]["id"], "said": AUGUST, "here": DECEMBER}]
    (pair,) = await pairs_of(agent)
    assert pair == {"later": new["id"], "earlier": body["stored"]["id"], "said": AUGUST, "here": DECEMBER}


async def test_what_is_decided_or_holds_at_another_time_does_not_disagree(agent: Agent) -> None:
    old, new = await agent.store(AUGUST), await agent.store(DECEMBER)
    await agent.call("supersede_memory", old_memory_id=old["id"], new_memory_id=new["id"])
    await agent.store("The gym is open on Mondays", valid_until="2030-01-01T00:00:00Z")
    await agent.store("The gym is not open on Mondays", valid_from="2030-01-01T00:00:00Z")
    await agent.store("The oven is on in the kitchen", project="home")
    await agent.store("The oven is off in the kitchen", project="bakery")
    assert await pairs_of(agent, project="*") == []
    for query in ("When does the lease of the office end?", "Is the gym open?", "Is the oven on?"):
        hits = await agent.search(query, include_superseded=True, project="*")
        assert len(hits) >= 2
        assert [hit["id"] for hit in hits if "differs_from" in hit] == []


async def test_a_trusted_memory_quotes_no_untrusted_one(agent: Agent) -> None:
    poison = await agent.store(DECEMBER, source_type="research", occurred_at="2020-01-01T00:00:00Z")
    trusted = await agent.call("store_memory", content=AUGUST)
    assert (trusted["similar_memories"], "differs_from" in trusted["stored"]) == ([], False)
    both = {"partitions": ["trusted", "untrusted"]}
    hits = {hit["id"]: hit for hit in await agent.search("When does the lease of the office end?", **both)}
    assert "differs_from" not in hits[trusted["stored"]["id"]]
    entry = {"id": trusted["stored"]["id"], "said": AUGUST, "here": DECEMBER, "newer": True}
    assert (hits[poison["id"]]["differs_from"], hits[poison["id"]]["untrusted"]) == ([entry], True)
    for hit in await agent.search("When does the lease of the office end?", limit=1, **both):
        assert hit["partition"] == "untrusted" or "differs_from" not in hit
    assert await pairs_of(agent) == []
    again = await agent.call("store_memory", content=DECEMBER, source_type="research")
    assert again["stored"]["differs_from"] == [{"id": trusted["stored"]["id"], "said": AUGUST, "here": DECEMBER}]


async def test_what_an_agent_linked_as_contradicting_is_shown_too(agent: Agent) -> None:
    old = await agent.store("Ada wants the blue wallpaper for the hall")
    new = await agent.store("Ada asked for plain white walls in the hall")
    assert await pairs_of(agent) == []
    await agent.call("connect", source=new["id"], target=old["id"], relation="contradicts")
    (pair,) = await pairs_of(agent)
    assert pair == {"later": new["id"], "earlier": old["id"], "said": old["content"], "here": new["content"]}
    hits = await agent.search("What does Ada want for the walls of the hall?")
    assert [hit["differs_from"][0]["id"] for hit in hits if "differs_from" in hit] == [old["id"]]


async def test_the_list_goes_on_where_a_page_ended_and_the_command_shows_all(
    agent: Agent, terminal: Terminal, stage: Stage
) -> None:
    wanted = set[tuple[str, str]]()
    for room in ("hall", "attic", "cellar"):
        ids = [(await agent.store(f"The lamp of the {room} has {watts} watts"))["id"] for watts in (20, 40, 60)]
        wanted |= {(ids[1], ids[0]), (ids[2], ids[0]), (ids[2], ids[1])}
    pairs = await pairs_of(agent)
    assert [(pair["later"], pair["earlier"]) for pair in pairs] == sorted(wanted, reverse=True)
    bare = await pairs_of(agent, max_chars=700)  # pages end between pairs of one memory
    assert [(pair["later"], pair["earlier"]) for pair in bare] == sorted(wanted, reverse=True)
    code, out, err = await terminal("contradictions", "--json", "--limit", "5")
    assert (code, err) == (0, "")
    assert [json.loads(line) for line in out.splitlines()] == pairs[:5]
    code, out, _ = await terminal("contradictions", "--limit", "1")
    assert out.splitlines() == [
        f"{pairs[0]['later']}  {pairs[0]['here']}",
        f"  {pairs[0]['earlier']}  {pairs[0]['said']}",
    ]
    async with agent_of(await stage.gateway(), namespace="acme") as other:
        assert await pairs_of(other) == []


async def test_bad_input_is_refused_by_name(agent: Agent) -> None:
    for name, value in (("cursor", "nonsense"), ("project", "x" * 300)):
        body = await agent.call("list_contradictions", **{name: value})
        assert (body["status"], name in json.dumps(body)) == ("invalid_parameter", True), body


async def test_of_fifty_ordinary_stores_hardly_one_differs(agent: Agent) -> None:
    stored = [(await agent.call("store_memory", content=text))["stored"] for text in STORES]
    assert sum("differs_from" in memory for memory in stored) <= 1
    assert len(await pairs_of(agent)) <= 1
