"""What is private to a principal is in no reply to anybody else in its namespace, whatever door they come by (PV-1)."""

import json
import re
from dataclasses import dataclass, field
from typing import Any

import psycopg
import pytest

from engramq.gateway.identity.authorization import Caller
from engramq.gateway.service import Call, Service
from engramq.schemas.commands import TOOLS
from engramq.schemas.envelope import Principal
from engramq.schemas.ids import uuid7
from engramq.schemas.vocabulary import ALL_SCOPES, Scope
from tests.conftest import Database
from tests.gateway.replies import check_reply
from tests.scenarios.stage import Agent, Stage, agent_of, until
from tests.workers.tenants import doors
from tests.workers.tenants.doors import probes_of

NAMESPACE = "team"
MARKERS = 1_000
ROWS = 100  # of one import
_MARKER = re.compile(r"marker\d{4}")
_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
READERS = (
    Principal(name="bob", scopes=(Scope.READ, Scope.WRITE)),
    Principal(name="root", scopes=ALL_SCOPES),
    Principal(name="ada", scopes=ALL_SCOPES, untrusted=True),  # one name, trusted and untrusted, is two principals
)
# Of these kinds the things are private; the graph is everybody's.
PRIVATE_KINDS = frozenset(
    {
        doors.MEMORY,
        doors.COMMAND,
        doors.CURSOR,
        doors.EXTERNAL_ID,
        doors.CONTENT,
        doors.THREAD,
        doors.TAG,
        doors.PROJECT,
    }
    | {doors.SESSION, doors.KEY, doors.MINE}
)
# What stands in the place of words that private memories have, where words are stored.
OWN_WORDS = {
    kind: kind.strip("<>").replace(" ", "-")
    for kind in (
        doors.EXTERNAL_ID, doors.CONTENT, doors.THREAD, doors.TAG, doors.PROJECT, doors.SESSION, doors.KEY
    )
}  # fmt: skip
TENANT_ONLY = "tenant = nullif(current_setting('app.tenant', true), '')::integer"


@dataclass
class Watch:
    """Calls tools as somebody, and keeps in `seen` each reply with something private of another's in it.

    `said`: words of it that callers have used themselves in what they stored, and so may read.
    """

    service: Service
    ids: set[str]
    said: set[str] = field(default_factory=set)
    seen: list[str] = field(default_factory=list)

    async def call(self, principal: Principal, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        caller = Caller(NAMESPACE, principal)
        reply = await self.service.call(Call(tool=TOOLS[tool], arguments=arguments, caller=caller))
        body = check_reply(tool, reply.body, is_error=reply.is_error)
        asked, told = json.dumps(arguments), json.dumps(_without_targets(body) if tool == "audit" else body)
        named = set(_MARKER.findall(told)) - self.said | self.ids & set(_ID.findall(told))
        if leaked := {word for word in named if word not in asked}:
            self.seen.append(f"{principal.name}: {tool} {asked}: {sorted(leaked)[:3]} in {told[:500]}")
        if TOOLS[tool].write:
            self.said |= set(_MARKER.findall(asked))
        return body


def _without_targets(body: dict[str, Any]) -> dict[str, Any]:
    """Return the audit log without what it may name of an entry of which it tells nothing."""
    entries = [{**entry, "target_id": None} if entry["new"] is None else entry for entry in body.get("entries", ())]
    return {**body, "entries": entries}


async def kept_to_author(ada: Agent) -> dict[str, str]:
    """Let a principal have a thousand private memories, and one of every kind; return these and two ids."""
    for start in range(0, MARKERS, ROWS):
        rows = [
            {"content": f"The pond keeps marker{number:04} and frogs", "visibility": "private"}
            for number in range(start, start + ROWS)
        ]
        await ada.call("import_memories", records=rows)  # accepted, or pending where the machine is slow

    async def imported() -> bool:
        return bool((await ada.call("memory_stats"))["memories"] == MARKERS)

    await until(imported, 240.0)
    (newest,) = (await ada.call("list_recent_memories", limit=1))["memories"]
    first = await ada.call(
        "store_memory", content="The heron saw marker9000", visibility="private", external_id="marker9001",
        thread="marker9002", tags=["marker9003"], project="marker9004", idempotency_key="marker9005",
        session="marker9006", standing=True,
    )  # fmt: skip
    assert first["stored"]["visibility"] == "private"
    other = (await ada.store("The heron is grey, says marker9007", visibility="private"))["id"]
    await ada.call("connect", source=first["stored"]["id"], target=other, note="marker9008")
    await ada.call("update_memory", memory_id=other, speaker="marker9009")
    await ada.call("verify_memory", memory_id=other, verification="verified", reason="marker9010")
    await ada.call("record_outcome", memory_ids=[other], signal=1.0, note="marker9011")
    await ada.call("search_memories", query="heron", session="marker9006")
    page = await ada.call("list_recent_memories", limit=1)
    return {
        doors.MEMORY: first["stored"]["id"],
        doors.COMMAND: first["command_id"],
        doors.CURSOR: page["next_cursor"],
        doors.EXTERNAL_ID: "marker9001",
        doors.CONTENT: "The heron saw marker9000",
        doors.THREAD: "marker9002",
        doors.TAG: "marker9003",
        doors.PROJECT: "marker9004",
        doors.KEY: "marker9005",
        doors.SESSION: "marker9006",
        "other": other,
        "imported": newest["id"],
    }


def nobodys() -> dict[str, str]:
    """Return things of the private kinds that nobody has."""
    named = {kind: f"nobodys-{uuid7()}" for kind in PRIVATE_KINDS}
    return named | {doors.MEMORY: uuid7(), doors.COMMAND: uuid7(), doors.CURSOR: "A" * 88}


def private_ids(database: Database) -> set[str]:
    """Return the id of everything that somebody keeps private: memories and links."""
    query = (
        "select id::text from nodes where owner is not null union select id::text from edges where owner is not null"
    )
    return {row["id"] for row in database.rows(query)}


async def asked_for_all(watch: Watch) -> None:
    """Ask by words that private memories are found by, and for all there is."""
    for principal in READERS:
        await watch.call(principal, "search_memories", {"query": "pond frogs heron", "limit": 50})
        await watch.call(principal, "survey_memories", {"topic": "pond frogs heron"})
        await watch.call(principal, "store_memory", {"content": "The pond keeps frogs and a heron"})
        await watch.call(principal, "audit", {"limit": 100})
        stats = await watch.call(principal, "memory_stats", {})
        assert stats["memories"] < MARKERS, stats


def rows_of(database: Database) -> list[Any]:
    """Return what is private, as its owner left it."""
    query = (
        "select m.node_id, m.content, m.state, m.verification, m.confidence, m.thread, m.tags, m.superseded_by, "
        "m.owner, (select count(*) from edges e where m.node_id in (e.source_id, e.target_id) and e.owner is null) "
        "from memories m where owner = 'ada' order by 1"
    )
    with psycopg.connect(database.owner_url) as connection:
        return connection.execute(query.encode()).fetchall()


@pytest.mark.long
@pytest.mark.promise("PV-1", "PV-5")
async def test_a_thousand_private_memories_are_in_no_reply_to_anybody_else(stage: Stage, database: Database) -> None:
    service = await stage.gateway()
    async with agent_of(service, NAMESPACE, "ada") as ada:
        things = await kept_to_author(ada)

        async def linked() -> bool:
            return not database.rows("select 1 as waiting from memories where links_made_at is null")

        await until(linked, 120.0)
        before = rows_of(database)
        assert len(before) == MARKERS + 2
        watch = Watch(service, private_ids(database))
        assert len(watch.ids) > 2 * MARKERS, "of links too"
        mine = {
            principal: {doors.MINE: (await watch.call(principal, "store_memory", {"content": "mine"}))["stored"]["id"]}
            for principal in READERS
        }
        calls = [
            (principal, tool, probe)
            for tool in TOOLS
            for probe in probes_of(TOOLS[tool])
            for principal in READERS
            if doors.kinds_in(probe) <= PRIVATE_KINDS
        ]
        # What reads first, and what writes words of its own: all markers are watched until somebody else has used them.
        for principal, tool, probe in calls:
            if not TOOLS[tool].write:
                await watch.call(principal, tool, doors.filled(probe, things | mine[principal]))
        own = things | {kind: f"{word}-mine" for kind, word in OWN_WORDS.items()}
        for principal, tool, probe in calls:
            if TOOLS[tool].write:
                await watch.call(principal, tool, doors.filled(probe, own | mine[principal]))
        assert watch.said == set()
        await asked_for_all(watch)
        for principal, tool, probe in calls:
            if TOOLS[tool].write:
                await watch.call(principal, tool, doors.filled(probe, things | mine[principal]))
        await asked_for_all(watch)
        assert watch.seen == [], "\n".join(watch.seen)
        assert rows_of(database) == before
        assert len(await ada.found("pond marker0001 frogs")) == 50


@pytest.mark.promise("PV-1")
async def test_a_private_memory_of_somebody_else_is_not_found_in_the_same_words(stage: Stage) -> None:
    service = await stage.gateway()
    async with agent_of(service, NAMESPACE, "ada") as ada:
        private = (await ada.store("The heron saw marker9000", visibility="private"))["id"]
    watch = Watch(service, {private})
    for tool in ("get_memory", "why", "forget_memory", "restore_memory", "update_memory"):
        replies = []
        for memory_id in (private, uuid7()):
            more = {"confidence": 0.1} if tool == "update_memory" else {}
            reply = await watch.call(READERS[1], tool, {"memory_id": memory_id, **more})
            text = json.dumps({name: value for name, value in reply.items() if name != "command_id"})
            replies.append(text.replace(memory_id, "ID"))
        assert replies[0] == replies[1]
        assert "not_found" in replies[0], tool
    assert watch.seen == []


@pytest.mark.own_database
@pytest.mark.promise("PV-1")
async def test_without_the_policy_it_would_be_seen(stage: Stage, database: Database) -> None:
    """The lock is the policy: loosened on purpose, what is private is in the replies, and the watch sees it."""
    service = await stage.gateway()
    async with agent_of(service, NAMESPACE, "ada") as ada:
        private = (await ada.store("The heron saw marker9000", visibility="private"))["id"]
    watch = Watch(service, {private})
    await watch.call(READERS[0], "list_recent_memories", {})
    assert watch.seen == []
    with psycopg.connect(database.owner_url, autocommit=True) as owner:
        for table in ("memories", "nodes"):
            owner.execute(f"alter policy own_tenant on {table} using ({TENANT_ONLY})".encode())
    await watch.call(READERS[0], "get_memory", {"memory_id": private})
    assert len(watch.seen) == 1
