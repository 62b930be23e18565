"""Erasing all of a principal, a source type, a thread, a partition or a time."""

import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from redis.asyncio import Redis

from engramq.schemas.codec import encode, encode_job
from engramq.schemas.commands import Purged, PurgeMemories, Stored, StoreMemory, Superseded, SupersedeMemory
from engramq.schemas.envelope import Principal
from engramq.schemas.faults import FaultCode, refuse
from engramq.schemas.keys import JOB_KEY, Keys
from engramq.schemas.vocabulary import ALL_SCOPES, Partition, Scope, WorkerKind
from engramq.workers.db.transaction import Transaction
from engramq.workers.memories import purge as purging
from engramq.workers.queue.contract import LeaseLost, ResultUnknown
from tests.assignments import assignment, repeated
from tests.refusals import refused
from tests.workers.conftest import World

CRAWLER = Principal(name="crawler", scopes=ALL_SCOPES)
WRITER = Principal(name="writer", scopes=(Scope.READ, Scope.WRITE, Scope.VERIFY))
STRANGER = Principal(name="stranger", scopes=ALL_SCOPES, untrusted=True)


async def keep(world: World, *contents: str, **fields: Any) -> list[str]:
    return [(await world.keep(content, **fields)).stored.id for content in contents]


async def purge(world: World, **given: Any) -> Purged:
    return await world.ask(Purged, PurgeMemories(**given))


def left(world: World) -> set[str]:
    return {row["content"] for row in world.rows("select content from memories")}


async def test_the_log_says_by_which_command_a_purge_took_what(world: World, caplog: pytest.LogCaptureFixture) -> None:
    await keep(world, "of the crawler", "too", principal=CRAWLER)
    caplog.set_level("INFO", "engramq")
    done = await purge(world, created_by="crawler", erase=True)
    (line,) = [vars(record) for record in caplog.records if record.getMessage() == "Memories purged"]
    assert (line["command_id"], line["count"]) == (done.command_id, 2)


async def test_each_filter_takes_what_it_names_and_nothing_else(world: World) -> None:
    await keep(world, "mine", "mine too")
    await keep(world, "of the crawler", principal=CRAWLER)
    await keep(world, "researched", source_type="research")
    await keep(world, "in a thread", thread="geese")
    await keep(world, "in a project", project="rover")
    await keep(world, "elsewhere", namespace="elsewhere", thread="geese", principal=CRAWLER)
    everything = {"mine", "mine too", "of the crawler", "researched", "in a thread", "in a project", "elsewhere"}
    past, future = datetime.now(UTC) - timedelta(days=1), datetime.now(UTC) + timedelta(days=1)
    here = everything - {"elsewhere"}
    for given, expected in (
        ({"created_by": "crawler"}, {"of the crawler"}),
        ({"source_type": "research"}, {"researched"}),
        ({"thread": "geese"}, {"in a thread"}),
        ({"project": "rover"}, {"in a project"}),
        ({"project": "rover", "thread": "geese"}, set()),
        ({"partition": Partition.UNTRUSTED}, {"researched"}),
        ({"since": past, "until": future}, here),
        ({"since": future}, set()),
        ({"until": past}, set()),
        ({"created_by": "crawler", "thread": "geese"}, set()),
        ({"created_by": "nobody"}, set()),
    ):
        listed = await purge(world, **given)
        assert (listed.matched, listed.erased, len(listed.memory_ids)) == (len(expected), 0, len(expected)), given
    assert left(world) == everything
    assert world.count("audit_log") == 0
    done = await purge(world, erase=True, thread="geese", reason="wrong geese")
    assert (done.matched, done.erased) == (1, 1)
    assert left(world) == everything - {"in a thread"}
    again = await purge(world, erase=True, thread="geese")
    assert (again.matched, again.erased, again.memory_ids) == (0, 0, [])


async def test_a_purge_of_a_project_tells_the_audit_no_name_and_takes_no_star(world: World) -> None:
    await keep(world, "in a project", project="of Zenzi")
    done = await purge(world, erase=True, project="of Zenzi")
    assert (done.matched, done.erased) == (1, 1)
    (entry,) = world.rows("select new from audit_log where action = 'purge'")
    assert set(entry["new"]["filters"]) == {"project_sha256"}
    with refused(FaultCode.INVALID_PARAMETER):
        await purge(world, project="*")


async def test_the_whole_purge_and_each_memory_of_it_are_audited_by_id_only(world: World) -> None:
    ids = await keep(world, *(f"Zenzi the goose number {number}" for number in range(5)), thread="Zenzi's")
    command = assignment(
        PurgeMemories(thread="Zenzi's", since=datetime(2020, 1, 1, tzinfo=UTC), erase=True, reason="r")
    )
    reply = (await world.complete(command)).reply
    assert isinstance(reply, Purged)
    assert reply.memory_ids == sorted(ids)
    entries = world.rows(
        "select action, target_id::text as id, old, new, reason, command_id::text as by from audit_log"
    )
    erased = [entry for entry in entries if entry["action"] == "erase"]
    assert {entry["id"] for entry in erased} == set(ids)
    assert {(entry["reason"], entry["by"], str(entry["old"])) for entry in erased} == {
        ("r", command.envelope.id, "{'state': 'active', 'partition': 'trusted'}")
    }
    (summary,) = [entry for entry in entries if entry["action"] == "purge"]
    assert (summary["id"], summary["new"]["erased"], summary["reason"]) == (None, 5, "r")
    filters = summary["new"]["filters"]
    assert filters["since"] == "2020-01-01T00:00:00.000000Z"
    assert set(filters) == {"since", "thread_sha256"}
    tables = world.rows(
        "select oid::regclass::text as name from pg_class where relkind = 'r' and relnamespace = 'public'::regnamespace"
    )
    for table in tables:
        held = world.rows(f"select t::text as line from {table['name']} t")
        assert not [row for row in held if "Zenzi" in row["line"]], table
    again = await world.complete(repeated(command, attempt=2))
    assert again.reply == reply


async def test_what_is_purged_leaves_the_queues_too(world: World, redis_url: str, key_prefix: str) -> None:
    secrets = [f"The safe opens with code {number}" for number in range(3)]
    await keep(world, *secrets, thread="safes")
    keys = Keys(key_prefix)
    async with Redis.from_url(redis_url) as redis:
        for secret in [*secrets, "harmless"]:
            waiting = assignment(StoreMemory(content=secret))
            name = f"{waiting.envelope.id}.1"
            await redis.set(JOB_KEY + name, encode_job([encode(waiting.envelope)], time.time_ns() // 1_000_000))
            await redis.zadd(keys.of[WorkerKind.EMBEDDING].mailbox, {name: time.time() * 1000})
        await purge(world, thread="safes", erase=True)
        names = await redis.zrange(keys.of[WorkerKind.EMBEDDING].mailbox, 0, -1)
        jobs = b"".join([await redis.get(JOB_KEY.encode() + name) or b"" for name in names])
    assert b"safe opens" not in jobs
    assert b"harmless" in jobs


@pytest.mark.parametrize(
    ("gone", "hidden_by"),
    [
        ("b", {"a": "c", "c": "d"}),
        ("bc", {"a": "d"}),
        ("ac", {"b": "d"}),
        ("abc", {}),
        ("d", {"a": "b", "b": "c", "c": "?"}),
        ("bd", {"a": "c", "c": "?"}),
        ("cd", {"a": "b", "b": "?"}),
        ("bcd", {"a": "?"}),
    ],
)
@pytest.mark.parametrize("at_once", [1, 100])
async def test_chains_close_over_what_is_purged(
    world: World, monkeypatch: pytest.MonkeyPatch, gone: str, hidden_by: dict[str, str], at_once: int
) -> None:
    monkeypatch.setattr(purging, "ERASED_AT_ONCE", at_once)
    ids = {name: (await keep(world, name, thread="t" if name in gone else "u"))[0] for name in "abcd"}
    for old, new in ("ab", "bc", "cd"):
        await world.ask(Superseded, SupersedeMemory(old_memory_id=ids[old], new_memory_id=ids[new]))
    assert (await purge(world, thread="t", erase=True)).erased == len(gone)
    names = {memory_id: name for name, memory_id in ids.items() if name not in gone}
    rows = world.rows(
        "select content, superseded_by::text as by, superseded_at, supersedes::text as last from memories"
    )
    found = {row["content"]: names[row["by"]] if row["by"] else "?" for row in rows if row["superseded_at"]}
    assert found == hidden_by
    last = {row["content"]: names[row["last"]] for row in rows if row["last"] is not None}
    assert last == {new: old for old, new in hidden_by.items() if new != "?"}


async def test_a_purge_that_was_broken_off_is_finished_and_tells_the_whole(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(purging, "ERASED_AT_ONCE", 3)
    ids = await keep(world, *(f"memory {number}" for number in range(10)), thread="t")
    command = assignment(PurgeMemories(thread="t", erase=True), idempotency_key="k")
    erase, calls = purging.erase_matching, 0

    async def losing(tx: Transaction, *arguments: Any) -> None:
        nonlocal calls
        calls += 1
        await erase(tx, *arguments)
        if calls == 2:  # its transaction is not committed then
            command.lease.lost = True

    monkeypatch.setattr(purging, "erase_matching", losing)
    with pytest.raises(LeaseLost):
        await world.complete(command)
    assert world.count("memories") == 7
    outcome = await world.complete(repeated(command, attempt=2))
    assert isinstance(outcome.reply, Purged)
    assert (outcome.reply.matched, outcome.reply.erased, outcome.reply.memory_ids) == (10, 10, sorted(ids))
    actions = [row["action"] for row in world.rows("select action from audit_log order by id")]
    assert actions == ["erase"] * 10 + ["purge"]


async def test_what_is_partly_done_is_never_said_not_to_be_applied(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(purging, "ERASED_AT_ONCE", 2)
    await keep(world, *(f"memory {number}" for number in range(5)), thread="t")
    erase, calls = purging.erase_matching, 0

    async def refusing(tx: Transaction, *arguments: Any) -> None:
        nonlocal calls
        calls += 1
        if calls in {1, 3}:
            raise refuse(FaultCode.UNAVAILABLE, "The database's disk is full.")
        await erase(tx, *arguments)

    monkeypatch.setattr(purging, "erase_matching", refusing)
    command = assignment(PurgeMemories(thread="t", erase=True))
    with refused(FaultCode.UNAVAILABLE):  # nothing is done yet
        await world.complete(command)
    with pytest.raises(ResultUnknown):
        await world.complete(command)
    assert world.count("memories") == 3
    outcome = await world.complete(repeated(command, attempt=2))
    assert isinstance(outcome.reply, Purged)
    assert outcome.reply.erased == 5


async def test_a_purge_says_what_it_takes_and_needs_admin(world: World) -> None:
    await keep(world, "stays")
    with refused(FaultCode.INVALID_PARAMETER):
        await purge(world, erase=True)
    principals: Sequence[Principal] = (WRITER, STRANGER)
    for principal in principals:
        for erase in (False, True):
            with refused(FaultCode.FORBIDDEN):
                await world.complete(assignment(PurgeMemories(created_by="I/O", erase=erase), principal=principal))
    assert left(world) == {"stays"}
    assert world.count("audit_log") == 0


async def test_a_stored_reply_that_showed_a_purged_memory_shows_it_no_more(world: World) -> None:
    await keep(world, "The office is in Graz", thread="t")
    second = assignment(StoreMemory(content="The office is in Graz, too"), idempotency_key="k")
    first = await world.complete(second)
    assert isinstance(first.reply, Stored)
    assert len(first.reply.similar_memories) == 1
    await purge(world, thread="t", erase=True)
    again = await world.complete(repeated(second, attempt=2))
    assert isinstance(again.reply, Stored)
    assert (again.reply.stored.content, again.reply.similar_memories) == ("The office is in Graz, too", [])
