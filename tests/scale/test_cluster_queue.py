"""The tests of the queue, on a lane of a Redis Cluster: its servers refuse whatever is not all in one slot."""

from collections.abc import AsyncIterator, Iterator
from uuid import uuid4

import pytest
from redis.asyncio import Redis

from engramq.schemas.clients import open_client
from engramq.schemas.keys import Keys
from engramq.schemas.lanes import Lane, Lanes
from tests.queue.stage import BOUND_S, Stage
from tests.queue.test_bounds import *  # noqa: F403
from tests.queue.test_byte_bounds import *  # type: ignore[assignment]  # noqa: F403 - its marks are a list
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

pytestmark = pytest.mark.anyio  # not those that came along

del test_without_redis_the_outcome_is_unknown  # noqa: F821 - kills its one server


@pytest.fixture(scope="module")
def cluster() -> Iterator[RedisCluster]:
    with RedisCluster(3) as cluster:
        yield cluster


@pytest.fixture
def lane(cluster: RedisCluster) -> Lane:
    return Lanes(cluster.url, f"t-{uuid4().hex[:8]}").first


@pytest.fixture
def keys(lane: Lane) -> Keys:
    return lane.keys


@pytest.fixture
async def redis(lane: Lane) -> AsyncIterator[Redis]:
    client = open_client(lane.redis, timeout_s=BOUND_S)
    yield client
    await client.aclose()


@pytest.fixture
async def stage(cluster: RedisCluster, lane: Lane) -> AsyncIterator[Stage]:
    async with Stage(cluster.url, lane.keys, lane) as stage:
        yield stage
