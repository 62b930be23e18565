"""One story, with kills, on what a team outgrows and what it grows into: embedded servers, its own, and all at once."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from engramq.schemas.settings import Settings, read_settings
from engramq.workers.db.migrate import migrate
from tests.conftest import Database, TestServers
from tests.scale.pgbouncer import pooler
from tests.scale.redis_cluster import Node, RedisCluster
from tests.scale.standby import primary
from tests.scale.story import tell_agents
from tests.scale.workshop import running, stored_under

pytestmark = pytest.mark.timeout(300)

CONTENTS = "select m.content from memories m join namespaces n using (tenant) where n.namespace = %s"
BETWEEN_S = 1.0  # of load between two disturbances
LANES = 3

Rows = Callable[..., list[dict[str, Any]]]


@dataclass
class Site:
    """Servers of some kind: what processes are told of them, how to look into the database, and what may be killed."""

    variables: dict[str, str]
    rows: Rows
    kills: list[Callable[[], Awaitable[None]]] = field(default_factory=list)

    @property
    def settings(self) -> Settings:
        return read_settings(self.variables | {
            "ENGRAMQ_EMBEDDER": "hash", "ENGRAMQ_TEST_SWEEP_INTERVAL_S": "0.2", "ENGRAMQ_REPLY_TIMEOUT_S": "20",
        })  # fmt: skip


def _killing(kill: Callable[[], None], start: Callable[[], None]) -> Callable[[], Awaitable[None]]:
    async def run() -> None:
        kill()
        await asyncio.to_thread(start)

    return run


@pytest.fixture
def brought(database: Database, servers: TestServers, key_prefix: str) -> Site:
    """The servers that engramq brings itself, which all tests of this process share: no kills but of workers."""
    urls = {"ENGRAMQ_DATABASE_URL": database.url, "ENGRAMQ_REDIS_URL": servers.redis_url}
    return Site(urls | {"ENGRAMQ_KEY_PREFIX": key_prefix}, database.rows)


@asynccontextmanager
async def embedded(brought: Site, _folder: Path) -> AsyncIterator[Site]:
    yield brought


@asynccontextmanager
async def own(_brought: Site, folder: Path) -> AsyncIterator[Site]:
    """PostgreSQL and Redis that somebody else runs; both are killed."""
    with primary() as server:
        await migrate(server.owner_url)
        redis = Node(folder / "redis")
        redis.start(cluster=False)
        try:
            urls = {
                "ENGRAMQ_DATABASE_URL": server.url(),
                "ENGRAMQ_REDIS_URL": f"redis://{redis.place.host}:{redis.place.port}/0",
            }
            restart = [_killing(server.kill, server.start), _killing(redis.kill, lambda: redis.start(cluster=False))]
            yield Site(urls, server.ask, restart)
        finally:
            redis.kill()


@asynccontextmanager
async def together(_brought: Site, _folder: Path) -> AsyncIterator[Site]:
    """A Redis Cluster with replicas and PgBouncer before PostgreSQL: one of each is killed."""
    with ExitStack() as owned:
        cluster = owned.enter_context(RedisCluster(3, 3))
        server = owned.enter_context(primary())
        await migrate(server.owner_url)
        bouncer = owned.enter_context(pooler(server))

        async def kill_master() -> None:
            cluster.masters[0].kill()  # its replica takes over

        yield Site(
            {
                "ENGRAMQ_DATABASE_URL": bouncer.url(),
                "ENGRAMQ_REDIS_URL": cluster.whole_url,
                "ENGRAMQ_LANES": str(LANES),
            },
            server.ask,
            [_killing(bouncer.kill, bouncer.start), kill_master],
        )


@pytest.mark.promise("SC-1", "SC-2")
@pytest.mark.parametrize("kind", [embedded, own, together])
async def test_the_same_story_is_told_everywhere_and_kills_lose_and_double_nothing(
    kind: Callable[[Site, Path], AbstractAsyncContextManager[Site]], brought: Site, tmp_path: Path
) -> None:
    async with kind(brought, tmp_path) as site:
        async with running(site.settings, **site.variables) as (stage, worker):
            await tell_agents(stage)

            async def disturb() -> None:
                for kill in (worker.kill, *site.kills, worker.kill):
                    await asyncio.sleep(BETWEEN_S)
                    await kill()
                await asyncio.sleep(BETWEEN_S)

            told = await stored_under(stage, "killed", disturb)
        found = Counter(row["content"] for row in site.rows(CONTENTS, "killed"))
    assert set(found.values()) == {1}
    assert set(told["acknowledged"]) <= set(found)
    assert (told["missed"], told["stored"] > 100) == (0, True)
