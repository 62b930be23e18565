"""The whole pipeline on a Redis Cluster of three masters, and what is said where a cluster is none or is not whole."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

import pytest

from engramq.deploy.cli import main
from engramq.gateway.queue.bus import open_bus
from engramq.schemas import scripts
from engramq.schemas.command_line import ExitCode
from engramq.schemas.connection import (
    CONNECTION_ERRORS,
    ELSEWHERE,
    Lanes,
    RedisConnection,
    UnsupportedServer,
    lanes_of,
    pack,
    pack_script,
)
from engramq.schemas.keys import slot_of
from engramq.schemas.redis_problems import refusal_of
from engramq.schemas.scripts import WAKE, Script
from engramq.schemas.settings import SETTINGS, Settings
from engramq.schemas.vocabulary import WorkerKind
from engramq.workers.queue.dead_letters import DeadLetters
from tests.conftest import Database
from tests.scale.cluster_load import one_of_each_lane
from tests.scale.redis_cluster import Node, RedisCluster
from tests.scenarios.stage import Agent, Stage, agent_of, stage_settings, staged, until

pytestmark = pytest.mark.promise("SC-2")

LANES = 3
EVERY_SCRIPT = tuple(var for var in vars(scripts).values() if isinstance(var, Script))


@pytest.fixture
def settings(database: Database, cluster: RedisCluster) -> Settings:
    return stage_settings(database, cluster.url, f"t-{uuid4().hex[:8]}", lanes=str(LANES))


@pytest.fixture
async def stage(settings: Settings) -> AsyncIterator[Stage]:
    async with staged(settings) as running:
        yield running


async def story(agent: Agent) -> None:
    """Do what agents do: store, search, link, import, promote, look back."""
    tea = await agent.store("Ada drinks tea in the morning")
    assert await agent.found("tea in the morning") == ["Ada drinks tea in the morning"]
    crumbs = await agent.call("get_breadcrumbs")
    assert (crumbs["last_stored_id"], crumbs["last_recalled_ids"]) == (tea["id"], [tea["id"]])
    other = await agent.store("Ada bought a kettle")
    linked = await agent.call("connect", source=tea["id"], target=other["id"], relation="supports")
    assert linked["status"] == "success", linked
    imported = await agent.call("import_memories", records=[{"content": "Ada sold her coffee mill"}])
    assert (imported["status"], imported["accepted"]) == ("accepted", 1)

    async def is_there() -> bool:
        return "Ada sold her coffee mill" in await agent.recent()

    await until(is_there)
    doubtful = await agent.store("Ada is said to hate milk", partition="untrusted", verification="verified")
    promoted = await agent.call("memory_promote_to_trusted", record_id=doubtful["id"])
    assert promoted["status"] == "promoted", promoted


async def test_agents_of_every_lane_are_served(stage: Stage, settings: Settings, cluster: RedisCluster) -> None:
    service, lanes = await stage.gateway(), lanes_of(settings)
    for namespace in one_of_each_lane(LANES):
        async with agent_of(service, namespace) as agent:
            await story(agent)
    for keys in lanes.all:
        node = cluster.master_of(keys.prefix)
        assert node.redis.keys(f"{keys.prefix}:session_state:*")
    assert {cluster.master_of(keys.prefix) for keys in lanes.all} == set(cluster.masters) or LANES < 3


async def test_what_an_operator_looks_at_is_all_lanes_together(stage: Stage, settings: Settings) -> None:
    lanes = lanes_of(settings)
    async with open_bus(settings) as bus, lanes.server.client(timeout_s=5.0) as client:
        await bus.ready()

        async def all_served() -> bool:
            return all(state.workers == 1 for state in (await bus.look()).mailboxes)

        await until(all_served)
        assert [state.kind for state in (await bus.look()).mailboxes] == list(WorkerKind)
        assert await DeadLetters(client, lanes).list(WorkerKind.RECALL) == []


def test_doctor_and_the_dead_letters_are_asked_by_the_command(
    settings: Settings,
    database: Database,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    for setting in SETTINGS:
        monkeypatch.delenv(setting.variable, raising=False)
    monkeypatch.setenv("ENGRAMQ_HOME", str(tmp_path))
    monkeypatch.setenv("ENGRAMQ_REDIS_URL", settings.redis_url)
    monkeypatch.setenv("ENGRAMQ_DATABASE_URL", database.url)
    monkeypatch.setenv("ENGRAMQ_LANES", str(LANES))
    assert main(["dead", "list", "--json"]) == ExitCode.DONE
    assert capsys.readouterr().out == ""
    main(["doctor", "--json"])
    checks = {check["name"]: check for check in json.loads(capsys.readouterr().out)["checks"]}
    assert "told" not in checks["redis"]


async def test_no_script_is_begun_while_its_slot_moves(cluster: RedisCluster) -> None:
    lanes = Lanes(cluster.url, f"t-{uuid4().hex[:8]}")
    keys = lanes.first
    source, key, slot = cluster.master_of(keys.prefix), f"{keys.prefix}:there", slot_of(keys.prefix)
    source.redis.set(key, "kept")
    target = next(node for node in cluster.masters if node is not source)
    connection = RedisConnection(lanes.server, EVERY_SCRIPT, key=keys.prefix)
    await connection.open()
    target.set_slot(slot, "IMPORTING", source.id)
    source.set_slot(slot, "MIGRATING", target.id)
    try:
        for script in EVERY_SCRIPT:
            (refused,) = await connection.exchange([pack_script(script, (key, *keys.guard), ())], 0.35)
            assert isinstance(refused, ELSEWHERE), refused
        # Without the guard this one would begin.
        (begun,) = await connection.exchange([pack_script(WAKE, (key,), ())])
        assert "WRONGTYPE" in str(begun)
        # A command goes on while its key has not moved.
        assert await connection.exchange([pack("GET", key)]) == [b"kept"]
    finally:
        cluster.move(slot, target)
    assert await connection.exchange([pack("GET", key)]) == [b"kept"]
    await connection.close()


async def test_a_cluster_named_as_a_server_is_told_how_to_name_it(cluster: RedisCluster) -> None:
    with pytest.raises(UnsupportedServer, match=r"begin ENGRAMQ_REDIS_URL with redis\+cluster://"):
        await RedisConnection(cluster.url.replace("+cluster", "")).open()


async def test_a_server_named_as_a_cluster_is_told_how_to_name_it(redis_url: str, tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.start(cluster=False)
    try:
        lone = f"redis+cluster://127.0.0.1:{node.place.port}"
        with pytest.raises(UnsupportedServer, match=r"is no cluster: begin ENGRAMQ_REDIS_URL with redis://"):
            await RedisConnection(lone, key="engramq").open()
    finally:
        node.kill()


async def test_a_slot_without_a_master_is_told_of(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.start()
    try:
        lone = f"redis+cluster://127.0.0.1:{node.place.port}"
        with pytest.raises(CONNECTION_ERRORS) as problem:
            await RedisConnection(lone, key="engramq").open()
        assert refusal_of(problem.value) == "The Redis Cluster is down: some of its slots have no master."
    finally:
        node.kill()
