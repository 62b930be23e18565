"""After a change of the embedding model all vectors are made anew in the background, once each, and nothing is lost."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from typing import Any

import pytest
from msgspec import UNSET

from engramq.schemas.commands import (
    ForgetMemory,
    Forgotten,
    MemoryChanged,
    MemoryList,
    MemoryStats,
    RestoreMemory,
    SearchMemories,
    Stats,
)
from engramq.schemas.vocabulary import DEFAULT_NAMESPACE, Partition
from engramq.workers.db.reembedding import progress
from engramq.workers.embedders import other_models
from engramq.workers.embedders.batching import BatchingEmbedder
from engramq.workers.embedders.interface import EmbedderSpec, InputRejected, Vectors
from engramq.workers.embedders.vectorizer import Vectorizer
from engramq.workers.queue.background import Activity
from engramq.workers.search import copies
from engramq.workers.search.question import Question
from engramq.workers.upkeep import reembedding
from engramq.workers.upkeep.reembedding import Reembedding
from tests.assignments import assignment
from tests.running import opened
from tests.workers.conftest import SwitchedEmbedder, World

pytestmark = pytest.mark.own_database

BOTH = (Partition.TRUSTED, Partition.UNTRUSTED)
OTHER = "openai:other"
LEFT = "select count(*) as n from memories m join embedding_models e on e.id = m.model_id where e.name <> %s"
INDEXES = "select relname from pg_class where relname like 'memories_embedding_%%' and relkind = 'I' order by 1"
LIVE = "select name from embedding_models where retired_at is null order by id"


class OtherModel(SwitchedEmbedder):
    """A model by another name, whose vectors are as near to one another as those of `hash`, and far from those."""

    spec = EmbedderSpec(name=OTHER, dimensions=384, max_tokens=1_000_000)

    def __init__(self) -> None:
        super().__init__()
        self.refused = ""  # a text with this word is taken none of
        self.after: Callable[[], None] | None = None  # called after each text

    async def embed(self, texts: Sequence[str], *, questions: bool = False) -> Vectors:
        if self.refused and any(self.refused in text for text in texts):
            raise InputRejected("a text is too long")
        vectors = await super().embed(texts, questions=questions)
        if self.after is not None:
            self.after()
        return vectors[:, ::-1].copy()


class Change:
    """A world that can be started again with another model."""

    def __init__(self, world: World, owned: AsyncExitStack) -> None:
        self.world, self.owned = world, owned
        self.other, self.stopping = OtherModel(), asyncio.Event()

    async def to(self, model: SwitchedEmbedder) -> Reembedding:
        """Start the workers anew with a model of its own; return what upkeep does about it."""
        self.world.embedder = await self.owned.enter_async_context(BatchingEmbedder(model))
        self.world.use()
        await self.world.services[Vectorizer].running_model_id()  # which embeds a text
        model.embedded = 0
        return self.upkeep()

    def upkeep(self) -> Reembedding:
        self.stopping = asyncio.Event()
        return Reembedding(
            store=self.world.store,
            vectorizer=self.world.services[Vectorizer],
            activity=Activity(),
            stopping=self.stopping,
            unused_s=0.0,
        )

    def left(self, name: str) -> int:
        """Return how many vectors are not of this model."""
        return int(self.world.rows(LEFT, name)[0]["n"])

    async def retire_hash(self) -> Reembedding:
        """Change to the other model until the first is retired: a retirement leaves who holds the table its 100 ms."""
        self.world.services[Vectorizer]._began -= 3600.0  # else a slow line to the database makes it the later choice
        work = await self.to(self.other)
        async with asyncio.timeout(30):
            while [row["name"] for row in self.world.rows(LIVE)] != [OTHER]:
                work._rest_until = 0.0
                await work.run()
        return work

    async def search(self, query: str, **parameters: Any) -> MemoryList:
        """Search, and do what is done after the reply."""
        asked = SearchMemories(query=query, partitions=BOTH, limit=20, **parameters)
        outcome = await self.world.complete(assignment(asked))
        if outcome.after_reply is not None:
            await outcome.after_reply(None)
        assert isinstance(outcome.reply, MemoryList)
        return outcome.reply

    async def found(self, query: str) -> set[str]:
        return {memory.content for memory in (await self.search(query)).memories}


@pytest.fixture
async def change(world: World, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Change]:
    monkeypatch.setattr(other_models, "KEPT_S", 0.0)
    monkeypatch.setattr(reembedding, "EMBEDDED_AT_ONCE", 2)
    monkeypatch.setattr(reembedding, "LOOKED_AT", 4)
    async with AsyncExitStack() as owned:
        yield Change(world, owned)


async def stop_halfway(change: Change, work: Reembedding, texts: int) -> None:
    """Let a run be stopped once it has embedded so many texts, as a worker is that is told to."""
    until = change.other.embedded + texts

    def stop() -> None:
        if change.other.embedded >= until:
            change.stopping.set()

    change.other.after = stop
    await work.run()
    change.other.after = None


@pytest.mark.promise("IM-7")
async def test_everything_is_embedded_anew_wherever_it_is_and_once(change: Change) -> None:
    world = change.world
    for number in range(7):
        await world.keep(f"Fact {number} about pumps")
        await world.keep(f"Fact {number} about valves", namespace="other")
    await world.keep("A web page about pumps", partition=Partition.UNTRUSTED)
    archived = (await world.keep("An old fact about pumps")).stored.id
    await world.ask(Forgotten, ForgetMemory(memory_id=archived))
    before = world.rows("select node_id, updated_at, content from memories order by node_id")

    work = await change.to(change.other)
    await work.run()

    assert change.left(OTHER) == 0
    assert change.other.embedded == 16
    assert world.rows("select node_id, updated_at, content from memories order by node_id") == before
    await work.run()
    assert change.other.embedded == 16
    await world.ask(MemoryChanged, RestoreMemory(memory_id=archived))
    reply = await change.search("pumpwork")
    assert len(reply.memories) == 9
    assert reply.notice is UNSET


@pytest.mark.long
@pytest.mark.promise("IM-7", "AG-20")
@pytest.mark.parametrize("in_copy", [False, True])
async def test_searches_are_complete_while_it_goes_on(change: Change, in_copy: bool) -> None:
    world, wanted = change.world, {f"pump {number}" for number in range(8)}
    for item in sorted(wanted):
        await world.keep(item)
    work = await change.to(change.other)
    if in_copy:
        for _ in range(copies.SEARCHES_FIRST):
            await world.services[copies.Copies].prepare(DEFAULT_NAMESPACE, BOTH)
        assert await world.services[copies.Copies].find_current(DEFAULT_NAMESPACE, BOTH, Question("pump")) is not None
    told = []
    for _ in range(5):
        await change.search("pump")  # after which what is left is counted again
        reply = await change.search("pumpwork")  # a word that no text has, and that is spelt like one
        assert {memory.content for memory in reply.memories} == wanted
        told.append("" if reply.notice is UNSET else reply.notice)
        similarities = [memory.similarity for memory in reply.memories]
        assert None not in similarities
        assert UNSET not in similarities
        await stop_halfway(change, work, 2)
        work = change.upkeep()
    numbers = [text.split(" ")[0] for text in told]
    assert numbers == ["8", "6", "4", "2", ""]
    assert all("compared by it until embedded anew" in text for text in told[:-1])


@pytest.mark.promise("AG-20")
@pytest.mark.long
async def test_what_no_model_here_can_read_is_found_by_its_words_and_told(change: Change) -> None:
    world = change.world
    await change.to(change.other)
    for number in range(4):
        await world.keep(f"pump {number}")
    back = SwitchedEmbedder()
    await change.to(back)
    assert await change.found("pumpwork") == set()
    assert len(await change.found("pump")) == 4
    reply = await change.search("pump")
    assert isinstance(reply.notice, str)
    assert reply.notice.startswith(f"4 memories here have their vectors from another model ({OTHER})")
    assert "found by words only" in reply.notice
    await change.upkeep().run()
    assert len(await change.found("pumpwork")) == 4
    assert (await change.search("pump")).notice is UNSET


@pytest.mark.promise("IM-7")
async def test_it_goes_on_where_it_was_broken_off(change: Change) -> None:
    for number in range(9):
        await change.world.keep(f"pump {number}")
    work = await change.to(change.other)
    await stop_halfway(change, work, 4)
    assert change.left(OTHER) == 5
    told = await progress(change.world.store)
    assert told is not None
    assert (told.name, told.total, told.remaining, told.problem) == (OTHER, 9, 5, None)
    assert told.per_s

    change.other.down = True
    await change.upkeep().run()
    told = await progress(change.world.store)
    assert told is not None
    assert (told.total, told.remaining, told.problem) == (9, 5, "switched off")
    stats = await change.world.ask(Stats, MemoryStats())
    assert stats.embedder["reembedding"] == {"done": 4, "total": 9, "per_s": told.per_s, "problem": "switched off"}

    change.other.down, embedded = False, change.other.embedded
    await change.upkeep().run()
    assert change.left(OTHER) == 0
    assert change.other.embedded == embedded + 5
    await change.upkeep().run()
    assert await progress(change.world.store) is None
    assert "reembedding" not in (await change.world.ask(Stats, MemoryStats())).embedder


@pytest.mark.promise("IM-7")
async def test_a_change_back_in_the_middle_embeds_only_what_was_changed(change: Change) -> None:
    for number in range(6):
        await change.world.keep(f"pump {number}")
    work = await change.to(change.other)
    await stop_halfway(change, work, 4)
    assert change.left("hash") == 4
    back = SwitchedEmbedder()
    await (await change.to(back)).run()
    assert change.left("hash") == 0
    assert back.embedded == 4
    assert len(await change.found("pumpwork")) == 6


@pytest.mark.promise("IM-7")
async def test_two_workers_do_not_do_the_same_work(change: Change) -> None:
    for number in range(8):
        await change.world.keep(f"pump {number}")
    work, idle = await change.to(change.other), OtherModel()
    second = change.upkeep()
    second.vectorizer = Vectorizer(await change.owned.enter_async_context(BatchingEmbedder(idle)), change.world.store)
    await second.vectorizer.running_model_id()
    idle.embedded = 0
    tasks: list[asyncio.Task[None]] = []

    def start_second() -> None:
        if not tasks:
            tasks.append(asyncio.create_task(second.run()))

    change.other.after = start_second
    await work.run()
    await asyncio.gather(*tasks)
    assert change.left(OTHER) == 0
    assert (change.other.embedded, idle.embedded) == (8, 0)


@pytest.mark.promise("IM-7")
@pytest.mark.long
async def test_callers_come_first(change: Change) -> None:
    class Noting(Activity):
        pauses = 0

        async def pause(self, at_least_s: float, at_most_s: float, stopping: asyncio.Event) -> None:
            self.pauses += 1
            await super().pause(at_least_s, at_most_s, stopping)

    for number in range(8):
        await change.world.keep(f"pump {number}")
    work, activity = await change.to(change.other), Noting()
    work.activity = activity
    with activity.serving():
        await work.run()
    assert change.left(OTHER) == 0, "however busy the process is"
    assert activity.pauses == 8, "before each of four batches is embedded, and before it is written"


@pytest.mark.promise("IM-7")
async def test_a_worker_that_is_silent_is_replaced(change: Change, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(4):
        await change.world.keep(f"pump {number}")
    work = await change.to(change.other)
    died = "update reembedding set worker = gen_random_uuid(), told_at = now() - make_interval(secs => %s)"
    await stop_halfway(change, work, 2)
    change.world.rows(died, 5)
    await change.upkeep().run()
    assert change.left(OTHER) == 2, "it may be waiting for a slow model"
    change.world.rows(died, 11)
    await change.upkeep().run()
    assert change.left(OTHER) == 0


async def test_the_model_that_was_chosen_last_is_everybodys(change: Change) -> None:
    world = change.world
    await world.keep("pump")
    old = change.upkeep()
    new = await change.to(change.other)
    await new.run()
    assert change.left(OTHER) == 0
    await old.run()
    assert change.left(OTHER) == 0, "two would undo one another's work for ever"


@pytest.mark.long
async def test_a_text_that_the_model_takes_none_of_keeps_its_vector(change: Change) -> None:
    for number in range(4):
        await change.world.keep(f"pump {number}")
    await change.world.keep("an endless pump")
    change.other.refused = "endless"
    work = await change.to(change.other)
    await work.run()
    assert change.left(OTHER) == 1
    assert "an endless pump" in await change.found("pumpwork")
    work._rest_until = 0.0
    await work.run()
    told = await progress(change.world.store)
    assert told is not None
    assert told.problem == "the model takes none of the texts that are left"
    assert work._rest_until > 0


async def test_what_is_being_changed_is_left_to_the_next_look(change: Change) -> None:
    world = change.world
    locked, changed = [(await world.keep(f"pump {number}")).stored.id for number in range(2)]
    work = await change.to(change.other)
    rewrite = "update memories set content = 'a valve' where node_id = %s"

    def change_it() -> None:
        world.rows(rewrite, changed)

    change.other.after = change_it
    async with opened(world.store, DEFAULT_NAMESPACE) as tx:
        await tx.rows(b"select from memories where node_id = %(id)s and tenant = %(tenant)s for update", id=locked)
        async with asyncio.timeout(10):
            await work.run()
    change.other.after = None
    assert change.left(OTHER) == 2, "one was locked, one has another content than was embedded"
    await change.upkeep().run()
    assert change.left(OTHER) == 0
    assert "a valve" in {memory.content for memory in (await change.search("valves", min_similarity=0.3)).memories}


@pytest.mark.promise("IM-7")
async def test_links_between_what_was_there_and_what_came_meanwhile_are_made(change: Change) -> None:
    await change.world.keep("pump 1", namespace="quiet")
    await change.world.keep("pump 1")
    change.world.rows("update memories set links_made_at = now()")
    work = await change.to(change.other)
    await change.world.keep("pump 2")
    change.world.rows("update memories set links_made_at = now()")
    await work.run()
    unlinked = (
        "select n.namespace, content from memories m join namespaces n using (tenant) where links_made_at is null"
    )
    assert change.world.rows(unlinked) == [{"namespace": DEFAULT_NAMESPACE, "content": "pump 1"}]


@pytest.mark.promise("IM-7")
async def test_a_model_without_vectors_loses_its_index_and_gets_it_back(change: Change) -> None:
    world = change.world
    await world.keep("pump")
    both = ["memories_embedding_1", "memories_embedding_2"]
    work = await change.to(change.other)
    await work.run()
    assert [row["relname"] for row in world.rows(INDEXES)] == both
    work.unused_s = 60.0
    await work.run()
    assert [row["relname"] for row in world.rows(INDEXES)] == both, "somebody may still write such vectors"
    work.unused_s = work._rest_until = 0.0
    await work.run()
    assert [row["relname"] for row in world.rows(INDEXES)] == both[1:]
    assert [row["name"] for row in world.rows(LIVE)] == [OTHER]

    back = await change.to(SwitchedEmbedder())
    await world.keep("valve")
    assert [row["relname"] for row in world.rows(INDEXES)] == both
    await back.run()
    assert change.left("hash") == 0
    assert await change.found("pumpwork") == {"pump", "valve"}


async def test_who_writes_on_with_a_retired_model_is_noticed(change: Change) -> None:
    world = change.world
    await world.keep("pump")
    old = world.runner, world.services
    work = await change.retire_hash()
    new = world.runner
    old[1][Vectorizer]._used_until.clear()  # a minute later
    world.runner = old[0]
    await world.keep("valve")
    world.runner = new
    assert [row["name"] for row in world.rows(LIVE)] == ["hash", OTHER]
    work._rest_until = 0.0
    await work.run()
    assert change.left(OTHER) == 0


async def test_what_was_written_with_a_retired_model_is_found_at_the_next_start(change: Change) -> None:
    world = change.world
    await world.keep("pump")
    await change.retire_hash()
    world.rows("update memories set model_id = 1")  # as a process does that slept for long
    assert [row["name"] for row in world.rows(LIVE)] == [OTHER]
    await change.upkeep().run()
    assert change.left(OTHER) == 0


async def test_a_store_of_one_model_is_counted_once(change: Change, monkeypatch: pytest.MonkeyPatch) -> None:
    await change.world.keep("pump")
    asked: list[str] = []
    alone = Reembedding._alone

    async def noting(self: Reembedding, query: str, **values: object) -> Awaitable[Any]:
        asked.append(query)
        return await alone(self, query, **values)  # type: ignore[return-value]

    monkeypatch.setattr(Reembedding, "_alone", noting)
    work = change.upkeep()
    for _ in range(3):
        await work.run()
    assert asked == ["vectors_by_model"], "once, for what was written with a model after it was retired"
