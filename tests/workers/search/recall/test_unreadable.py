"""What the bundled model cannot read: kept and found by its words, and like nothing (KN-11)."""

from collections.abc import AsyncIterator

import pytest

from engramq.schemas.vocabulary import MemoryState
from engramq.workers.embedders.batching import BatchingEmbedder
from engramq.workers.embedders.minilm import Arithmetic, MiniLmEmbedder
from tests.workers.conftest import World
from tests.workers.search.recall.conftest import Scene, ids

MEETING, CATS, DISHES = "การประชุมจัดที่กรุงเทพทุกวันศุกร์", "แมวนอนอยู่ในสวนหลังบ้าน", "เขาล้างจานทุกเย็น"


@pytest.fixture
async def reading(world: World) -> AsyncIterator[Scene]:
    """A scene whose texts MiniLM reads."""
    model = MiniLmEmbedder(arithmetic=Arithmetic.FLOAT32)
    await model.warm()  # which takes longer than anybody waits for a vector
    async with BatchingEmbedder(model) as embedder:
        world.embedder = embedder
        world.use()
        yield Scene(world)


@pytest.mark.promise("KN-11")
async def test_what_the_model_cannot_read_is_active_and_like_nothing(reading: Scene) -> None:
    kept = [await reading.world.keep(text) for text in (MEETING, CATS, DISHES, "🦊", "🐟")]
    assert {stored.stored.state for stored in kept} == {MemoryState.ACTIVE}
    assert all(not stored.similar_memories and not stored.degraded for stored in kept)
    assert reading.world.rows("select node_id from memories where state = 'pending'") == []
    english = await reading.keep("The cat sleeps in the garden behind the house")
    for _ in range(3):  # in the tables first, then in the copy of the namespace
        for question, number in (("ประชุมวันไหน", 0), ("แมว", 1), ("ล้างจาน", 2)):
            reply = await reading.search(question)
            # Others may share a pair of letters, as any two English texts share a word.
            assert (ids(reply.memories)[0], bool(reply.degraded)) == (kept[number].stored.id, False), question
            assert english not in ids(reply.memories)
        for question in ("🐙", "መልካም"):  # nothing has a word of these
            reply = await reading.search(question)
            assert (reply.memories, bool(reply.degraded)) == ([], False), question
        assert ids(await reading.found("Where does the pet rest?")) == [english]
