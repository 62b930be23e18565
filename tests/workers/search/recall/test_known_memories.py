"""Memories that a copy keeps as they were read, to be shown again."""

import pytest

from engramq.schemas.commands import SearchMemories
from engramq.workers.db.vectors import Sizes
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
