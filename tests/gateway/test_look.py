"""One look at the mailboxes: depth, age of what is due, rate, dead letters and living workers, as Redis has them."""

import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from redis.asyncio import Redis

from engramq.gateway.queue.look import SILENT_S, look_at_mailboxes
from engramq.schemas.checks import MailboxState
from engramq.schemas.keys import Keys
from engramq.schemas.vocabulary import WorkerKind
from tests.lanes import lanes_at

KIND = WorkerKind.RECALL


@pytest.fixture
async def redis(redis_url: str) -> AsyncIterator[Any]:
    client = Redis.from_url(redis_url)
    yield client
    await client.aclose()


@pytest.fixture
def keys(key_prefix: str) -> Keys:
    return Keys(key_prefix)


async def look(redis_url: str, keys: Keys) -> MailboxState:
    found = {mailbox.kind: mailbox for mailbox in (await look_at_mailboxes(lanes_at(redis_url, keys))).mailboxes}
    assert set(found) == set(WorkerKind)
    return found[KIND]


async def test_a_mailbox_that_nobody_has_used_is_empty_and_unserved(redis: Any, redis_url: str, keys: Keys) -> None:
    assert await look(redis_url, keys) == MailboxState(kind=KIND, depth=0, oldest_s=0, per_s=None, dead=0, workers=0)


async def test_what_waits_is_counted_and_the_oldest_has_its_age(redis: Any, redis_url: str, keys: Keys) -> None:
    of, now = keys.of[KIND], time.time() * 1000
    await redis.set(of.depth, 17)
    await redis.zadd(of.mailbox, {"older*16": now - 5_000, "newer": now - 1_000, "retried": now + 60_000})
    found = await look(redis_url, keys)
    assert found.depth == 17
    assert 5 <= found.oldest_s < 20


async def test_a_job_that_is_held_or_due_later_has_no_age(redis: Any, redis_url: str, keys: Keys) -> None:
    await redis.set(keys.of[KIND].depth, 1)
    await redis.zadd(keys.of[KIND].mailbox, {"held": time.time() * 1000 + 60_000})
    found = await look(redis_url, keys)
    assert (found.depth, found.oldest_s) == (1, 0)


async def test_the_counter_of_an_empty_mailbox_means_nothing(redis: Any, redis_url: str, keys: Keys) -> None:
    await redis.set(keys.of[KIND].depth, 3)
    assert (await look(redis_url, keys)).depth == 0


async def test_a_rate_is_told_while_it_is_known(redis: Any, redis_url: str, keys: Keys) -> None:
    rate, now = keys.of[KIND].rate, time.time() * 1000
    await redis.hset(rate, mapping={"at": now, "served": 400, "busy": 2_000})
    assert (await look(redis_url, keys)).per_s == pytest.approx(200)
    await redis.hset(rate, mapping={"busy": 10})
    assert (await look(redis_url, keys)).per_s is None
    await redis.hset(rate, mapping={"busy": 2_000, "at": now - 60_000})
    assert (await look(redis_url, keys)).per_s is None


async def test_dead_letters_and_workers_that_were_heard_of_lately_are_counted(
    redis: Any, redis_url: str, keys: Keys
) -> None:
    of, now = keys.of[KIND], time.time()
    await redis.zadd(of.dead_index, {"one": now * 1000, "two": now * 1000})
    await redis.zadd(of.alive, {"here": now, "silent": now - SILENT_S - 5})
    found = await look(redis_url, keys)
    assert (found.dead, found.workers) == (2, 1)
