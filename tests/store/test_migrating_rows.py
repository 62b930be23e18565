"""A filled database of version 6 becomes one whose keys begin with the tenant, and loses nothing."""

from uuid import UUID

import psycopg
import pytest

from engramq.schemas.commands import Ping
from engramq.schemas.envelope import Envelope, Principal
from engramq.schemas.ids import uuid7
from engramq.schemas.tokens import token_digest
from engramq.schemas.vocabulary import Partition
from engramq.workers.db import ledger
from engramq.workers.db.audit import Wanted, entries
from engramq.workers.db.database import Store
from engramq.workers.db.migrate import migrate
from engramq.workers.db.queries import sql
from engramq.workers.db.readiness import Migration, NotReady, packaged
from engramq.workers.db.vectors import Sizes
from engramq.workers.memories.review import promote
from engramq.workers.search.candidates import Filters, find_candidates
from engramq.workers.search.question import Question
from tests.conftest import Database
from tests.store.filled_at_six import MEMORIES, NAMESPACES, UNWRITTEN, WORDS, Tenant, fill, told

pytestmark = pytest.mark.anyio

VERSION = 6
BEFORE_TRUST = 8
TENANTS = packaged()[VERSION]
TOKEN_OWNER = sql("token_owner")
BOTH = Filters(partitions=tuple(Partition))


@pytest.fixture
async def filled(empty_database: Database) -> list[Tenant]:
    await migrate(empty_database.owner_url, migrations=packaged()[:VERSION])
    with psycopg.connect(empty_database.owner_url) as connection:
        return fill(connection)


def everything(database: Database) -> dict[str, dict[str, list[str]]]:
    with psycopg.connect(database.owner_url) as connection:
        return {namespace: told(connection, namespace) for namespace in (*NAMESPACES, UNWRITTEN)}


@pytest.mark.promise("OP-5", "SC-6")
async def test_every_row_is_there_as_before(filled: list[Tenant], empty_database: Database) -> None:
    before = everything(empty_database)
    assert all(before[namespace][table] for namespace in NAMESPACES for table in before[namespace])
    assert await migrate(empty_database.owner_url) == [f"{one.version:04}_{one.name}" for one in packaged()[VERSION:]]
    after = everything(empty_database)
    before[UNWRITTEN]["namespaces"] = after[UNWRITTEN]["namespaces"]  # which has a number now
    assert after == before
    with psycopg.connect(empty_database.owner_url) as connection:
        broken = connection.execute("select indexrelid::regclass::text from pg_index where not indisvalid").fetchall()
        named = connection.execute("select distinct namespace from audit_log order by 1").fetchall()
    assert broken == []
    assert {name for (name,) in named} == set(NAMESPACES)


@pytest.mark.promise("OP-5", "SC-6")
async def test_what_was_there_is_found_promoted_replayed_and_let_in(
    filled: list[Tenant], empty_database: Database
) -> None:
    await migrate(empty_database.owner_url)
    async with await Store.open(empty_database.url) as store:
        assert set(await store.namespaces()) == {*NAMESPACES, UNWRITTEN}
        for tenant in filled:
            for place, word in enumerate(WORDS):
                found = await store.read(
                    tenant.namespace,
                    lambda tx, word=word: find_candidates(tx, Sizes(), Question(word), None, BOTH),  # type: ignore[misc]
                )
                assert {UUID(one) for one in found.ids} == set(tenant.ids[place :: len(WORDS)]), word
            envelope = Envelope(
                id=uuid7(), namespace=tenant.namespace, principal=Principal(name="ada"), command=Ping(),
                idempotency_key="again",
            )  # fmt: skip
            kept = await store.read(tenant.namespace, lambda tx, given=envelope: ledger.find(tx, given))  # type: ignore[misc]
            assert kept is not None
            assert (kept.command_id, kept.fingerprint) == (tenant.command, "f")
            audited = await store.read(tenant.namespace, lambda tx: entries(tx, Wanted(), 10))
            assert [one.action for one in audited] == ["a2", "a1", "a0"]
            (owner,) = await store.read(
                tenant.namespace,
                lambda tx, token=tenant.token: tx.rows(TOKEN_OWNER, sha256=token_digest(token)),  # type: ignore[misc]
            )
            assert owner["namespace"] == tenant.namespace
            moved = tenant.ids[0]
            await store.write(tenant.namespace, lambda tx, moved=moved: promote(tx, moved, "ben"))  # type: ignore[misc]
    with psycopg.connect(empty_database.owner_url) as connection:
        rows = connection.execute(
            "select m.partition, n.partition, count(*) from memories m join nodes n on n.id = m.node_id "
            "where m.node_id = any(%s) group by 1, 2",
            [[tenant.ids[0] for tenant in filled]],
        ).fetchall()
        assert rows == [("trusted", "trusted", len(NAMESPACES))]
        connection.execute("delete from nodes")
        assert connection.execute("select count(*) from memories").fetchone() == (0,)
    assert len(WORDS) < MEMORIES


async def test_a_move_to_tenants_that_fails_leaves_everything_as_it_was(
    filled: list[Tenant], empty_database: Database
) -> None:
    before = everything(empty_database)
    failing = Migration(TENANTS.version, TENANTS.name, f"{TENANTS.text}; select 1 / 0")
    with pytest.raises(NotReady, match="division by zero"):
        await migrate(empty_database.owner_url, migrations=(*packaged()[:VERSION], failing))
    assert everything(empty_database) == before


@pytest.mark.promise("OP-5", "OV-17")
async def test_commands_of_before_count_as_those_of_the_trust_that_their_principals_tokens_have(
    empty_database: Database,
) -> None:
    await migrate(empty_database.owner_url, migrations=packaged()[:BEFORE_TRUST])
    with psycopg.connect(empty_database.owner_url) as connection:
        ours, theirs = (
            connection.execute("select make_tenant(%s)", [name]).fetchone() or () for name in ("ours", "theirs")
        )
        for tenant, principal, untrusted in (
            (*ours, "trusted", False), (*ours, "untrusted", True), (*ours, "both", True), (*ours, "both", False),
            (*theirs, "trusted", True),
        ):  # fmt: skip
            connection.execute(
                "insert into tokens (id, tenant, principal, scopes, untrusted, sha256, created_by) "
                "values (%s, %s, %s, '{read}', %s, %s, 'operator')",
                [uuid7(), tenant, principal, untrusted, token_digest(uuid7())],
            )
        for principal in ("trusted", "untrusted", "both", "by JWT"):
            connection.execute(
                "insert into ledger (command_id, tenant, principal, command, idempotency_key, answer) "
                "values (%s, %s, %s, 'ping', 'monday', '{}')",
                [uuid7(), *ours, principal],
            )
    await migrate(empty_database.owner_url)
    with psycopg.connect(empty_database.owner_url) as connection:
        kept: dict[str, bool] = dict(connection.execute("select principal, principal_untrusted from ledger").fetchall())
    assert kept == {"trusted": False, "untrusted": True, "both": False, "by JWT": False}
