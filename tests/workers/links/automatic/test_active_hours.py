"""What the clock of active hours runs by, seen from outside, and what notes it."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from redis.asyncio import Redis

from engramq.schemas import limits
from engramq.schemas.envelope import PrincipalId
from engramq.schemas.vocabulary import DEFAULT_NAMESPACE, DEFAULT_PRINCIPAL
from tests.scenarios.stage import OWN_SESSION, Stage, until
from tests.workers.links.automatic.harness import Harness

MINUTE_MS = 60_000
HOUR_S = 3_600.0


@pytest.fixture
async def redis(stage: Stage) -> AsyncIterator[Any]:
    async with Redis.from_url(stage.settings.redis_url) as client:
        yield client


async def pass_ms(stage: Stage, redis: Any, milliseconds: int, session: str = OWN_SESSION) -> None:
    """Let this much time have passed since the last call of a session."""
    session_state = stage.keys.session(DEFAULT_NAMESPACE, PrincipalId(DEFAULT_PRINCIPAL), session).state
    for name in ("seen", "ticked"):
        await redis.hincrby(session_state, name, -milliseconds)


def clock_s(harness: Harness) -> float:
    """Return what the clock of the default namespace shows, in seconds."""
    rows = harness.rows("select active_hours from namespaces where namespace = %s", DEFAULT_NAMESPACE)
    return float(rows[0]["active_hours"]) * HOUR_S if rows else 0.0


async def shows(harness: Harness, seconds: float) -> None:
    """Wait until the clock shows so many seconds, give or take what the test itself took."""

    async def reached() -> bool:
        return clock_s(harness) >= seconds

    await until(reached)
    assert clock_s(harness) < seconds + 30


@pytest.mark.promise("CN-38")
@pytest.mark.long
async def test_the_clock_runs_while_a_session_is_in_use_and_only_then(
    harness: Harness, stage: Stage, redis: Any
) -> None:
    kept = await harness.agent.store("granite lighthouse")
    await pass_ms(stage, redis, 10 * MINUTE_MS)
    await harness.agent.call("get_memory", memory_id=kept["id"])
    await shows(harness, 600)
    await pass_ms(stage, redis, limits.SESSION_GAP_SECONDS * 1000)
    await harness.agent.search("granite")
    assert clock_s(harness) < 630
    await pass_ms(stage, redis, 20 * MINUTE_MS)
    await harness.agent.call("memory_stats")
    await harness.agent.call("list_recent_memories")
    assert clock_s(harness) < 630
    await harness.agent.search("granite")
    await shows(harness, 1200)


@pytest.mark.promise("CN-38")
async def test_sessions_that_are_in_use_at_the_same_time_count_once(harness: Harness, stage: Stage, redis: Any) -> None:
    for session in ("one", "other"):
        await harness.agent.store("granite lighthouse", session=session)
        await pass_ms(stage, redis, 10 * MINUTE_MS, session)
    for session in ("one", "other"):
        await harness.agent.search("granite", session=session)
    await shows(harness, 600)
    await pass_ms(stage, redis, 5 * MINUTE_MS, "one")
    await harness.agent.call("begin_session", session="one")
    await harness.agent.search("granite", session="one")
    await harness.agent.search("granite", session="other")
    assert clock_s(harness) < 630, "those minutes had been told already, by both"


@pytest.mark.promise("CN-38")
async def test_links_and_memories_note_the_clock_when_they_are_made_and_used(
    harness: Harness, stage: Stage, redis: Any
) -> None:
    one, other = await harness.agent.store("granite lighthouse"), await harness.agent.store("cumin seeds")
    harness.rows("update namespaces set active_hours = 100")
    late = await harness.agent.store("late")
    await harness.agent.call("connect", source=one["id"], target=other["id"])
    await harness.agent.search("granite")
    await until(lambda: harness.sees("select 1 from memory_usage where last_active_hours >= 100"))
    (link,) = harness.links().values()
    assert 100 <= link["last_active_hours"] < 101
    harness.rows("update namespaces set active_hours = 200")
    await harness.agent.call("connect", source=one["id"], target=other["id"])
    (link,) = harness.links().values()
    assert 200 <= link["last_active_hours"] < 201
    noted = {str(row["node_id"]): row["active_hours"] for row in harness.rows("select * from memories")}
    assert noted[one["id"]] < 1
    assert 100 <= noted[late["id"]] < 101
