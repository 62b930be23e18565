"""`engramq tenant list` and `engramq export`: everything that a namespace holds, and nothing of another."""

import asyncio
import base64
import json
import re
import stat
import struct
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from engramq.workers.db.database import Store
from engramq.workers.db.transaction import Transaction
from engramq.workers.tenants import export
from engramq.workers.tenants.export import LEFT_OUT, TABLES_LEFT_OUT, ExportChoice, lines
from tests.architecture.source import ROOT
from tests.conftest import Database
from tests.terminal import run_command
from tests.workers.tenants.tables import Tenant, furnish, tenant_tables

BOUND_S = 20.0
PAGE = ROOT / "docs" / "export.md"
TYPES = ["memory", "node", "edge", "link", "deferred_link", "tombstone", "proposal", "imported_row"]
# How the page calls what is told of the rows of a table.
PLACES = {
    "memories": "memory",
    "memory_usage": "its `usage`",
    "nodes": "node",
    "edges": "edge",
    "deferred_links": "deferred_link",
    "link_tombstones": "tombstone",
    "proposals": "proposal",
    "imported_rows": "imported_row",
    "approvals": "its `approvals`",
    "audit_log": "audit",
}


@pytest.fixture
def acme(database: Database, monkeypatch: pytest.MonkeyPatch) -> Tenant:
    monkeypatch.setenv("ENGRAMQ_DATABASE_URL", database.url)
    with psycopg.connect(database.owner_url, autocommit=True) as connection:
        furnish(connection, "other")
        return furnish(connection, "acme")


async def exported(store: Store, namespace: str = "acme", **wanted: Any) -> list[dict[str, Any]]:
    async def read(tx: Transaction) -> list[bytes]:
        return [line async for line in lines(tx, ExportChoice(**wanted), "1.2.3")]

    return [json.loads(line) for line in await store.snapshot(namespace, read)]


def documented() -> dict[str, set[str]]:
    """Return the fields that the page names, by the types of a row of its table."""
    rows = re.findall(r"^\| (.+?) \| (.+) \|$", PAGE.read_text(), re.MULTILINE)
    fields: dict[str, set[str]] = {}
    for types, told in rows[1:]:
        names = set(re.findall(r"`(\w+)`", told))
        for word in [types] if types.startswith("its") else re.findall(r"`(\w+)`", types):
            fields[word] = names
    return fields


def test_every_column_is_exported_and_documented_or_left_out_by_name(database: Database) -> None:
    fields = documented()
    with psycopg.connect(database.owner_url) as connection:
        tables = set(tenant_tables(connection))
        assert tables == LEFT_OUT.keys() | TABLES_LEFT_OUT, "say in workers/tenants/export.py what becomes of the table"
        for table, left_out in LEFT_OUT.items():
            found = connection.execute(
                "select attname from pg_attribute where attrelid = %s::regclass and attnum > 0 and not attisdropped",
                [table],
            ).fetchall()
            columns = {row[0] for row in found}
            assert set(left_out) <= columns, table
            told = fields[PLACES[table]] - {"id", "external_id", "usage", "approvals"}
            kept = columns - set(left_out) - {"id", "external_id"}
            assert told == kept, f"{table}: name the column in docs/export.md, or in LEFT_OUT"


async def test_an_export_has_every_row_once_and_nothing_of_another_tenant(
    store: Store, acme: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "ROWS_AT_ONCE", 2)
    head, *records, end = await exported(store, audit=True)
    assert (head["type"], head["version"], head["namespace"], head["engramq"]) == (
        *("engramq.export", 1, "acme"),
        "1.2.3",
    )
    types = [record["type"] for record in records]
    assert list(dict.fromkeys(types)) == [*TYPES, "audit"]
    assert end == {"type": "end", "counts": {fromkey: types.count(fromkey) for fromkey in dict.fromkeys(types)}}
    assert end["counts"]["memory"] == 4
    fields = documented()
    for record in records:
        assert record.keys() - {"type"} == fields[record["type"]], record["type"]
    text = json.dumps(records)
    assert not [word for word in ("other, ", "tenant", "lexemes") if f'"{word}' in text]
    ids = {record["id"] for record in records if record["type"] == "memory"}
    assert ids == {str(acme.ids[kind]) for kind in ("memory", "other", "pending", "untrusted")}
    memory = next(item for item in records if item.get("id") == str(acme.ids["memory"]))
    assert memory["usage"]["access_count"] == 3
    assert (memory["external_id"], memory["thread"], memory["partition"]) == ("acme-memory", "talk", "trusted")
    (proposal,) = [item for item in records if item["type"] == "proposal"]
    assert [approval["principal"] for approval in proposal["approvals"]] == ["ada"]


async def test_vectors_come_along_when_they_are_wanted(store: Store, acme: Tenant) -> None:
    records = await exported(store, embeddings=True)
    by_id = {record["id"]: record for record in records if record["type"] == "memory"}
    memory = by_id[str(acme.ids["memory"])]
    assert memory["embedding_model"] == {"name": "hash", "sha256": "", "dimensions": 384}
    halves = struct.unpack(">384e", base64.b64decode(memory["embedding"]))
    assert halves == pytest.approx([0.05] * 384, abs=1e-4)
    assert "embedding" not in by_id[str(acme.ids["pending"])]


async def test_an_export_sees_one_moment(
    store: Store, database: Database, acme: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "ROWS_AT_ONCE", 1)

    async def read(tx: Transaction) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        async for line in lines(tx, ExportChoice(), "1"):
            if len(found) == 2:
                with psycopg.connect(database.owner_url, autocommit=True) as owner:
                    owner.execute("delete from nodes where tenant = tenant_of('acme')")
            found.append(json.loads(line))
        return found

    assert (await store.snapshot("acme", read))[-1]["counts"]["memory"] == 4
    assert (await exported(store))[-1]["counts"]["memory"] == 0
    assert acme.namespace == "acme"


async def test_the_command_writes_a_file_of_its_own_and_leaves_none_half_done(
    acme: Tenant, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "acme.jsonl"
    assert await run_command("export", str(target), "--namespace", acme.namespace) == 0
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    written = target.read_text()
    assert json.loads(written.splitlines()[-1])["type"] == "end"
    assert f"{len(written.splitlines()) - 2} records of namespace 'acme' exported" in capfd.readouterr().err
    assert await run_command("export", str(target), "--namespace", acme.namespace) == 1
    assert "is there already" in capfd.readouterr().err
    assert await run_command("export", "-", "--namespace", acme.namespace) == 0
    shown = capfd.readouterr().out.splitlines()
    assert shown[1:] == written.splitlines()[1:]  # the first says when

    async def breaking(*_: object) -> AsyncIterator[bytes]:
        yield b"{}\n"
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("engramq.workers.tenants.export.lines", breaking)
    assert await run_command("export", str(tmp_path / "broken"), "--namespace", acme.namespace) == 1
    assert names_in(tmp_path) == ["acme.jsonl"]


async def test_two_exports_to_one_file_share_nothing_before_it_is_whole(
    acme: Tenant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left_by_another = tmp_path / "acme.jsonl.partial"
    left_by_another.write_text("of somebody")
    left_by_another.chmod(0o644)
    modes: list[int] = []
    both = threading.Barrier(2, timeout=BOUND_S)  # each export has a thread of its own

    async def waiting(tx: Transaction, wanted: ExportChoice, release: str) -> AsyncIterator[bytes]:
        both.wait()
        modes.extend(modes_in(tmp_path, but=left_by_another))
        both.wait()
        async for line in lines(tx, wanted, release):
            yield line

    monkeypatch.setattr("engramq.workers.tenants.export.lines", waiting)
    codes = await asyncio.gather(
        *(run_command("export", str(tmp_path / "acme.jsonl"), "--namespace", acme.namespace) for _ in "ab")
    )
    assert codes == [0, 0]
    assert modes == [0o600] * 4
    assert names_in(tmp_path) == ["acme.jsonl", "acme.jsonl.partial"]
    assert left_by_another.read_text() == "of somebody"
    lines_ = (tmp_path / "acme.jsonl").read_text().splitlines()
    assert [json.loads(lines_[0])["type"], json.loads(lines_[-1])["type"]] == ["engramq.export", "end"]


async def test_a_namespace_that_is_none_is_said_to_be_none(
    acme: Tenant, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert await run_command("export", str(tmp_path / "x"), "--namespace", "nobody's") == 1
    assert 'There is no namespace "nobody\'s"' in capfd.readouterr().err
    assert names_in(tmp_path) == []
    assert acme.namespace == "acme"


async def test_a_project_without_memories_is_said_to_have_none(
    acme: Tenant, database: Database, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name typed wrong must not look like a backup of it."""
    monkeypatch.setenv("ENGRAMQ_NAMESPACE", acme.namespace)
    rover = database.rows("update memories set project = 'rover' where node_id = %s returning 1", acme.ids["untrusted"])
    assert len(rover) == 1
    for target in (str(tmp_path / "x"), "-"):
        assert await run_command("export", target, "--project", "rovr") == 1
        shown = capfd.readouterr()
        assert "No memory of namespace 'acme' is in project 'rovr'; engramq projects lists them." in shown.err
        assert shown.out == ""
    assert names_in(tmp_path) == []
    assert await run_command("export", str(tmp_path / "rover"), "--project", "rover") == 0
    assert "1 record of namespace 'acme' exported." in capfd.readouterr().err


async def test_the_list_shows_what_each_namespace_holds(
    acme: Tenant, database: Database, capfd: pytest.CaptureFixture[str]
) -> None:
    database.rows("select make_tenant('empty')")
    assert await run_command("tenant", "list", "--json") == 0
    found = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert [item["namespace"] for item in found] == ["acme", "other"]
    assert found[0] | {"last_activity": "", "bytes": 0} == {
        "namespace": "acme", "memories": 4, "by_state": {"active": 3, "pending": 1}, "bytes": 0, "nodes": 2, "edges": 1,
        "links": 1, "tokens": 1, "webhooks": 1, "last_activity": "", "language": "english",
    }  # fmt: skip
    assert found[0]["bytes"] == sum(row["n"] for row in contents(database, acme))
    assert await run_command("tenant", "list", "--all") == 0
    shown = capfd.readouterr().out.splitlines()
    assert [line.split()[0] for line in shown] == ["acme", "empty", "other"]
    assert "acme  4 memories (3 active, 1 pending)" in shown[0]
    assert shown[1].endswith("last written never  english")


async def test_a_namespace_is_given_a_language(
    acme: Tenant, database: Database, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    database.rows("delete from lexeme_rebuilds")
    assert await run_command("tenant", "config", "acme") == 0
    assert capfd.readouterr().out == "acme  language english\n"
    assert await run_command("tenant", "config", "acme", "--language", "german") == 0
    assert capfd.readouterr().out == "acme  language german, words made anew: 0 of 4 memories\n"
    assert await run_command("tenant", "config", "acme", "--json") == 0
    told = json.loads(capfd.readouterr().out)
    assert told.pop("private") == {"visibility": None, "consent": False, "admins_read": False}
    assert told == {"namespace": "acme", "language": "german", "rebuilding": {"done": 0, "total": 4}}
    assert await run_command("tenant", "config", "acme", "--language", "german") == 0
    noted = database.rows("select actor, old, new from audit_log where action = 'configure_tenant'")
    assert noted == [{"actor": "I/O", "old": {"language": "english"}, "new": {"language": "german"}}]
    capfd.readouterr()
    assert await run_command("export", str(tmp_path / "acme"), "--namespace", "acme") == 0
    assert json.loads((tmp_path / "acme").read_text().splitlines()[0])["language"] == "german"
    assert await run_command("tenant", "config", "new one", "--language", "thai", "--json") == 0
    assert json.loads(capfd.readouterr().out)["language"] == "thai"


@pytest.mark.promise("PV-3")
async def test_rows_that_do_not_say_who_sees_them_are_imported_as_the_command_says(
    acme: Tenant, database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENGRAMQ_HOME", str(tmp_path / "home"))  # not that in which a developer works
    rows = [{"content": "The heron is grey"}, {"content": "The pond is deep", "visibility": "shared"}]
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert await run_command("import", str(file), "--namespace", "acme", "--private") == 0
    owned = database.rows("select content from memories where owner is not null")
    assert owned == [{"content": "The heron is grey"}]


@pytest.mark.promise("PV-4")
async def test_nothing_is_handed_over_to_a_name_that_nobody_knows(
    acme: Tenant, database: Database, capfd: pytest.CaptureFixture[str]
) -> None:
    for table, key in (("nodes", "id"), ("memories", "node_id")):
        database.rows(f"update {table} set owner = 'eve' where {key} = %s returning 1", acme.ids["other"])
    for words in ((), ("--yes",)):
        assert await run_command("tenant", "hand-over", "acme", "eve", "adda", *words) == 1
        assert "No token and no memory of namespace 'acme' knows 'adda'" in capfd.readouterr().err
    for to in (["ada"], ["adda", "--new-name"], ["I/O"]):  # by a token, by its word, by the configuration
        assert await run_command("tenant", "hand-over", "acme", "eve", *to) == 0
    assert await run_command("tenant", "hand-over", "acme", "eve", "ada", "--yes") == 0
    assert database.rows("select owner from memories where owner is not null") == [{"owner": "ada"}]


@pytest.mark.promise("IM-5")
@pytest.mark.parametrize("target", ["acme.jsonl", "-"])
async def test_an_export_that_would_not_come_back_is_refused(
    acme: Tenant, database: Database, tmp_path: Path, capfd: pytest.CaptureFixture[str], target: str
) -> None:
    database.rows("update edges set owner = 'eve', note = null where id = %s returning 1", acme.ids["link"])
    file = target if target == "-" else str(tmp_path / target)
    assert await run_command("export", file, "--namespace", "acme") == 1
    err = capfd.readouterr().err
    assert "owner: neither end is private, and it has no note." in err
    assert "engramq backup" in err
    assert names_in(tmp_path) == []


@pytest.mark.promise("PV-5")
async def test_how_private_memories_are_kept_is_configured_audited_and_exported(
    acme: Tenant, database: Database, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    kept = ("--visibility", "private", "--consent", "--admins-read")
    for _ in range(2):  # the second time nothing changes
        assert await run_command("tenant", "config", "acme", *kept) == 0
    said = ", visibility private, sharing takes consent, administrators read what is private"
    assert capfd.readouterr().out.splitlines()[-1].endswith(said)
    (noted,) = database.rows("select new from audit_log where action = 'configure_tenant'")
    assert noted["new"] == {"visibility": "private", "consent": True, "admins_read": True}
    assert await run_command("export", str(tmp_path / "acme"), "--namespace", "acme") == 0
    assert await run_command("import", str(tmp_path / "acme"), "--namespace", "copy") == 0
    (copy,) = database.rows("select visibility, sharing_consent, admins_read from namespaces where namespace = 'copy'")
    assert copy == {"visibility": "private", "sharing_consent": True, "admins_read": True}
    back = ("--visibility", "default", "--no-consent", "--admins-do-not-read")
    capfd.readouterr()
    assert await run_command("tenant", "config", "acme", *back, "--json") == 0
    assert json.loads(capfd.readouterr().out)["private"] == {"visibility": None, "consent": False, "admins_read": False}


@pytest.mark.parametrize(
    "given", [("nobody",), ("acme", "--language", "klingon"), ("acme", "--language", "words alone")]
)
async def test_a_namespace_or_language_that_is_none_is_refused(
    acme: Tenant, capfd: pytest.CaptureFixture[str], given: tuple[str, ...]
) -> None:
    assert await run_command("tenant", "config", *given) in {1, 2}
    err = capfd.readouterr().err
    assert "engramq tenant list" in err if given == ("nobody",) else "must be one of arabic" in err


def modes_in(folder: Path, but: Path) -> list[int]:
    return [stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir() if path != but]


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def contents(database: Database, tenant: Tenant) -> list[dict[str, Any]]:
    return database.rows("select octet_length(content) as n from memories where tenant = %s", tenant.number)
