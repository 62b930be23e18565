"""Sectors of memories: told once, by the worker, and never against a choice or a newer content."""

import asyncio
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from engramq.schemas.commands import (
    BatchImported,
    ClassifySectors,
    EmbedPending,
    ImportBatch,
    ImportRecord,
    SectorsClassified,
    StoreMemory,
    UpdateMemory,
)
from engramq.schemas.ids import uuid7
from engramq.schemas.vocabulary import MemoryState, OnDuplicate, Sector, SectorSource
from engramq.workers.db.database import Work
from engramq.workers.embedders.interface import Vectors
from engramq.workers.queue.contract import Completion, FollowUp, ResultUnknown
from engramq.workers.sectors.handlers import Classifier
from engramq.workers.sectors.model import SectorGuess, SectorModel, UnusableWeights
from engramq.workers.upkeep import unfinished
from engramq.workers.upkeep.unfinished import Unfinished
from tests.assignments import assignment, repeated
from tests.scenarios.stage import until
from tests.workers.conftest import World

OTHERS = "select pid from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"

TALK = "Thanks a lot, you're a star! And how are you?"
RECIPE = "To descale the kettle: fill it with vinegar, boil it, then rinse it twice"


def sectors(world: World) -> dict[str, tuple[Any, ...]]:
    """Return (sector, source, confidence) by content."""
    rows = world.rows("select content, sector, sector_source, sector_confidence from memories")
    return {row["content"]: (row["sector"], row["sector_source"], row["sector_confidence"]) for row in rows}


def asked(follow_ups: Sequence[FollowUp]) -> list[tuple[str, ...]]:
    return [item.command.memory_ids for item in follow_ups if isinstance(item.command, ClassifySectors)]


async def classified(world: World, *ids: str) -> int:
    return (await world.ask(SectorsClassified, ClassifySectors(memory_ids=ids))).classified


class Interrupting(SectorModel):
    """The shipped model, which lets something happen while it thinks."""

    meanwhile: Any = None

    def classify_wording(self, contents: Sequence[str]) -> list[SectorGuess]:
        self.meanwhile()
        return super().classify_wording(contents)


def interrupted(world: World, meanwhile: Any) -> None:
    model = Interrupting.load()
    assert isinstance(model, Interrupting)
    model.meanwhile = meanwhile
    world.use(Classifier(store=world.store, load=lambda: model))


async def test_commands_that_come_together_are_carried_out_together(world: World) -> None:
    ids = [(await world.keep(f"{RECIPE}, and wait {number} minutes")).stored.id for number in range(3)]
    counts = await asyncio.gather(*(classified(world, item) for item in ids))
    assert sorted(counts) == [0, 0, 3]
    assert {source for _, source, _ in sectors(world).values()} == {SectorSource.AUTO}


async def test_when_their_work_fails_each_is_to_be_carried_out_again(world: World) -> None:
    stored = (await world.keep(RECIPE)).stored

    def fail() -> None:
        raise RuntimeError("on purpose")

    interrupted(world, fail)
    outcomes = await asyncio.gather(*(classified(world, stored.id) for _ in range(2)), return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [RuntimeError, ResultUnknown]
    assert sectors(world)[RECIPE][1] is None


async def test_a_memory_without_a_sector_gets_one_with_its_confidence_and_counts_as_unchanged(world: World) -> None:
    stored = (await world.keep(RECIPE)).stored
    assert (stored.sector, stored.sector_source) == (Sector.SEMANTIC, None)
    before = world.rows("select updated_at from memories")
    assert await classified(world, stored.id, "no id", uuid7()) == 1
    sector, source, confidence = sectors(world)[RECIPE]
    assert (sector, source) == (Sector.PROCEDURAL, SectorSource.AUTO)
    assert 0.2 < confidence <= 1.0
    assert world.rows("select updated_at from memories") == before
    assert await classified(world, stored.id) == 0


async def test_small_talk_fits_no_sector_and_is_told_once(world: World) -> None:
    stored = (await world.keep(TALK)).stored
    assert await classified(world, stored.id) == 1
    sector, source, confidence = sectors(world)[TALK]
    assert (sector, source) == (None, SectorSource.NONE)
    assert 0.5 <= confidence <= 1.0
    assert confidence == pytest.approx(round(confidence, 2), abs=1e-6)  # what is shown is what a filter compares
    assert await classified(world, stored.id) == 0
    sweep = Unfinished(store=world.store, older_than_s=0.0)
    assert asked(await sweep.look_at("default_user")) == []


async def test_a_choice_gives_a_sector_to_what_fits_none(world: World) -> None:
    stored = (await world.keep(TALK)).stored
    await classified(world, stored.id)
    await world.complete(assignment(UpdateMemory(memory_id=stored.id, speaker="Ada")))
    assert sectors(world)[TALK][:2] == (None, SectorSource.NONE)
    await world.complete(assignment(UpdateMemory(memory_id=stored.id, sector=Sector.EMOTIONAL)))
    assert sectors(world)[TALK] == (Sector.EMOTIONAL, SectorSource.MANUAL, None)


async def test_the_vector_is_used_where_the_model_knows_its_maker(world: World) -> None:
    stored = (await world.keep(RECIPE)).stored
    seen: list[Vectors] = []

    class Watched(SectorModel):
        def classify_many(
            self, contents: Sequence[str], vectors: Vectors, *, embedder_sha256: str
        ) -> list[SectorGuess]:
            seen.append(vectors)
            return super().classify_many(contents, vectors, embedder_sha256=embedder_sha256)

    model = Watched.load()
    world.rows("update embedding_models set sha256 = %s", model.embedder_sha256)
    world.use(Classifier(store=world.store, load=lambda: model))
    assert await classified(world, stored.id) == 1
    (vector,) = seen
    (expected,) = await world.model.embed([RECIPE])
    assert np.allclose(vector, expected, atol=1e-3)


async def test_a_sector_that_was_given_is_manual_and_final(world: World) -> None:
    stored = await world.complete(assignment(StoreMemory(content=RECIPE, sector=Sector.EMOTIONAL, standing=False)))
    assert asked(stored.follow_ups) == []
    (row,) = world.rows("select node_id::text as id from memories")
    assert await classified(world, row["id"]) == 0
    assert sectors(world)[RECIPE] == (Sector.EMOTIONAL, SectorSource.MANUAL, None)


@pytest.mark.promise("QP-12")
async def test_a_choice_made_while_the_model_thinks_is_not_overwritten(world: World) -> None:
    stored = (await world.keep(RECIPE)).stored
    choose = "update memories set sector = 'reflective', sector_source = 'manual', standing_source = 'given'"
    interrupted(world, lambda: world.rows(choose))
    assert await classified(world, stored.id) == 0
    assert sectors(world)[RECIPE] == (Sector.REFLECTIVE, SectorSource.MANUAL, None)


@pytest.mark.promise("QP-12")
async def test_the_sector_of_an_older_content_is_not_written_and_an_erased_memory_stays_away(world: World) -> None:
    changed, erased = [(await world.keep(f"{RECIPE} {number}")).stored.id for number in range(2)]

    def meanwhile() -> None:
        world.rows("update memories set content = 'I felt so alone' where node_id = %s", changed)
        world.rows("delete from nodes where id = %s", erased)

    interrupted(world, meanwhile)
    assert await classified(world, changed, erased) == 0
    assert sectors(world) == {"I felt so alone": (None, None, None)}


async def test_a_choice_replaces_the_automatic_sector_and_its_confidence(world: World) -> None:
    stored = (await world.keep(RECIPE)).stored
    await classified(world, stored.id)
    await world.complete(assignment(UpdateMemory(memory_id=stored.id, sector=Sector.EPISODIC)))
    assert await classified(world, stored.id) == 0
    assert sectors(world)[RECIPE] == (Sector.EPISODIC, SectorSource.MANUAL, None)


@pytest.mark.parametrize("key", ["once", None])
async def test_a_store_asks_for_the_sector_again_when_it_is_replayed(world: World, key: str | None) -> None:
    """With a key the ledger is asked first; without one what the second try had asked for is undone with it."""
    first = assignment(StoreMemory(content=RECIPE), idempotency_key=key)
    again = repeated(first) if key is None else repeated(first, id=uuid7())
    outcomes = [await world.complete(first), await world.complete(again)]
    assert [outcome.replayed for outcome in outcomes] == [False, key is not None]
    (row,) = world.rows("select node_id::text as id from memories")
    assert [asked(outcome.follow_ups) for outcome in outcomes] == [[(row["id"],)]] * 2


async def test_an_import_of_another_content_has_what_fitted_no_sector_told_again(world: World) -> None:
    await imported(world, ImportRecord(content=TALK, external_id="one"))
    (row,) = world.rows("select id::text from nodes")
    await classified(world, row["id"])
    same = await imported(world, ImportRecord(content=TALK, external_id="one"), on_duplicate=OnDuplicate.UPDATE)
    assert (asked(same.follow_ups), sectors(world)[TALK][1]) == ([], SectorSource.NONE)
    other = await imported(world, ImportRecord(content=RECIPE, external_id="one"), on_duplicate=OnDuplicate.UPDATE)
    assert asked(other.follow_ups) == [(row["id"],)]
    assert sectors(world) == {RECIPE: (None, None, None)}


async def test_pending_memories_are_classified_when_they_have_their_vectors(world: World) -> None:
    world.model.down = True
    stored = await world.complete(assignment(StoreMemory(content=RECIPE)))
    assert asked(stored.follow_ups) == []
    (row,) = world.rows("select node_id::text as id, state from memories")
    assert row["state"] == MemoryState.PENDING
    assert await classified(world, row["id"]) == 0
    world.model.down = False
    embedded = await world.complete(assignment(EmbedPending(memory_ids=(row["id"],))))
    assert asked(embedded.follow_ups) == [(row["id"],)]


async def imported(world: World, *records: ImportRecord, on_duplicate: OnDuplicate = OnDuplicate.SKIP) -> Completion:
    return await world.complete(assignment(ImportBatch(records=records, on_duplicate=on_duplicate)))


async def test_an_import_asks_for_the_sectors_that_it_was_not_given_in_batches(world: World) -> None:
    records = [ImportRecord(content=f"{RECIPE} {number}") for number in range(150)]
    outcome = await imported(world, *records, ImportRecord(content="given", sector=Sector.EMOTIONAL, standing=False))
    batches = asked(outcome.follow_ups)
    assert [len(item) for item in batches] == [100, 50]
    assert isinstance(outcome.reply, BatchImported)
    assert [item for batch in batches for item in batch] == [
        receipt.memory_id for receipt in outcome.reply.receipts[:150]
    ]
    assert [await classified(world, *batch) for batch in batches] == [100, 50]


async def test_an_import_of_another_content_has_its_sector_told_again_unless_it_was_chosen(world: World) -> None:
    names = ("auto", "chosen")
    await imported(world, *[ImportRecord(content=f"{RECIPE} {name}", external_id=name) for name in names])
    ids = [row["id"] for row in world.rows("select id::text from nodes order by external_id")]
    await classified(world, *ids)
    await world.complete(assignment(UpdateMemory(memory_id=ids[1], sector=Sector.EPISODIC)))
    again = [ImportRecord(content=f"New content {name}", external_id=name) for name in names]
    outcome = await imported(world, *again, on_duplicate=OnDuplicate.UPDATE)
    assert asked(outcome.follow_ups) == [tuple(ids)]
    assert sectors(world) == {
        "New content auto": (None, None, None),
        "New content chosen": (Sector.EPISODIC, SectorSource.MANUAL, None),
    }


@pytest.mark.own_database
async def test_writing_sectors_spares_every_index(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that share a page are in one batch here, and still none of them pays an insert into the vector index.

    A page has room for one new version. PostgreSQL takes old ones out as it goes, unless somebody looks at the page or
    at its old versions just then (a background writer, an ANALYZE), so here they are taken out after each transaction.
    """
    world.rows("alter table memories_trusted set (autovacuum_enabled = off)")
    outcome = await imported(world, *[ImportRecord(content=f"{RECIPE} {number}") for number in range(100)])
    (batch,) = asked(outcome.follow_ups)
    write = world.store.write

    async def write_and_tidy(namespace: str, work: Work[Any]) -> Any:
        written = await write(namespace, work)
        await until(nobody_looks)
        world.rows("vacuum (freeze, index_cleanup off) memories_trusted")  # freezing waits for who has a page in use
        return written

    async def nobody_looks() -> bool:
        return not world.rows(f"{OTHERS} and backend_xmin is not null")

    async def all_have_ended() -> bool:
        return not world.rows(f"{OTHERS} and starts_with(application_name, 'engramq-worker')")

    monkeypatch.setattr(world.store, "write", write_and_tidy)
    assert await classified(world, *batch) == 100
    await world.store.aclose()
    await until(all_have_ended)  # sessions report what they did at their end at the latest
    (row,) = world.rows(
        "select n_tup_upd as written, n_tup_hot_upd as spared from pg_stat_user_tables "
        "where relname = 'memories_trusted'"
    )
    assert row == {"written": 100, "spared": 100}


async def test_a_model_that_cannot_be_loaded_leaves_the_sectors_open(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> SectorModel:
        raise UnusableWeights("damaged")

    stored = (await world.keep(RECIPE)).stored
    world.use(Classifier(store=world.store, load=broken))
    assert await classified(world, stored.id) == 0
    assert "Memories stay without a sector" in caplog.text
    assert RECIPE not in caplog.text


async def test_a_sweep_finds_what_has_no_sector_and_not_what_was_just_stored_or_waits(world: World) -> None:
    stored = [(await world.keep(f"{RECIPE} {number}")).stored.id for number in range(3)]
    await world.keep("given", sector=Sector.EMOTIONAL, standing=False)
    world.model.down = True
    await world.keep("waits for its vector")
    assert asked(await Unfinished(store=world.store, older_than_s=60.0).look_at("default_user")) == []
    sweep = Unfinished(store=world.store, older_than_s=0.0)
    assert asked(await sweep.look_at("default_user")) == [tuple(reversed(stored))]
    assert await classified(world, *stored) == 3
    assert asked(await sweep.look_at("default_user")) == []


async def test_a_sweep_goes_through_all_memories_in_looks_of_a_bounded_size(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unfinished, "LOOKED_AT", 2)
    stored = [(await world.keep(f"{RECIPE} {number}")).stored.id for number in range(7)]
    await classified(world, *stored[3:])
    sweep = Unfinished(store=world.store, older_than_s=0.0)
    found = [item for _ in range(4) for batch in asked(await sweep.look_at("default_user")) for item in batch]
    assert found == stored[2::-1]


async def test_a_sweep_that_nobody_follows_asks_less_and_less_often(world: World) -> None:
    await world.keep(RECIPE)
    sweep = Unfinished(store=world.store, older_than_s=0.0)
    assert [len(asked(await sweep.look_at("default_user"))) for _ in range(3)] == [1, 1, 0]
