"""The chain of the audit log, and receipts: who tampers is caught, and an outsider needs no network (SE-20)."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import psycopg
import pytest

from engramq.schemas.command_line import ExitCode
from tests.conftest import Database
from tests.scenarios.stage import Agent
from tests.terminal import Terminal, terminal

__all__ = ["terminal"]

pytestmark = pytest.mark.promise("SE-20")

SECRET = "the crawler's own words"


async def judged(agent: Agent, count: int) -> list[str]:
    """Store memories and verify each: one entry of the audit log for each; return their ids."""
    ids = []
    for number in range(count):
        memory = await agent.store(f"The harbour has {number} cranes", source_type="research")
        await agent.call("verify_memory", memory_id=memory["id"], verification="verified", reason=f"look {number}")
        ids.append(memory["id"])
    return ids


async def receipt_of(terminal: Terminal, *words: str) -> dict[str, Any]:
    code, out, err = await terminal("receipt", *words)
    assert (code, err) == (ExitCode.DONE, "")
    receipt: dict[str, Any] = json.loads(out)
    return receipt


async def chained(agent: Agent, terminal: Terminal) -> int:
    """Give every entry its place, as upkeep does, and return how many have one."""
    entry = (await agent.call("audit"))["entries"][0]
    await receipt_of(terminal, entry["command_id"])
    code, out, _ = await terminal("audit", "--verify", "--json")
    told = json.loads(out)
    assert (code, told["broken"], told["unchained"]) == (ExitCode.DONE, None, 0)
    return int(told["places"])


MOVED = (
    "with two as (select place, entry from audit_chain where entry in ({id}, {next})) "
    "update audit_chain c set place = -o.place from two o where o.entry <> c.entry and c.entry in ({id}, {next}); "
    "update audit_chain set place = -place where place < 0"
)


@contextmanager
def tampered(database: Database, statement: str) -> Iterator[None]:
    """Tamper with the audit log, and put all of it back."""
    tables = ("audit_log", "audit_chain")
    for table in tables:
        database.rows(f"create temp table former_{table} as table {table}")
    database.rows(statement)
    try:
        yield
    finally:
        for table in tables:
            database.rows(f"delete from {table}")
            database.rows(f"insert into {table} overriding system value table former_{table}")
            database.rows(f"drop table former_{table}")


TAMPERING = {
    "update audit_log set reason = 'another' where id = {id}": "its words were changed",
    "update audit_log set actor = 'somebody' where id = {id}": "its facts or its place were changed",
    "update audit_log set owner = 'ada' where id = {id}": "its facts or its place were changed",
    "update audit_log set at = at + interval '1 second' where id = {id}": "its facts or its place were changed",
    "delete from audit_log where id = {id}": "its entry is missing",
    "delete from audit_chain where entry = {id}": "it is missing",
    MOVED: "its facts or its place were changed",
    "update audit_chain set salt = '\\x00' where entry = {id}": "its words were changed",
}


@pytest.mark.one_server
async def test_what_the_owner_of_the_database_tampers_with_is_named(
    agent: Agent, terminal: Terminal, database: Database
) -> None:
    await judged(agent, 3)
    assert await chained(agent, terminal) == 3
    first, second, _ = sorted(entry["id"] for entry in (await agent.call("audit"))["entries"])
    for tampering, said in TAMPERING.items():
        with tampered(database, tampering.format(id=first, next=second)):
            code, out, err = await terminal("audit", "--verify")
        assert (code, out) == (ExitCode.FAILED, ""), tampering
        assert err.startswith("Broken at place 1"), tampering
        assert said in err, tampering
    assert (await terminal("audit", "--verify"))[0] == ExitCode.DONE


async def test_erasing_gives_a_receipt_without_the_content_and_takes_the_words(
    agent: Agent, terminal: Terminal, database: Database
) -> None:
    (memory_id,) = await judged(agent, 1)
    await agent.call("verify_memory", memory_id=memory_id, verification="approved", reason=SECRET)
    assert await chained(agent, terminal) == 2
    await agent.call("forget_memory", memory_id=memory_id, erase=True)
    receipt = await receipt_of(terminal, "--erased", memory_id)
    assert [(entry["action"], entry["target_id"]) for entry in receipt["proven"]] == [("erase", memory_id)]
    assert SECRET not in json.dumps(receipt)
    assert "cranes" not in json.dumps(receipt)
    code, out, _ = await terminal("audit", "--verify")
    assert (code, out) == (ExitCode.DONE, "3 entries as they were written, words of 2 of them erased since.\n")
    kept = database.rows(
        "select 1 as kept from audit_chain c join audit_log l on l.tenant = c.tenant and l.id = c.entry "
        "where c.salt is not null and l.action = 'verify'"
    )
    assert not kept, "no salt, no guess"


@pytest.mark.one_server
async def test_erasing_waits_for_who_reads_entries_to_give_them_places(agent: Agent, database: Database) -> None:
    """Else the digest of erased words would get its place, with its salt, after they are gone."""
    (memory_id,) = await judged(agent, 1)
    with psycopg.connect(database.owner_url) as reading:
        reading.execute("select pg_advisory_xact_lock(hashtextextended('engramq.audit_chain', tenant)) from namespaces")
        erasing = asyncio.create_task(agent.call("forget_memory", memory_id=memory_id, erase=True))
        with anyio.fail_after(20):
            while not database.rows("select 1 as waiting from pg_locks where locktype = 'advisory' and not granted"):
                await anyio.sleep(0.02)
        assert not erasing.done()
    await erasing


async def test_erasing_waits_for_no_other_erasing(agent: Agent, database: Database) -> None:
    """Else 64 callers erase one after the other, each for as long as a commit takes."""
    (memory_id,) = await judged(agent, 1)
    with psycopg.connect(database.owner_url) as another:
        another.execute("select set_config('app.tenant', tenant::text, true) from namespaces")
        another.execute("select blank_audit(array[gen_random_uuid()], gen_random_uuid())")
        with anyio.fail_after(8):
            assert (await agent.call("forget_memory", memory_id=memory_id, erase=True))["status"] == "erased"


async def test_what_nobody_did_has_no_receipt(agent: Agent, terminal: Terminal) -> None:
    stored = await agent.call("store_memory", content="The ferry leaves at seven")
    for words in ([stored["command_id"]], ["--erased", stored["stored"]["id"]]):
        code, out, err = await terminal("receipt", *words)
        assert (code, out, "says nothing" in err) == (ExitCode.FAILED, "", True)
    assert (await terminal("audit", "--verify"))[1] == "0 entries as they were written.\n"


COMPARED = {
    "select 1": "unchanged and in the same place",
    "update audit_log set reason = 'another' where id = {id}": "was changed: its words were changed",
    "delete from audit_log where id = {id}": "is not in the audit log of namespace",
    MOVED: "is at place",
    "update audit_chain set hash = '\\x00' where entry = {id}": "was changed: ",
}


async def test_a_receipt_is_compared_with_the_live_chain(
    agent: Agent, terminal: Terminal, database: Database, tmp_path: Path
) -> None:
    await judged(agent, 3)
    newest, entry, *_ = (await agent.call("audit"))["entries"]
    assert await chained(agent, terminal) == 3
    file = tmp_path / "receipt.json"
    file.write_text(json.dumps(await receipt_of(terminal, entry["command_id"])))
    for tampering, said in COMPARED.items():
        with tampered(database, tampering.format(id=entry["id"], next=newest["id"])):
            code, out, err = await terminal("verify", str(file), "--live")
            _, whole, _ = await terminal("verify", str(file), "--live", "--json")
        assert said in out + err, tampering
        assert code == (ExitCode.DONE if tampering == "select 1" else ExitCode.FAILED), tampering
        told = json.loads(whole)
        assert (told["valid"], told["live"]) == (True, tampering == "select 1"), tampering
