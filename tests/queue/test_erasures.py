"""A process forgets what another one erased: within two looks at a mark in Redis, which each erasure writes anew."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from unittest.mock import AsyncMock

import pytest

from engramq.schemas.ids import uuid7
from engramq.schemas.keys import Keys
from engramq.workers.queue import process
from engramq.workers.queue.erasures import Erasures
from engramq.workers.queue.inspection import Inspection
from engramq.workers.queue.pipeline import Pipeline
from engramq.workers.queue.process import serve
from tests.lanes import lanes_at
from tests.queue.server import Server
from tests.queue.stage import BOUND_S, Stage, an_actor, echo

pytestmark = pytest.mark.promise("OV-18")


@asynccontextmanager
async def looking(server: Server, keys: Keys, forget: AsyncMock) -> AsyncIterator[Erasures]:
    pipeline = Pipeline(server.url, ())
    running = asyncio.create_task(pipeline.run())
    try:
        yield Erasures(keys, pipeline, forget)
    finally:
        running.cancel()
        await asyncio.wait([running])


async def test_a_look_forgets_after_each_erasure_and_once_more_after_that(server: Server, keys: Keys) -> None:
    """Once more: a search that began before the erasure may end after the first look."""
    forget = AsyncMock()
    async with Inspection(lanes_at(server.url, keys)) as view, looking(server, keys, forget) as erasures:
        times = []
        for is_erased in (False, True, False, False, True, True, False, False):
            if is_erased:
                await view.scrub("ns", {uuid7(): "the safe opens with a word"})
                await view.rewrite_log()  # which takes the mark away that is meant for the file
            await erasures.look()
            times.append(forget.await_count)
    assert times == [0, 1, 2, 2, 3, 4, 5, 5]


async def test_a_process_that_hears_nothing_of_erasures_forgets(own_server: Server, keys: Keys) -> None:
    forget = AsyncMock()
    own_server.kill()
    async with looking(own_server, keys, forget) as erasures:
        await erasures.look()
    forget.assert_awaited_once_with()


async def test_a_look_that_could_not_forget_ends_nothing_and_the_next_one_tries_again(
    server: Server, keys: Keys
) -> None:
    forget = AsyncMock(side_effect=[RuntimeError("a defect"), RuntimeError("a defect"), None, None])
    async with Inspection(lanes_at(server.url, keys)) as view, looking(server, keys, forget) as erasures:
        await view.scrub("ns", {uuid7(): "the safe opens with a word"})
        for _ in range(5):
            await erasures.look()
    assert forget.await_count == 3


async def test_every_worker_process_looks_as_often_as_it_says_that_it_lives(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "ALIVE_S", 0.01)
    stop, ready, forgotten = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def forget() -> None:
        forgotten.set()

    serving = asyncio.create_task(
        serve(
            [an_actor(echo)],
            stage.settings,
            lanes=stage.lanes,
            stop=stop,
            ready=ready,
            handle_signals=False,
            forget=forget,
        )
    )
    async with asyncio.timeout(BOUND_S), Inspection(stage.lanes) as view:
        await ready.wait()
        assert not forgotten.is_set()
        await view.scrub("ns", {uuid7(): "the safe opens with a word"})
        await forgotten.wait()
        stop.set()
        await serving
