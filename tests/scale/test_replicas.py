"""Standbys of PostgreSQL: what was stored is found at once, however far they are behind; none costs an error."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import msgspec
import pytest
from redis.asyncio import Redis

from engramq.deploy.embedded.postgres import OWNER_ROLE
from engramq.schemas.commands import AddNode, GetNodeByName, NodeMissing
from engramq.schemas.faults import FaultCode
from engramq.schemas.keys import Keys
from engramq.schemas.settings import Settings, read_settings
from engramq.workers.app import open_store
from engramq.workers.checks import WorkerChecks
from engramq.workers.cli.move_command import move_tenant
from engramq.workers.db.database import Store
from engramq.workers.db.diagnosis import diagnose
from engramq.workers.db.errors import Moved
from engramq.workers.db.migrate import migrate
from engramq.workers.db.readiness import NotReady
from engramq.workers.db.standbys import LOOK_EVERY_S, SLOW_READS, SLOW_S, TOO_SLOW, TRY_S, Position, Standbys
from engramq.workers.db.transaction import Transaction
from engramq.workers.embedders.batching import BatchingEmbedder
from engramq.workers.embedders.factory import create_embedder
from engramq.workers.embedders.vectorizer import Vectorizer
from engramq.workers.handling import CommandRunner, Services
from engramq.workers.metrics import WorkerMetrics
from engramq.workers.queue.inspection import Inspection
from tests.jobs import job
from tests.pipeline.stage import Agent, agent_of, staged, until
from tests.refusals import refused
from tests.running import EVERY_HANDLER, runner
from tests.scale.standby import DATABASE, PostgresServer, primary
from tests.scale.workshop import running, stored_under, tell

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(240)]

HELD_BACK = "5s"
CONTENTS = "select m.content from memories m join namespaces n using (tenant) where n.namespace = %s"
NODES = "select x.name from nodes x join namespaces n using (tenant) where n.namespace = %s and x.name is not null"


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with primary() as one:
        asyncio.run(migrate(one.owner_url))
        yield one


def settings_of(server: PostgresServer, standbys: list[PostgresServer], redis_url: str, prefix: str) -> Settings:
    return read_settings({
        "ENGRAMQ_DATABASE_URL": server.url(),
        "ENGRAMQ_DATABASE_REPLICAS": ",".join(one.url() for one in standbys),
        "ENGRAMQ_REDIS_URL": redis_url,
        "ENGRAMQ_KEY_PREFIX": prefix,
        "ENGRAMQ_EMBEDDER": "hash",
        "ENGRAMQ_SWEEP_INTERVAL_S": "0.2",
        "ENGRAMQ_REPLY_TIMEOUT_S": "20",
    })  # fmt: skip


@pytest.fixture
def fast(server: PostgresServer, request: pytest.FixtureRequest) -> Iterator[PostgresServer]:
    """A standby that follows at once."""
    one = server.standby(f"fast_{request.node.name[:20]}")
    one.start()
    try:
        yield one
    finally:
        one.end()


@pytest.fixture
def slow(server: PostgresServer, request: pytest.FixtureRequest) -> Iterator[PostgresServer]:
    """A standby that is 5 s behind."""
    one = server.standby(f"slow_{request.node.name[:20]}")
    one.start(recovery_min_apply_delay=HELD_BACK)
    try:
        yield one
    finally:
        one.end()


@asynccontextmanager
async def watching(server: PostgresServer, *standbys: PostgresServer) -> AsyncIterator[Standbys]:
    async with (
        await Store.open(server.url()) as store,
        Standbys(store, [one.url() for one in standbys]) as watched,
    ):
        yield watched


async def whether_standby(tx: Transaction) -> bool:
    row = await tx.row(b"select pg_is_in_recovery() as is_standby")
    assert row is not None
    return bool(row["is_standby"])


async def write(tx: Transaction) -> None:
    await tx.row(
        b"insert into audit_log (tenant, namespace, actor, action) "
        b"values (%(tenant)s, %(namespace)s, 'a', 'x') returning id"
    )


async def count(tx: Transaction) -> int:
    row = await tx.row(b"select count(*)::int as n from audit_log where tenant = %(tenant)s")
    assert row is not None
    return int(row["n"])


async def has_replayed(standby: PostgresServer, namespace: str, memories: int) -> None:
    async def holds() -> bool:
        return len(standby.ask(CONTENTS, namespace)) >= memories

    await until(holds, 30)


async def are_read(standbys: Standbys, wanted: int) -> None:
    async def holds() -> bool:
        return sum(not one.why for one in standbys.states) == wanted

    await until(holds, 30)


@pytest.mark.promise("SC-5")
async def test_a_standby_answers_what_it_has_replayed_and_the_primary_the_rest(
    server: PostgresServer, fast: PostgresServer, slow: PostgresServer
) -> None:
    async with watching(server, slow) as held, watching(server, fast) as current:
        store = held._primary
        await store.write("n", write)
        position = await held.position()
        assert await held.after(position).read("n", whether_standby) is False
        assert await held.after(Position(0, 0)).read("n", count) == 1  # of whoever answers, though the tenant is young

        async def has_replayed() -> bool:
            return await held.after(position).read("n", whether_standby)

        await until(has_replayed, 30)
        for number in range(50):
            await store.write("fresh", write)
            assert await current.after(await current.position()).read("fresh", count) == number + 1
            assert await held.after(await held.position()).read("fresh", count) == number + 1
        assert current.answered > 0

        async def told_lag() -> bool:
            (state,) = held.states
            return (state.lag_bytes or 0) > 0 and (state.lag_s or 0) > 0

        await store.write("n", write)
        await until(told_lag, 10)

        async def told_none() -> bool:
            return [(one.lag_bytes, one.lag_s) for one in held.states] == [(0, 0.0)]

        await until(told_none, 30)


@pytest.mark.promise("SC-5")
async def test_one_that_was_promoted_or_goes_another_way_is_not_read(
    server: PostgresServer, fast: PostgresServer, slow: PostgresServer
) -> None:
    async with watching(server, fast) as standbys:
        store = standbys._primary
        await store.write("n", write)
        await are_read(standbys, 1)
        reads = standbys.after(Position(0, 0))  # chosen while it was a standby
        fast.promote()
        assert await reads.read("n", whether_standby) is False
        assert server.ask("select pg_is_in_recovery() as x") == [{"x": False}]
        await are_read(standbys, 0)
        assert "no standby" in standbys.states[0].why
        assert await standbys.after(Position(0, 0)).read("n", count) >= 1
    # Seen from the promoted one, the other follows another history.
    async with watching(fast, slow) as standbys:
        await are_read(standbys, 0)
        assert "another history" in standbys.states[0].why
        assert await standbys._primary.read("n", count) >= 1


@pytest.mark.promise("SC-5")
async def test_a_namespace_that_has_moved_as_a_standby_has_it_is_where_the_primary_says(
    server: PostgresServer, fast: PostgresServer
) -> None:
    async def read(tx: Transaction) -> int:
        if await whether_standby(tx):
            raise Moved(tx.namespace, "elsewhere")
        return await count(tx)

    async with watching(server, fast) as standbys:
        await standbys._primary.write("n", write)
        await are_read(standbys, 1)
        assert await standbys.after(Position(0, 0)).read("n", read) >= 1


@pytest.mark.promise("SC-5")
async def test_a_dead_or_silent_standby_costs_no_error_and_little_time(
    server: PostgresServer, fast: PostgresServer
) -> None:
    async with watching(server, fast) as standbys:
        await standbys._primary.write("n", write)
        await are_read(standbys, 1)

        async def all_read(seconds: float) -> float:
            longest, until_then = 0.0, time.monotonic() + seconds
            while time.monotonic() < until_then:
                began = time.monotonic()
                assert await standbys.after(Position(0, 0)).read("n", count) >= 1
                longest = max(longest, time.monotonic() - began)
            return longest

        fast.pause()
        try:
            assert await all_read(3.0) < TRY_S + 1.0
            assert not standbys._standbys[0].may_have(0)
            assert await all_read(1.0) < 0.5  # it is left alone
        finally:
            fast.resume()
        await are_read(standbys, 1)
        fast.kill()
        assert await all_read(2 * LOOK_EVERY_S) < TRY_S + 1.0
        assert standbys.states[0].why
        fast.start()
        await are_read(standbys, 1)
        assert await standbys.after(Position(0, 0)).read("n", whether_standby) is True


@pytest.mark.promise("SC-5")
async def test_one_that_answers_looks_but_is_slow_to_read_is_left_alone_for_a_while(
    server: PostgresServer, fast: PostgresServer
) -> None:
    async def read(tx: Transaction) -> bool:
        if is_standby := await whether_standby(tx):
            await tx.row(b"select pg_sleep(%(seconds)s)", seconds=TRY_S + 1.0)
        return is_standby

    async with watching(server, fast) as standbys:
        await standbys._primary.write("n", write)
        await are_read(standbys, 1)
        await until(lambda: _tried(standbys, read), 30)  # the tenant may be younger than what it has replayed
        assert await standbys.after(Position(0, 0)).read("n", whether_standby) is True, "one read may be heavy"
        for _ in range(SLOW_READS):
            assert standbys.states[0].why == ""
            assert await _tried(standbys, read)
        fell_back, until_then = standbys.fell_back, time.monotonic() + SLOW_S - 1.0
        assert standbys.states[0].why == TOO_SLOW
        while time.monotonic() < until_then:  # several looks find that it is there
            assert await standbys.after(Position(0, 0)).read("n", read) is False
        assert standbys.fell_back == fell_back
        await are_read(standbys, 1)
        assert await standbys.after(Position(0, 0)).read("n", whether_standby) is True


async def _tried(standbys: Standbys, read: Callable[[Transaction], Awaitable[bool]]) -> bool:
    """Read once; say whether that took too long at a standby."""
    began = time.monotonic()
    assert await standbys.after(Position(0, 0)).read("n", read) is False
    return time.monotonic() - began > TRY_S


@pytest.mark.promise("SC-5")
async def test_a_primary_that_has_become_a_standby_is_refused_as_one_that_is_away(
    fast: PostgresServer, slow: PostgresServer, redis_url: str, key_prefix: str
) -> None:
    settings = settings_of(fast, [slow], redis_url, key_prefix)
    async with watching(fast, slow) as standbys, Inspection(redis_url, Keys(key_prefix)) as view:
        with refused(FaultCode.UNAVAILABLE):
            await standbys.position()
        both = CommandRunner(
            EVERY_HANDLER,
            store=standbys._primary, mailboxes=view, settings=settings, services=Services(), standbys=standbys,
        )  # fmt: skip
        answered = await both.run(job(GetNodeByName(name="Ada"), namespace="nobody's"))
        assert isinstance(answered.reply, NodeMissing)
        assert await both._written() == ""


async def found_at_once(agents: list[Agent], number: int) -> None:
    """Store by one and find by all: what one was told is what everybody sees."""
    content = f"Entry {number} of the log book says that valve {number} was turned"
    await agents[number % len(agents)].store(content)
    for agent in agents:
        assert content in await agent.found(content)


@pytest.mark.promise("SC-5")
async def test_a_search_after_a_store_never_misses_across_gateways_with_a_standby_5_s_behind(
    server: PostgresServer, fast: PostgresServer, slow: PostgresServer, redis_url: str, key_prefix: str
) -> None:
    settings = settings_of(server, [slow, fast], redis_url, key_prefix)
    async with (
        staged(settings) as stage,
        agent_of(await stage.gateway(), "book", "ada", session="one") as one,
        agent_of(await stage.gateway(), "book", "ada", session="") as other,
        agent_of(await stage.gateway(), "book", "eve", session="two") as third,
    ):
        for number in range(40):
            await found_at_once([one, other, third], number)


@pytest.mark.promise("SC-5")
async def test_nothing_is_missed_when_redis_forgets_what_was_written(
    server: PostgresServer, slow: PostgresServer, redis_url: str, key_prefix: str
) -> None:
    settings = settings_of(server, [slow], redis_url, key_prefix)
    async with staged(settings) as stage, agent_of(await stage.gateway(), "forgotten") as agent:
        client: Any = Redis.from_url(redis_url)
        try:
            for number in range(8):
                await found_at_once([agent], number)
                await client.delete(Keys(key_prefix).written("forgotten"))
                assert len(await agent.recent()) == number + 1
                assert len(await client.get(Keys(key_prefix).written("forgotten"))) == len(Position(0, 0).text)
        finally:
            await client.aclose()


@pytest.mark.promise("SC-5")
async def test_what_get_command_tells_is_done_is_found_though_its_answer_was_never_sent(
    server: PostgresServer, slow: PostgresServer, redis_url: str, key_prefix: str
) -> None:
    settings = settings_of(server, [slow], redis_url, key_prefix)
    async with staged(settings) as stage, agent_of(await stage.gateway(), "reported") as agent:
        before = (await agent.store("The pump was looked at"))["id"]
        await has_replayed(slow, "reported", 1)
        async with await Store.open(server.url()) as store:  # of a worker that dies behind its COMMIT
            one = job(AddNode(name="Ada", label="Person"), namespace="reported")
            await runner(store).run(one)
        told = await agent.call("get_command", command_id=one.envelope.id)
        assert told["status"] == "done", told
        found = await agent.call("get_node_by_name", name="Ada")
        assert found["status"] == "success", found
        assert slow.ask(NODES, "reported") == []  # it would have missed it
        assert (await agent.call("get_memory", memory_id=before))["status"] == "success"


@pytest.mark.promise("SC-5")
async def test_what_workers_without_standbys_have_stored_is_found_when_others_have_some(
    server: PostgresServer, slow: PostgresServer, redis_url: str, key_prefix: str
) -> None:
    """The position that Redis has of before is an old one, since they told none."""
    with_standby, without = (settings_of(server, some, redis_url, key_prefix) for some in ([slow], []))
    async with staged(with_standby) as stage, agent_of(await stage.gateway(), "again") as agent:
        await agent.store("The pump was looked at")
    await has_replayed(slow, "again", 1)
    content = "The valve was turned"
    async with staged(without) as stage, agent_of(await stage.gateway(), "again") as agent:
        await agent.store(content)
    async with staged(with_standby) as stage, agent_of(await stage.gateway(), "again") as agent:
        found = await agent.recent()
        assert len(slow.ask(CONTENTS, "again")) == 1, "it has caught up too soon to prove anything"
        assert content in found


@pytest.mark.promise("SC-5")
async def test_a_namespace_that_moves_away_is_not_read_from_a_standby_that_has_not_heard_of_it(
    server: PostgresServer, slow: PostgresServer, redis_url: str, key_prefix: str
) -> None:
    """One worker moves it by what it stores there; the other has to be told, and not by the standby."""
    server.ask("create database second", database="postgres")
    await migrate(server.url(OWNER_ROLE, "second"))
    settings = settings_of(server, [slow], redis_url, key_prefix)
    settings = msgspec.structs.replace(settings, databases={"second": server.url(database="second")})
    owned = msgspec.structs.replace(
        settings, database_url=server.owner_url, databases={"second": server.url(OWNER_ROLE, "second")}
    )
    async with staged(settings) as stage, agent_of(await stage.gateway(), "leaving") as agent:
        for number in range(3):
            await found_at_once([agent], number)
        await has_replayed(slow, "leaving", 3)
        await asyncio.to_thread(
            partial(move_tenant, owned, "leaving", to="second", dry_run=False, abort=False, as_json=True)
        )
        for number in range(3, 8):
            await found_at_once([agent], number)
            async with staged(settings) as newer, agent_of(await newer.gateway(), "leaving") as reader:
                assert len(await reader.recent()) == number + 1  # by whichever of the workers
    assert server.ask(CONTENTS, "leaving") == []


@pytest.mark.promise("SC-5")
async def test_the_story_is_told_with_standbys_that_are_killed_and_promoted_meanwhile(
    server: PostgresServer, fast: PostgresServer, slow: PostgresServer, redis_url: str, key_prefix: str
) -> None:
    settings = settings_of(server, [fast, slow], redis_url, key_prefix)
    replicas = ",".join(settings.database_replicas)
    async with running(settings, ENGRAMQ_DATABASE_REPLICAS=replicas) as (stage, _worker):
        await tell(stage, "standing by")

        async def disturb() -> None:
            fast.kill()
            await asyncio.sleep(1.0)  # of load between two disturbances, not a wait for anything
            await asyncio.to_thread(fast.start)
            await asyncio.sleep(2.0)
            await asyncio.to_thread(fast.promote)
            await asyncio.sleep(1.0)
            slow.kill()
            await asyncio.sleep(1.0)

        told = await stored_under(stage, "disturbed", disturb)
    assert told["missed"] == 0
    assert told["refused"] == 0
    rows = server.ask(CONTENTS, "disturbed")
    assert len(rows) == len({row["content"] for row in rows}) == len(told["acknowledged"])


@pytest.mark.promise("SC-5")
async def test_a_standby_as_the_only_database_is_told_and_taken_when_it_is_promoted(
    fast: PostgresServer, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(NotReady, match=r"is a standby, which takes no writes.*ENGRAMQ_DATABASE_REPLICAS"):
        await Store.open(fast.url(), primary=True)
    (check,) = [one for one in await diagnose(fast.url(), "english") if one.name == "database"]
    assert (check.state, "is a standby" in check.told) == ("degraded", True)
    opening = asyncio.create_task(open_store(read_settings({"ENGRAMQ_DATABASE_URL": fast.url()})))

    async def is_told() -> bool:
        return "Waiting for the database" in caplog.messages

    with caplog.at_level(logging.WARNING):
        await until(is_told)
    fast.promote()
    async with asyncio.timeout(20), await opening as store:
        await store.write("n", write)


@pytest.mark.promise("SC-5")
async def test_each_standby_is_told_with_its_lag(server: PostgresServer, fast: PostgresServer) -> None:
    async with watching(server, fast) as standbys:
        store = standbys._primary
        await store.write("n", write)
        await are_read(standbys, 1)
        (state,) = standbys.states
        assert (state.why, state.name) == ("", f"127.0.0.1/{DATABASE}")
        metrics = WorkerMetrics((), read_settings({}))
        standbys._observe = metrics.standby_asked

        async def answers() -> bool:  # the namespace is new
            return await standbys.after(Position(0, 0)).read("n", whether_standby)

        await until(answers)
        async with BatchingEmbedder(create_embedder("hash")) as embedder:
            checks = WorkerChecks(store, Vectorizer(embedder, store), embedder, standbys)

            async def told() -> tuple[str, str]:
                (found,) = [one for one in await checks.look() if one.name == "standbys"]
                return found.state, found.told

            assert (await told())[0] == "ok"
            assert "is read (" in (await told())[1]
            text = (await metrics.read(store, embedder, standbys)).decode()
            assert f'engramq_standby_read{{standby="{state.name}"}} 1.0' in text
            assert f'engramq_standby_lag_bytes{{standby="{state.name}"}}' in text
            assert 'engramq_standby_reads_total{by="standby"} 1.0' in text
            fast.kill()
            await are_read(standbys, 0)
            assert (await told())[0] == "degraded"
            assert "is not read: " in (await told())[1]
            text = (await metrics.read(store, embedder, standbys)).decode()
            assert f'engramq_standby_read{{standby="{state.name}"}} 0.0' in text
