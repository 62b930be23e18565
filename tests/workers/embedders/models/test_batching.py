from collections.abc import Sequence

import anyio
import numpy as np
import pytest
from anyio.abc import TaskGroup

from engramq.workers.embedders.batching import SHORT_TEXTS, BatchingEmbedder, Bounds
from engramq.workers.embedders.hashing import HashEmbedder
from engramq.workers.embedders.interface import (
    BatchLimits,
    EmbedderOverloaded,
    EmbedderUnavailable,
    InputRejected,
    Vectors,
)
from tests.workers.embedders.models.gated import BOUND_S, GatedEmbedder, waiting_texts


class Call:
    """One caller in a task of its own: its rows or its error once `done`, and a scope to cancel it by."""

    def __init__(
        self, group: TaskGroup, embedder: BatchingEmbedder, texts: Sequence[str], *, bulk: bool = False
    ) -> None:
        self.rows: Vectors | None = None
        self.error: EmbedderUnavailable | None = None
        self.scope = anyio.CancelScope()
        self._done = anyio.Event()
        group.start_soon(self._run, embedder, texts, bulk)

    async def _run(self, embedder: BatchingEmbedder, texts: Sequence[str], bulk: bool) -> None:
        try:
            with self.scope:
                self.rows = await embedder.embed(texts, bulk=bulk)
        except EmbedderUnavailable as error:
            self.error = error
        finally:
            self._done.set()

    async def done(self) -> "Call":
        with anyio.fail_after(BOUND_S):
            await self._done.wait()
        return self


async def assert_rows(call: Call, texts: Sequence[str]) -> None:
    await call.done()
    assert call.rows is not None
    assert np.array_equal(call.rows, await HashEmbedder().embed(texts))


async def until_queued(embedder: BatchingEmbedder, texts: int) -> None:
    with anyio.fail_after(BOUND_S):
        while waiting_texts(embedder) != texts:
            await anyio.lowlevel.checkpoint()


async def test_what_arrives_while_a_batch_runs_goes_together_into_the_next() -> None:
    inner = GatedEmbedder()
    async with BatchingEmbedder(inner) as embedder, anyio.create_task_group() as group:
        calls = [Call(group, embedder, ["first"])]
        await inner.started(1)
        calls += [Call(group, embedder, [f"text {number}"]) for number in range(5)]
        await until_queued(embedder, 5)
        inner.release(2)
        await assert_rows(calls[0], ["first"])
        for number in range(5):
            await assert_rows(calls[1 + number], [f"text {number}"])
    assert inner.batches == [["first"], [f"text {number}" for number in range(5)]]
    assert inner.closed


async def test_a_text_that_is_under_way_is_computed_once_for_all_who_want_it() -> None:
    inner = GatedEmbedder()
    async with BatchingEmbedder(inner) as embedder, anyio.create_task_group() as group:
        calls = [Call(group, embedder, ["same", "same"]), Call(group, embedder, ["same"], bulk=True)]
        await inner.started(1)
        late = Call(group, embedder, ["same"])
        await anyio.wait_all_tasks_blocked()
        inner.release()
        await assert_rows(calls[0], ["same", "same"])
        await assert_rows(calls[1], ["same"])
        await assert_rows(late, ["same"])
    assert inner.batches == [["same"]]


async def test_a_text_that_was_computed_lately_is_not_computed_again() -> None:
    inner = GatedEmbedder()
    inner.release(2)
    async with BatchingEmbedder(inner) as embedder:
        first = await embedder.embed(["a", "b"])
        first[:] = 0  # the caller's own array: the cache must not notice
        again = await embedder.embed(["b", "c", "a"])
    assert np.array_equal(again, await HashEmbedder().embed(["b", "c", "a"]))
    assert inner.batches == [["a", "b"], ["c"]]


async def test_who_is_alone_waits_for_no_batch() -> None:
    class Quick(GatedEmbedder):
        def embed_now(self, text: str, *, question: bool = False) -> Vectors | None:
            assert question
            return None if len(text) > 5 else np.full((1, self.spec.dimensions), len(text), dtype=np.float32)

    inner, seen = Quick(), list[tuple[int, bool]]()
    inner.release()
    async with BatchingEmbedder(inner, observers=[lambda texts, _, made: seen.append((texts, made))]) as embedder:
        rows = await embedder.embed(["short", "longer", "short"], questions=True, alone=True)
        again = await embedder.embed(["short"], questions=True)
    assert rows[:, 0].tolist() == [5.0, rows[1, 0], 5.0]
    assert again[0, 0] == 5.0
    assert (inner.batches, seen) == ([["longer"]], [(1, True), (1, True)])


async def test_a_query_waits_for_at_most_one_bulk_slice() -> None:
    inner = GatedEmbedder(BatchLimits(texts=32))
    many = [f"bulk {number}" for number in range(100)]
    async with BatchingEmbedder(inner) as embedder, anyio.create_task_group() as group:
        bulk = Call(group, embedder, many, bulk=True)
        await inner.started(1)
        query = Call(group, embedder, ["query"])
        await until_queued(embedder, 69)
        inner.release(2)
        await assert_rows(query, ["query"])
        inner.release(3)
        await assert_rows(bulk, many)
    assert [len(batch) for batch in inner.batches] == [32, 1, 32, 32, 4]
    assert inner.batches[1] == ["query"]


async def test_bulk_has_the_server_that_is_kept_free_in_short_slices_while_nobody_asks() -> None:
    inner = GatedEmbedder(BatchLimits(texts=32, concurrent=2, alone=True))
    many = [f"bulk {number:03}" for number in range(100)]
    async with BatchingEmbedder(inner, Bounds(quiet_s=0.01)) as embedder, anyio.create_task_group() as group:
        inner.release(100)
        await assert_rows(Call(group, embedder, many, bulk=True), many)
    lengths = [len(batch) for batch in inner.batches]
    assert (max(lengths), lengths.count(SHORT_TEXTS) > 1) == (32, True)


async def test_bulk_leaves_a_server_free_while_somebody_asks() -> None:
    inner = GatedEmbedder(BatchLimits(texts=32, concurrent=2, alone=True))
    async with BatchingEmbedder(inner, Bounds(quiet_s=BOUND_S)) as embedder, anyio.create_task_group() as group:
        inner.release()
        await assert_rows(Call(group, embedder, ["question"]), ["question"])
        bulk = Call(group, embedder, [f"bulk {number}" for number in range(40)], bulk=True)
        await inner.started(2)
        query = Call(group, embedder, ["query"])
        await inner.started(3)  # though the slice before it goes on
        assert inner.batches[2] == ["query"]
        inner.release(3)
        await query.done()
        await bulk.done()


async def test_bulk_texts_go_sorted_by_length() -> None:
    inner = GatedEmbedder(BatchLimits(texts=2))
    inner.release(2)
    async with BatchingEmbedder(inner) as embedder:
        await embedder.embed(["aaaa", "b", "ccc", "dd"], bulk=True)
    assert inner.batches == [["b", "dd"], ["ccc", "aaaa"]]


async def test_a_query_for_a_text_that_bulk_has_queued_does_not_wait_for_bulk() -> None:
    inner = GatedEmbedder(BatchLimits(texts=1))
    async with BatchingEmbedder(inner) as embedder, anyio.create_task_group() as group:
        bulk = Call(group, embedder, ["1", "22", "333"], bulk=True)
        await inner.started(1)
        query = Call(group, embedder, ["333"])
        await anyio.wait_all_tasks_blocked()
        inner.release(2)
        await assert_rows(query, ["333"])
        inner.release()
        await assert_rows(bulk, ["1", "22", "333"])
    assert inner.batches == [["1"], ["333"], ["22"]]


async def test_bulk_waits_for_room_instead_of_queueing_everything() -> None:
    inner = GatedEmbedder(BatchLimits(texts=2))
    texts = [f"bulk {number}" for number in range(10)]
    async with BatchingEmbedder(inner, Bounds(bulk=3)) as embedder, anyio.create_task_group() as group:
        bulk = Call(group, embedder, texts, bulk=True)
        await inner.started(1)
        await anyio.wait_all_tasks_blocked()
        assert waiting_texts(embedder) <= 3
        inner.release(20)
        await assert_rows(bulk, texts)


async def test_beyond_the_bound_a_query_is_refused_at_once() -> None:
    inner = GatedEmbedder()
    async with BatchingEmbedder(inner, Bounds(interactive=2)) as embedder, anyio.create_task_group() as group:
        calls = [Call(group, embedder, ["running"])]
        await inner.started(1)
        calls.append(Call(group, embedder, ["waiting 1", "waiting 2"]))
        await until_queued(embedder, 2)
        with pytest.raises(EmbedderOverloaded) as refusal:
            await embedder.embed(["one too many"])
        assert refusal.value.retry_after_s == 1.0
        joining = Call(group, embedder, ["waiting 1"])  # adds nothing to the queue, so it is not refused
        await anyio.wait_all_tasks_blocked()
        inner.release(2)
        await assert_rows(joining, ["waiting 1"])
        await assert_rows(calls[1], ["waiting 1", "waiting 2"])


async def test_a_cancelled_caller_hurts_no_other() -> None:
    inner = GatedEmbedder()
    async with BatchingEmbedder(inner) as embedder, anyio.create_task_group() as group:
        running = Call(group, embedder, ["running"])
        await inner.started(1)
        leaving = Call(group, embedder, ["shared", "only mine"])
        staying = Call(group, embedder, ["shared"])
        await until_queued(embedder, 2)
        leaving.scope.cancel()
        running.scope.cancel()
        await leaving.done()
        assert waiting_texts(embedder) == 1
        inner.release(2)
        await assert_rows(staying, ["shared"])
        # What was under way when its only caller left is not lost either.
        assert np.array_equal(await embedder.embed(["running"]), await HashEmbedder().embed(["running"]))
    assert inner.batches == [["running"], ["shared"]]


async def test_a_failure_reaches_every_caller_of_the_batch_and_the_next_batch_is_tried_anew() -> None:
    inner = GatedEmbedder()
    inner.failing = True
    async with BatchingEmbedder(inner) as embedder, anyio.create_task_group() as group:
        calls = [Call(group, embedder, ["a"]), Call(group, embedder, ["b"])]
        await inner.started(1)
        inner.release()
        errors = [(await call.done()).error for call in calls]
        assert [error and error.reason for error in errors] == ["out of order", "out of order"]
        assert errors[0] is not errors[1]
        inner.failing = False
        inner.release()
        await assert_rows(Call(group, embedder, ["a"]), ["a"])


async def test_a_rejected_text_fails_only_those_who_sent_it() -> None:
    inner = GatedEmbedder()
    inner.rejected_texts = frozenset({"poison"})
    inner.release(20)
    async with BatchingEmbedder(inner) as embedder, anyio.create_task_group() as group:
        sound = [Call(group, embedder, [f"sound {number}"]) for number in range(6)]
        poisoned = Call(group, embedder, ["sound 0", "poison"])
        for number, call in enumerate(sound):
            await assert_rows(call, [f"sound {number}"])
        assert isinstance((await poisoned.done()).error, InputRejected)


async def test_where_batches_run_at_the_same_time_one_place_is_kept_for_queries() -> None:
    inner = GatedEmbedder(BatchLimits(texts=1, concurrent=3))
    async with BatchingEmbedder(inner) as embedder, anyio.create_task_group() as group:
        bulk = Call(group, embedder, ["1", "22", "333", "4444"], bulk=True)
        await inner.started(2)
        await anyio.wait_all_tasks_blocked()
        assert len(inner.batches) == 2
        query = Call(group, embedder, ["query"])
        await inner.started(3)
        assert inner.batches[2] == ["query"]
        inner.release(5)
        await assert_rows(query, ["query"])
        await assert_rows(bulk, ["1", "22", "333", "4444"])


async def test_closing_fails_those_who_wait_and_refuses_those_who_come() -> None:
    inner = GatedEmbedder()
    async with anyio.create_task_group() as group:
        async with BatchingEmbedder(inner, Bounds(bulk=1)) as embedder:
            calls = [Call(group, embedder, ["running"])]
            await inner.started(1)
            calls += [Call(group, embedder, ["queued"]), Call(group, embedder, ["a", "bb", "ccc"], bulk=True)]
            await anyio.wait_all_tasks_blocked()
        for call in calls:
            error = (await call.done()).error
            assert error is not None
            assert "shutting down" in error.reason
        with pytest.raises(EmbedderUnavailable, match="shutting down"):
            await embedder.embed(["late"])
    assert inner.closed


async def test_a_bug_in_an_embedder_ends_the_owner_and_leaves_nobody_waiting() -> None:
    class Broken(GatedEmbedder):
        async def embed(self, texts: Sequence[str], *, questions: bool = False) -> Vectors:
            await super().embed(texts)
            raise ZeroDivisionError

    inner = Broken()
    calls: list[Call] = []

    async def own(group: TaskGroup) -> None:
        async with BatchingEmbedder(inner) as embedder:
            calls.append(Call(group, embedder, ["running"]))
            await inner.started(1)
            calls.append(Call(group, embedder, ["queued"]))
            await until_queued(embedder, 1)
            inner.release()
            await anyio.Event().wait()

    async with anyio.create_task_group() as group:
        with pytest.raises(ExceptionGroup) as caught, anyio.fail_after(BOUND_S):
            await own(group)
        assert caught.group_contains(ZeroDivisionError)
        for call in calls:
            assert (await call.done()).error is not None
    assert inner.closed


async def test_after_a_slow_failure_nobody_waits_for_the_next_one() -> None:
    inner = GatedEmbedder()
    inner.failing = True
    async with BatchingEmbedder(inner, Bounds(slow_failure_s=0.0)) as embedder, anyio.create_task_group() as group:
        inner.release()
        assert (await Call(group, embedder, ["first"]).done()).error is not None
        refused = await Call(group, embedder, ["second"]).done()
        assert refused.error is not None
        assert refused.error.reason == "out of order"
        assert refused.error.retry_after_s is not None
        assert inner.batches == [["first"]]


async def test_bulk_tries_on_after_a_slow_failure_and_its_success_ends_the_rest() -> None:
    inner = GatedEmbedder()
    inner.failing = True
    async with BatchingEmbedder(inner, Bounds(slow_failure_s=0.0)) as embedder, anyio.create_task_group() as group:
        inner.release(3)
        assert (await Call(group, embedder, ["first"]).done()).error is not None
        inner.failing = False
        await assert_rows(Call(group, embedder, ["second"], bulk=True), ["second"])
        await assert_rows(Call(group, embedder, ["third"]), ["third"])


async def test_a_text_that_is_rejected_makes_nobody_else_wait() -> None:
    inner = GatedEmbedder()
    inner.rejected_texts = frozenset({"no"})
    async with BatchingEmbedder(inner, Bounds(slow_failure_s=0.0)) as embedder, anyio.create_task_group() as group:
        inner.release(2)
        assert isinstance((await Call(group, embedder, ["no"]).done()).error, InputRejected)
        await assert_rows(Call(group, embedder, ["yes"]), ["yes"])


async def test_a_slow_failure_of_bulk_makes_no_search_fail() -> None:
    """One text that an endpoint cannot digest is tried by the sweep again and again; searches go on."""
    inner = GatedEmbedder()
    inner.failing = True
    async with BatchingEmbedder(inner, Bounds(slow_failure_s=0.0)) as embedder, anyio.create_task_group() as group:
        inner.release(2)
        assert (await Call(group, embedder, ["indigestible"], bulk=True).done()).error is not None
        inner.failing = False
        await assert_rows(Call(group, embedder, ["question"]), ["question"])


class FirstFailsLate(GatedEmbedder):
    """Fail the first batch when `late` is set; answer the others as they are released."""

    late: anyio.Event

    async def embed(self, texts: Sequence[str], *, questions: bool = False) -> Vectors:
        if self.batches:
            return await super().embed(texts, questions=questions)
        self.batches.append(list(texts))
        await self.late.wait()
        raise EmbedderUnavailable("indigestible")


async def test_a_slow_failure_counts_for_nothing_where_another_batch_succeeded_meanwhile() -> None:
    inner = FirstFailsLate(BatchLimits(texts=1, concurrent=2))
    inner.late = anyio.Event()
    inner.release(2)
    async with BatchingEmbedder(inner, Bounds(slow_failure_s=0.0)) as embedder, anyio.create_task_group() as group:
        first = Call(group, embedder, ["first"])
        second = Call(group, embedder, ["second"])
        await assert_rows(second, ["second"])
        inner.late.set()
        assert (await first.done()).error is not None
        await assert_rows(Call(group, embedder, ["third"]), ["third"])


async def test_who_waits_when_a_slow_failure_comes_does_not_wait_for_the_next_one() -> None:
    inner = GatedEmbedder()
    inner.failing = True
    async with BatchingEmbedder(inner, Bounds(slow_failure_s=0.0)) as embedder, anyio.create_task_group() as group:
        first = Call(group, embedder, ["first"])
        await inner.started(1)
        second, bulk = Call(group, embedder, ["second"]), Call(group, embedder, ["bulk"], bulk=True)
        await until_queued(embedder, 2)
        inner.release()
        assert (await first.done()).error is not None
        assert (await second.done()).error is not None
        assert waiting_texts(embedder) == 0
        inner.failing = False
        inner.release()
        await assert_rows(bulk, ["bulk"])
        assert inner.batches == [["first"], ["bulk"]]


async def test_an_embedder_that_says_nothing_is_not_waited_for_and_its_answer_ends_the_rest() -> None:
    inner = GatedEmbedder()
    async with BatchingEmbedder(inner, Bounds(patience_s=0.01)) as embedder, anyio.create_task_group() as group:
        silent = await Call(group, embedder, ["first"]).done()
        assert silent.error is not None
        assert "0.01 s" in silent.error.reason
        refused = await Call(group, embedder, ["second"]).done()
        assert refused.error is not None
        assert refused.error.retry_after_s is not None
        bulk = Call(group, embedder, ["bulk"], bulk=True)
        inner.release(2)
        await assert_rows(bulk, ["bulk"])
        await assert_rows(Call(group, embedder, ["first"]), ["first"])
        assert inner.batches == [["first"], ["bulk"]]
