"""Redis behind three Sentinels: masters die, hang and are replaced under load, and nothing acknowledged is lost."""

import asyncio
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from redis.asyncio.sentinel import MasterNotFoundError

from engramq.gateway.cursors import CursorSecret
from engramq.gateway.identity.authorization import local_caller
from engramq.gateway.queue.look import NoLook, look_at_mailboxes
from engramq.gateway.sessions import Breadcrumbs
from engramq.gateway.ui.sign_in import SignedIn
from engramq.schemas.connection import RedisConnection, UnsupportedServer, server_of
from engramq.schemas.faults import EngramqError, FaultCode
from engramq.schemas.keys import Keys
from engramq.schemas.redis_problems import refusal_of
from engramq.schemas.redis_urls import ServerPlace, sentinels_of
from engramq.schemas.settings import SettingsError, read_settings
from engramq.workers.queue.contract import ResultUnknown
from engramq.workers.queue.inspection import Inspection
from tests.conftest import Database
from tests.faults.load import Load
from tests.faults.verdict import verdict
from tests.faults.world import new_world
from tests.lanes import lanes_at
from tests.queue.stage import ADA_ID
from tests.redis_process import until
from tests.scale.redis_sentinel import CONTINUE, PASSWORD, SENTINEL_PASSWORD, SERVICE, STOP, RedisSentinel
from tests.scale.story import tell, terminal_of
from tests.scenarios.stage import stage_settings, staged

pytestmark = [pytest.mark.promise("SC-3"), pytest.mark.timeout(180)]

CALLERS = 6
BACK_S = 20.0  # within which calls are answered again: 1 s until the master counts as gone, the election, the rest
STEP = 20  # stores between two faults


@pytest.fixture(scope="module")
def watched() -> Iterator[RedisSentinel]:
    with RedisSentinel() as running:
        yield running


async def test_the_whole_story_on_the_master_that_sentinels_name(
    watched: RedisSentinel, database: Database, key_prefix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = stage_settings(database, watched.url, key_prefix)
    async with staged(settings) as stage:
        terminal = terminal_of(settings, capsys, ENGRAMQ_PORT="0", ENGRAMQ_HOME=str(tmp_path / "home"))
        await tell(stage, terminal, tmp_path, f"redis://:{PASSWORD}@127.0.0.1:{watched.master.port}")
        checks = json.loads((await terminal("doctor", "--json"))[1])["checks"]
        assert [check for check in checks if check["name"] == "redis"] == [{"name": "redis", "state": "ok"}] or checks


async def test_masters_die_and_hang_under_load_and_nothing_acknowledged_is_lost_or_doubled(
    watched: RedisSentinel, capsys: pytest.CaptureFixture[str]
) -> None:
    run = uuid4().hex[:8]
    async with new_world(redis_url=watched.url) as world:
        load = Load(await world.callers(CALLERS), run, seed=3)
        load.start()
        await load.more(STEP)
        for fault in ("killed", "hung", "asked"):
            await asyncio.to_thread(until, watched.is_settled)
            old, began = watched.master, time.monotonic()
            match fault:
                case "killed":
                    await asyncio.to_thread(old.kill)
                case "hung":
                    old.signal(STOP)
                case _:
                    watched.sentinels[0].redis.execute_command("SENTINEL", "FAILOVER", SERVICE)
            await asyncio.to_thread(until, lambda old=old: watched.master is not old)  # type: ignore[misc]
            back_s = await load.served_after(time.monotonic())
            took = time.monotonic() - began
            with capsys.disabled():
                sys.stdout.write(f"\nA master {fault}: served again after {took:.1f} s.")
            assert took < BACK_S, (fault, back_s)
            if fault == "killed":
                await asyncio.to_thread(old.start)  # as a replica, which the Sentinels make of it
            if fault == "hung":
                old.signal(CONTINUE)  # it still believes to be the master, until it is told
            await load.more(STEP)
        await load.stop()
        found = await verdict(world, load.account, run)
        assert found.is_clean, (found, load.account.told)
        assert found.stores > 3 * STEP


async def test_a_sentinel_that_is_gone_is_passed_over(watched: RedisSentinel) -> None:
    gone = watched.url.replace("@127.0.0.1", "@127.0.0.1:1,127.0.0.1", 1)
    connection = RedisConnection(gone)
    await connection.open()
    await connection.close()


async def test_what_is_no_sentinel_and_an_unknown_service_are_said(watched: RedisSentinel, key_prefix: str) -> None:
    keys = Keys(key_prefix)
    with pytest.raises(NoLook, match="know no master of that name"):
        await look_at_mailboxes(lanes_at(watched.url.replace(f"/{SERVICE}?", "/memories?"), keys))
    plain = f"redis+sentinel://127.0.0.1:{watched.master.port}/{SERVICE}?sentinel_password={PASSWORD}"
    with pytest.raises(NoLook, match="is no Sentinel"):
        await look_at_mailboxes(lanes_at(plain, keys))
    sentinel = f"redis://:{SENTINEL_PASSWORD}@127.0.0.1:{watched.sentinels[0].port}"
    connection = RedisConnection(sentinel)
    with pytest.raises(UnsupportedServer, match="This is a Redis Sentinel"):
        await connection.open()
    wrong = watched.url.replace(f":{PASSWORD}@", ":wrong@")
    with pytest.raises(NoLook, match="wants a password"):
        await look_at_mailboxes(lanes_at(wrong, keys))
    with pytest.raises(NoLook, match="The Sentinels cannot be reached"):
        await look_at_mailboxes(lanes_at(watched.url.replace(SENTINEL_PASSWORD, "wrong"), keys))


async def test_an_unknown_service_is_said_whichever_sentinels_are_gone(watched: RedisSentinel) -> None:
    unknown = watched.url.replace(f"/{SERVICE}?", "/memories?")
    gone = (
        unknown.replace("@127.0.0.1", "@127.0.0.1:1,127.0.0.1", 1),
        unknown.replace("/memories?", ",127.0.0.1:1/memories?"),
    )
    for url in gone:
        with pytest.raises(MasterNotFoundError) as problem:
            await server_of(url).locate("")
        assert "know no master of that name" in refusal_of(problem.value)


async def test_callers_are_told_unavailable_while_the_sentinels_know_no_master(
    watched: RedisSentinel, key_prefix: str
) -> None:
    server, keys = server_of(watched.url.replace(f"/{SERVICE}?", "/memories?")), Keys(key_prefix)
    client, caller = server.client(timeout_s=1.0), local_caller("tenant", "ada")
    calls = [
        Breadcrumbs(client, lanes_at("redis://unused", keys)).read("tenant", ADA_ID, "default"),
        CursorSecret(client, keys).cursor_secret(),
        SignedIn(client, keys).keep("token", caller, None),
        SignedIn(client, keys).token_of("cookie", None),
        SignedIn(client, keys).forget("cookie", caller),
    ]
    for call in calls:
        with pytest.raises(EngramqError) as refusal:
            await call
        assert refusal.value.fault.code is FaultCode.UNAVAILABLE
    await client.aclose()
    async with Inspection(lanes_at(server, keys)) as view:
        with pytest.raises(ResultUnknown):
            await view.depths()


def test_the_parts_of_a_url() -> None:
    found = sentinels_of(
        "rediss+sentinel://ada:p%40w@a.example,[::1]:1/mine/3?ssl_ca_certs=/ca.pem&sentinel_username=s&sentinel_password=q%2F"
    )
    assert found.service == "mine"
    assert found.sentinels == [ServerPlace("a.example", 26379), ServerPlace("::1", 1)]
    assert found.master_url == "rediss://ada:p%40w@sentinel/3?ssl_ca_certs=/ca.pem"
    assert found.sentinel_url == "rediss://s:q%2F@sentinel?ssl_ca_certs=/ca.pem"


@pytest.mark.parametrize("url", ["redis+sentinel://a:1", "redis+sentinel://a:1/x/y", "redis+sentinel://a:1,/x"])
def test_a_url_that_says_too_little_is_refused(url: str) -> None:
    with pytest.raises(SettingsError, match="ENGRAMQ_REDIS_URL"):
        read_settings({"ENGRAMQ_REDIS_URL": url})
