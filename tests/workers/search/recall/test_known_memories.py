"""Memories that a copy keeps as they were read, to be shown again."""

import asyncio

import pytest

from engramq.schemas.commands import ForgetMemory, Forgotten, SearchMemories
from engramq.schemas.vocabulary import WorkerKind
from engramq.workers.app import run
from engramq.workers.db.vectors import Sizes
from engramq.workers.memories import disagreement
from engramq.workers.queue import process
from engramq.workers.search import namespace_copy
from engramq.workers.search.copies import Copies
from tests.scenarios.stage import stage_settings, until
from tests.workers.search.recall.conftest import Scene, question_in
from tests.workers.search.recall.test_copies import TRUSTED, copied, found


async def test_what_is_kept_to_be_shown_again_is_bounded_by_bytes_which_its_copy_counts(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(namespace_copy, "SHOWN_BYTES_MAX", 60_000)
    full = {f"key {number}": [number] for number in range(150)}
    for number in range(3):
        await scene.keep(f"The kettle {number} whistles", metadata=full)
    copies, command = Copies(scene.world.store, Sizes()), SearchMemories(query="which kettle whistles")
    await copied(copies, TRUSTED)
    proven = await copies.current("default_user", TRUSTED, question_in(command))
    assert proven is not None
    before = proven.copy.size_bytes
    for _ in range(2):
        assert len(await found(scene, command, proven)) == 3
    assert (len(proven.known), proven.known.size_bytes <= 60_000) == (1, True), "each takes more than 30 KB"
    assert proven.copy.size_bytes - before == proven.known.size_bytes > 30_000


def kept_of_texts() -> tuple[int, ...]:
    """Return how many readings of texts and of words this process keeps."""
    return tuple(cache.cache_info().currsize for cache in (disagreement._read_note, disagreement._read))


@pytest.mark.promise("OV-18")
async def test_the_process_that_erases_remembers_nothing_of_it(scene: Scene) -> None:
    """What a copy shows again, and what texts state, stays in a process for as long as it lives."""
    stored = await scene.keep("The safe opens with zwetschkenknoedel")
    await scene.keep("The kettle opens with a lid")
    copies, command = Copies(scene.world.store, Sizes()), SearchMemories(query="what opens the safe")
    await copied(copies, TRUSTED)
    proven = await copies.current("default_user", TRUSTED, question_in(command))
    assert proven is not None
    await found(scene, command, proven)
    assert len(proven.known) == 2
    disagreement.read_statement("The safe opens with zwetschkenknoedel")
    await scene.world.ask(Forgotten, ForgetMemory(memory_id=str(stored), erase=True))
    assert len(proven.known) == 1
    assert kept_of_texts() == (0, 0)


@pytest.mark.promise("OV-18")
async def test_another_process_forgets_what_was_erased_without_a_search(
    scene: Scene, redis_url: str, key_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Large namespaces have no copy whose proof would tell, and the next search of one may never come."""
    monkeypatch.setattr(process, "ALIVE_S", 0.01)
    world, text = scene.world, "The safe opens with zwetschkenknoedel"
    stored = await scene.keep(text)
    settings, stop, ready = stage_settings(world.database, redis_url, key_prefix), asyncio.Event(), asyncio.Event()
    serving = asyncio.create_task(run((WorkerKind.RECALL,), settings, stop=stop, ready=ready, handle_signals=False))

    async def has_forgotten() -> bool:
        assert not serving.done()
        return kept_of_texts() == (0, 0)

    async with asyncio.timeout(20):
        await ready.wait()
        disagreement.read_statement(text)
        world.database.owner.execute("delete from nodes where id = %s", [stored])
        assert kept_of_texts() != (0, 0)
        await world.inspection.scrub("default_user", {str(stored): text})  # as the process does that erases
        await until(has_forgotten)
        stop.set()
        await serving


async def test_a_copy_that_cannot_be_proven_takes_nothing_from_other_namespaces(scene: Scene) -> None:
    stored = await scene.keep("The safe opens with zwetschkenknoedel")
    copies, command = Copies(scene.world.store, Sizes()), SearchMemories(query="what opens the safe")
    await copied(copies, TRUSTED)
    disagreement.read_statement("The kettle of another tenant opens with a lid")
    before = kept_of_texts()
    scene.world.database.owner.execute("delete from nodes where id = %s", [stored])
    assert await copies.current("default_user", TRUSTED, question_in(command)) is None
    assert kept_of_texts() == before != (0, 0)
