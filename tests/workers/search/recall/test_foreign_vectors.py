"""Memories whose vectors another model made: searches say so, and ask nothing where there is one model only."""

from collections.abc import AsyncIterator

import pytest
from msgspec import UNSET

from engramq.schemas.commands import ConnectByQuery, ForgetMemory, Forgotten, MemoryList, QueryConnected
from engramq.schemas.vocabulary import Partition
from engramq.workers.db.queries import Query
from engramq.workers.embedders import other_models
from engramq.workers.embedders.batching import BatchingEmbedder
from engramq.workers.embedders.interface import EmbedderSpec
from tests.workers.conftest import SwitchedEmbedder
from tests.workers.search.recall.conftest import Scene

BOTH = (Partition.TRUSTED, Partition.UNTRUSTED)
OTHER = "openai:other"


class OtherModel(SwitchedEmbedder):
    """A model by another name."""

    spec = EmbedderSpec(name=OTHER, dimensions=384, max_tokens=1_000_000)


@pytest.fixture
async def other_model() -> AsyncIterator[BatchingEmbedder]:
    async with BatchingEmbedder(OtherModel()) as embedder:
        yield embedder


def change_model(scene: Scene, embedder: BatchingEmbedder) -> None:
    """Let the worker start anew with another model."""
    scene.world.embedder = embedder
    scene.world.use()


async def ask_both_ways(scene: Scene) -> list[MemoryList | QueryConnected]:
    asking = ConnectByQuery(source_query="launch", target_query="pump", dry_run=True)
    return [await scene.search("launch"), await scene.world.ask(QueryConnected, asking)]


@pytest.mark.promise("AG-20", "IM-7")
async def test_a_search_says_how_many_memories_have_vectors_of_another_model(
    scene: Scene, other_model: BatchingEmbedder
) -> None:
    launch = await scene.keep("The launch is on May 4th")
    gone = await scene.keep("The pump needs oil")
    await scene.keep("A web page says the launch was cancelled", partition=Partition.UNTRUSTED)
    await scene.world.ask(Forgotten, ForgetMemory(memory_id=gone))
    assert {reply.notice for reply in await ask_both_ways(scene)} == {UNSET}

    change_model(scene, other_model)
    assert [memory.id for memory in await scene.found("launch")] == [launch], "it is still found"
    for reply in await ask_both_ways(scene):
        assert isinstance(reply.notice, str)
        assert reply.notice.startswith("1 memory here has its vector from another model (hash)"), reply.notice
        assert f"runs ({OTHER})" in reply.notice
        assert "compared by it until embedded anew" in reply.notice
    both = await scene.search("launch", partitions=BOTH)
    assert isinstance(both.notice, str)
    assert both.notice.startswith("2 memories here have their vectors")
    assert (await scene.search("launch", namespace="elsewhere")).notice is UNSET


@pytest.mark.promise("AG-20")
async def test_a_notice_goes_when_nothing_foreign_is_left(
    scene: Scene, other_model: BatchingEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    launch = await scene.keep("The launch is on May 4th")
    change_model(scene, other_model)
    assert (await scene.search("launch")).notice is not UNSET
    await scene.world.ask(Forgotten, ForgetMemory(memory_id=launch))
    await scene.keep("The launch is on May 5th")
    assert (await scene.search("launch")).notice is not UNSET, "counted a minute ago at most"
    monkeypatch.setattr(other_models, "KEPT_S", 0.0)
    change_model(scene, other_model)
    assert (await scene.search("launch")).notice is UNSET


@pytest.mark.own_database  # which knows of no other model
@pytest.mark.promise("AG-20")
async def test_nothing_is_counted_where_one_model_made_all_vectors(
    scene: Scene, other_model: BatchingEmbedder, sent: list[Query]
) -> None:
    await scene.keep("The launch is on May 4th")
    sent.clear()
    for _ in range(2):
        await ask_both_ways(scene)
    assert "count_by_model" not in sent
    change_model(scene, other_model)
    for _ in range(3):
        await ask_both_ways(scene)
    assert sent.count("count_by_model") == 1
