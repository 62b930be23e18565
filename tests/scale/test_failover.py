"""One address of PostgreSQL whose server fails: the address names several hosts, and a standby becomes the primary."""

import asyncio
import logging
from collections import Counter
from collections.abc import Iterator

import pytest

from engramq.deploy.local.embedded import process
from engramq.schemas.settings import Settings, read_settings
from engramq.schemas.vocabulary import Partition
from engramq.workers.app import open_store
from engramq.workers.db.conninfo import WORKER_ROLE
from engramq.workers.db.database import Store
from engramq.workers.db.diagnosis import diagnose
from engramq.workers.db.migrate import migrate
from engramq.workers.db.readiness import NotReady
from engramq.workers.db.transaction import Transaction
from engramq.workers.db.vectors import Sizes
from engramq.workers.search.copies import SEARCHES_FIRST, Copies
from engramq.workers.search.question import Question
from tests.faults.proxy import CHUNK, Proxy, Weather
from tests.scale.standby import BOUND_S, DATABASE, PostgresServer, primary
from tests.scale.story import tell_agents
from tests.scale.workshop import running, stored_under
from tests.scenarios.stage import until

pytestmark = [pytest.mark.timeout(240), pytest.mark.promise("SC-5")]

CONTENTS = "select m.content from memories m join namespaces n using (tenant) where n.namespace = %s"
HANGS_MAX_S = 15.0
CALLERS = 4
INSERT_MEMORY = """
    with node as (
        insert into nodes (id, tenant, label, partition)
        values (gen_random_uuid(), make_tenant('n'), 'Memory', 'trusted') returning id, tenant
    )
    insert into memories (
        node_id, partition, tenant, content, confidence, source, verification, state, lexemes, created_by
    ) select id, 'trusted', tenant, 'x', 1, 'extracted', 'unverified', 'pending', '', 'me' from node
"""
BETWEEN_S = 1.0  # of load between two disturbances


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    with primary() as server:
        asyncio.run(migrate(server.owner_url))
        yield server


@pytest.fixture
def standby(server: PostgresServer) -> PostgresServer:
    """A standby that has whatever the primary has acknowledged; it ends with its primary."""
    standby = server.standby("standby")
    standby.start()
    server.ask("alter system set synchronous_standby_names = '*'", database="postgres")
    server.ask("select pg_reload_conf()", database="postgres")
    return standby


def url_of_both(server: PostgresServer, standby: PostgresServer) -> str:
    hosts = f"127.0.0.1:{server.port},127.0.0.1:{standby.port}"
    return server.url().replace(f"127.0.0.1:{server.port}", hosts)


def settings_of(database_url: str, redis_url: str, prefix: str) -> Settings:
    return read_settings({
        "ENGRAMQ_DATABASE_URL": database_url,
        "ENGRAMQ_REDIS_URL": redis_url,
        "ENGRAMQ_KEY_PREFIX": prefix,
        "ENGRAMQ_EMBEDDER": "hash",
        "ENGRAMQ_TEST_SWEEP_INTERVAL_S": "0.2",
        "ENGRAMQ_REPLY_TIMEOUT_S": "20",
    })  # fmt: skip


async def write(tx: Transaction) -> None:
    await tx.row(
        b"insert into audit_log (tenant, namespace, actor, action) "
        b"values (%(tenant)s, %(namespace)s, 'a', 'x') returning id"
    )


async def test_an_address_of_several_hosts_follows_the_primary_and_loses_nothing(
    server: PostgresServer, standby: PostgresServer, redis_url: str, key_prefix: str
) -> None:
    settings = settings_of(url_of_both(server, standby), redis_url, key_prefix)
    async with running(settings) as (stage, _worker):
        await tell_agents(stage)

        async def fail_over() -> None:
            await asyncio.sleep(BETWEEN_S)
            server.kill()
            await asyncio.to_thread(standby.promote)
            standby.ask("alter system reset synchronous_standby_names", database="postgres")
            standby.ask("select pg_reload_conf()", database="postgres")
            await asyncio.sleep(BETWEEN_S)

        told = await stored_under(stage, "failed over", fail_over)
    found = Counter(row["content"] for row in standby.ask(CONTENTS, "failed over"))
    assert set(found.values()) == {1}
    assert set(told["acknowledged"]) <= set(found)
    assert (told["missed"], told["stored"] > 100) == (0, True)


async def test_what_is_under_way_at_a_primary_that_hangs_is_tried_elsewhere(
    server: PostgresServer, standby: PostgresServer
) -> None:
    async def write_slowly(tx: Transaction) -> None:
        await tx.rows(b"select pg_sleep(0.1)")  # so that each caller has a session of its own
        await write(tx)

    async with await Store.open(url_of_both(server, standby)) as store:
        await asyncio.gather(*(store.write("n", write_slowly) for _ in range(CALLERS)))
        server.pause()
        try:
            waiting = asyncio.gather(*(store.write("n", write) for _ in range(CALLERS)))
            await asyncio.to_thread(standby.promote)
            await asyncio.wait_for(waiting, HANGS_MAX_S)
        finally:
            server.resume()
    assert standby.ask("select count(*) as n from audit_log") == [{"n": 2 * CALLERS}]


async def test_what_is_under_way_on_a_line_that_passes_nothing_is_tried_elsewhere(
    server: PostgresServer, standby: PostgresServer
) -> None:
    async with Proxy(server.socket) as line:
        beyond = f"postgresql://{WORKER_ROLE}@127.0.0.1:{line.port},127.0.0.1:{standby.port}/{DATABASE}"
        async with await Store.open(beyond) as store:
            await store.write("n", write)
            line.become(Weather.BLACK)
            waiting = asyncio.gather(*(store.write("n", write) for _ in range(CALLERS)))
            await asyncio.to_thread(standby.promote)
            await asyncio.wait_for(waiting, HANGS_MAX_S)
    assert standby.ask("select count(*) as n from audit_log") == [{"n": 1 + CALLERS}]


@pytest.mark.parametrize("weather", [Weather.BLACK, Weather.HALF_OPEN])
async def test_a_line_that_passes_nothing_is_cut_where_the_server_answers_by_another(
    server: PostgresServer, caplog: pytest.LogCaptureFixture, weather: Weather
) -> None:
    async with Proxy(server.socket) as dead, Proxy(server.socket) as other:
        both = f"postgresql://{WORKER_ROLE}@127.0.0.1:{dead.port},127.0.0.1:{other.port}/{DATABASE}"
        async with await Store.open(both) as store:
            await store.write("n", write)
            dead.become(weather)
            await asyncio.wait_for(store.write("n", write), HANGS_MAX_S)
    assert "Sessions are cut: their lines pass nothing" in caplog.messages
    written = server.ask("select count(*) as n from audit_log")
    assert written == [{"n": 2}], "once each, whatever the dead line had carried"


async def test_a_slow_line_is_not_cut_while_a_long_statement_goes_over_it(
    server: PostgresServer, caplog: pytest.LogCaptureFixture
) -> None:
    length = 30 * CHUNK  # some 9 s at a chunk in DELAY_S

    async def write_much(tx: Transaction) -> None:
        assert await tx.row(b"select length(%(text)s::text) as n", text="x" * length) == {"n": length}

    async with (
        Proxy(server.socket) as line,
        await Store.open(f"postgresql://{WORKER_ROLE}@127.0.0.1:{line.port}/{DATABASE}") as store,
    ):
        await store.write("n", write)
        line.become(Weather.SLOW)
        await store.write("n", write_much)
    assert "Sessions are cut: their lines pass nothing" not in caplog.messages


async def test_what_takes_long_at_a_server_that_serves_is_left_alone(server: PostgresServer) -> None:
    tries = 0

    async def read_slowly(tx: Transaction) -> None:
        nonlocal tries
        tries += 1
        await tx.rows(b"select pg_sleep(7)")  # longer than until it is asked whether the server still serves

    async with await Store.open(server.url()) as store:
        await store.read("n", read_slowly)
    assert tries == 1


async def test_a_standby_as_the_only_database_is_named_and_taken_when_it_is_promoted(
    server: PostgresServer, caplog: pytest.LogCaptureFixture
) -> None:
    standby = server.standby("alone")
    standby.start()
    with pytest.raises(NotReady, match=r"is a standby, which takes no writes.*name all hosts"):
        await Store.open(standby.url(), primary=True)
    (check,) = [check for check in await diagnose(standby.url(), "english") if check.name == "database"]
    assert (check.state, "is a standby" in check.told) == ("degraded", True)
    opening = asyncio.create_task(open_store(read_settings({"ENGRAMQ_DATABASE_URL": standby.url()})))

    async def is_said() -> bool:
        return "Waiting for the database" in caplog.messages

    with caplog.at_level(logging.WARNING):
        await until(is_said)
    standby.promote()
    async with asyncio.timeout(20), await opening as store:
        await store.write("n", write)


async def test_a_copy_that_a_standby_proves_lacks_no_write_of_its_primary(server: PostgresServer) -> None:
    """Its log brings the number of one write in 33, and no lock of those who write."""
    standby = server.standby("read")
    standby.start()

    def has_replayed() -> bool:
        (end,) = server.ask("select pg_current_wal_lsn()::text as lsn")
        (row,) = standby.ask("select pg_last_wal_replay_lsn() >= %s::pg_lsn as so", end["lsn"])
        return bool(row["so"])

    async with await Store.open(standby.url()) as store:
        copies = Copies(store, Sizes())
        for count in range(1, 4):
            server.ask(INSERT_MEMORY)
            assert await asyncio.to_thread(process.wait_until, has_replayed, BOUND_S)
            for _ in range(SEARCHES_FIRST):
                await copies.prepare("n", (Partition.TRUSTED,))
            proven = await copies.find_current("n", (Partition.TRUSTED,), Question("kettle"))
            assert proven is not None
            assert len(proven.copy) == count
