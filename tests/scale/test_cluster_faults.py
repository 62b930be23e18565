"""A Redis Cluster that changes under load: a lane's slot moves, a master dies and its replica takes over.

What is promised: a store that was answered `stored` is in PostgreSQL, whatever becomes of Redis; what was refused is
not done; nothing is done twice. A command that was answered `pending` is in a mailbox of a master, whose replica may
not have it yet: see docs/scaling.md.
"""

import asyncio
import time
from collections.abc import Callable, Iterator
from uuid import uuid4

import pytest

from engramq.schemas.connection import CONNECTION_ERRORS, Lanes, RedisConnection, lanes_of, pack
from engramq.schemas.keys import slot_of
from engramq.schemas.settings import Settings
from tests.conftest import Database
from tests.scale.cluster_load import loaded, one_of_each_lane
from tests.scale.redis_cluster import Node, RedisCluster
from tests.scenarios.stage import stage_settings, staged

pytestmark = pytest.mark.promise("SC-2")

LANES = 3
BACK_S = 15.0  # in which stores are answered again once a master has died; the nodes take 1.5 s to notice


@pytest.fixture
def cluster() -> Iterator[RedisCluster]:
    with RedisCluster(3, 3) as cluster:
        yield cluster


@pytest.fixture
def settings(database: Database, cluster: RedisCluster) -> Settings:
    return stage_settings(database, cluster.whole_url, f"t-{uuid4().hex[:8]}", lanes=str(LANES), reply_timeout_s="5")


async def test_a_lane_stands_still_while_its_slot_moves_and_then_goes_on(
    settings: Settings, database: Database, cluster: RedisCluster
) -> None:
    namespaces = one_of_each_lane(LANES)
    keys = lanes_of(settings).of(namespaces[1])
    source = await asyncio.to_thread(cluster.master_of, keys.prefix)
    targets = [node for node in cluster.masters if node is not source]
    async with staged(settings) as stage, loaded(await stage.gateway(), namespaces) as load:
        for target in (*targets, source):
            moved = await asyncio.to_thread(cluster.move, slot_of(keys.prefix), target)
            assert moved > 0
            await load.goes_on()
    load.check(database)
    assert not load.refused


@pytest.fixture
def locked() -> Iterator[RedisCluster]:
    """A cluster that wants a password: the handshake has a reply to wait for."""
    with RedisCluster(3, 3, "heather") as cluster:
        yield cluster


async def taken_over(
    settings: Settings, database: Database, cluster: RedisCluster, lose: Callable[[Node], None]
) -> None:
    """Lose a master under load, and prove that its replica serves its lane soon, with nothing lost or doubled."""
    namespaces = one_of_each_lane(LANES)
    keys = lanes_of(settings).of(namespaces[0])
    master: Node = await asyncio.to_thread(cluster.master_of, keys.prefix)
    async with staged(settings) as stage, loaded(await stage.gateway(), namespaces) as load:
        lose(master)
        began = time.monotonic()
        await load.goes_on(bound_s=60.0)
        back_s = time.monotonic() - began
        successor = await asyncio.to_thread(cluster.master_of, keys.prefix)
    assert successor is not master
    assert back_s < BACK_S
    load.check(database)


async def test_a_master_that_hangs_is_left_for_its_replica(database: Database, locked: RedisCluster) -> None:
    settings = stage_settings(database, locked.whole_url, f"t-{uuid4().hex[:8]}", lanes=str(LANES), reply_timeout_s="5")
    await taken_over(settings, database, locked, Node.hang)


async def test_a_connection_that_was_given_up_in_the_handshake_finds_the_new_master(locked: RedisCluster) -> None:
    lanes = Lanes(locked.whole_url, f"t-{uuid4().hex[:8]}")
    server, key = lanes.server, lanes.first.prefix
    master = await asyncio.to_thread(locked.master_of, key)
    assert await server.locate(key) == master.place
    master.hang()
    connection, deadline = RedisConnection(server, key=key), time.monotonic() + BACK_S
    with pytest.raises(TimeoutError):
        await connection.open()
    while True:
        try:
            await connection.open()
        except CONNECTION_ERRORS:
            assert time.monotonic() < deadline, "the lane stays dead"
        else:
            break
    assert await connection.exchange([pack("EXISTS", key)]) == [0]
    assert await server.locate(key) != master.place
    await connection.close()


async def test_a_master_is_killed_and_its_replica_takes_over(
    settings: Settings, database: Database, cluster: RedisCluster
) -> None:
    await taken_over(settings, database, cluster, Node.kill)
