"""Copies of small namespaces: they find what the tables find, and never anything that is not so any more."""

import asyncio
import random
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import Mock

import numpy as np
import psycopg
import pytest

from engramq.schemas.commands import (
    Command,
    Connect,
    ForgetMemory,
    PromoteMemory,
    RecordOutcome,
    RestoreMemory,
    SearchMemories,
    SupersedeMemory,
    UpdateMemory,
    VerifyMemory,
)
from engramq.schemas.faults import EngramqError
from engramq.schemas.fields import or_none
from engramq.schemas.records import Memory
from engramq.schemas.vocabulary import DEFAULT_NAMESPACE, Partition, Ranking, Sector, Verification
from engramq.workers.db import memory_rows
from engramq.workers.db.vectors import Sizes, pack, unpack
from engramq.workers.db.viewers import Viewer
from engramq.workers.embedders.vectorizer import Vectorizer, remove_directions
from engramq.workers.search import copies as module
from engramq.workers.search.candidates import QuestionVectors, Tables
from engramq.workers.search.copies import Copies, CurrentCopy
from engramq.workers.search.namespace_copy import SHOWN_BYTES_MAX, NamespaceCopy
from engramq.workers.search.question import Question
from engramq.workers.search.ranking import SPEAKER
from tests.assignments import assignment
from tests.workers.search.recall.conftest import Scene, ids, question_in, search_in

TRUSTED, UNTRUSTED, BOTH = (Partition.TRUSTED,), (Partition.UNTRUSTED,), (Partition.TRUSTED, Partition.UNTRUSTED)
THINGS = [
    "kettle", "valve", "pump", "engine", "harbour", "lighthouse", "ferry", "violin", "bakery", "orchard", "glacier",
]  # fmt: skip
DOINGS = ["leaks", "whistles", "sings", "opened", "closed", "moved", "burned", "froze", "arrived"]
PLACES = ["in Graz", "in Linz", "at the station", "near the lake", "last week", "yesterday", "in March"]
PAST, NEXT_DAY = datetime(2024, 3, 9, tzinfo=UTC), datetime(2024, 3, 11, tzinfo=UTC)
SPEAKERS = [None, "Ada", "Bob", "Chloe"]


def sentence(rng: random.Random) -> str:
    words = f"The {rng.choice(THINGS)} {rng.choice(DOINGS)} {rng.choice(PLACES)} and the {rng.choice(THINGS)} too"
    return words + rng.choice([".", "?", " \U0001f600", " - Straße, naïve"])


def question(rng: random.Random) -> SearchMemories:
    asked = rng.choice(["When did the {} {}?", "{} {}", "Did Ada say the {} {} in March 2024?", "the of"])
    extra: dict[str, Any] = {}
    if rng.random() < 0.3:
        extra["project"] = rng.choice(["mars", "*"])
    if rng.random() < 0.5:
        values = {
            "tags": rng.choice([("red",), ("red", "tall")]),
            "sectors": rng.choice([(Sector.SEMANTIC,), (Sector.SEMANTIC, Sector.EPISODIC)]),
            "min_sector_confidence": rng.choice([0.4, 0.7]),
            "thread": "t1",
            "since": datetime(2024, 3, 2, tzinfo=UTC),
            "until": datetime(2024, 3, 20, tzinfo=UTC),
            "include_superseded": True,
            "min_similarity": 0.3,
            "as_of": rng.choice([datetime(2024, 3, 10, tzinfo=UTC), datetime.now(UTC)]),
        }
        kind = rng.choice([*values, "sectors"])
        extra[kind] = values[kind]
    return SearchMemories(
        query=asked.format(rng.choice(THINGS), rng.choice(DOINGS)),
        limit=rng.choice([3, 10, 50]),
        partitions=rng.choice([TRUSTED, UNTRUSTED, BOTH]),
        ranking=rng.choice([*Ranking]),
        explain=True,
        **extra,
    )


async def found(scene: Scene, command: SearchMemories, proven: CurrentCopy | None) -> list[Memory]:
    embedding = await scene.world.services[Vectorizer].try_embed(command.query)
    if embedding is not None and command.query.startswith("Did Ada"):  # as if the model let the name drown the rest
        (ada,) = await scene.world.services[Vectorizer].embed(["Ada"])
        embedding = replace(embedding, apart=remove_directions(unpack(embedding.half), [unpack(ada.half)]))
    vectors = QuestionVectors(embedding)
    store, project = scene.world.store, or_none(command.project)
    if proven is not None:
        return await search_in(proven, command, vectors, project)
    return await store.read(DEFAULT_NAMESPACE, lambda tx: search_in(Tables(tx, Sizes()), command, vectors, project))


async def copied(copies: Copies, partitions: tuple[Partition, ...]) -> None:
    for _ in range(module.SEARCHES_FIRST):
        await copies.prepare(DEFAULT_NAMESPACE, partitions)


async def one_memory_each(scene: Scene) -> Copies:
    """Keep a memory in either partition; return copies that have the trusted one."""
    for partition in BOTH:
        await scene.keep("The red kettle whistles", partition=partition)
    copies = Copies(scene.world.store, Sizes())
    await copied(copies, TRUSTED)
    return copies


CLOSE: float = 2e-4  # what numbers may differ by: PostgreSQL adds up in another order, and replies have six digits


def numbers(one: Memory) -> dict[str, Any]:
    """Return the numbers that tell two answers apart."""
    assert isinstance(one.explain, dict)
    return {"score": one.score, "similarity": one.similarity, **one.explain}


def assert_same(some: list[Memory], others: list[Memory]) -> None:
    """Expect the same answer; which of equals comes first, or falls behind the last place, is chance."""
    assert [item.score for item in some] == pytest.approx([other.score for other in others], abs=CLOSE)
    if not some:
        return
    last, by_id = some[-1].score, {other.id: other for other in others}
    assert isinstance(last, float)
    for item in some:
        if isinstance(item.score, float) and item.score - last > CLOSE:
            assert by_id[item.id].via == item.via
            assert numbers(by_id[item.id]) == pytest.approx(numbers(item), abs=CLOSE)


async def fill(scene: Scene, rng: random.Random, count: int) -> list[str]:
    stored = []
    for number in range(count):
        thread = rng.choice([None, "t1", "t2"])
        fields: dict[str, Any] = {"thread": thread, "position": number} if thread else {}
        fields |= rng.choice([{}, {"tags": ("red",)}, {"tags": ("tall", "red")}])
        fields |= rng.choice([{}, {}, {"project": "mars"}, {"project": "venus"}])
        fields |= rng.choice([{}, {}, {"valid_from": PAST}, {"valid_from": PAST, "valid_until": NEXT_DAY}])
        fields |= rng.choice(
            [{}, {}, {}, {"expires_at": PAST}, {"expires_at": datetime.now(UTC) + timedelta(seconds=1)}]
        )
        stored.append(
            await scene.keep(
                sentence(rng),
                **{name: value for name, value in {"speaker": rng.choice(SPEAKERS)}.items() if value},
                **fields,
                partition=rng.choice([*Partition]),
                occurred_at=datetime(2024, 3, 1, tzinfo=UTC) + timedelta(days=rng.randrange(40)),
            )
        )
    return stored


def tell_sectors(scene: Scene, stored: list[str]) -> None:
    """Have sectors of memories told: every third fits none, every third is told more or less surely."""
    for number, item in enumerate(stored):
        told = [("episodic", "auto", 0.4), (None, "none", 0.9), ("semantic", "auto", 0.7)][number % 3]
        scene.world.rows(
            "update memories set sector = %s, sector_source = %s, sector_confidence = %s where node_id = %s",
            *told,
            item,
        )


def put_pieces(scene: Scene, stored: list[str]) -> None:
    """Give some memories pieces: the vectors of others."""
    for item, *others in zip(stored[::4], stored[1::4], stored[2::4], strict=False):
        scene.world.rows(
            "update memories set pieces = array(select embedding from memories where node_id = any(%s) "
            "and embedding is not null) where node_id = %s and embedding is not null",
            others, item,
        )  # fmt: skip


def change(rng: random.Random, stored: list[str]) -> Command:
    one, other = rng.sample(stored, 2)
    return rng.choice(
        [
            UpdateMemory(memory_id=one, speaker="Ada", confidence=0.4),
            UpdateMemory(memory_id=one, sector=Sector.EPISODIC),
            UpdateMemory(memory_id=one, add_tags=("tall",), remove_tags=("red",)),
            UpdateMemory(memory_id=one, project="mars"),
            UpdateMemory(memory_id=one, valid_until=datetime.now(UTC)),
            UpdateMemory(memory_id=one, expires_at=datetime.now(UTC) + timedelta(seconds=0.5)),
            UpdateMemory(memory_id=one, clear=("valid_until", "expires_at")),
            ForgetMemory(memory_id=one),
            ForgetMemory(memory_id=one, erase=True),
            RestoreMemory(memory_id=one),
            SupersedeMemory(old_memory_id=one, new_memory_id=other),
            VerifyMemory(memory_id=one, verification=Verification.VERIFIED),
            VerifyMemory(memory_id=one, verification=Verification.REJECTED),
            PromoteMemory(record_id=one),
            Connect(source=one, target=other, relation="supports", weight=0.9),
        ]
    )


@pytest.mark.promise("OV-15", "TI-2", "TI-3")
@pytest.mark.parametrize("seed", [1, 2])
async def test_a_copy_answers_as_the_tables_do_whatever_changes(scene: Scene, seed: int) -> None:
    rng = random.Random(seed)
    stored = await fill(scene, rng, 60)
    tell_sectors(scene, stored)
    put_pieces(scene, stored)
    copies, from_copies = Copies(scene.world.store, Sizes()), 0
    for _ in range(30):
        command = question(rng)
        await copied(copies, command.partitions)
        before = await found(scene, command, None)
        proven = await copies.find_current(DEFAULT_NAMESPACE, command.partitions, question_in(command))
        if proven is not None:  # else something is gone, and the tables serve
            from_copy, after = await found(scene, command, proven), await found(scene, command, None)
            if [(item.id, item.score) for item in before] == [(item.id, item.score) for item in after]:
                from_copies += 1  # else something expired in between
                assert_same(from_copy, after)
        for _ in range(rng.randrange(3)):
            with suppress(EngramqError):  # some make no sense: a refusal changes nothing
                await scene.world.complete(assignment(change(rng, stored)))
        if rng.random() < 0.3:
            stored += await fill(scene, rng, 2)
            tell_sectors(scene, stored[-1:])
            put_pieces(scene, stored[-3:])
    assert from_copies > 15


async def test_what_a_copy_lacks_is_taken_over_and_what_is_gone_ends_it(scene: Scene) -> None:
    first, second = await scene.keep("The red kettle whistles"), await scene.keep("The blue kettle sings")
    copies = Copies(scene.world.store, Sizes())
    assert await copies.find_current(DEFAULT_NAMESPACE, TRUSTED, Question("kettle")) is None
    await copied(copies, TRUSTED)
    command = SearchMemories(query="which kettle whistles", partitions=TRUSTED)

    async def search() -> list[str] | None:
        proven = await copies.find_current(DEFAULT_NAMESPACE, TRUSTED, question_in(command))
        return None if proven is None else ids(await found(scene, command, proven))

    assert await search() == [first, second]
    third = await scene.keep("The green kettle whistles too")
    assert set(await search() or ()) == {first, second, third}
    await scene.world.complete(assignment(ForgetMemory(memory_id=first)))
    assert set(await search() or ()) == {second, third}
    await scene.world.complete(assignment(ForgetMemory(memory_id=second, erase=True)))
    assert await search() is None
    await copied(copies, TRUSTED)
    assert await search() == [third]


async def test_a_copy_may_be_empty_and_may_hold_vectors_of_another_model_only(scene: Scene) -> None:
    copies = Copies(scene.world.store, Sizes())
    await copied(copies, TRUSTED)
    command = SearchMemories(query="which kettle whistles", partitions=TRUSTED)
    proven = await copies.find_current(DEFAULT_NAMESPACE, TRUSTED, question_in(command))
    assert proven is not None
    assert await found(scene, command, proven) == []
    kept = await scene.keep("The red kettle whistles")
    other = await scene.world.store.register_embedding_model("another", "", 384)
    scene.world.rows("update memories set model_id = %s returning 1", other)
    proven = await copies.find_current(DEFAULT_NAMESPACE, TRUSTED, question_in(command))
    assert proven is not None
    (only,) = await found(scene, command, proven)
    assert (only.id, only.similarity) == (kept, None)


async def test_a_memory_that_vanishes_after_the_proof_is_not_shown(scene: Scene) -> None:
    first, second = await scene.keep("The red kettle whistles"), await scene.keep("The blue kettle sings")
    copies = Copies(scene.world.store, Sizes())
    await copied(copies, TRUSTED)
    proven = await copies.find_current(DEFAULT_NAMESPACE, TRUSTED, Question("kettle"))
    assert proven is not None
    await scene.world.complete(assignment(ForgetMemory(memory_id=first)))
    for ranking in Ranking:
        assert ids(await found(scene, SearchMemories(query="kettle", ranking=ranking), proven)) == [second]


async def test_what_is_shown_again_is_read_again_if_changed(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    read = Mock(wraps=memory_rows.memory_from_json)
    monkeypatch.setattr(memory_rows, "memory_from_json", read)
    first, second = await scene.keep("The red kettle whistles"), await scene.keep("The blue kettle sings")
    copies, command = Copies(scene.world.store, Sizes()), SearchMemories(query="which kettle whistles")
    await copied(copies, TRUSTED)

    async def search() -> dict[str, Memory]:
        proven = await copies.find_current(DEFAULT_NAMESPACE, TRUSTED, question_in(command))
        assert proven is not None
        return {memory.id: memory for memory in await found(scene, command, proven)}

    before = await search()
    before[first].tags = ["whatever a reply does to it"]
    await scene.world.complete(assignment(RecordOutcome(memory_ids=(second,), signal=1.0)))
    again = await search()
    assert sorted(call.args[0].id for call in read.call_args_list) == [first, second]
    assert (again[first].tags, again[first].content) == ([], before[first].content)
    assert again[second].usefulness > before[second].usefulness
    large = {"page": "x" * memory_rows.KNOWN_BYTES}
    await scene.world.complete(assignment(UpdateMemory(memory_id=first, add_tags=("tall",), metadata=large)))
    assert [(await search())[first].tags for _ in range(2)] == [["tall"]] * 2
    assert [call.args[0].id for call in read.call_args_list[2:]] == [first] * 2, "what is large is not kept"


async def test_a_change_that_commits_late_is_not_missed(scene: Scene) -> None:
    """It has an older transaction id than those that the copy has seen."""
    kept = await scene.keep("The red kettle whistles")
    with psycopg.connect(scene.world.database.owner_url) as slow:
        slow.execute("update memories set speaker = 'Ada' where node_id = %s", (kept,))
        await scene.keep("The blue kettle sings")
        copies = Copies(scene.world.store, Sizes())
        await copied(copies, TRUSTED)
        before = await copies.find_current(DEFAULT_NAMESPACE, TRUSTED, Question("kettle"))
        assert before is not None
        slow.commit()
    after = await copies.find_current(DEFAULT_NAMESPACE, TRUSTED, Question("kettle"))
    assert after is not None
    memories = await found(scene, SearchMemories(query="What did Ada say?", explain=True), after)
    spoken = next(memory for memory in memories if memory.id == kept)
    assert isinstance(spoken.explain, dict)
    assert spoken.explain["speaker"] == SPEAKER


async def test_searches_that_come_together_ask_together_and_after_they_came(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    await scene.keep("The red kettle whistles")
    copies = Copies(scene.world.store, Sizes())
    await copied(copies, TRUSTED)
    asked: list[list[Question]] = []
    proven = Copies._prove

    async def counted(self: Copies, place: Any, copy: Any, viewer: Viewer, questions: list[Question]) -> Any:
        asked.append(list(questions))
        return await proven(self, place, copy, viewer, questions)

    monkeypatch.setattr(Copies, "_prove", counted)
    queries = [Question(f"kettle {number}") for number in range(9)]
    answers = await asyncio.gather(*(copies.find_current(DEFAULT_NAMESPACE, TRUSTED, query) for query in queries))
    assert asked == [queries[:1], queries[1:]]
    assert all(answer is not None for answer in answers)
    assert len({tuple(answer.words.lexemes) for answer in answers if answer}) == 9


async def test_what_grows_beyond_the_bound_or_changes_too_much_goes_to_the_tables(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    await scene.keep("The red kettle whistles")
    copies = Copies(scene.world.store, Sizes())
    monkeypatch.setattr(module, "CHANGED_MAX", 2)
    await copied(copies, TRUSTED)
    for number in range(3):
        await scene.keep(f"Kettle {number}")
    assert await copies.find_current(DEFAULT_NAMESPACE, TRUSTED, Question("kettle")) is None
    await copied(copies, TRUSTED)
    monkeypatch.setattr(module, "ROWS_MAX", 4)
    assert await copies.find_current(DEFAULT_NAMESPACE, TRUSTED, Question("kettle")) is not None
    await scene.keep("One too many")
    assert await copies.find_current(DEFAULT_NAMESPACE, TRUSTED, Question("kettle")) is None
    too_large = Copies(scene.world.store, Sizes())
    await copied(too_large, TRUSTED)
    assert await too_large.find_current(DEFAULT_NAMESPACE, TRUSTED, Question("kettle")) is None


async def test_copies_are_bounded_by_bytes_and_the_least_used_goes_first(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    copies = await one_memory_each(scene)
    monkeypatch.setattr(module, "BYTES_MAX", 1)
    await copied(copies, UNTRUSTED)
    assert await copies.find_current(DEFAULT_NAMESPACE, TRUSTED, Question("kettle")) is None
    assert await copies.find_current(DEFAULT_NAMESPACE, UNTRUSTED, Question("kettle")) is None


async def test_a_copy_that_grows_too_large_goes_and_drives_nobody_out(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    copies = await one_memory_each(scene)
    await copied(copies, UNTRUSTED)
    monkeypatch.setattr(module, "COPY_BYTES_MAX", module.BYTES_MAX // 600)
    for number in range(64):
        await scene.keep(f"Kettle {number}")
    assert await copies.find_current(DEFAULT_NAMESPACE, TRUSTED, Question("kettle")) is not None  # a last time
    assert await copies.find_current(DEFAULT_NAMESPACE, TRUSTED, Question("kettle")) is None
    await copied(copies, TRUSTED)
    assert await copies.find_current(DEFAULT_NAMESPACE, TRUSTED, Question("kettle")) is None  # not before many searches
    assert await copies.find_current(DEFAULT_NAMESPACE, UNTRUSTED, Question("kettle")) is not None


async def test_a_copy_of_a_server_that_has_recovered_since_is_not_believed(scene: Scene) -> None:
    await scene.keep("The red kettle whistles")
    copies = Copies(scene.world.store, Sizes())
    await copied(copies, TRUSTED)
    (kept,) = copies._copies.values()
    kept.copy.server = "before the crash"
    assert await copies.find_current(DEFAULT_NAMESPACE, TRUSTED, Question("kettle")) is None
    await copied(copies, TRUSTED)
    assert await copies.find_current(DEFAULT_NAMESPACE, TRUSTED, Question("kettle")) is not None


async def test_whoever_asked_together_with_one_who_gave_up_goes_to_the_tables(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    await scene.keep("The red kettle whistles")
    copies = Copies(scene.world.store, Sizes())
    await copied(copies, TRUSTED)
    asking = asyncio.Event()

    async def never(*_: Any) -> None:
        asking.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(Copies, "_prove", never)
    busy = asyncio.create_task(copies.find_current(DEFAULT_NAMESPACE, TRUSTED, Question("kettle")))
    await asking.wait()
    leader = asyncio.create_task(copies.find_current(DEFAULT_NAMESPACE, TRUSTED, Question("kettle")))
    joined = asyncio.create_task(copies.find_current(DEFAULT_NAMESPACE, TRUSTED, Question("kettle")))
    await asyncio.sleep(0)
    leader.cancel()
    assert await asyncio.wait_for(joined, 5) is None
    busy.cancel()
    with suppress(asyncio.CancelledError):
        await busy
    monkeypatch.undo()
    assert await copies.find_current(DEFAULT_NAMESPACE, TRUSTED, Question("kettle")) is not None  # nothing half done


async def test_rows_of_a_subtransaction_are_not_missed(scene: Scene) -> None:
    """Its id is younger than its transaction's, and no snapshot names it."""
    kept = await scene.keep("The red kettle whistles")
    with psycopg.connect(scene.world.database.owner_url) as slow:
        slow.execute("select pg_current_xact_id()")
        slow.execute("savepoint inner_one")
        slow.execute("update memories set speaker = 'Ada' where node_id = %s", (kept,))
        await scene.keep("The blue kettle sings")
        copies = Copies(scene.world.store, Sizes())
        await copied(copies, TRUSTED)
        slow.commit()
    after = await copies.find_current(DEFAULT_NAMESPACE, TRUSTED, Question("kettle"))
    assert after is not None
    assert "Ada" in after.copy._columns["speaker"]


async def test_a_caller_who_hangs_up_costs_no_copy(scene: Scene) -> None:
    copies = await one_memory_each(scene)
    begun, store = asyncio.Event(), scene.world.store
    usual = store.look_up

    async def slow(*_: Any) -> Any:
        begun.set()
        await asyncio.Event().wait()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(store), "look_up", slow)
        asked = asyncio.create_task(copies.find_current(DEFAULT_NAMESPACE, TRUSTED, Question("kettle")))
        await begun.wait()
        asked.cancel()
        with suppress(asyncio.CancelledError):
            await asked
    assert store.look_up == usual
    assert await copies.find_current(DEFAULT_NAMESPACE, TRUSTED, Question("kettle")) is not None


def row(number: int) -> dict[str, Any]:
    """A row of the query `copy_rows`: 25 words, and a vector of the bundled model's length."""
    moment = PAST + timedelta(minutes=number)
    flags = dict.fromkeys(("asks", "tells_self", "fits_none", "hidden", "superseded", "repeated"), False)
    none = ("sector_confidence", "tags", "project", "ends", "expires", "pieces", "told_on", "vector_key")
    return {
        **flags, **dict.fromkeys(none), "id": f"memory-{number}", "is_trusted": True, "thread": f"t{number // 25}",
        "position": number % 25, "speaker": "Ada", "moment": moment, "created_at": moment,
        "begins": moment, "sector": Sector.SEMANTIC, "confidence": 0.5,
        "active_hours": 1.0, "model_id": 1, "embedding": pack(np.ones(384, dtype=np.float32)),
        "lexemes": [f"word{(number + place) % 5_000}" for place in range(25)],
    }  # fmt: skip


@pytest.mark.long
def test_as_many_memories_as_are_copied_fit_into_one_copy() -> None:
    copy = NamespaceCopy("1", "server", 0.0)
    copy.put(row(number) for number in range(module.ROWS_MAX))
    assert (len(copy), copy.size_bytes + SHOWN_BYTES_MAX <= module.COPY_BYTES_MAX) == (20_000, True)
