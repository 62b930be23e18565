"""The clock of active hours gains the union of the times in which sessions were in use, whatever order they come in."""

import asyncio
from itertools import pairwise
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engramq.workers.db.database import Store
from engramq.workers.db.transaction import Transaction
from engramq.workers.queue.contract import SessionUse
from engramq.workers.upkeep import active_hours as clock
from engramq.workers.upkeep.active_hours import SessionClock, UseInterval, tick

NOON_MS = 1_780_000_000_000
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


async def hours(store: Store, namespace: str) -> float:
    async def read(tx: Transaction) -> float:
        row = await tx.row("lock_clock")
        return 0.0 if row is None else float(row["active_hours"])

    return await store.write(namespace, read)


async def tell_clock(store: Store, namespace: str, *intervals: UseInterval) -> None:
    await store.write(namespace, lambda tx: tick(tx, intervals))


def union_ms(intervals: list[UseInterval]) -> int:
    """Count the milliseconds that are in any of the intervals, piece by piece."""
    edges = sorted({edge for interval in intervals for edge in interval})
    return sum(
        until - since
        for since, until in pairwise(edges)
        if any(item <= since and until <= other for item, other in intervals)
    )


def interval() -> st.SearchStrategy[UseInterval]:
    start = st.integers(0, 40)
    return st.tuples(start, st.integers(0, 12)).map(lambda item: (NOON_MS + item[0], NOON_MS + item[0] + item[1]))


@given(st.lists(st.lists(interval(), min_size=1, max_size=4), min_size=1, max_size=4))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_it_gains_the_union_of_all_times(store: Store, several: list[list[UseInterval]]) -> None:
    namespace = uuid4().hex
    for intervals in several:
        await tell_clock(store, namespace, *intervals)
    expected = union_ms([item for intervals in several for item in intervals])
    assert await hours(store, namespace) * HOUR_MS == pytest.approx(expected, abs=1e-3)


async def test_many_who_tell_at_once_lose_and_double_nothing(store: Store) -> None:
    overlapping = [(NOON_MS + 100 * place, NOON_MS + 100 * place + 150) for place in range(40)]
    await asyncio.gather(*(tell_clock(store, "busy", item) for item in overlapping))
    assert await hours(store, "busy") * HOUR_MS == pytest.approx(40 * 100 + 50, abs=1e-3)


async def test_times_that_nobody_remembers_any_more_are_left_out(store: Store) -> None:
    await tell_clock(store, "late", (NOON_MS, NOON_MS + HOUR_MS))
    await tell_clock(store, "late", (NOON_MS + 2 * DAY_MS, NOON_MS + 2 * DAY_MS + HOUR_MS))
    await tell_clock(store, "late", (NOON_MS, NOON_MS + HOUR_MS))
    assert await hours(store, "late") == pytest.approx(2.0), "told twice, a day later, it does not count again"
    half_known = (NOON_MS + 2 * DAY_MS - HOUR_MS, NOON_MS + 2 * DAY_MS)
    await tell_clock(store, "late", half_known)
    assert await hours(store, "late") == pytest.approx(3.0)


async def test_a_clock_of_redis_that_was_wrong_for_a_while_does_not_stop_it(store: Store) -> None:
    wrong = NOON_MS + 365 * DAY_MS
    await tell_clock(store, "jump", (NOON_MS, NOON_MS + HOUR_MS))
    await tell_clock(store, "jump", (wrong, wrong + HOUR_MS))
    for start in (NOON_MS + 2 * HOUR_MS, NOON_MS + 2 * HOUR_MS, NOON_MS + 4 * HOUR_MS):
        await tell_clock(store, "jump", (start, start + HOUR_MS))
    assert await hours(store, "jump") == pytest.approx(4.0)


async def test_what_is_remembered_stays_bounded(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "SPANS", 10)
    pieces = [(NOON_MS + 10 * place, NOON_MS + 10 * place + 5) for place in range(50)]
    for piece in pieces:
        await tell_clock(store, "pieces", piece)
    await tell_clock(store, "pieces", *pieces)
    assert await hours(store, "pieces") * HOUR_MS == pytest.approx(50 * 5, abs=1e-3), "nothing counts twice"


async def test_one_process_tells_the_uses_of_a_moment_together(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[tuple[str, list[UseInterval]]] = []

    async def note(tx: Transaction, intervals: list[UseInterval]) -> None:
        written.append((tx.namespace, intervals))

    monkeypatch.setattr("engramq.workers.upkeep.active_hours.tick", note)
    monkeypatch.setattr("engramq.workers.upkeep.active_hours.WAITING_MAX", 2)
    heard = SessionClock(store, debounce_s=0.05)
    uses = [
        SessionUse("a", "a:ada:x", 1, ((0, 5), (5, 9))),
        SessionUse("a", "a:ada:x", 1, ((9, 12), (20, 30))),
        SessionUse("b", "b:ada:x", 1, ((1, 2),)),
        SessionUse("a", "a:ada:y", 2),
        SessionUse("a", "a:ada:z", 2, ((1, 2),)),
    ]
    await asyncio.gather(*(heard.tell([use]) for use in uses))
    assert written == [("a", [(0, 12), (20, 30)]), ("b", [(1, 2)])], "beyond the bound it is left out"


async def test_a_process_that_stops_does_not_wait(store: Store) -> None:
    stopping = asyncio.Event()
    heard = SessionClock(store, debounce_s=60.0, stopping=stopping)
    telling = asyncio.create_task(heard.tell([SessionUse("a", "a:ada:x", 1, ((0, HOUR_MS),))]))
    await asyncio.sleep(0)
    stopping.set()
    async with asyncio.timeout(10):
        await telling
    assert await hours(store, "a") == pytest.approx(1.0)
