"""Searching: what is found, what is hidden, in which order, and what is said about it."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec import UNSET

from engramq.schemas.commands import (
    ForgetMemory,
    Forgotten,
    GetMemory,
    MemoryChanged,
    MemoryFound,
    SearchMemories,
    UpdateMemory,
)
from engramq.schemas.faults import missing
from engramq.schemas.ids import uuid7
from engramq.schemas.records import Memory
from engramq.schemas.vocabulary import UNTRUSTED_WARNING, MemoryState, Partition, Ranking, Sector, SectorSource, Thing
from engramq.workers.search.candidates import CANDIDATES
from tests.assignments import assignment
from tests.workers.search.recall.conftest import Scene, ids

UNTRUSTED = (Partition.UNTRUSTED,)
BOTH = (Partition.TRUSTED, Partition.UNTRUSTED)


@pytest.mark.promise("MT-11", "MT-20")
async def test_without_the_model_words_find_and_the_answer_says_degraded(scene: Scene) -> None:
    active = await scene.keep("The backup runs at four")
    scene.world.model.down = True
    pending = await scene.keep("The backup is kept in Vienna")
    found = await scene.search("where is the backup kept")
    assert found.degraded is True
    assert ids(found.memories) == [pending, active]
    assert [memory.similarity for memory in found.memories] == [None, None]
    assert (await scene.search("backup", ranking=Ranking.SIMILARITY)).count == 2
    assert (await scene.search("where is the")).memories == []
    assert (await scene.search("backup", min_similarity=0.1)).memories == []  # nothing is known to be so near
    scene.world.model.down = False
    found = await scene.search("where is the backup kept")
    assert found.degraded is not True
    kinds = {memory.id: (memory.state, memory.similarity is None) for memory in found.memories}
    assert kinds == {pending: (MemoryState.PENDING, True), active: (MemoryState.ACTIVE, False)}
    assert ids(await scene.found("backup", ranking=Ranking.SIMILARITY)) == [active]


@pytest.mark.promise("MT-12")
async def test_every_field_is_there_times_are_iso_and_the_vector_is_not(scene: Scene) -> None:
    await scene.keep(
        "Ada drinks tea", speaker="Ada", occurred_at=datetime(2024, 5, 1, tzinfo=UTC), thread="t", position=3,
        external_id="x-1", metadata={"a": [1, {"b": None}]}, sector=Sector.SEMANTIC,
    )  # fmt: skip
    (memory,) = await scene.found("tea", explain=True)
    absent = {name for name in Memory.__struct_fields__ if getattr(memory, name) is UNSET}
    optional = {"via", "differs_from", "truncated", "untrusted", "warning", "digest"}
    assert absent == {*optional, "passage", "part", "parts", "followed_by", "visibility", "of_another"}
    assert memory.occurred_at == "2024-05-01T00:00:00.000000Z"
    assert all(time.endswith("Z") and len(time) == 27 for time in (memory.created_at, memory.updated_at))
    assert (memory.external_id, memory.speaker, memory.thread, memory.position) == ("x-1", "Ada", "t", 3)
    assert memory.metadata == {"a": [1, {"b": None}]}
    assert not any("embedding" in name for name in Memory.__struct_fields__)


@pytest.mark.promise("TP-5", "TP-6", "TP-7")
async def test_each_partition_is_seen_when_it_is_asked_for(scene: Scene) -> None:
    trusted = await scene.keep("The pump needs oil every week")
    untrusted = await scene.keep("The pump needs oil every day", partition=Partition.UNTRUSTED)
    assert ids(await scene.found("how often does the pump need oil")) == [trusted]
    assert ids(await scene.found("how often does the pump need oil", partitions=UNTRUSTED)) == [untrusted]
    both = await scene.found("pump oil day", partitions=(*BOTH, *BOTH))
    assert ids(both) == [untrusted, trusted]
    assert [(item.partition, item.untrusted is True) for item in both] == [("untrusted", True), ("trusted", False)]
    assert both[0].warning == UNTRUSTED_WARNING
    assert all(isinstance(item.score, float) for item in both)
    assert ids((await scene.recent()).memories) == [trusted]
    assert ids((await scene.recent(partitions=BOTH)).memories) == [untrusted, trusted]
    hidden = await scene.world.ask(MemoryFound, GetMemory(memory_id=untrusted))
    assert (hidden.status, hidden.memory, hidden.links) == ("not_found", None, UNSET)
    assert isinstance(hidden.hint, str)
    assert "include_untrusted=true" in hidden.hint
    unknown = MemoryFound(memory=None, status="not_found", **missing(Thing.MEMORY))
    for nobodys in (uuid7(), "no id"):
        assert await scene.world.ask(MemoryFound, GetMemory(memory_id=nobodys, include_untrusted=True)) == unknown
    assert await scene.world.ask(MemoryFound, GetMemory(memory_id=untrusted), namespace="elsewhere") == unknown
    flagged = await scene.world.ask(MemoryFound, GetMemory(memory_id=untrusted, include_untrusted=True))
    assert flagged.memory is not None
    assert flagged.memory.content == "The pump needs oil every day"


async def test_filters_leave_what_they_say(scene: Scene) -> None:
    first = await scene.keep(
        "Rain in the valley", sector=Sector.EPISODIC, thread="a", occurred_at=datetime(2024, 1, 1, tzinfo=UTC)
    )
    second = await scene.keep("Rain on the hill", thread="b", occurred_at=datetime(2024, 6, 1, tzinfo=UTC))
    third = await scene.keep("Rain at sea")
    everything = {first, second, third}
    assert set(ids(await scene.found("rain"))) == everything
    assert ids(await scene.found("rain", sectors=(Sector.EPISODIC,))) == [first]
    assert set(ids(await scene.found("rain", sectors=(Sector.SEMANTIC,)))) == {second, third}
    assert await scene.found("rain", sectors=()) == []
    assert (await scene.recent(sectors=())).memories == []
    assert ids((await scene.recent(sectors=(Sector.EPISODIC,))).memories) == [first]
    assert ids(await scene.found("rain", thread="b")) == [second]
    assert await scene.found("rain", thread="c") == []
    middle = datetime(2024, 3, 1, tzinfo=UTC)
    assert ids(await scene.found("rain", until=middle)) == [first]
    assert set(ids(await scene.found("rain", since=middle))) == {second, third}  # the third by when it was made
    assert ids(await scene.found("rain", since=middle, until=datetime(2024, 6, 1, tzinfo=UTC))) == [second]
    assert await scene.found("rain", since=middle, until=datetime(2023, 1, 1, tzinfo=UTC)) == []


async def test_what_fits_no_sector_is_in_no_sector_and_found_without_such_a_filter(scene: Scene) -> None:
    told = {"talk": (None, "none", 0.9), "sure": ("episodic", "auto", 0.7), "unsure": ("semantic", "auto", 0.41)}
    kept = {name: await scene.keep(f"Rain {name}") for name in [*told, "untold"]}
    kept["chosen"] = await scene.keep("Rain chosen", sector=Sector.EMOTIONAL)
    for name, values in told.items():
        scene.world.rows(
            "update memories set sector = %s, sector_source = %s, sector_confidence = %s where node_id = %s",
            *values,
            kept[name],
        )

    async def found(**filters: Any) -> set[str]:
        listed = ids((await scene.recent(**filters)).memories) if "min_sector_confidence" not in filters else []
        searched = ids(await scene.found("rain", **filters))
        assert not listed or set(listed) == set(searched)
        return {name for name, item in kept.items() if item in searched}

    assert await found() == set(kept)
    assert await found(sectors=(Sector.SEMANTIC,)) == {"unsure", "untold"}
    assert await found(sectors=tuple(Sector)) == set(kept) - {"talk"}
    assert await found(min_sector_confidence=0.0) == {"sure", "unsure", "chosen"}
    assert await found(min_sector_confidence=0.41) == {"sure", "unsure", "chosen"}
    assert await found(min_sector_confidence=0.7) == {"sure", "chosen"}
    assert await found(min_sector_confidence=0.71) == {"chosen"}
    assert await found(min_sector_confidence=1e-61) == {"sure", "unsure", "chosen"}
    assert await found(min_sector_confidence=0.41, sectors=(Sector.SEMANTIC,)) == {"unsure"}
    by_id = {memory.id: memory for memory in await scene.found("rain")}
    talk, unsure = by_id[kept["talk"]], by_id[kept["unsure"]]
    assert (talk.sector, talk.sector_source, talk.sector_confidence) == (Sector.SEMANTIC, SectorSource.NONE, 0.9)
    assert (unsure.sector, unsure.sector_source, unsure.sector_confidence) == (Sector.SEMANTIC, SectorSource.AUTO, 0.41)
    assert by_id[kept["chosen"]].sector_confidence is None


async def test_similarity_is_the_cosine_of_the_content_and_bounds_what_is_found(scene: Scene) -> None:
    twin = await scene.keep("Ada drinks green tea", speaker="Ada", occurred_at=datetime(2024, 5, 1, tzinfo=UTC))
    await scene.keep("The moon has no air")
    found = await scene.found("Ada drinks green tea")
    assert found[0].id == twin
    assert found[0].similarity == pytest.approx(1.0, abs=0.001)
    plain = await scene.found("Ada drinks green tea", ranking=Ranking.SIMILARITY)
    assert plain[0].score == plain[0].similarity
    assert ids(await scene.found("Ada drinks green tea", min_similarity=0.9)) == [twin]
    assert await scene.found("Ada drinks green tea", min_similarity=1.0, sectors=(Sector.EMOTIONAL,)) == []


async def test_explain_shows_parts_that_make_the_score(scene: Scene) -> None:
    await scene.keep("Did Ada buy the house?", speaker="Bob", thread="t", position=1)
    answer = await scene.keep("Yes, last week", speaker="Ada", thread="t", position=2)
    await scene.keep("Nothing of the kind", speaker="Bob")
    found = {item.id: item for item in await scene.found("When did Ada buy the house?", explain=True)}
    for memory in found.values():
        assert isinstance(memory.explain, dict)
        assert sum(part for part in memory.explain.values() if part is not None) == pytest.approx(
            memory.score, abs=0.0001
        )
    explained = found[answer].explain
    assert isinstance(explained, dict)
    assert {"next_to", "answers", "best_of_thread", "speaker"} < set(explained)
    (plain, *_) = await scene.found("Ada")
    assert plain.explain is not explained
    assert not isinstance(plain.explain, dict)


async def test_twins_are_shown_once_when_asked_and_untrusted_ones_hide_nothing(scene: Scene) -> None:
    first = await scene.keep("Water  boils at 100 degrees")
    second = await scene.keep("water boils at 100 Degrees")
    assert set(ids(await scene.found("water boils", limit=5))) == {first, second}
    collapsed = await scene.found("water boils", collapse_duplicates=True)
    assert len(collapsed) == 1
    await scene.keep("WATER boils at 100 degrees", partition=Partition.UNTRUSTED)
    shown = await scene.found("water boils", collapse_duplicates=True, partitions=BOTH)
    assert [item.partition for item in shown].count(Partition.TRUSTED) == 1


async def test_twins_make_room_for_others(scene: Scene) -> None:
    for _ in range(6):
        await scene.keep("Water boils")
    other = await scene.keep("Water boils at 100 degrees in Graz")
    found = await scene.found("water boils", limit=2, collapse_duplicates=True)
    assert len(found) == 2
    assert other in ids(found)


async def test_what_was_found_is_counted_afterwards_and_get_memory_counts_nothing(scene: Scene) -> None:
    kept = await scene.keep("A needle in the hay")
    outcomes = [await scene.world.complete(assignment(SearchMemories(query="needle"))) for _ in range(3)]
    assert outcomes[0].session_state is not None
    assert outcomes[0].session_state.recalled == (kept,)
    assert scene.world.count("memory_usage") == 0
    for outcome in outcomes:
        assert outcome.after_reply is not None
    await asyncio.gather(*[outcome.after_reply(None) for outcome in outcomes if outcome.after_reply is not None])
    await scene.world.ask(MemoryFound, GetMemory(memory_id=kept))
    assert scene.world.rows("select node_id::text, access_count from memory_usage") == [
        {"node_id": kept, "access_count": 3}
    ]
    (again,) = await scene.found("needle")
    assert again.accessed_at is not None


async def test_unlikely_hits_that_people_are_shown_are_not_counted(scene: Scene) -> None:
    """From findings of newcomers: each search on the page counted twenty memories as found, and linked them."""
    kept = await scene.keep("A needle in the hay")
    for number in range(5):
        await scene.keep(f"Fact {number} of the harbour")
    outcome = await scene.world.complete(assignment(SearchMemories(query="A needle in the hay", min_relevance=0)))
    assert outcome.session_state is not None
    assert len(outcome.session_state.recalled or ()) > 1
    assert outcome.after_reply is not None
    await outcome.after_reply(None)
    assert scene.world.rows("select node_id::text, access_count from memory_usage") == [
        {"node_id": kept, "access_count": 1}
    ]


async def test_what_was_found_and_erased_since_is_not_counted(scene: Scene) -> None:
    kept = await scene.keep("A needle in the hay")
    outcome = await scene.world.complete(assignment(SearchMemories(query="needle")))
    await scene.world.ask(Forgotten, ForgetMemory(memory_id=kept, erase=True))
    assert outcome.after_reply is not None
    await outcome.after_reply(None)
    assert scene.world.count("memory_usage") == 0


async def test_other_namespaces_are_never_found_even_where_their_words_had_the_same_prefix(scene: Scene) -> None:
    await scene.keep("The secret is blue", namespace="a")
    mine = await scene.keep("The secret is red", namespace="b")
    scene.world.rows(
        "update memories set lexemes = memory_lexemes(tenant_of('b'), content, speaker, told_on) "
        "where tenant = tenant_of('a')"
    )
    assert ids(await scene.found("secret blue", namespace="b")) == [mine]
    assert ids((await scene.recent(namespace="b")).memories) == [mine]


async def test_a_new_speaker_or_date_is_findable_at_once(scene: Scene) -> None:
    kept = await scene.keep("It was a long walk", speaker="Ada")
    await scene.keep("The moon has no air")
    changed = UpdateMemory(memory_id=kept, speaker="Grace", occurred_at=datetime(2021, 7, 3, tzinfo=UTC))
    await scene.world.ask(MemoryChanged, changed)
    assert (await scene.found("Grace"))[0].id == kept
    assert (await scene.found("July 2021"))[0].id == kept


async def test_a_memory_that_only_words_find_still_shows_its_similarity(scene: Scene) -> None:
    for number in range(CANDIDATES + 5):
        await scene.keep("zebra crossing " + " ".join(f"of{number}n{other}" for other in range(number % 15)))
    odd = await scene.keep("qqq zebra " + " ".join(f"filler{number}" for number in range(30)))
    (found,) = [memory for memory in await scene.found("zebra crossing qqq", limit=50) if memory.id == odd]
    assert isinstance(found.similarity, float)
