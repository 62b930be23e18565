"""The tests of the queue, on a lane of a Redis Cluster: its servers refuse whatever is not all in one slot."""

from collections.abc import AsyncIterator
from uuid import uuid4

import pytest
from redis.asyncio import Redis

from engramq.schemas.connection import Lanes
from engramq.schemas.keys import Keys
from tests.queue.stage import BOUND_S, Stage
from tests.queue.test_bounds import *  # noqa: F403
from tests.queue.test_byte_bounds import *  # noqa: F403
from tests.queue.test_failures import *  # noqa: F403
from tests.queue.test_failures import _tries_follow_quickly  # noqa: F401 - a fixture for all
from tests.queue.test_follow_ups import *  # noqa: F403
from tests.queue.test_inspection import *  # noqa: F403
from tests.queue.test_overload import *  # noqa: F403
from tests.queue.test_periodic import *  # noqa: F403
from tests.queue.test_round_trip import *  # noqa: F403
from tests.queue.test_scripts import *  # noqa: F403
from tests.queue.test_session_uses import *  # noqa: F403
from tests.scale.redis_cluster import RedisCluster

del pytestmark  # noqa: F821 - some module's among these
del test_without_redis_the_outcome_is_unknown  # noqa: F821 - kills its one server
del test_a_wake_up_that_was_lost_costs_seconds_at_most  # noqa: F821 - takes a transaction of redis-py, which a cluster has not

del test_an_erasure_takes_four_trips_to_redis_whatever_waits  # noqa: F821 - counts the trips of the client of one server


@pytest.fixture
def lanes(cluster: RedisCluster) -> Lanes:
    return Lanes(cluster.url, f"t-{uuid4().hex[:8]}")


@pytest.fixture
def keys(lanes: Lanes) -> Keys:
    return lanes.first


@pytest.fixture
async def redis(lanes: Lanes) -> AsyncIterator[Redis]:
    client = lanes.server.client(timeout_s=BOUND_S)
    yield client
    await client.aclose()


@pytest.fixture
async def stage(cluster: RedisCluster, lanes: Lanes) -> AsyncIterator[Stage]:
    async with Stage(cluster.url, lanes.first, lanes) as stage:
        yield stage
