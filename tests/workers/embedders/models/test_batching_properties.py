"""Whatever comes in whatever order, each caller gets their own rows or error, and who waits longest is next."""

from collections.abc import Sequence

import anyio
import msgspec
import numpy as np
from anyio.lowlevel import checkpoint
from hypothesis import given, settings
from hypothesis import strategies as st

from engramq.workers.embedders.batching import (
    INTERACTIVE_BATCHES_IN_A_ROW,
    BatchingEmbedder,
    Bounds,
    WaitingText,
    WaitingTexts,
    content_key,
)
from engramq.workers.embedders.hashing import HashEmbedder
from engramq.workers.embedders.interface import (
    BatchLimits,
    EmbedderOverloaded,
    EmbedderSpec,
    EmbedderUnavailable,
    InputRejected,
    Vectors,
)
from tests.workers.embedders.models.gated import waiting_texts

BOUND_S = 2.0
POISON = "poison"
LIMITS = BatchLimits(texts=3, characters=12)
TEXTS = st.sampled_from(["", "a", "bb", "ccc", "dddd", "eeeee", "ffffff", "ggggggg", "h" * 20, POISON])


class Caller(msgspec.Struct, frozen=True):
    """What one caller wants, after how many turns of the loop it comes, and after how many it gives up."""

    texts: list[str]
    bulk: bool
    comes_after: int
    gives_up_after: int | None


CALLERS = st.lists(
    st.builds(
        Caller,
        texts=st.lists(TEXTS, max_size=8),
        bulk=st.booleans(),
        comes_after=st.integers(0, 12),
        gives_up_after=st.none() | st.integers(0, 12),
    ),
    max_size=12,
)


class TurningEmbedder(HashEmbedder):
    """Take a drawn number of turns per batch; refuse poison; insist on the limits and on no text twice at a time."""

    def __init__(self, turns: Sequence[int], concurrent: int) -> None:
        super().__init__()
        limits = BatchLimits(texts=LIMITS.texts, characters=LIMITS.characters, concurrent=concurrent)
        self.spec = EmbedderSpec(name="turning", dimensions=384, max_tokens=1_000, batches=limits)
        self._turns = turns
        self._batches = 0
        self._now: set[str] = set()

    async def embed(self, texts: Sequence[str], *, questions: bool = False) -> Vectors:
        assert 1 <= len(texts) <= LIMITS.texts
        assert len(texts) == 1 or sum(map(len, texts)) <= LIMITS.characters
        assert not self._now.intersection(texts)
        self._now.update(texts)
        try:
            for _ in range(self._turns[self._batches % len(self._turns)]):
                await checkpoint()
            self._batches += 1
            if POISON in texts:
                raise InputRejected("refused")
            return await super().embed(texts, questions=questions)
        finally:
            self._now.difference_update(texts)

    async def warm(self) -> None:
        """There is nothing to load."""

    async def aclose(self) -> None:
        """There is nothing to let go of."""


async def play(
    callers: Sequence[Caller], inner: TurningEmbedder, bounds: Bounds
) -> list[Vectors | EmbedderUnavailable | None]:
    outcomes: list[Vectors | EmbedderUnavailable | None] = [None] * len(callers)

    async def call(number: int, caller: Caller, embedder: BatchingEmbedder) -> None:
        for _ in range(caller.comes_after):
            await checkpoint()
        try:
            outcomes[number] = await embedder.embed(caller.texts, bulk=caller.bulk)
        except (InputRejected, EmbedderOverloaded) as error:
            outcomes[number] = error

    async def call_until_tired(number: int, caller: Caller, embedder: BatchingEmbedder) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(call, number, caller, embedder)
            if caller.gives_up_after is not None:
                for _ in range(caller.comes_after + caller.gives_up_after):
                    await checkpoint()
                group.cancel_scope.cancel()

    with anyio.fail_after(BOUND_S):
        async with BatchingEmbedder(inner, bounds) as embedder:
            async with anyio.create_task_group() as group:
                for number, caller in enumerate(callers):
                    group.start_soon(call_until_tired, number, caller, embedder)
            assert waiting_texts(embedder) == 0
    return outcomes


@settings(max_examples=50, deadline=None)
@given(
    callers=CALLERS,
    turns=st.lists(st.integers(0, 6), min_size=1, max_size=6),
    concurrent=st.integers(1, 3),
    interactive=st.integers(1, 12),
    bulk=st.integers(1, 6),
    cache_entries=st.integers(0, 6),
)
def test_any_interleaving_returns_each_caller_its_own_rows(
    callers: list[Caller], turns: list[int], *, concurrent: int, interactive: int, bulk: int, cache_entries: int
) -> None:
    bounds = Bounds(interactive=interactive, bulk=bulk, cache_entries=cache_entries)
    outcomes = anyio.run(play, callers, TurningEmbedder(turns, concurrent), bounds)
    for caller, outcome in zip(callers, outcomes, strict=True):
        if isinstance(outcome, EmbedderOverloaded):
            assert not caller.bulk
        elif isinstance(outcome, InputRejected):
            assert POISON in caller.texts
        elif outcome is None:
            assert caller.gives_up_after is not None
        else:
            assert isinstance(outcome, np.ndarray)
            assert POISON not in caller.texts
            assert np.array_equal(outcome, anyio.run(HashEmbedder().embed, caller.texts))


FEW = BatchLimits(texts=4, characters=100)


def item(text: str, *, interactive: bool) -> WaitingText:
    return WaitingText(content_key(text), text, interactive=interactive)


def filled(*, interactive: int = 0, bulk: int = 0) -> WaitingTexts:
    waiting = WaitingTexts()
    for number in range(bulk):
        waiting.add(item(f"bulk {number}", interactive=False))
    for number in range(interactive):
        waiting.add(item(f"query {number}", interactive=True))
    return waiting


def texts(batch: list[WaitingText]) -> list[str]:
    return [entry.text for entry in batch]


def test_a_batch_is_bounded_by_characters_and_a_long_text_travels_alone() -> None:
    waiting = WaitingTexts()
    for text in ("a" * 60, "b" * 41, "c" * 500, "d"):
        waiting.add(item(text, interactive=True))
    assert [len(waiting.take(FEW)) for _ in range(4)] == [1, 1, 1, 1]


def test_a_stream_of_queries_cannot_stop_bulk_for_good() -> None:
    waiting = filled(interactive=4 * (INTERACTIVE_BATCHES_IN_A_ROW + 2), bulk=5)
    kinds = [waiting.take(FEW)[0].interactive for _ in range(INTERACTIVE_BATCHES_IN_A_ROW + 2)]
    assert kinds == [True] * INTERACTIVE_BATCHES_IN_A_ROW + [False, True]


def test_dropping_a_settled_text_leaves_its_successor_in_line() -> None:
    waiting = WaitingTexts()
    settled, successor = item("same", interactive=True), item("same", interactive=True)
    waiting.add(settled)
    waiting.take(FEW)
    waiting.add(successor)
    assert not waiting.drop(settled)
    assert waiting.take(FEW) == [successor]


def test_dropping_says_whether_the_text_was_still_waiting() -> None:
    waiting = WaitingTexts()
    one = item("one", interactive=True)
    waiting.add(one)
    assert waiting.drop(one)
    assert not waiting.drop(one)
    assert waiting.take(FEW) == []
