"""Who follows a Redis Cluster that changes."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from engramq.schemas import connection as connections
from engramq.schemas.connection import ClusterServer, Lanes, RedisConnection, pack
from engramq.schemas.keys import SLOTS, slot_of
from engramq.workers.queue.inspection import Inspection
from tests.scale.redis_cluster import Node, RedisCluster

WAITED_S = 2.0  # by an exchange with a cluster that is down
TURNS = 8  # at most, of asking anew in that time; every 0.05 s it would be 30


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Node]:
    """A node that no other one knows."""
    node = Node(tmp_path / "alone")
    node.start()
    yield node
    node.kill()
    node.redis.close()


def url_of(*nodes: Node) -> str:
    return "redis+cluster://" + ",".join(f"{node.place.host}:{node.place.port}" for node in nodes)


async def test_connections_and_clients_follow_a_slot_that_has_moved(cluster: RedisCluster) -> None:
    lanes = Lanes(cluster.url, f"t-{uuid4().hex[:8]}")
    prefix = lanes.first.prefix
    source, connection = cluster.master_of(prefix), RedisConnection(lanes.server, key=prefix)
    async with lanes.server.client(timeout_s=5.0) as client:
        await connection.open()
        for target in (*(node for node in cluster.masters if node is not source), source):
            cluster.move(slot_of(prefix), target)
            target.redis.set(f"{prefix}:number", target.place.port)
            assert await client.get(f"{prefix}:number") == str(target.place.port).encode()
            assert await connection.exchange([pack("GET", f"{prefix}:number")]) == [str(target.place.port).encode()]
            assert await lanes.server.locate(prefix) == target.place
    await connection.close()


async def test_the_append_only_file_of_each_master_is_written_anew_once(cluster: RedisCluster) -> None:
    """However many lanes there are."""
    for node in cluster.masters:
        node.redis.config_set("appendonly", "yes")
        while node.redis.info("persistence")["aof_rewrite_in_progress"]:
            await asyncio.sleep(0.01)
        node.redis.config_resetstat()
    lanes = Lanes(cluster.url, f"t-{uuid4().hex[:8]}", 12)
    async with Inspection(lanes) as view:
        assert await view.rewrite_log(at_once=True)
    calls = [node.redis.info("commandstats")["cmdstat_bgrewriteaof"]["calls"] for node in cluster.masters]
    assert calls == [1, 1, 1]


async def test_a_cluster_that_is_down_is_asked_less_and_less_often_by_the_same_connection(alone: Node) -> None:
    lanes = Lanes(url_of(alone), f"t-{uuid4().hex[:8]}")
    keys = lanes.first
    slot = slot_of(keys.prefix)
    alone.take(slot, slot)  # without the others it takes no command
    connection = RedisConnection(lanes.server, key=keys.prefix)
    await connection.open()
    before = int(alone.redis.info("stats")["total_connections_received"])
    (refused,) = await connection.exchange([pack("GET", f"{keys.prefix}:key")], WAITED_S)
    more = int(alone.redis.info("stats")["total_connections_received"]) - before
    await connection.close()
    assert "down" in str(refused).lower()
    assert 1 <= more <= TURNS


async def test_a_map_is_read_anew_after_a_node_was_forgotten_while_it_was_read(
    alone: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "MAP_S", 0.0)
    alone.take(0, SLOTS - 1)
    server = ClusterServer(url_of(alone))
    reading = asyncio.create_task(server.locate("key"))
    await asyncio.sleep(0)  # it has begun
    server.forget(None)
    places = [await reading, await server.locate("key"), await server.locate("key")]
    assert places == [alone.place] * 3
    assert alone.redis.info("commandstats")["cmdstat_cluster|slots"]["calls"] == 2
