"""The overview of an installation: mailboxes as Redis holds them, and the checks that follow."""

import asyncio
import time

import pytest
from httpx import ASGITransport, AsyncClient
from starlette.applications import Starlette

from engramq.gateway.metrics import GatewayMetrics
from engramq.gateway.overview import clock_check, queue_check, worker_check
from engramq.gateway.queue.look import NoLook, look_at_mailboxes
from engramq.gateway.router import METRICS_PATH
from engramq.gateway.run import Gateway
from engramq.schemas.checks import (
    CHECKS,
    DATABASE_AWAY,
    Check,
    CheckName,
    Health,
    MailboxState,
    at_home,
    failed,
    passed,
)
from engramq.schemas.commands import Pong
from engramq.schemas.keys import Keys
from engramq.schemas.vocabulary import WorkerKind
from tests.gateway.worker_side import WorkerSide
from tests.lanes import lanes_at


def states(overview: Health) -> dict[str, str]:
    return {check.name: check.state for check in overview.checks}


def a_mailbox(kind: WorkerKind, *, oldest_s: float = 0.0, workers: int = 1) -> MailboxState:
    return MailboxState(kind=kind, depth=3, oldest_s=oldest_s, per_s=None, dead=0, workers=workers)


async def test_all_is_well_where_every_kind_lives_and_one_answers(gateway: Gateway, workers: WorkerSide) -> None:
    found = await gateway.overview()
    assert found.status == "ready"
    assert set(states(found).values()) == {"ok"}
    assert [mailbox.kind for mailbox in found.mailboxes] == list(WorkerKind)
    assert all((mailbox.depth, mailbox.dead, mailbox.workers) == (0, 0, 1) for mailbox in found.mailboxes), workers


async def test_all_who_ask_at_the_same_time_share_one_look(gateway: Gateway, workers: WorkerSide) -> None:
    first, second = await asyncio.gather(gateway.overview(), gateway.overview())
    assert first is second
    assert await gateway.overview() is not first, workers


async def test_kinds_without_a_worker_and_commands_given_up_are_named(
    gateway: Gateway, workers: WorkerSide, keys: Keys
) -> None:
    await workers.redis.delete(keys.of[WorkerKind.SECTORS].alive, keys.of[WorkerKind.UPKEEP].alive)
    await workers.redis.zadd(keys.of[WorkerKind.EDGES].dead_index, {"x": 1, "y": 2})
    found = await gateway.overview()
    assert found.status == "degraded"
    told = {check.name: check.told for check in found.checks if check.state != "ok"}
    assert told == {
        "worker": "No worker of the kinds sectors, upkeep lives.",
        "dead_letters": "Commands were given up, by mailbox: edges 2.",
    }
    await workers.redis.delete(keys.of[WorkerKind.EDGES].dead_index)


async def test_workers_that_do_not_answer_are_told_apart_from_those_that_are_gone() -> None:
    live = [a_mailbox(kind, workers=2) for kind in WorkerKind]
    part = [a_mailbox(kind, workers=kind is not WorkerKind.SECTORS) for kind in WorkerKind]
    gone = [a_mailbox(kind, workers=0) for kind in (WorkerKind.RECALL, WorkerKind.UPKEEP)]
    of_recall, sectors = "of the kind recall", "No worker of the kind sectors lives."
    assert {worker_check(found, None).told for found in (live, part, gone, [])} == {
        f"No worker answers. 2 {of_recall} were seen in the last 15 s: they hang, or ended just now.",
        f"No worker answers. 1 {of_recall} was seen in the last 15 s: it hangs, or ended just now. {sectors}",
        "No worker of the kinds recall, upkeep lives.",
        "No worker answers.",
    }


async def test_what_only_a_worker_sees_comes_with_its_answer(gateway: Gateway, workers: WorkerSide) -> None:
    model = Check(name="model", state="degraded", told="The model x makes no vectors: y.", mend="z")
    workers.script = {kind: (lambda _c, _e: Pong(checks=[model])) for kind in workers.script}
    found = await gateway.overview()
    assert found.status == "degraded"
    assert model in found.checks


async def test_a_database_that_is_silent_is_missing_and_one_that_refuses_is_told(
    gateway: Gateway, workers: WorkerSide
) -> None:
    workers.script = {kind: (lambda _c, _e: Pong(reads=False, refused=DATABASE_AWAY)) for kind in workers.script}
    found = (await gateway.overview()).without_details()
    assert (found.status, found.missing, found.refused) == ("unavailable", ["database"], [])
    full = "The database's disk is full."
    workers.script = {kind: (lambda _c, _e: Pong(refused=full)) for kind in workers.script}
    found = (await gateway.overview()).without_details()
    assert (found.status, found.missing, found.refused) == ("degraded", [], [full])


async def test_a_redis_that_is_not_there_cannot_be_looked_at() -> None:
    with pytest.raises(NoLook):
        await look_at_mailboxes(lanes_at("redis://127.0.0.1:1/0", Keys("nobody")))


@pytest.mark.parametrize(
    ("mailbox", "state"),
    [
        (a_mailbox(WorkerKind.EDGES, oldest_s=29), "ok"),
        (a_mailbox(WorkerKind.EDGES, oldest_s=31), "degraded"),
        (a_mailbox(WorkerKind.EDGES, oldest_s=31, workers=0), "ok"),  # the check of workers says so
        (a_mailbox(WorkerKind.IMPORTS, oldest_s=31), "ok"),
        (a_mailbox(WorkerKind.IMPORTS, oldest_s=601), "degraded"),
    ],
)
async def test_a_mailbox_is_stuck_when_its_oldest_waits_while_workers_live(mailbox: MailboxState, state: str) -> None:
    assert queue_check([mailbox]).state == state


@pytest.mark.parametrize(("ahead_s", "told"), [(1.0, ""), (-70.0, "70 s behind"), (5.0, "5 s ahead of")])
async def test_clocks_that_differ_are_named(ahead_s: float, told: str) -> None:
    check = clock_check(ahead_s, {})
    assert (check.state != "ok") is bool(told)
    assert told in check.told


@pytest.mark.promise("QP-20")
async def test_whose_clock_is_wrong_is_told_by_readiness_and_metrics(
    gateway: Gateway, workers: WorkerSide, keys: Keys
) -> None:
    worker, now = "the worker on there (process 7)", time.time()
    await workers.redis.hset(keys.clocks, mapping={worker: f"3600.0 {now + 60}", "one of old": f"9 {now - 60}"})
    other = Check(name="clock", state="degraded", told="The clock of PostgreSQL is 3600 s behind a worker's.", mend="x")
    workers.script = {kind: (lambda _c, _e: Pong(checks=[other])) for kind in workers.script}
    health = (await gateway.overview()).without_details()
    assert [(check.name, check.told) for check in health.checks] == [
        ("clock", f"The clock of {worker} is 3600 s ahead of that of Redis.")
    ]
    assert health.status == "degraded"
    metrics = GatewayMetrics(lambda: 0)
    route = metrics.route(gateway.overview, token="", by_caller=False)
    async with AsyncClient(transport=ASGITransport(app=Starlette(routes=[route])), base_url="http://t") as client:
        text = (await client.get(METRICS_PATH)).text
    assert f'engramq_clock_ahead_seconds{{process="{worker}"}} 3600.0' in text
    assert 'engramq_check_state{check="clock"} 1.0' in text


def test_every_check_says_what_it_looks_at_and_how_to_mend_it() -> None:
    assert set(CHECKS) == set(CheckName)
    for name, kind in CHECKS.items():
        assert kind.looks_at.endswith("."), name
        assert kind.mend.endswith("."), name


def test_where_a_home_runs_a_server_no_setting_of_it_is_named() -> None:
    broken = [failed(CheckName(name), "It is away.") for name in CHECKS if name is not CheckName.SETTINGS]
    special = failed(CheckName.REDIS, "Redis is out of memory.", "Raise its maxmemory.")
    whole = {item.name: item.mend for item in at_home(broken, redis=True, database=True)}
    for name in (CheckName.GATEWAY, CheckName.REDIS, CheckName.DATABASE, CheckName.SCHEMA, CheckName.WORKER):
        assert "_URL" not in whole[name]
        assert "engramq up" in whole[name]
    others = [special, passed(CheckName.WORKER)]
    assert at_home(others, redis=True, database=True) == others
    half = {item.name: item.mend for item in at_home(broken, redis=True, database=False)}
    assert half[CheckName.REDIS] == whole[CheckName.REDIS]
    assert half[CheckName.DATABASE] == CHECKS[CheckName.DATABASE].mend
    assert at_home(broken, redis=False, database=False) == broken
