"""The worker of a home keeps the name of its embedder once that has made vectors, and no other name."""

import logging
from pathlib import Path

import anyio
import pytest

from engramq.schemas.embedder_choice import KeptEmbedder, kept_in, text_of
from engramq.schemas.settings import read_settings
from engramq.workers.embedders.batching import BatchingEmbedder
from engramq.workers.embedders.factory import EmbedderFile, create_embedder
from engramq.workers.embedders.interface import EmbedderUnavailable

BOUND_S = 20.0
NOWHERE = "http://127.0.0.1:1/v1"


def of(path: Path, name: str, url: str = "") -> EmbedderFile:
    return EmbedderFile(path, read_settings({"ENGRAMQ_EMBEDDER": name, "ENGRAMQ_EMBEDDER_URL": url}))


async def settled(kept: EmbedderFile) -> None:
    with anyio.fail_after(BOUND_S):
        await kept.settled.wait()


async def test_the_first_vectors_are_what_keeps_a_name(tmp_path: Path) -> None:
    path = tmp_path / "embedder"
    kept = of(path, "hash")
    async with kept.kept(), BatchingEmbedder(create_embedder("hash"), observers=[kept.seen]) as embedder:
        await embedder.embed(["a text"])
        await settled(kept)
    assert kept_in(path.read_text()) == KeptEmbedder("hash")
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.long
async def test_an_embedder_that_makes_none_is_not_kept(tmp_path: Path) -> None:
    path = tmp_path / "embedder"
    path.write_text(text_of(KeptEmbedder("e5")))
    kept = of(path, "openai:m", NOWHERE)
    async with kept.kept(), BatchingEmbedder(create_embedder("openai:m", NOWHERE), observers=[kept.seen]) as embedder:
        with pytest.raises(EmbedderUnavailable):
            await embedder.embed(["a text"])
    assert kept_in(path.read_text()) == KeptEmbedder("e5")


async def test_a_home_that_cannot_be_written_to_is_told_and_harms_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "embedder.new").mkdir()
    kept = of(tmp_path / "embedder", "openai:m", NOWHERE)
    with caplog.at_level(logging.ERROR):
        async with kept.kept():
            kept.seen(1, 0.1, made=True)
            await settled(kept)
    assert caplog.records[0].getMessage() == "The home's embedder cannot be kept"
