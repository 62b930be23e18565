"""Memories that a copy keeps as they were read, to be shown again."""

import asyncio
from typing import Any
from unittest.mock import AsyncMock

import pytest

from engramq.schemas.commands import ForgetMemory, Forgotten, SearchMemories
from engramq.schemas.envelope import Principal
from engramq.schemas.vocabulary import Visibility, WorkerKind
from engramq.workers import app
from engramq.workers.app import build_services, run
from engramq.workers.db.vectors import Sizes
from engramq.workers.db.viewers import PUBLIC, Viewer
from engramq.workers.embedders import hashing
from engramq.workers.memories import disagreement
from engramq.workers.queue import process
from engramq.workers.runner import Services
from engramq.workers.search import copies as module
from engramq.workers.search import namespace_copy
from engramq.workers.search.copies import SEARCHES_FIRST, Copies
from engramq.workers.search.question import Question
from tests.scenarios.stage import stage_settings, until
from tests.workers.search.recall.conftest import Scene, question_in
from tests.workers.search.recall.test_copies import TRUSTED, copied, found

QUESTION = Question("what opens the safe")


async def test_what_is_kept_to_be_shown_again_is_bounded_by_bytes_which_its_copy_counts(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(namespace_copy, "SHOWN_BYTES_MAX", 60_000)
    full = {f"key {number}": [number] for number in range(150)}
    for number in range(3):
        await scene.keep(f"The kettle {number} whistles", metadata=full)
    copies, command = Copies(scene.world.store, Sizes()), SearchMemories(query="which kettle whistles")
    await copied(copies, TRUSTED)
    proven = await copies.find_current("default_user", TRUSTED, question_in(command))
    assert proven is not None
    before = proven.copy.size_bytes
    for _ in range(2):
        assert len(await found(scene, command, proven)) == 3
    assert (len(proven.known), proven.known.size_bytes <= 60_000) == (1, True), "each takes more than 30 KB"
    assert proven.copy.size_bytes - before == proven.known.size_bytes > 30_000


def kept_of_texts() -> tuple[int, ...]:
    """Return how many readings of texts and of words, and vectors of texts, this process keeps."""
    caches = (disagreement._read_note, disagreement._read, hashing._vector, hashing._features_of)
    return tuple(cache.cache_info().currsize for cache in caches)


@pytest.mark.promise("OV-18")
async def test_the_process_that_erases_remembers_nothing_of_it(scene: Scene) -> None:
    """What a copy shows again, and what texts state, stays in a process for as long as it lives."""
    stored = await scene.keep("The safe opens with zwetschkenknoedel")
    await scene.keep("The kettle opens with a lid")
    copies, command = Copies(scene.world.store, Sizes()), SearchMemories(query="what opens the safe")
    await copied(copies, TRUSTED)
    proven = await copies.find_current("default_user", TRUSTED, question_in(command))
    assert proven is not None
    await found(scene, command, proven)
    assert len(proven.known) == 2
    disagreement.read_statement("The safe opens with zwetschkenknoedel")
    await scene.world.ask(Forgotten, ForgetMemory(memory_id=str(stored), erase=True))
    assert len(proven.known) == 1
    assert not any(kept_of_texts())


@pytest.mark.promise("OV-18")
async def test_another_process_forgets_what_was_erased_without_a_search(
    scene: Scene, redis_url: str, key_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Large namespaces have no copy whose proof would tell, and the next search of one may never come."""
    monkeypatch.setattr(process, "ALIVE_S", 0.01)
    world, text = scene.world, "The safe opens with zwetschkenknoedel"
    stored = await scene.keep(text)
    settings, stop, ready = stage_settings(world.database, redis_url, key_prefix), asyncio.Event(), asyncio.Event()
    served: list[Services] = []

    def build(*given: Any, **named: Any) -> Services:
        served.append(build_services(*given, **named))
        return served[0]

    monkeypatch.setattr(app, "build_services", build)
    serving = asyncio.create_task(run((WorkerKind.RECALL,), settings, stop=stop, ready=ready, handle_signals=False))

    async def has_forgotten() -> bool:
        assert not serving.done()
        return not any(kept_of_texts()) and not served[0][Copies]._copies

    async with asyncio.timeout(20):
        await ready.wait()
        disagreement.read_statement(text)
        await copied(served[0][Copies], TRUSTED)
        world.database.owner.execute("delete from nodes where id = %s", [stored])
        assert all(kept_of_texts())
        assert served[0][Copies]._copies
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
    assert await copies.find_current("default_user", TRUSTED, question_in(command)) is None
    assert kept_of_texts() == before
    assert any(before)


async def copy_namespace(copies: Copies, namespace: str, viewer: Viewer = PUBLIC) -> None:
    """Search the tables until they are copied, and once more, which tells whose memories the copy is to have."""
    for _ in range(SEARCHES_FIRST):
        await copies.prepare(namespace, TRUSTED, viewer)
    await copies.find_current(namespace, TRUSTED, QUESTION, viewer)


@pytest.mark.promise("OV-18")
async def test_an_erasure_ends_the_copy_of_its_namespace_where_nobody_searches(scene: Scene) -> None:
    copies = Copies(scene.world.store, Sizes())
    stored = {name: await scene.world.keep("The safe opens", namespace=name) for name in ("acme", "other")}
    for name in stored:
        await copy_namespace(copies, name)
    await scene.world.ask(Forgotten, ForgetMemory(memory_id=stored["acme"].stored.id, erase=True), namespace="acme")
    await copies.drop_erased()
    assert [namespace for namespace, *_ in copies._copies] == ["other"]


@pytest.mark.promise("OV-18")
async def test_an_erasure_ends_the_copy_of_whoever_owns_what_is_erased(scene: Scene) -> None:
    """Also one to which no search comes any more, since it is not remembered for good who has private memories."""
    ada, bob = (Viewer.owning(name) for name in ("ada", "bob"))
    copies, kept = Copies(scene.world.store, Sizes()), {}
    for name, viewer in (("ada", ada), ("bob", bob)):
        kept[name] = await scene.world.keep(
            "The safe opens", visibility=Visibility.PRIVATE, principal=Principal(name=name)
        )
        await copy_namespace(copies, "default_user", viewer)
        await copy_namespace(copies, "default_user", viewer)
    assert [whose for *_, whose in copies._copies] == [PUBLIC, ada, bob]
    erase = ForgetMemory(memory_id=kept["ada"].stored.id, erase=True)
    await scene.world.ask(Forgotten, erase, principal=Principal(name="ada"))
    await copies.drop_erased()
    assert [whose for *_, whose in copies._copies] == [PUBLIC, bob]
    copies._owning.clear()
    await copies.drop_erased()
    assert [whose for *_, whose in copies._copies] == [PUBLIC]


@pytest.mark.promise("OV-18")
async def test_copies_go_where_nobody_can_tell_in_time_what_is_erased(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    copies = Copies(scene.world.store, Sizes())
    await scene.keep("The safe opens")
    await copied(copies, TRUSTED)
    monkeypatch.setattr(module, "PROVEN_WITHIN_S", 0.0)
    await copies.drop_erased()
    assert not copies._copies


@pytest.mark.promise("OV-18")
async def test_copies_go_where_a_defect_keeps_them_from_being_proven(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    copies = Copies(scene.world.store, Sizes())
    await scene.keep("The safe opens")
    await copied(copies, TRUSTED)
    monkeypatch.setattr(copies, "find_current", AsyncMock(side_effect=RuntimeError("a defect")))
    with pytest.raises(RuntimeError, match="a defect"):
        await copies.drop_erased()
    assert not copies._copies
