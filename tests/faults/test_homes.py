"""Faults of a home in short, as `test_short.py` has those of servers. They run in a process beside it."""

import json

import pytest

from tests.deploy.helpers import needs_root
from tests.faults.suite import FAULTS, run_in_short, site_for

pytestmark = [pytest.mark.long, pytest.mark.timeout(400)]


@pytest.mark.promise("OP-3")
@pytest.mark.parametrize(
    "name",
    [
        "home_copied",
        "home_supervisor_killed_while_postgres_hangs",
        "home_queue_file_damaged",
        "home_sockets_removed",
        "home_lock_removed",
        pytest.param("home_read_only", marks=needs_root),
    ],
)
async def test_a_home_is_back_without_anybody_and_nothing_is_lost(name: str) -> None:
    async with site_for(FAULTS[name]) as home:
        line = await run_in_short(FAULTS[name], home)
    wrong = ("lost", "doubled", "applied_though_refused", "unread", "missed", "dead_letters")
    assert {count: line[count] for count in wrong} == dict.fromkeys(wrong, 0), json.dumps(line)
    assert line["stores"] > 10, json.dumps(line)
