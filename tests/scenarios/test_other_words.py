"""Questions in other words than the memories that answer them, with the bundled model, through the whole pipeline."""

import asyncio

import pytest

from bench.languages import facts
from tests.conftest import Database
from tests.scenarios.stage import agent_of, stage_settings, staged

pytestmark = pytest.mark.long

FACTS = 100
AT_ONCE = 8
IDENTIFIER = "Ticket HK4711 is about the blinds in the cellar"


async def test_chance_words_do_not_outrank_what_is_meant_and_identifiers_do(
    database: Database, redis_url: str, key_prefix: str
) -> None:
    """A question about a little boy once found who speaks "a little Dutch": one first hit in five was right."""
    settings = stage_settings(database, redis_url, key_prefix, embedder="minilm", link_threshold="1")
    some = [item["en"] for item in facts()[:FACTS]]
    room = asyncio.Semaphore(AT_ONCE)
    async with staged(settings) as stage, agent_of(await stage.gateway()) as agent:

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
