"""Clocks that are wrong: age goes by that of Redis alone, and whose own is wrong is named."""

import time

import pytest

from engramq.gateway.queue.look import look_at_mailboxes
from engramq.schemas.commands import StoreMemory
from engramq.schemas.envelope import Answer
from engramq.schemas.faults import EngramqError
from engramq.schemas.vocabulary import WorkerKind
from tests.queue.stage import Stage, payload_of, ping, send

HOUR = 3600.0


async def name_wrong_clocks(stage: Stage) -> list[str]:
    return [name.partition(" on ")[0] for name in (await look_at_mailboxes(stage.lanes)).clocks]


@pytest.mark.promise("QP-20")
@pytest.mark.parametrize("ahead_s", [HOUR, 12.0, -HOUR])
async def test_a_worker_whose_clock_is_wrong_answers_reads_and_is_named(stage: Stage, ahead_s: float) -> None:
    await stage.child(ahead_s)
    bus = await stage.bus(timeout_s=5.0)
    assert payload_of(await ping(bus, "hello")) == "hello"
    assert isinstance(await send(bus, StoreMemory(content="Pumps leak")), Answer)
    await stage.until(lambda: name_wrong_clocks(stage), lambda found: found == ["the worker"])
    look = await look_at_mailboxes(stage.lanes)
    assert list(look.clocks.values()) == [pytest.approx(ahead_s, abs=1)]
    workers = {state.kind: state.workers for state in look.mailboxes if state.workers}
    assert workers == {WorkerKind.RECALL: 1, WorkerKind.EMBEDDING: 1}, "it is neither gone nor there for ever"


@pytest.mark.promise("QP-20")
@pytest.mark.parametrize("ahead_s", [HOUR, -HOUR])
async def test_a_gateway_whose_clock_is_wrong_is_answered_and_named(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, ahead_s: float
) -> None:
    await stage.child()
    right = time.time
    monkeypatch.setattr(time, "time", lambda: right() + ahead_s)
    bus = await stage.bus(timeout_s=5.0)
    assert payload_of(await ping(bus, "hello")) == "hello"
    look = await bus.look()
    assert look.ahead_s == pytest.approx(-ahead_s, abs=1)
    await stage.until(lambda: name_wrong_clocks(stage), lambda found: found == ["the gateway"])


@pytest.mark.promise("QP-11")
async def test_reads_that_nobody_waits_for_are_dropped_whatever_the_gateways_clock_says(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = time.time
    monkeypatch.setattr(time, "time", lambda: right() + HOUR)
    bus = await stage.bus(timeout_s=0.2)
    with pytest.raises(EngramqError):
        await ping(bus, "late")
    assert await stage.depth() == (1, 1)
    await stage.child()
    await stage.until(stage.empty)
    assert await stage.redis.hlen(f"{stage.keys.prefix}:test:done") == 0


async def test_a_process_whose_clock_is_wrong_forgets_nobody_else(stage: Stage) -> None:
    alive = stage.keys.of[WorkerKind.RECALL].alive
    await stage.child()
    await stage.child(HOUR)
    await stage.until(lambda: stage.redis.zcard(alive), lambda several: several == 2)
    now = float((await stage.redis.time())[0])
    assert all(abs(score - now) < 10 for _, score in await stage.redis.zrange(alive, 0, -1, withscores=True))
