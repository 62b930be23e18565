"""The long run in short: one fault of each sort, caused once, and all that callers were told compared with the store.

Times are left to the long run: beside other tests they say nothing. A service that does not come back fails here too.
"""

import json
from collections.abc import AsyncIterator

import pytest

from tests.faults.suite import FAULTS, run_in_short
from tests.faults.world import World, new_world

pytestmark = [pytest.mark.long, pytest.mark.timeout(180)]


@pytest.fixture(scope="module")
async def world() -> AsyncIterator[World]:
    async with new_world(proxied=True) as world:
        yield world


@pytest.mark.long
@pytest.mark.promise("QP-21")
async def test_what_was_told_pending_ends_though_postgresql_hangs_and_is_killed(world: World) -> None:
    line = await run_in_short(FAULTS["postgres_hung_and_killed"], world)
    assert line["told"].get("pending"), json.dumps(line)
    wrong = ("lost", "doubled", "applied_though_refused", "unread", "missed", "dead_letters", "forgotten")
    assert {count: line[count] for count in wrong} == dict.fromkeys(wrong, 0), json.dumps(line)


@pytest.mark.promise("QP-3", "QP-4", "QP-5")
@pytest.mark.parametrize(
    "name", ["worker_killed", "redis_killed", "postgres_restarted_immediately", "redis_of_workers_cut", "poisoned"]
)
async def test_nothing_is_lost_or_doubled(world: World, name: str) -> None:
    line = await run_in_short(FAULTS[name], world)
    wrong = ("lost", "doubled", "applied_though_refused", "unread", "missed", "dead_letters")
    assert {count: line[count] for count in wrong} == dict.fromkeys(wrong, 0), json.dumps(line)
    assert line["stores"] > 10, json.dumps(line)
