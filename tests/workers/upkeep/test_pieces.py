"""What a long memory says late is found by its meaning: upkeep gives it a vector for each piece."""

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engramq.schemas.commands import (
    EmbedPending,
    ForgetMemory,
    Forgotten,
    ImportMemories,
    ImportRow,
    MemoryList,
    SearchMemories,
)
from engramq.schemas.records import Memory
from engramq.schemas.vocabulary import OnDuplicate, Partition, Ranking
from engramq.workers.embedders.batching import BatchingEmbedder
from engramq.workers.embedders.interface import EmbedderSpec, Vectors
from engramq.workers.embedders.vectorizer import Vectorizer
from engramq.workers.queue.background import Activity
from engramq.workers.search.copies import SEARCHES_FIRST
from engramq.workers.upkeep import pieces
from engramq.workers.upkeep.pieces import PIECE_BYTES, Pieces, pieces_of
from engramq.workers.upkeep.reembedding import Reembedding
from tests.assignments import assignment
from tests.workers.conftest import SwitchedEmbedder, World

pytestmark = pytest.mark.own_database

WORKERS = Path(pieces.__file__).parents[1]
READS = 256  # tokens, as the bundled model
SEEN = READS * 4  # characters of a text
BEGINNING = "Minutes of the garden club, as every year. " * 60
LATE = "The orchard pump leaks oil. " * 24
LACKING = "select count(*)::int as n from memories where pieces is null"
HAVING = "select count(*)::int as n from memories where cardinality(pieces) > 1"


class ShortSighted(SwitchedEmbedder):
    """A model that reads the beginning of a text, and no more."""

    spec = EmbedderSpec(name="openai:short", dimensions=384, max_tokens=READS)

    async def embed(self, texts: Sequence[str], *, questions: bool = False) -> Vectors:
        return await super().embed([text[:SEEN] for text in texts], questions=questions)


class FarSighted(ShortSighted):
    """Another model of that kind, which turns all vectors around."""

    spec = EmbedderSpec(name="openai:other", dimensions=384, max_tokens=READS)

    async def embed(self, texts: Sequence[str], *, questions: bool = False) -> Vectors:
        return (await super().embed(texts, questions=questions))[:, ::-1].copy()


class Long:
    """A world whose model reads the beginning of a text."""

    def __init__(self, world: World, owned: AsyncExitStack) -> None:
        self.world, self.owned = world, owned

    async def use(self, model: SwitchedEmbedder) -> Pieces:
        """Start the workers with a model; return what upkeep does about long memories."""
        self.world.embedder = await self.owned.enter_async_context(BatchingEmbedder(model))
        self.world.use()
        return Pieces(
            store=self.world.store,
            vectorizer=self.world.services[Vectorizer],
            activity=Activity(),
            stopping=asyncio.Event(),
        )

    async def found(self, query: str, **parameters: object) -> list[Memory]:
        """Search, and do what is done after the reply: from the second search on there is a copy."""
        outcome = await self.world.complete(assignment(SearchMemories(query=query, **parameters)))  # type: ignore[arg-type]
        assert isinstance(outcome.reply, MemoryList)
        if outcome.after_reply is not None:
            await outcome.after_reply(None)
        return outcome.reply.memories

    def counted(self, query: str) -> int:
        return int(self.world.rows(query)[0]["n"])


@pytest.fixture
async def long(world: World) -> AsyncIterator[Long]:
    async with AsyncExitStack() as owned:
        yield Long(world, owned)


@pytest.mark.parametrize("ranked_by", ["tables", "copy"])
@pytest.mark.long
async def test_what_a_long_memory_says_last_is_found_by_its_meaning(long: Long, ranked_by: str) -> None:
    """The question shares no whole word with the memory: only vectors know stems and letters that are alike."""
    work = await long.use(ShortSighted())
    late = (await long.world.keep(BEGINNING + LATE)).stored.id
    for number in range(30):
        await long.world.keep(f"The pumpkin {number} leaked")  # nearer to the question than minutes of a club
    asked = "orcharding pumper"

    async def place() -> int:
        for _ in range(0 if ranked_by == "tables" else SEARCHES_FIRST):
            await long.found(asked)
        return [memory.id for memory in await long.found(asked, limit=50)].index(late)

    before = await place()
    if ranked_by == "tables":
        long.world.use()  # which forgets the copies
    await work.run()
    assert long.counted(HAVING) == 1
    assert long.counted(LACKING) == 30  # short ones cost nothing
    assert before > 10
    assert await place() == 0


async def test_similarity_stays_that_of_the_whole(long: Long) -> None:
    work = await long.use(ShortSighted())
    await long.world.keep(BEGINNING + LATE)
    (before,) = await long.found(LATE, ranking=Ranking.SIMILARITY)
    await work.run()
    (after,) = await long.found(LATE, ranking=Ranking.SIMILARITY)
    assert after.similarity == before.similarity
    assert after.similarity is not None


async def test_pieces_are_made_once_for_what_is_active_in_all_namespaces_and_partitions(long: Long) -> None:
    model = ShortSighted()
    work = await long.use(model)
    for namespace in ("one", "two"):
        await long.world.keep(BEGINNING + LATE, namespace=namespace)
        await long.world.keep("From a page. " + BEGINNING, namespace=namespace, partition=Partition.UNTRUSTED)
    gone = (await long.world.keep("Archived. " + BEGINNING)).stored.id
    await long.world.ask(Forgotten, ForgetMemory(memory_id=gone))
    await work.run()
    assert long.counted(HAVING) == 4
    model.embedded = 0
    await work.run()
    assert model.embedded == 0


async def test_a_model_that_reads_it_whole_has_nothing_to_do(long: Long) -> None:
    await long.world.keep(BEGINNING)
    work = await long.use(SwitchedEmbedder())
    await work.run()
    assert long.counted(LACKING) == 1
    slightly = await long.use(ShortSighted())
    await long.world.keep("word " * 203)  # more than 1,000 bytes, and read to its end
    await slightly.run()
    assert long.world.rows("select pieces::text from memories where pieces is not null") == [{"pieces": "{}"}]


async def test_pieces_go_with_the_content_and_with_the_model(long: Long) -> None:
    work = await long.use(ShortSighted())
    kept = await long.world.keep(BEGINNING + LATE, external_id="minutes")
    await work.run()
    assert long.counted(HAVING) == 1
    changed = ImportRow(external_id="minutes", content=BEGINNING + "The ferry sank.")
    await long.world.complete(assignment(ImportMemories(records=(changed,), on_duplicate=OnDuplicate.UPDATE)))
    assert long.counted(HAVING) == 0
    await long.world.complete(assignment(EmbedPending(memory_ids=(kept.stored.id,))))
    await work.run()
    assert long.counted(HAVING) == 1
    other = await long.use(FarSighted())
    reembedding = Reembedding(
        store=long.world.store, vectorizer=other.vectorizer, activity=Activity(), stopping=asyncio.Event(), unused_s=0.0
    )
    await reembedding.run()
    assert long.counted(HAVING) == 0
    await other.run()
    assert long.counted(HAVING) == 1
    assert "ferry" in (await long.found("ferry sank"))[0].content


def test_whatever_writes_a_content_or_its_vector_takes_its_pieces_away() -> None:
    queries = [
        query
        for file in WORKERS.rglob("*.sql")
        if file.parent.name != "migrations"
        for query in re.split(r"^-- name: ", file.read_text(encoding="utf-8"), flags=re.MULTILINE)
    ]
    writes = re.compile(r"update memories\b[^;]*?\bset\b[^;]*?\b(?:content|embedding) = (?:locked|case|%\()", re.DOTALL)
    named = {query.split()[0]: "pieces = " in query for query in queries if writes.search(query)}
    assert named == {"activate_pending": True, "embed_anew": True, "replace_memory": True}


async def test_a_model_that_is_away_costs_nothing(long: Long) -> None:
    model = ShortSighted()
    work = await long.use(model)
    await long.world.keep(BEGINNING)
    model.down = True
    await work.run()
    assert long.counted(HAVING) == 0
    model.down = False
    await work.run()
    assert long.counted(HAVING) == 1


texts = st.text(max_size=400) | st.lists(st.sampled_from(["Ja. ", "wort ", "文。", "x" * 900, "\n", "é" * 300])).map(
    "".join
)


@given(texts)
def test_pieces_hold_all_that_a_text_says_and_none_is_too_long(text: str) -> None:
    pieces = list(pieces_of(text))
    assert all(0 < len(piece.encode()) <= PIECE_BYTES for piece in pieces)
    assert "".join("".join(pieces).split()) == "".join(text.split())


def test_short_sentences_go_together() -> None:
    assert list(pieces_of("One. Two! Three?\nFour")) == ["One. Two! Three? Four"]
    assert len(list(pieces_of("A sentence of some words. " * 100))) == 4
