"""What is found and merged with the bundled model, whose vectors of contradictions are near each other."""

from collections.abc import AsyncIterator

import pytest

from engramq.schemas.commands import DuplicatesFound, DuplicatesGrouped, FindDuplicates, GroupDuplicates
from engramq.schemas.keys import Keys
from engramq.schemas.settings import read_settings
from engramq.workers.db.database import Store
from engramq.workers.embedders.batching import BatchingEmbedder
from engramq.workers.embedders.minilm import MiniLmEmbedder
from engramq.workers.queue.inspection import Inspection
from engramq.workers.upkeep.schedule import Upkeep
from engramq.workers.upkeep.unfinished import Unfinished
from tests.conftest import Database
from tests.lanes import lanes_at
from tests.workers.conftest import SwitchedEmbedder, World
from tests.workers.memories.duplicates.pairs import OPPOSED, SAME_WORDS

NEAR = [
    ("The heating in the office is switched on", "The heating in the office is switched off"),
    ("Anna takes the train from Berlin to Munich", "Anna takes the train to Berlin from Munich"),
    ("Anna is married to Peter", "Anna was married to Peter"),
    ("I lent you fifty euros last week", "You lent me fifty euros last week"),
]


@pytest.fixture
async def world(database: Database, store: Store, redis_url: str, key_prefix: str) -> AsyncIterator[World]:
    async with (
        BatchingEmbedder(MiniLmEmbedder()) as embedder,
        Inspection(lanes_at(redis_url, Keys(key_prefix))) as mailboxes,
    ):
        never = Unfinished(store=store, older_than_s=3600.0)
        upkeep = Upkeep(store=store, unfinished=never, interval_s=5.0, pending_s=0.0)
        yield World(database, store, SwitchedEmbedder(), embedder, upkeep, mailboxes, read_settings({}))


@pytest.mark.long
async def test_of_pairs_that_are_near_only_those_of_the_same_words_are_merged(world: World) -> None:
    texts = {text for pair in (*OPPOSED, *SAME_WORDS) for text in pair}
    ids = {text: (await world.keep(text)).stored.id for text in sorted(texts)}
    near = set[frozenset[str]]()
    after: str | None = ""
    while after is not None:
        found = await world.ask(DuplicatesFound, FindDuplicates(by="vector", after=after))
        near |= {frozenset(pair) for pair in found.alike}
        after = found.next
    assert {frozenset((ids[item], ids[other])) for item, other in NEAR} <= near
    command = GroupDuplicates(alike=(tuple(sorted(ids.values())),), similarity=found.similarity)
    reply = await world.ask(DuplicatesGrouped, command)
    merged = {frozenset((group.stays, *group.goes)) for group in reply.groups}
    told = {frozenset((ids[word], ids[other])) for word, other in SAME_WORDS}
    assert merged <= told, "a fact would be hidden"
    assert len(merged) >= 5  # a mark more costs some of these short texts a few hundredths
    assert len(near - told) >= 15, "the rules are what tells these apart"
