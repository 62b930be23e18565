"""A survey shows what is kept about a topic, in order, folded, counted, page by page (PR-5)."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from bench.replies import tokens
from tests.scenarios.stage import Agent, with_settings

pytestmark = [pytest.mark.promise("PR-5"), pytest.mark.long]

BEGIN = datetime(2026, 1, 5, 9, tzinfo=UTC)
PARTS = ("ferry", "harbour", "mast", "rudder", "galley", "anchor", "keel", "lantern", "compass", "tiller")


def _content(number: int) -> str:
    return (
        f"We talked for a while about the weather and the neighbours. For the boat of Ada we bought the "
        f"{PARTS[number % 10]} number {number} from a dealer in {'Lyon' if number % 2 else 'Porto'} who "
        "had repaired it himself. Then we ate."
    )


async def _keep(agent: Agent, count: int) -> list[str]:
    kept = []
    for number in range(count):
        moment = BEGIN + timedelta(days=3 * number)
        stored = await agent.store(
            _content(number),
            thread=f"talk {number // 10}",
            position=number,
            speaker="user" if number % 3 else "assistant",
            occurred_at=moment.isoformat(),
        )
        kept.append(stored["id"])
    return kept


@with_settings(embedder="minilm", link_threshold="1", min_relevance="")
async def test_a_topic_is_surveyed_in_order_within_its_tokens(agent: Agent) -> None:
    ids = await _keep(agent, 50)
    body = await agent.call("survey_memories", topic="What did we buy for the boat of Ada?")
    first = await agent.call("survey_memories", topic="boat of Ada", limit=10, order="relevance")
    added = await agent.store("For the boat of Ada we bought a bell in Oslo, which nobody had repaired.")
    pages = [first["extracts"]]
    cursor = first["next_cursor"]
    while cursor is not None:
        more = await agent.call("survey_memories", topic="boat of Ada", limit=10, order="relevance", cursor=cursor)
        pages.append(more["extracts"])
        cursor = more["next_cursor"]
    with_thread = await agent.call("survey_memories", topic="boat of Ada", thread="talk 1", until="2026-03-01")
    days = [extract["at"] for extract in body["extracts"]]
    assert 30 <= len(days) <= 40
    assert days == sorted(days)
    assert tokens(json.dumps(body, separators=(",", ":"), ensure_ascii=False)) <= 3_000
    assert all("For the boat of Ada we bought the " in extract["text"] for extract in body["extracts"])
    assert all("who had repaired it himself." in extract["text"] for extract in body["extracts"]), "whole sentences"
    assert body["totals"]["named"] == sum(body["totals"]["by_thread"].values()) == 50
    assert list(body["totals"]["by_month"]) == sorted(body["totals"]["by_month"])
    shown = [extract["id"] for page in pages for extract in page]
    assert len(shown) == len(set(shown)), "nothing comes twice, though something was stored meanwhile"
    assert set(shown) - {added["id"]} == set(ids)
    assert {extract["id"] for extract in with_thread["extracts"]} == {ids[number] for number in range(10, 19)}


@with_settings(embedder="minilm", link_threshold="1", min_relevance="")
async def test_near_duplicates_are_counted_and_nothing_known_is_said(agent: Agent) -> None:
    empty = await agent.call("survey_memories", topic="tea")
    for end in ("", ".", "!"):
        await agent.store(f"Ada drinks green tea before the stand-up in Lyon{end}")
    await agent.store("Ada drinks no green tea before the stand-up in Lyon")
    old = await agent.store("The tea of Ada stands in the blue tin")
    new = await agent.store("The tea of Ada stands in the red tin now")
    await agent.call("supersede_memory", old_memory_id=old["id"], new_memory_id=new["id"])
    await agent.store("The tea of Ada comes from a shop in Porto", partition="untrusted")
    body = await agent.call("survey_memories", topic="the tea of Ada")
    unknown = await agent.call("survey_memories", topic="Who composed the national anthem of Mongolia?")
    assert (empty["answered"], empty["extracts"], empty["next_cursor"]) == ("no", [], None)
    assert sorted(extract.get("same", 0) for extract in body["extracts"]) == [0, 0, 2]
    assert body["answered"] == "yes"
    assert new["id"] in {extract["id"] for extract in body["extracts"]}
    assert (unknown["answered"], unknown["extracts"], unknown["totals"]["named"]) == ("no", [], 0)
