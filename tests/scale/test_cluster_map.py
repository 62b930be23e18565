"""Who follows a Redis Cluster that changes, and how it asks nodes that know too little of it."""

import time
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from engramq.schemas.connection import RedisConnection, pack
from engramq.schemas.lanes import Lanes
from engramq.schemas.servers import SLOTS, Cluster, NoMaster, slot_of
from engramq.workers.queue.inspection import Inspection
from tests.scale.redis_cluster import Node, RedisCluster

pytestmark = pytest.mark.anyio

WAITED_S = 2.0  # by an exchange with a cluster that is down
TURNS = 8  # at most, of asking anew in that time; every 0.05 s it would be 30


@pytest.fixture(scope="module")
def cluster() -> Iterator[RedisCluster]:
    with RedisCluster(3) as cluster:
        yield cluster


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


async def test_what_handlers_ask_follows_a_slot_that_has_moved(cluster: RedisCluster) -> None:
    keys, redis = Lanes(cluster.url, f"t-{uuid4().hex[:8]}").first
    async with Inspection(redis, keys) as view:
        source = cluster.master_of(keys.prefix)
        assert await view.number(f"{keys.prefix}:number") == 0
        for target in (*(node for node in cluster.masters if node is not source), source):
            cluster.move(slot_of(keys.prefix), target)
            target.redis.set(f"{keys.prefix}:number", target.place.port)
            assert await view.number(f"{keys.prefix}:number") == target.place.port
            assert await redis.locate() == target.place


@pytest.mark.parametrize("known", [0, SLOTS // 2])
async def test_a_node_that_stands_alone_is_not_believed(cluster: RedisCluster, alone: Node, known: int) -> None:
    if known:
        alone.take(0, known - 1)
    found = Cluster(url_of(alone, *cluster.masters))
    for key in "abcdefgh":
        assert await found.locate(slot_of(key)) == cluster.master_of(key).place


async def test_the_node_that_knows_most_counts_where_none_knows_all(alone: Node, tmp_path: Path) -> None:
    empty = Node(tmp_path / "empty")
    empty.start()
    try:
        alone.take(0, 99)
        found = Cluster(url_of(empty, alone))
        assert await found.locate(99) == alone.place
        with pytest.raises(NoMaster):
            await found.locate(100)
    finally:
        empty.kill()
        empty.redis.close()


async def test_another_node_is_asked_when_the_map_of_one_was_wrong(cluster: RedisCluster, alone: Node) -> None:
    """Like a node that was cut off from the others: it knows a master of every slot, but of yesterday."""
    alone.take(0, SLOTS - 1)
    found = Cluster(url_of(alone, cluster.masters[0]))
    assert await found.locate(0) == alone.place
    found.forget()
    deadline = time.monotonic() + 5.0
    while await found.locate(0) == alone.place:
        assert time.monotonic() < deadline, "the node that was wrong is asked again and again"


async def test_a_cluster_that_is_down_is_asked_less_and_less_often_by_the_same_connection(alone: Node) -> None:
    keys, redis = Lanes(url_of(alone), f"t-{uuid4().hex[:8]}").first
    slot = slot_of(keys.prefix)
    alone.take(slot, slot)  # without the others it takes no command
    connection = RedisConnection(redis)
    await connection.open()
    before = int(alone.redis.info("stats")["total_connections_received"])
    (refused,) = await connection.exchange([pack("GET", f"{keys.prefix}:key")], WAITED_S)
    more = int(alone.redis.info("stats")["total_connections_received"]) - before
    await connection.close()
    assert "down" in str(refused).lower()
    assert 1 <= more <= TURNS
