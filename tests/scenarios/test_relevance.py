"""What a search finds in other words, shows by default and says of it: the bundled model, through the pipeline."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

import numpy as np
import pytest

from bench.dense import SET, ask, figures
from bench.dense import store as store_facts
from bench.languages import facts
from bench.lookup import PAIRS
from bench.retrieval import read_lines
from bench.silence import UNKNOWN
from engramq.workers.embedders.confidence import CalibrationPair, bystanders, read_pairs
from tests.conftest import Database
from tests.scenarios.stage import Agent, agent_of, stage_settings, staged, until, with_settings
from tools.measure_confidence import expected_error

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]


ASKED = 60  # of the memories
BESIDES = 120  # memories that nobody asks for
AT_ONCE = 8
TRIES = 20
LIMIT = 10

# Of a house: things of one kind, names that are nearly alike, an alias. None of them was learned from.
HOUSE: Final[Mapping[str, str]] = {
    "boiler": "The boiler in the cellar, called the dragon, is serviced by Huber and Sons every October.",
    "stove": "The tiled stove in the parlour is swept by Mr Dorn twice a year.",
    "alarm": "The code of the alarm is changed on the first of each quarter by Ruth.",
    "ruth": "Ruth Amsel lives on the first floor and keeps the spare keys.",
    "rut": "Rutger Amsler lives in the attic and repairs bicycles.",
    "laundry": "The laundry room is free for the second floor on Tuesdays.",
    "garden": "The garden is mown by the Pereiras in even weeks.",
    "parking": "Parking space 4 belongs to the dentist, space 5 to nobody.",
    "rent": "The rent is due on the third working day of the month.",
    "lift": "The lift carries at most six people and stops below minus ten degrees.",
}
ANSWERED: Final[Mapping[str, str]] = {
    "Who services the dragon?": "boiler",
    "Who sweeps the tiled stove?": "stove",
    "Who changes the code of the alarm?": "alarm",
    "Who keeps the spare keys?": "ruth",
    "Who repairs bicycles in our house?": "rut",
    "When may the second floor use the laundry room?": "laundry",
    "Which parking space is the dentist's?": "parking",
    "When is the rent due?": "rent",
    "How many people fit into the lift?": "lift",
}


@asynccontextmanager
async def asked(database: Database, redis_url: str, key_prefix: str, contents: list[str]) -> AsyncIterator[Agent]:
    """Keep these memories in a pipeline with the settings that an installation has, and ask it."""
    settings = stage_settings(database, redis_url, key_prefix, embedder="minilm", link_threshold="1", min_relevance="")
    turns = asyncio.Semaphore(AT_ONCE)
    async with staged(settings) as stage, agent_of(await stage.gateway()) as agent:

        async def keep(content: str) -> None:
            async with turns:
                await agent.store(content)

        await asyncio.gather(*(keep(content) for content in contents))
        await until(lambda: _all_have_vectors(database), bound_s=60)
        yield agent


async def _all_have_vectors(database: Database) -> bool:
    """Say whether no memory waits for its vector, as it does where the model could not follow."""
    return not database.rows("select 1 from memories where state = 'pending' limit 1")


def known_pairs() -> list[CalibrationPair]:
    return [item for item in read_pairs(PAIRS) if item.paraphrase is not None][:ASKED]


async def reply(agent: Agent, query: str, **arguments: Any) -> dict[str, Any]:
    """Search, again where the model did not answer in time and words alone were looked for."""
    for _ in range(TRIES):
        found = await agent.call("search_memories", query=query, limit=LIMIT, **arguments)
        if not found.get("degraded"):
            break
    return found


@pytest.mark.promise("AG-19", "PR-1", "PR-3")
async def test_what_is_not_known_has_no_hit_and_what_is_keeps_its_first(
    database: Database, redis_url: str, key_prefix: str
) -> None:
    pairs = known_pairs()
    contents = [*(pair.memory for pair in pairs), *bystanders()[:BESIDES]]
    async with asked(database, redis_url, key_prefix, contents) as agent:
        unknown = [await reply(agent, f"What do we know about {item}?") for item in UNKNOWN]
        known = [await reply(agent, item.paraphrase or "") for item in pairs]
        whole = [await reply(agent, item.paraphrase or "", min_relevance=0) for item in pairs]
    assert sum(bool(found["memories"]) for found in unknown) <= 0.05 * len(UNKNOWN)
    assert all((found["answered"] == "no") == (not found["memories"]) for found in unknown)
    right = [
        (shown, found) for shown, found, pair in zip(known, whole, pairs, strict=True)
        if found["memories"][0]["content"] == pair.memory
    ]  # fmt: skip
    left_out = sum(found["memories"][0]["id"] not in {hit["id"] for hit in shown["memories"]} for shown, found in right)
    assert left_out <= 0.05 * len(right)
    chances = [
        (hit["relevance"], hit["content"] == pair.memory)
        for found, pair in zip(whole, pairs, strict=True) for hit in found["memories"]
    ]  # fmt: skip
    error = expected_error(np.array([chance for chance, _ in chances]), np.array([right for _, right in chances]))
    assert error <= 0.05


@pytest.mark.promise("PR-2")
async def test_what_is_left_out_is_counted_and_can_be_seen(database: Database, redis_url: str, key_prefix: str) -> None:
    async with asked(database, redis_url, key_prefix, list(HOUSE.values())) as agent:
        by_default = {query: await reply(agent, query) for query in ANSWERED}
        whole = {query: await reply(agent, query, min_relevance=0) for query in ANSWERED}
        nothing = await reply(agent, "Which opera did Verdi write for Cairo?")
        explained = (await reply(agent, "When is the rent due?", explain=True))["memories"][0]
        sure = await reply(agent, "When is the rent due?", min_relevance=1)
        refused = await agent.client.call_tool("search_memories", {"query": "rent", "min_relevance": 1.5})
    found = [HOUSE[key] in [hit["content"] for hit in by_default[query]["memories"]] for query, key in ANSWERED.items()]
    assert found.count(False) <= 1
    for query, shown in by_default.items():
        everything = [hit["id"] for hit in whole[query]["memories"]]
        ids = [hit["id"] for hit in shown["memories"]]
        assert [known for known in everything if known in ids] == ids
        assert shown.get("left_out", 0) == len(everything) - len(ids)
        assert "left_out" not in whole[query]
        assert ("min_relevance 0" in shown.get("notice", "")) == ("left_out" in shown)
    assert sum(len(shown["memories"]) for shown in by_default.values()) < 0.6 * LIMIT * len(ANSWERED)
    assert (nothing["memories"], nothing["answered"]) == ([], "no")
    assert "notice" not in nothing
    assert nothing["hint"].startswith("No sure answer here.")
    assert f"{nothing['left_out']} weaker hits hidden" in nothing["hint"]
    assert {"words", "meaning", "rank"} <= set(explained["relevance_of"])
    assert sure["memories"] == []
    assert refused.structured_content is not None
    assert "min_relevance" in refused.structured_content["error"]


@pytest.mark.promise("PR-4")
async def test_a_reply_about_one_of_many_alike_facts_holds_what_answers_and_little_else(
    database: Database, redis_url: str, key_prefix: str
) -> None:
    rows = read_lines(SET)
    questions = [row for row in rows if row.get("expects")]
    async with asked(database, redis_url, key_prefix, []) as agent:
        await store_facts(agent, [row for row in rows if "key" in row])
        answered = await ask(agent, questions)
    pairs = [([hit["external_id"] for hit in hits], question["expects"]) for question, hits in answered]
    assert len(pairs) > 100
    reached = figures(pairs)
    assert reached["precision"] >= 0.85
    assert reached["recall"] >= 0.85


FACTS = 100
IDENTIFIER = "Ticket HK4711 is about the blinds in the cellar"


@with_settings(embedder="minilm", link_threshold="1")
async def test_chance_words_do_not_outrank_what_is_meant_and_identifiers_do(agent: Agent) -> None:
    """A question about a little boy once found who speaks "a little Dutch": one first hit in five was right."""
    some = [item["en"] for item in facts()[:FACTS]]
    room = asyncio.Semaphore(AT_ONCE)

    async def keep(content: str) -> None:
        async with room:
            await agent.store(content)

    await asyncio.gather(*(keep(item) for item in [*(fact["fact"] for fact in some), IDENTIFIER]))
    places = []
    for fact in some:
        hits = [hit["content"] for hit in await agent.search(fact["question"])]
        places.append(hits.index(fact["fact"]) if fact["fact"] in hits else len(hits))
    by_name = await agent.search("Which of the tickets was HK4711 in the end?")
    assert sum(place < 1 for place in places) >= 0.6 * FACTS
    assert sum(place < 5 for place in places) >= 0.9 * FACTS
    assert by_name[0]["content"] == IDENTIFIER
