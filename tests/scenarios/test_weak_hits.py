"""What is not known is told so (AG-19): texts of our own and the bundled model, through the whole pipeline."""

import asyncio

import pytest

from bench.weak import UNKNOWN
from engramq.workers.embedders.confidence import PAIRS, bystanders, read_pairs
from tests.conftest import Database
from tests.scenarios.stage import agent_of, stage_settings, staged

pytestmark = [pytest.mark.anyio, pytest.mark.long]

ASKED = 60  # of the memories
BESIDES = 120  # memories that nobody asks for
SHARE = 0.05  # of mistakes
AT_ONCE = 8


@pytest.mark.promise("AG-19")
async def test_what_is_not_known_has_no_hit_but_weak_ones(database: Database, redis_url: str, key_prefix: str) -> None:
    settings = stage_settings(database, redis_url, key_prefix, embedder="minilm", link_threshold="1")
    pairs = [item for item in read_pairs(PAIRS) if item.paraphrase is not None][:ASKED]
    room = asyncio.Semaphore(AT_ONCE)
    async with staged(settings) as stage, agent_of(await stage.gateway()) as agent:

        async def keep(content: str) -> None:
            async with room:
                await agent.store(content)

        await asyncio.gather(*(keep(item) for item in [*(pair.memory for pair in pairs), *bystanders()[:BESIDES]]))
        unknown = [await agent.search(f"What do we know about {item}?") for item in UNKNOWN]
        known = [await agent.search(item.paraphrase or "") for item in pairs]
        nothing = await agent.call("search_memories", query="Who composed the national anthem of Mongolia?")
    assert sum(any("weak" not in hit for hit in several) for several in unknown) <= SHARE * len(UNKNOWN)
    assert sum("weak" in several[0] for several in known) <= SHARE * len(pairs)
    assert all(hit["weak"] for hit in nothing["memories"])
    assert "probably nothing" in nothing["notice"]
