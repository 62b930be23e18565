"""`engramq import` of an export: an equal store, or nothing."""

import bz2
import gzip
import json
import lzma
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
import psycopg
import pytest

from engramq.schemas import limits
from engramq.schemas.command_line import ExitCode
from engramq.workers.db import audit_chain, loads
from engramq.workers.db.database import Store
from engramq.workers.db.transaction import Transaction
from engramq.workers.db.viewers import EVERYTHING
from engramq.workers.tenants import restoring
from engramq.workers.tenants.export import ExportChoice, lines
from engramq.workers.tenants.export_check import ExportRefused
from tests.conftest import Database
from tests.terminal import run_command
from tests.workers.tenants import export_lines
from tests.workers.tenants.tables import Tenant, furnish, tenant_tables

# What no export has, or what the namespace itself is: the rest of a tenant's rows has to come back as it was.
NOT_RESTORED = {
    "tokens", "ledger", "lexeme_counts", "lexeme_rebuilds", "loads", "co_retrievals", "namespaces", "deleted_graph",
    "changes", "memory_totals", "webhooks", "webhook_outbox", "audit_chain",
}  # fmt: skip


ENRICH = rb"""
update namespaces set active_hours = 12.345678901234567, language = 'german' where tenant = %(tenant)s;
update memories set source_type = 'research', speaker = E'A"da\\\\u0000', occurred_at = '1999-12-31 23:59:59.999999Z',
    position = 7, sector = 'semantic', sector_source = 'auto', sector_confidence = 0.3, verification = 'approved',
    promoted_at = now(), promoted_by = 'eve', tags = '{a,"b, c",null as a word}', project = 'x',
    valid_from = '2020-01-01', valid_until = '2021-01-01', expires_at = '2100-01-01', confidence = 0.1,
    metadata = '{"n": 1.00, "big": 1e300, "more": 12345678901234567890123, "s": "\u00e9"}',
    links_made_at = now(), active_hours = 0.1 + 0.2, updated_at = now() - interval '7 minutes',
    supersedes = %(other)s
where tenant = %(tenant)s and node_id = %(memory)s;
update memories set superseded_by = %(memory)s, superseded_at = now(), superseded_from = '2020-01-01',
    state = 'archived'
where tenant = %(tenant)s and node_id = %(other)s;
update memories set lexemes = memory_lexemes(tenant, content, speaker, told_on) where tenant = %(tenant)s;
update memory_usage set accessed_at = now(), helped = 1.1, hindered = 0.7, last_active_hours = 3.3
where tenant = %(tenant)s;
delete from memory_usage where tenant = %(tenant)s and node_id = %(untrusted)s;
update nodes set properties = '{"p": [1.0, null]}', created_by = 'ada', updated_by = 'bob', external_id = 'n-1',
    created_at = '2001-02-03'
where tenant = %(tenant)s and id = %(node)s;
update edges set valid_from = '2020-01-01', valid_until = '2021-01-01', note = 'why', reinforcement_count = 3,
    last_active_hours = 1.5, decayed_active_hours = 0.5, sector_source = 'manual', created_by = 'ada',
    updated_by = 'bob', weight = 0.1
where tenant = %(tenant)s;
update deferred_links set request = '{"relation": "supports", "weight": 0.5}', item = 3,
    principal = '{"name": "ada", "scopes": ["write"]}'
where tenant = %(tenant)s;
update proposals set reason = 'because', rejected_at = now(), used_at = now() where tenant = %(tenant)s;
insert into proposals (id, tenant, action, target_id, covers, change, proposed_by, expires_at)
values (%(far)s, %(tenant)s, 'change', %(edge)s, array[%(edge)s::uuid], '{"weight": 0.10}', 'bob', now());
update audit_log set old = '{"weight": 0.50}', new = '{"weight": 1}', reason = 'so' where tenant = %(tenant)s;
"""


@pytest.fixture
def acme(database: Database, monkeypatch: pytest.MonkeyPatch) -> Tenant:
    """A tenant with a row of every kind, all of whose columns say something."""
    monkeypatch.setenv("ENGRAMQ_DATABASE_URL", database.url)
    monkeypatch.setenv("ENGRAMQ_PRINCIPAL", "the operator")
    with psycopg.connect(database.owner_url, autocommit=True) as connection:
        furnish(connection, "other")
        tenant = furnish(connection, "acme")
        enrich(connection, tenant)
        return tenant


def enrich(connection: psycopg.Connection[Any], tenant: Tenant) -> None:
    psycopg.ClientCursor(connection).execute(ENRICH, {**tenant.ids, "tenant": tenant.number})


async def exported(store: Store, namespace: str, **wanted: Any) -> list[bytes]:
    async def read(tx: Transaction) -> list[bytes]:
        return [line async for line in lines(tx, ExportChoice(**wanted), "1.2.3")]

    return await store.snapshot(namespace, read)


def written(file: Path, found: list[bytes]) -> str:
    file.write_bytes(b"".join(found))
    return str(file)


def quiet(_what: str, _count: int, _of: int | None) -> None:
    """Tell nobody how far it is."""


def rows_of(database: Database, namespace: str) -> dict[str, list[str]]:
    """Return all rows that come back, as text without what is the tenant's own."""
    with psycopg.connect(database.owner_url) as connection:
        tables = [table for table in tenant_tables(connection) if table not in NOT_RESTORED]
        return {
            table: [
                row[0]
                for row in connection.execute(
                    "select ((to_jsonb(t) - '{tenant,namespace,lexemes}'::text[]) || jsonb_build_object('words', "
                    "replace(to_jsonb(t) ->> 'lexemes', lexeme_prefix(tenant), '')))::text "
                    f"from {table} t where tenant = tenant_of(%s) order by 1".encode(),
                    [namespace],
                ).fetchall()
            ]
            for table in tables
        }


@pytest.mark.promise("IM-5", "TI-6")
async def test_a_restored_namespace_is_equal_row_by_row_and_exports_the_same_lines(
    store: Store, acme: Tenant, database: Database, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    before = await exported(store, "acme", embeddings=True)
    assert await run_command("import", written(tmp_path / "acme.jsonl", before), "--namespace", "beta") == ExitCode.DONE
    assert "Restored 4 memories, 2 nodes, 1 edge, 1 link, 1 deferred link" in capfd.readouterr().out
    after = await exported(store, "beta", embeddings=True)
    assert after[1:] == before[1:]
    assert json.loads(after[0])["active_hours"] == json.loads(before[0])["active_hours"] == 12.345678901234567
    # Row by row too, with what no export tells.
    mine, theirs = rows_of(database, "acme"), rows_of(database, "beta")
    for own in ("audit_log", "nodes"):  # an entry of its own; a memory's node has the memory's times
        assert mine.pop(own)
        assert theirs.pop(own)
    assert mine == theirs
    assert all(mine.values())
    (entry,) = database.rows("select actor, action, new from audit_log where tenant = tenant_of('beta')")
    assert (entry["actor"], entry["action"]) == ("the operator", "restore_tenant")
    assert (entry["new"]["from"], entry["new"]["memory"]) == ("acme", 4)
    assert database.rows("select 1 from changes where tenant = tenant_of('beta')"), "upkeep has to look at it"


@pytest.mark.own_database
@pytest.mark.promise("IM-5")
async def test_a_deleted_namespace_comes_back_with_its_audit_log(
    store: Store, acme: Tenant, database: Database, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    before = await exported(store, "acme", embeddings=True, audit=True)
    file = written(tmp_path / "acme.jsonl", before)
    numbers = "select max(id) as n from audit_log"
    # As another database would be: it has had no such number.
    with psycopg.connect(database.owner_url) as owner:
        owner.execute("alter table audit_log alter column id set generated by default")
    database.rows("update audit_log set id = id + 1000000 where tenant = tenant_of('acme') returning 1")
    moved = await exported(store, "acme", embeddings=True, audit=True)
    assert await run_command("import", written(tmp_path / "moved.jsonl", moved), "--namespace", "beta") == ExitCode.DONE
    after = await exported(store, "beta", embeddings=True, audit=True)
    assert after[1:-2] == moved[1:-1]
    own = json.loads(after[-2])
    assert (own["action"], own["actor"]) == ("restore_tenant", "the operator")
    assert own["id"] == database.rows(numbers)[0]["n"] > 1_000_000, "later entries have higher numbers"
    # Into the namespace itself, whose log has stayed.
    assert await run_command("import", file) == ExitCode.FAILED
    told = capfd.readouterr().err
    assert "'acme' is not empty: it holds memories, nodes, edges, links that wait, proposals, what rows" in told
    for table in ("nodes", "deferred_links", "proposals", "imported_rows", "deleted_graph"):
        database.rows(f"delete from {table} where tenant = tenant_of('acme') returning 1")
    assert await run_command("import", str(tmp_path / "moved.jsonl")) == ExitCode.DONE
    assert (await exported(store, "acme", embeddings=True, audit=True))[1:-2] == moved[1:-1]
    # One number, another entry: refused, and nothing of it is there.
    for table in ("nodes", "deferred_links", "proposals", "imported_rows"):
        database.rows(f"delete from {table} where tenant = tenant_of('acme') returning 1")
    database.rows(
        "update audit_log set action = 'forget' where tenant = tenant_of('acme') and id > 1000000 returning 1"
    )
    capfd.readouterr()
    assert await run_command("import", str(tmp_path / "moved.jsonl")) == ExitCode.FAILED
    assert "another entry of the audit log has this id" in capfd.readouterr().err
    assert database.rows("select 1 from nodes where tenant = tenant_of('acme')") == []


@pytest.mark.promise("IM-5", "SE-20")
async def test_what_an_export_brought_says_so_in_the_chain_and_in_its_receipt(
    store: Store, acme: Tenant, database: Database, tmp_path: Path
) -> None:
    file = written(tmp_path / "acme.jsonl", export_lines.whole(export_lines.records()))
    assert await run_command("import", file, "--namespace", "beta") == ExitCode.DONE
    whole = store.seen_by(EVERYTHING)
    await whole.write("beta", lambda tx: audit_chain.extend(tx, behind=0))
    command = UUID(export_lines.an_id(90))
    ((entry,), _) = await whole.read("beta", lambda tx: audit_chain.of_command(tx, command, 10))
    assert (entry.action, entry.brought_from) == ("update", "acme")
    assert entry.brought_at is not None
    assert entry.problem() is None
    for told in ({"brought_at": None, "brought_from": None}, {"brought_from": "beta"}):
        assert msgspec.structs.replace(entry, **told).problem() == "its facts or its place were changed"
    (own,) = database.rows("select brought_from from audit_log where action = 'restore_tenant'")
    assert own["brought_from"] is None, "who restored it is of this installation"


@pytest.mark.promise("IM-5")
@pytest.mark.parametrize("packed", [bytes, gzip.compress, bz2.compress, lzma.compress])
async def test_an_export_is_known_by_its_first_line_packed_or_not(
    store: Store, acme: Tenant, database: Database, tmp_path: Path, capfd: pytest.CaptureFixture[str], packed: Any
) -> None:
    before = await exported(store, "acme")
    file = tmp_path / "whatever.csv"
    file.write_bytes(packed(b"".join(before)))
    assert await run_command("import", str(file), "--namespace", "beta", "--dry-run") == ExitCode.DONE
    assert "whole and fits namespace 'beta': 4 memories" in capfd.readouterr().out
    assert database.rows("select tenant_of('beta') as n") == [{"n": None}], "nothing at all was written"
    if packed is bz2.compress:  # whose first block is all of a small file
        return
    file.write_bytes(packed(b"".join(before))[:-20])
    assert await run_command("import", str(file), "--namespace", "beta") == ExitCode.FAILED
    assert "Nothing was restored" in capfd.readouterr().err
    assert database.rows("select tenant_of('beta') as n") == [{"n": None}]


async def test_options_and_standard_input_that_do_not_fit_are_refused(
    store: Store, acme: Tenant, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = written(tmp_path / "acme.jsonl", await exported(store, "acme"))
    for option in (["--split"], ["--format", "jsonl"], ["--on-duplicate", "update"], ["--batch", "7"]):
        assert await run_command("import", file, *option) == ExitCode.MISUSED
        assert f"{option[0]} is for rows" in capfd.readouterr().err


@pytest.mark.promise("IM-5")
async def test_without_vectors_or_with_those_of_another_model_memories_wait_for_theirs(
    store: Store, acme: Tenant, database: Database, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    before = await exported(store, "acme")
    assert await run_command("import", written(tmp_path / "none", before), "--namespace", "none") == ExitCode.DONE
    assert "3 memories will get a vector" in capfd.readouterr().out
    await store.register_embedding_model("another", "", 384)  # chosen later
    vectors = await exported(store, "acme", embeddings=True)
    assert (
        await run_command("import", written(tmp_path / "other", vectors), "--namespace", "other model") == ExitCode.DONE
    )
    for name in ("none", "other model"):
        rows = database.rows(
            "select state, embedding is null as empty, count(*) as n from memories where tenant = tenant_of(%s) "
            "group by 1, 2 order by 1",
            name,
        )
        assert rows == [{"state": "archived", "empty": True, "n": 1}, {"state": "pending", "empty": True, "n": 3}]


@pytest.mark.promise("IM-5")
async def test_a_store_without_any_model_gets_the_export_s(
    store: Store, acme: Tenant, database: Database, tmp_path: Path
) -> None:
    file = written(tmp_path / "acme.jsonl", await exported(store, "acme", embeddings=True))
    database.rows("delete from nodes returning 1")
    for table in ("loads", "embedding_models"):
        database.rows(f"delete from {table} returning 1")
    assert await run_command("import", file, "--namespace", "beta") == ExitCode.DONE
    assert database.rows("select name, dimensions from embedding_models") == [{"name": "hash", "dimensions": 384}]
    assert database.rows("select count(*) as n from memories where embedding is not null") == [{"n": 3}]


async def test_many_vectors_come_as_a_load_whose_index_is_built_afterwards(
    store: Store, acme: Tenant, database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(restoring, "LARGE_ROWS", 2)
    monkeypatch.setattr(restoring, "LARGE_SHARE", 0.0)
    before = await exported(store, "acme", embeddings=True)
    assert await run_command("import", written(tmp_path / "acme", before), "--namespace", "beta") == ExitCode.DONE
    loaded = (
        "select partition, load_id is not null as loaded, count(*) as n from memories "
        "where tenant = tenant_of('beta') and embedding is not null group by 1, 2"
    )
    assert database.rows(loaded) == [
        {"partition": "trusted", "loaded": True, "n": 2}, {"partition": "untrusted", "loaded": False, "n": 1},
    ]  # fmt: skip
    assert database.rows("select rows, covered from loads where tenant = tenant_of('beta')") == [
        {"rows": 2, "covered": False}
    ]
    assert (await exported(store, "beta", embeddings=True))[1:] == before[1:]


async def test_more_vectors_than_a_load_may_have_come_as_further_loads_and_beyond_those_one_by_one(
    store: Store, acme: Tenant, database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("LARGE_ROWS", 1), ("LARGE_SHARE", 0.0), ("ROWS_AT_ONCE", 1)):
        monkeypatch.setattr(restoring, name, value)
    monkeypatch.setattr(loads, "FULL_ROWS", 1)
    file = written(tmp_path / "acme", await exported(store, "acme", embeddings=True))
    for most, waiting in ((4, 3), (2, 2)):
        monkeypatch.setattr(loads, "LOADS_MAX", most)
        name = f"with {most}"
        assert await run_command("import", file, "--namespace", name) == ExitCode.DONE
        found = database.rows("select rows from loads where tenant = tenant_of(%s)", name)
        assert [item["rows"] for item in found] == [1] * waiting
        loaded = "select count(distinct load_id) as loads, count(*) as n from memories where tenant = tenant_of(%s) "
        assert database.rows(f"{loaded} and embedding is not null", name) == [{"loads": waiting, "n": 3}]
        assert await loads.index_loads(store, idle_s=0.0)
        assert database.rows("select 1 from loads where tenant = tenant_of(%s)", name) == []


async def test_an_export_of_a_project_has_its_memories_and_their_links_alone_and_can_be_restored(
    store: Store, acme: Tenant, database: Database
) -> None:
    ids = {**acme.ids, "tenant": acme.number}
    with psycopg.connect(database.owner_url, autocommit=True) as owner:
        for statement in (
            "update memories set project = null, supersedes = null, superseded_by = null where tenant = %(tenant)s",
            "update memories set project = 'rover' where tenant = %(tenant)s and node_id in (%(memory)s, %(other)s)",
            (
                "update memories set superseded_by = %(pending)s, superseded_at = now() "
                "where tenant = %(tenant)s and node_id = %(memory)s"
            ),
            "update memories set supersedes = %(memory)s where tenant = %(tenant)s and node_id = %(other)s",
        ):
            owner.execute(statement, ids)
    of_project = await exported(store, "acme", project="rover", embeddings=True)
    head, *records, end = (json.loads(line) for line in of_project)
    assert head["project"] == "rover"
    memories = {record["id"]: record for record in records if record["type"] == "memory"}
    assert memories.keys() == {str(ids["memory"]), str(ids["other"])}
    replaced = memories[str(ids["memory"])]
    assert (replaced["superseded_by"], replaced["superseded_at"] is None) == (None, False), "by what is not in it"
    assert memories[str(ids["other"])]["supersedes"] == str(ids["memory"])
    assert {record["type"] for record in records} == {"memory", "link", "tombstone", "imported_row"}
    found = restoring.check(lambda: of_project, quiet)
    done = await restoring.restore_records(store, "beta", found, lambda: of_project, "ada", quiet)
    assert {name: count for name, count in done.counts.items() if count} == {
        name: count for name, count in end["counts"].items() if count
    }
    assert len(await exported(store, "acme", project="of nobody")) == 2


@pytest.mark.promise("IM-5")
async def test_a_restoration_that_fails_leaves_no_model_chosen(store: Store, acme: Tenant, database: Database) -> None:
    before = await exported(store, "acme", embeddings=True)
    database.rows("delete from nodes returning 1")
    for table in ("loads", "embedding_models"):
        database.rows(f"delete from {table} returning 1")
    found = restoring.check(lambda: before, quiet)
    with pytest.raises(ExportRefused, match="changed while it was read"):
        await restoring.restore_records(store, "beta", found, lambda: [*before[:-1], b"\n", before[-1]], "ada", quiet)
    assert database.rows("select name from embedding_models") == []


@pytest.mark.promise("IM-5", "TI-6")
async def test_no_export_moves_the_numbers_of_the_audit_log_to_where_others_cannot_be_restored(
    store: Store, acme: Tenant, database: Database, tmp_path: Path
) -> None:
    before = await exported(store, "acme", audit=True)
    kept = int(database.rows("select audit_ids_kept() as n")[0]["n"])
    place = next(number for number, line in enumerate(before) if b'"type":"audit"' in line)
    entry = json.loads(before[place])
    numbers = (1, kept, kept + 1, limits.AUDIT_ID_MAX)
    entries = [json.dumps({**entry, "id": item, "reason": str(item)}).encode() + b"\n" for item in numbers]
    last = json.loads(before[-1])
    last["counts"]["audit"] = len(entries)
    forged = [*before[:place], *entries, json.dumps(last).encode()]
    assert await run_command("import", written(tmp_path / "forged", forged), "--namespace", "beta") == ExitCode.DONE
    found = database.rows("select id, reason from audit_log where tenant = tenant_of('beta') order by id")
    assert [row["reason"] for row in found][:-1] == [str(item) for item in numbers], "in their order"
    assert [row["id"] for row in found][:2] == [1, kept]
    assert all(kept < row["id"] < kept + 10_000 for row in found[2:])
    # Whoever writes from now on has higher numbers, and can be restored as ever.
    with psycopg.connect(database.owner_url, autocommit=True) as connection:
        furnish(connection, "later")
    later = await exported(store, "later", audit=True, embeddings=True)
    file = written(tmp_path / "later", later)
    assert await run_command("import", file, "--namespace", "later again") == ExitCode.DONE
    again = await exported(store, "later again", audit=True, embeddings=True)
    assert [without_id(line) for line in again[1:-2]] == [without_id(line) for line in later[1:-1]]
    assert database.rows("select max(id) < %s as few from audit_log", kept + 10_000) == [{"few": True}]


def test_the_first_number_of_all_is_not_given_again_where_an_export_has_it(database: Database) -> None:
    of_log = "pg_get_serial_sequence('audit_log', 'id')"
    database.rows(f"select setval({of_log}, 1, false)")
    database.rows("select advance_audit_ids(1)")
    assert database.rows(f"select nextval({of_log}) > 1 as is_new") == [{"is_new": True}]


def without_id(line: bytes) -> dict[str, Any]:
    said: dict[str, Any] = json.loads(line)
    return {name: value for name, value in said.items() if said["type"] != "audit" or name != "id"}


async def test_a_file_that_changes_between_the_readings_is_refused(
    store: Store, acme: Tenant, database: Database
) -> None:
    before = await exported(store, "acme")
    found = restoring.check(lambda: before, quiet)
    other = [line.replace(b"the vault", b"the house") for line in before]
    with pytest.raises(ExportRefused, match="changed while it was read"):
        await restoring.restore_records(store, "beta", found, lambda: other, "ada", quiet)
    assert database.rows("select 1 from nodes where tenant = tenant_of('beta')") == []


async def test_what_somebody_writes_meanwhile_makes_it_give_way_not_double(
    store: Store, acme: Tenant, database: Database
) -> None:
    """Another writer, or another restoration, comes into the empty namespace between the readings and the writing."""
    before = await exported(store, "acme")
    found = restoring.check(lambda: before, quiet)

    def lines_meanwhile() -> Iterator[bytes]:
        yield before[0]
        database.rows(
            "insert into nodes (tenant, id, label, name, partition, external_id) "
            "values (tenant_of('beta'), gen_random_uuid(), 'Entity', 'Hasty', 'trusted', 'acme-memory') returning 1"
        )
        yield from before[1:]

    told = r"somebody has written external_id 'acme-memory' meanwhile \(nodes_external_id\)"
    with pytest.raises(ExportRefused, match=told) as refused:
        await restoring.restore_records(store, "beta", found, lines_meanwhile, "ada", quiet)
    assert (refused.value.line, refused.value.field) == (2, "external_id")
    assert b'"acme-memory"' in before[1]
    assert len(database.rows("select 1 from nodes where tenant = tenant_of('beta')")) == 1
    with psycopg.connect(database.owner_url) as other:
        other.execute("select pg_advisory_xact_lock(hashtextextended('engramq.restoring', tenant_of('beta')))")
        with pytest.raises(restoring.NamespaceOccupied, match="is being restored by somebody else"):
            await restoring.restore_records(store, "beta", found, lambda: before, "ada", quiet)


@pytest.mark.promise("KN-11")
async def test_what_is_restored_has_one_normal_form_but_for_what_stands_in_objects(
    store: Store, database: Database
) -> None:
    composed, apart = (unicodedata.normalize(form, "Zoë") for form in ("NFC", "NFD"))
    named = dict.fromkeys(("content", "external_id", "speaker", "thread", "project", "source_type"), apart)
    said = [
        export_lines.memory(1, **named, tags=[apart], metadata={"key": apart}),
        export_lines.memory(2, content="plain"),
        export_lines.node(3, name=apart, label=apart, external_id=None, properties={"key": apart}),
    ]
    found = export_lines.whole(said)
    # Both ways in which JSON can be written.
    found[1] = json.dumps(json.loads(found[1]), ensure_ascii=False).encode() + b"\n"
    checked = restoring.check(lambda: found, quiet)
    await restoring.restore_records(store, "beta", checked, lambda: found, "ada", quiet)
    (row,) = database.rows(
        "select m.content, m.speaker, m.thread, m.project, m.source_type, n.external_id, m.tags, "
        "m.metadata ->> 'key' as key from memories m join nodes n on n.tenant = m.tenant and n.id = m.node_id "
        "where m.content <> 'plain'"
    )
    assert row == dict.fromkeys(named, composed) | {"tags": [composed], "key": apart}
    (node,) = database.rows("select name, label, properties ->> 'key' as key from nodes where name is not null")
    assert node == {"name": composed, "label": composed, "key": apart}
