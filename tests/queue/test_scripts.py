"""Single steps in Redis that no ordinary run shows: a lost answer to a claim, a lost wake-up, a lease that lapsed."""

from typing import Any

import pytest

from engramq.schemas.codec import encode, encode_job
from engramq.schemas.commands import Ping
from engramq.schemas.connection import RedisConnection, UnsupportedServer
from engramq.schemas.envelope import Envelope
from engramq.schemas.ids import uuid7
from engramq.schemas.keys import JOB_KEY, LEASE_KEY, TRIES_KEY
from engramq.schemas.scripts import CLAIM, POISON_TRIES, RENEW, SETTLE
from engramq.schemas.vocabulary import WorkerKind
from engramq.workers.queue.settlement import Result, Settlement
from tests.queue.stage import ADA, NAMESPACE, Stage, an_actor, echo, payload_of, ping, put

LEASE_MS = 60_000
RECALL = WorkerKind.RECALL


async def a_job(stage: Stage, commands: int = 1) -> str:
    """Put a job into the mailbox and return its id."""
    for _ in range(commands):
        await put(stage, Ping())
    return str((await stage.redis.zrange(stage.keys.of[RECALL].mailbox, 0, -1))[0].decode())


async def claim(stage: Stage, token: str = "me", wanted: int = 32, poison_jobs: int = 1) -> list[Any]:
    keys = stage.keys
    where = (keys.of[RECALL].mailbox, keys.of[RECALL].wakeups, keys.of[RECALL].depth)
    arguments = (token, LEASE_MS, wanted, wanted + 32, JOB_KEY, LEASE_KEY, TRIES_KEY, poison_jobs)
    found: list[Any] = await stage.redis.eval(CLAIM.text, len(where), *where, *arguments)
    return found


async def test_a_claim_that_filled_its_window_wakes_another_one(stage: Stage) -> None:
    await a_job(stage, 3)
    await stage.redis.delete(stage.keys.of[RECALL].wakeups)
    more, _, _, _, *found = await claim(stage, wanted=2)
    assert (more, len(found)) == (1, 6)
    assert await stage.redis.llen(stage.keys.of[RECALL].wakeups) == 1
    more, *_ = await claim(stage, wanted=2)
    assert more == 0
    assert await stage.redis.llen(stage.keys.of[RECALL].wakeups) == 0, "a stale wake-up would wake a worker for nothing"


async def test_one_poison_job_at_a_time_and_others_are_not_held_up(stage: Stage) -> None:
    first = await a_job(stage, 3)
    jobs = [job.decode() for job in await stage.redis.zrange(stage.keys.of[RECALL].mailbox, 0, -1)]
    for job in jobs[:2]:
        await stage.redis.set(TRIES_KEY + job, POISON_TRIES)
    _, _, left, _, *found = await claim(stage, poison_jobs=0)
    assert (left, [name.decode() for name in found[0::3]]) == (1, jobs[2:])
    _, _, left, _, *found = await claim(stage, poison_jobs=1)
    assert (left, [name.decode() for name in found[0::3]]) == (1, [first])
    assert int(await stage.redis.get(TRIES_KEY + jobs[1])) == POISON_TRIES, "being left is no try"


async def test_only_the_holder_renews(stage: Stage) -> None:
    job = await a_job(stage)
    await claim(stage, "me")
    await stage.redis.pexpire(LEASE_KEY + job, 1_000)
    arguments = (LEASE_MS, LEASE_KEY, job, "me", job, "other", stage.job("unknown.1"), "me")
    assert await stage.redis.eval(RENEW.text, 1, stage.keys.of[RECALL].mailbox, *arguments) == [1, 0, 0]
    assert await stage.redis.pttl(LEASE_KEY + job) > 1_000


async def test_only_the_holder_ends_and_answers(stage: Stage) -> None:
    job = await a_job(stage)
    await claim(stage, "me")
    settlement = Settlement(stage.keys, RECALL)
    asked = Envelope(id=uuid7(), namespace=NAMESPACE, principal=ADA, command=Ping(), reply_to=stage.keys.replies("x"))
    settlement.add([Result(asked, answer=b"answer")])
    connection = RedisConnection(stage.server, (SETTLE,), key=stage.keys.prefix)
    await connection.open()
    assert await connection.exchange([settlement.pack(job, "other", 1)]) == [0]
    assert await stage.depth() == (1, 1)
    assert await connection.exchange([settlement.pack(job, "me", 1)] * 2) == [1, 0]
    await connection.close()
    assert await stage.empty()
    assert await stage.redis.lrange(stage.keys.replies("x"), 0, -1) == [b"answer"]
    assert 0 < await stage.redis.ttl(stage.keys.replies("x")) <= 60
    assert not await stage.redis.exists(JOB_KEY + job, LEASE_KEY + job, TRIES_KEY + job)


@pytest.mark.long
async def test_a_wake_up_that_was_lost_costs_seconds_at_most(stage: Stage) -> None:
    await stage.workers(an_actor(echo))
    payload_of(await ping(await stage.bus()))
    ping_alone = Envelope(id=uuid7(), namespace=NAMESPACE, principal=ADA, command=Ping())
    job = stage.keys.job_id(ping_alone.id, 1)
    async with stage.redis.pipeline(transaction=True) as silently:
        silently.set(JOB_KEY + job, encode_job([encode(ping_alone)], 0))
        silently.zadd(stage.keys.of[RECALL].mailbox, {job: 0})
        silently.incr(stage.keys.of[RECALL].depth)
        await silently.execute()
    await stage.until(stage.empty)


async def test_a_server_that_is_too_old_is_refused_by_both_halves(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engramq.schemas.connection.OLDEST_SERVER", (99, 0))
    with pytest.raises(UnsupportedServer, match=r"is too old: engramq needs Redis 99\.0"):
        await stage.bus()
    workers = stage.start(an_actor(echo))
    with pytest.raises(UnsupportedServer):
        await workers.task
