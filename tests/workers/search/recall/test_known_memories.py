"""Memories that a copy keeps as they were read, to be shown again."""

import pytest

from engramq.schemas.commands import ForgetMemory, Forgotten, SearchMemories
from engramq.workers.db.vectors import Sizes
from engramq.workers.memories import disagreement
from engramq.workers.search import namespace_copy
from engramq.workers.search.copies import Copies
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


@pytest.mark.promise("OV-18")
@pytest.mark.parametrize("elsewhere", [False, True], ids=["here", "by another process"])
async def test_no_process_remembers_a_text_that_was_erased(scene: Scene, elsewhere: bool) -> None:
    """What a copy shows again, and what texts state, stays in a process for as long as it lives."""
    stored = await scene.keep("The safe opens with zwetschkenknoedel")
    await scene.keep("The kettle opens with a lid")
    copies, command = Copies(scene.world.store, Sizes()), SearchMemories(query="what opens the safe")
    await copied(copies, TRUSTED)
    proven = await copies.current("default_user", TRUSTED, question_in(command))
    assert proven is not None
    await found(scene, command, proven)
    assert len(proven.known) == 2
    disagreement.read_text("The safe opens with zwetschkenknoedel")
    if elsewhere:
        scene.world.database.owner.execute("delete from nodes where id = %s", [stored])
        assert await copies.current("default_user", TRUSTED, question_in(command)) is None
    else:
        await scene.world.ask(Forgotten, ForgetMemory(memory_id=str(stored), erase=True))
        assert len(proven.known) == 1
    assert [cache.cache_info().currsize for cache in (disagreement._read_note, disagreement._read)] == [0, 0]
