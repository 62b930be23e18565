"""A survey counts the memories that name its topic, however many there are, and tells them from those that are near."""

import tomllib
from pathlib import Path

import pytest

from tests.scenarios.stage import Agent, with_settings

pytestmark = [pytest.mark.promise("KN-10"), pytest.mark.long]

SET = tomllib.loads((Path(__file__).parent / "counts.toml").read_text("utf-8"))


@with_settings(embedder="minilm", link_threshold="1", min_relevance="")
async def test_a_count_counts_what_names_the_topic(agent: Agent) -> None:
    counted = {}
    for content in SET["memories"]:
        await agent.store(content)
    for topic in SET["topics"]:
        body = await agent.call("survey_memories", topic=topic)
        counted[topic] = body["totals"]["named"]
        assert sum(body["totals"]["by_month"].values()) == counted[topic]
        assert counted[topic] == 0 or body["extracts"], "what is counted is shown"
    assert counted == SET["topics"]


@with_settings(link_threshold="1")
async def test_a_count_goes_beyond_what_is_shown_and_says_so(agent: Agent) -> None:
    records = [{"content": f"The zebra server number {number} restarts on Sunday"} for number in range(320)]
    records += [{"content": f"Lunch was served at noon on day {number}"} for number in range(20)]
    await agent.call("import_memories", records=records)
    await agent.store("The zebra server is nobody's business", partition="untrusted")
    await agent.store("The zebra server stands in the cellar", tags=["place"])
    whole = await agent.call("survey_memories", topic="zebra servers")
    part = await agent.call("survey_memories", topic="zebra servers", tags=["place"])
    assert whole["totals"]["named"] == 321
    assert "121 more name it" in whole["notice"]
    assert whole["next_cursor"]
    assert part["totals"] == {**part["totals"], "named": 1, "near": 0}
    assert "notice" not in part
