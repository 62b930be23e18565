"""What a worker tells its probes: that it lives, and whether it serves, with each thing that it needs taken away."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from engramq.schemas.settings import Settings, SettingsError, read_settings
from engramq.schemas.vocabulary import WorkerKind
from engramq.workers.app import run
from engramq.workers.checks import WorkerChecks
from engramq.workers.db.database import LOOK_S
from engramq.workers.db.migrate import migrate
from engramq.workers.embedders.batching import BatchingEmbedder
from engramq.workers.embedders.interface import Vectors
from engramq.workers.embedders.vectorizer import Vectorizer
from engramq.workers.health import WorkerHealth
from tests.conftest import Database, TestServers
from tests.faults.world import free_port
from tests.queue.server import Server
from tests.scale.standby import primary
from tests.scenarios.stage import stage_settings, until
from tests.workers.conftest import SwitchedEmbedder, World

pytestmark = [pytest.mark.promise("OP-8"), pytest.mark.timeout(90)]

BOUND_S = 20.0


class Probed:
    """A worker as its probes see it."""

    def __init__(self, port: int) -> None:
        self.port = port

    async def get(self, path: str) -> tuple[int, dict[str, Any]]:
        async with httpx.AsyncClient(verify=False) as client:
            answer = await client.get(f"http://127.0.0.1:{self.port}{path}", timeout=BOUND_S)
        return answer.status_code, answer.json()

    async def lives(self) -> bool:
        return await self.get("/healthz") == (200, {"status": "alive"})

    async def becomes(self, status: int, *missing: str) -> dict[str, Any]:
        """Return what /readyz says as soon as it is this."""
        said: dict[str, Any] = {}

        async def is_so() -> bool:
            code, body = await self.get("/readyz")
            said.clear()
            said.update(body)
            return code == status and body.get("missing", []) == list(missing)

        await until(is_so, BOUND_S)
        return said


@asynccontextmanager
async def worker(settings: Settings) -> AsyncIterator[Probed]:
    """Run a worker of one kind for as long as the block lasts; gives it once it tells its health."""
    assert settings.health_port
    stop, probed = asyncio.Event(), Probed(settings.health_port.port)
    async with asyncio.TaskGroup() as group:
        group.create_task(run((WorkerKind.RECALL,), settings, stop=stop, handle_signals=False))

        async def listens() -> bool:
            try:
                return await probed.lives()
            except httpx.ConnectError:
                return False

        try:
            await until(listens, BOUND_S)
            yield probed
        finally:
            stop.set()


def settings_of(database: Database, redis_url: str, key_prefix: str, **changes: str) -> Settings:
    return stage_settings(database, redis_url, key_prefix, health_port=str(free_port()), **changes)


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[Server]:
    """A Redis of this test's own."""
    server = Server(tmp_path)
    server.start()
    yield server
    server.kill()


@contextmanager
def closed(database: Database, servers: TestServers) -> Iterator[None]:
    """Let nobody into a database for as long as the block lasts."""
    servers.administer(f"alter database {database.name} allow_connections false")
    servers.administer(f"select pg_terminate_backend(pid) from pg_stat_activity where datname = '{database.name}'")
    try:
        yield
    finally:
        servers.administer(f"alter database {database.name} allow_connections true")


async def test_a_worker_that_serves_says_so_and_nothing_else(
    database: Database, redis_url: str, key_prefix: str
) -> None:
    async with worker(settings_of(database, redis_url, key_prefix)) as probed:
        assert await probed.becomes(200) == {"status": "ready"}
        assert await probed.lives()
        async with httpx.AsyncClient(verify=False) as client:
            assert (await client.get(f"http://127.0.0.1:{probed.port}/metrics")).status_code == 404


@pytest.mark.own_database
async def test_a_worker_that_waits_for_its_database_lives_and_says_what_it_waits_for(
    database: Database, servers: TestServers, redis_url: str, key_prefix: str
) -> None:
    async with AsyncExitStack() as owned:
        with closed(database, servers):
            probed = await owned.enter_async_context(worker(settings_of(database, redis_url, key_prefix)))
            said = await probed.becomes(503, "database")
            assert said["status"] == "unavailable"
            assert await probed.lives()
        await probed.becomes(200)


@pytest.mark.own_database
async def test_a_database_that_goes_away_is_missed_until_it_is_back(
    database: Database, servers: TestServers, redis_url: str, key_prefix: str
) -> None:
    async with worker(settings_of(database, redis_url, key_prefix)) as probed:
        await probed.becomes(200)
        with closed(database, servers):
            await probed.becomes(503, "database")
            assert await probed.lives()
        await probed.becomes(200)


@pytest.mark.long
async def test_a_database_that_says_nothing_is_named_at_once(redis_url: str, key_prefix: str) -> None:
    with primary() as server:
        await migrate(server.owner_url)
        database = Database("engramq", server.url(), server.owner_url)
        async with worker(settings_of(database, redis_url, key_prefix)) as probed:
            await probed.becomes(200)
            server.pause()
            try:
                began = time.monotonic()
                status, said = await probed.get("/readyz")
                assert time.monotonic() - began < LOOK_S + 1.5
                assert await probed.lives()
            finally:
                server.resume()
            assert (status, said["missing"]) == (503, ["database"])
            assert [check["told"] for check in said["checks"]] == ["The database does not answer."]
            await probed.becomes(200)


async def test_a_redis_that_goes_away_is_missed_until_it_is_back(
    database: Database, redis: Server, key_prefix: str
) -> None:
    async with worker(settings_of(database, redis.url, key_prefix)) as probed:
        await probed.becomes(200)
        redis.kill()
        said = await probed.becomes(503, "redis")
        assert [check["told"] for check in said["checks"]] == ["It takes no commands from Redis; its log says why."]
        assert await probed.lives()
        redis.start()
        await probed.becomes(200)


async def test_a_port_that_is_taken_is_named(database: Database, redis_url: str, key_prefix: str) -> None:
    settings = settings_of(database, redis_url, key_prefix)
    async with worker(settings):
        with pytest.raises(SettingsError, match="ENGRAMQ_HEALTH_PORT"):
            await run((WorkerKind.UPKEEP,), settings, handle_signals=False)


class Loading(SwitchedEmbedder):
    """A model that takes long to load."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded = asyncio.Event()

    async def embed(self, texts: Sequence[str], *, questions: bool = False) -> Vectors:
        await self.loaded.wait()
        return await super().embed(texts, questions=questions)


def probing(health: WorkerHealth, port: int) -> Any:
    return health.served(read_settings({"ENGRAMQ_HEALTH_PORT": str(port)}))


async def test_a_worker_serves_when_its_model_is_loaded_and_goes_on_without_one_that_fails(world: World) -> None:
    model = Loading()
    async with BatchingEmbedder(model) as embedder:
        health, port = WorkerHealth(asyncio.Event(), lambda: True), free_port()
        health.know(world.store, WorkerChecks(world.store, Vectorizer(embedder, world.store), embedder))
        async with probing(health, port):
            probed = Probed(port)
            [said] = (await probed.becomes(503, "model"))["checks"]
            assert said["told"] == "The model has not answered yet."
            assert "ENGRAMQ_EMBEDDER_URL" in said["mend"]
            assert "log" not in said["mend"]
            model.loaded.set()
            await probed.becomes(200)
    world.model.down = True
    health, port = WorkerHealth(asyncio.Event(), lambda: True), free_port()
    health.know(world.store, world.services[WorkerChecks])
    async with probing(health, port):
        said = await Probed(port).becomes(200)
        assert said["status"] == "degraded"
        assert [check["name"] for check in said["checks"]] == ["model"]


async def test_a_worker_that_is_asked_to_stop_serves_no_more(world: World) -> None:
    stopping, port = asyncio.Event(), free_port()
    health = WorkerHealth(stopping, lambda: True)
    health.know(world.store, world.services[WorkerChecks])
    async with probing(health, port):
        await Probed(port).becomes(200)
        stopping.set()
        await Probed(port).becomes(503, "worker")
        assert await Probed(port).lives()


@pytest.mark.long
async def test_a_loop_that_does_not_turn_answers_no_probe() -> None:
    port, answers = free_port(), list[httpx.Response]()
    given_up = threading.Event()

    def ask() -> None:
        try:
            answers.append(httpx.get(f"http://127.0.0.1:{port}/healthz", timeout=0.2))
        except httpx.TimeoutException:
            given_up.set()

    async with probing(WorkerHealth(asyncio.Event(), lambda: True), port):
        asking = threading.Thread(target=ask)
        asking.start()
        assert given_up.wait(BOUND_S)  # in the loop's own thread, which stands still meanwhile
        asking.join()
        assert answers == []
        assert await Probed(port).lives()


async def test_a_look_that_takes_too_long_is_said(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    health, port = WorkerHealth(asyncio.Event(), lambda: True), free_port()
    health.know(world.store, world.services[WorkerChecks])
    monkeypatch.setattr("engramq.workers.health.LOOK_S", 0.0)
    async with probing(health, port):
        status, said = await Probed(port).get("/readyz")
        assert (status, said["missing"]) == (503, ["worker"])
        assert said["checks"][0]["told"] == "It did not find out within 4 s whether it serves."
        assert await Probed(port).lives()
