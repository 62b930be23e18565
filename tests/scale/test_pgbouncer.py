"""PgBouncer before PostgreSQL: the whole story through it, its death and that of workers; each way to pool is met."""

import asyncio
import json
import re
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from engramq.deploy.cli.status import look
from engramq.deploy.local.embedded.postgres import OWNER_ROLE
from engramq.schemas.settings import Settings, read_settings
from engramq.workers.db.conninfo import SESSION, WORKER_ROLE
from engramq.workers.db.database import Store
from engramq.workers.db.loads import index_loads
from engramq.workers.db.migrate import migrate
from engramq.workers.db.readiness import NotReady
from engramq.workers.db.rewriting import rewrite_database
from engramq.workers.db.transaction import AT_LENGTH, Transaction
from tests.scale.pgbouncer import PgBouncer, pooler
from tests.scale.standby import PostgresServer, primary
from tests.scale.story import tell_agents
from tests.scale.workshop import running, stored_under

pytestmark = pytest.mark.timeout(240)

HELD_SETTINGS = (
    b"select current_user as role, pg_backend_pid() as pid, (select json_object_agg(name, current_setting(name)) "
    b"from unnest(%(names)s::text[]) as name) as settings"
)
# What a session has of an earlier transaction.
LEFT = "select name, setting from pg_settings where name = any(%s) and source = 'session'"
NAMES = list(SESSION)
ELSEWHERE = "Asia/Tokyo"  # of the server: a timestamp that is read by the wrong clock shows


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with primary() as one:
        one.ask(f"alter database engramq set timezone = '{ELSEWHERE}'")
        yield one


@pytest.fixture(scope="module")
def bouncer(server: PostgresServer) -> Iterator[PgBouncer]:
    with pooler(server) as one:
        asyncio.run(migrate(one.url(OWNER_ROLE)))
        yield one


@pytest.fixture
def settings(bouncer: PgBouncer, redis_url: str, key_prefix: str) -> Settings:
    return read_settings({
        "ENGRAMQ_DATABASE_URL": bouncer.url(),
        "ENGRAMQ_REDIS_URL": redis_url,
        "ENGRAMQ_KEY_PREFIX": key_prefix,
        "ENGRAMQ_EMBEDDER": "hash",
        "ENGRAMQ_TEST_SWEEP_INTERVAL_S": "0.2",
        "ENGRAMQ_REPLY_TIMEOUT_S": "20",
    })  # fmt: skip


async def held(tx: Transaction) -> tuple[str, int, dict[str, str]]:
    row = await tx.row(HELD_SETTINGS, names=NAMES)
    assert row is not None
    return row["role"], row["pid"], row["settings"]


def contents(server: PostgresServer, namespace: str) -> Counter[str]:
    rows = server.ask(
        "select m.content from memories m join namespaces n using (tenant) where n.namespace = %s", namespace
    )
    return Counter(row["content"] for row in rows)


def complaints(log: Path) -> list[str]:
    """Return what a worker logged that is no news of its own work."""
    lines = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
    return [str(line) for line in lines if line.get("level") in ("WARNING", "ERROR", "CRITICAL")]


@pytest.mark.promise("SC-1")
async def test_a_database_is_migrated_through_it_and_the_lock_is_free_afterwards(
    server: PostgresServer, bouncer: PgBouncer
) -> None:
    server.ask("create database fresh", database="postgres")
    through, direct = bouncer.url(OWNER_ROLE, "fresh"), server.url(OWNER_ROLE, "fresh")
    assert await migrate(through) == ["0031_schema"]
    assert await migrate(through) == []
    async with asyncio.timeout(20):  # today's lock would be waited for as long as another migration may take
        assert await migrate(direct) == []
    assert server.ask("select from pg_locks where locktype = 'advisory'") == []
    async with await Store.open(bouncer.url(WORKER_ROLE, "fresh")) as store:
        assert await store.namespaces() == []


@pytest.mark.promise("SC-1")
@pytest.mark.parametrize(
    ("role", "mode", "ignored"),
    [
        (WORKER_ROLE, "transaction", ""),
        (OWNER_ROLE, "transaction", "options"),
        (OWNER_ROLE, "transaction", ""),
        (WORKER_ROLE, "session", "options"),
        (WORKER_ROLE, "session", ""),
    ],
)
async def test_each_transaction_is_bounded_and_leaves_nothing_to_the_next(
    server: PostgresServer, bouncer: PgBouncer, role: str, mode: str, ignored: str
) -> None:
    given = {"pool_mode": mode, **({"ignore_startup_parameters": ignored} if ignored else {})}
    with pooler(server, **given) as one:
        async with await Store.open(one.url(role), pool_size=8) as store:

            async def write(tx: Transaction) -> tuple[str, int, dict[str, str]]:
                return await held(tx)

            found = await asyncio.gather(
                *(store.write("n", write) for _ in range(40)), *(store.read("n", write) for _ in range(40))
            )
            assert {each[0] for each in found} == {WORKER_ROLE}
            assert all(each[2] == SESSION for each in found)
            at_length = await store.snapshot("n", held)
            assert at_length[2]["transaction_timeout"] == at_length[2]["idle_in_transaction_session_timeout"] == "0"
            assert at_length[2]["statement_timeout"] == AT_LENGTH["statement_timeout"]
            assert await store.namespaces() == ["n"]
            assert not (await store.health()).refused
            assert await index_loads(store) == 0
        with psycopg.connect(one.url(OWNER_ROLE), autocommit=True, prepare_threshold=None) as after:
            assert after.execute(LEFT.encode(), [NAMES]).fetchall() == []
            assert after.execute("select name from pg_prepared_statements").fetchall() == []


@pytest.mark.promise("SC-1")
async def test_a_transaction_that_the_settings_do_not_hold_in_is_not_carried_out(bouncer: PgBouncer) -> None:
    async with await Store.open(bouncer.url()) as store:
        await store.write("n", held)
        pooled = store._pool._pooled
        assert pooled is not None
        store._pool._through = pooled._replace(settings={**pooled.settings, "lock_timeout": "5000ms"})  # shown as 5s
        await store._pool.doubt(time.monotonic())
        with pytest.raises(Exception, match="does not take the workers' settings"):
            await store.write("n", held)
        with pytest.raises(Exception, match="does not take the workers' settings"):
            await store.look_up("n", [])


@pytest.mark.promise("SC-1")
async def test_one_that_lends_sessions_for_a_statement_is_refused_in_plain_words(server: PostgresServer) -> None:
    with pooler(server, pool_mode="statement") as one:
        for opening in (Store.open(one.url()), migrate(one.url(OWNER_ROLE))):
            with pytest.raises(NotReady, match=r"one statement each.*pool_mode to transaction"):
                await opening


@pytest.mark.promise("SC-1")
async def test_what_needs_a_session_of_its_own_says_so(bouncer: PgBouncer) -> None:
    with pytest.raises(NotReady, match="ENGRAMQ_MIGRATE_DATABASE_URL"):
        await rewrite_database(bouncer.url(OWNER_ROLE), with_wal=False, tell=lambda _: None)


def test_the_status_opens_the_database_as_workers_do(bouncer: PgBouncer, redis_url: str, tmp_path: Path) -> None:
    found, _code = look(
        {"ENGRAMQ_HOME": str(tmp_path), "ENGRAMQ_DATABASE_URL": bouncer.url(), "ENGRAMQ_REDIS_URL": redis_url}
    )
    assert found["reembedding"] is None


@pytest.mark.promise("SC-1")
async def test_the_whole_story_is_told_through_it_and_nothing_is_complained_of(
    server: PostgresServer, bouncer: PgBouncer, settings: Settings
) -> None:
    before = len(server.log())
    async with running(settings) as (stage, worker):
        await tell_agents(stage)
        await worker.end()
        assert complaints(worker.log) == []
    assert "Traceback" not in bouncer.log()
    said = server.log()[before:]
    assert not re.search(r"\b(ERROR|PANIC)\b|prepared statement", said), said[-2000:]


@pytest.mark.promise("SC-1")
async def test_nothing_is_lost_or_doubled_when_it_dies_and_workers_die(
    server: PostgresServer, bouncer: PgBouncer, settings: Settings
) -> None:
    before = len(server.log())
    async with running(settings) as (stage, worker):

        async def disturb() -> None:
            for _ in range(3):
                await asyncio.sleep(1.0)  # of load between two disturbances, not a wait for anything
                bouncer.kill()
                await asyncio.to_thread(bouncer.start)
                await asyncio.sleep(1.0)
                await worker.kill()

        told = await stored_under(stage, "killed", disturb)
    found = contents(server, "killed")
    assert set(found.values()) == {1}
    assert set(told["acknowledged"]) <= set(found)
    assert told["missed"] == 0
    assert told["stored"] > 100
    assert "prepared statement" not in server.log()[before:]
