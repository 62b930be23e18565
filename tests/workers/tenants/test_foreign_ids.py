"""Another tenant's ids, names, cursors and keys are answered, at every door, exactly as those that nobody has."""

import json
import re
from dataclasses import dataclass, field
from typing import Any

import psycopg
import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import TextResourceContents

from engramq.gateway.identity.authorization import local_caller
from engramq.gateway.service import Call, Service
from engramq.schemas.commands import TOOLS
from engramq.schemas.ids import uuid7
from tests.conftest import Database
from tests.gateway.replies import check_reply
from tests.scenarios.stage import Agent, Stage, agent_of, until
from tests.workers.tenants import doors
from tests.workers.tenants.doors import RESOURCES, free_texts, probes_of

SECRET = "Undine sleeps below the mill pond"
WORD = "mill pond"  # in everything that is theirs, in nothing that is the stranger's
THEIRS = "theirs"
_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z")
_INSTANCE = re.compile(r"\b1\d{12}\b")  # a session's, in milliseconds
_QUEUE = re.compile(r'\{"dead": \d+, "depth": \d+\}')  # everybody's
_DIGEST = re.compile(r'(?<="digest": ")[0-9a-f]+')  # of what was stored, so of what was sent

STATE = {
    "memories": "node_id, partition, content, state, verification, superseded_by, confidence, thread, tags, project",
    "nodes": "id, label, name, partition, external_id, properties",
    "edges": "id, relation, memory_sector, properties->'last_reclassification'",
    "memory_usage": "coalesce(sum(helped + hindered), 0), count(*) filter (where helped + hindered > 0)",
    "proposals": "id, rejected_at, used_at",
    "approvals": "proposal_id, principal",
    "audit_log": "id, actor, action, target_id",
    "ledger": "command_id, principal",
}


@dataclass
class Belongings:
    """What a tenant has, by kind; several memories in different states."""

    things: dict[str, str]
    memories: dict[str, str]
    ids: set[str] = field(default_factory=set)  # every id of theirs

    def variants(self, kinds: set[str]) -> list[dict[str, str]]:
        """Return what to put in the places of these kinds; for a memory each of theirs in turn."""
        if doors.MEMORY not in kinds:
            return [self.things]
        return [{**self.things, doors.MEMORY: memory} for memory in self.memories.values()]


def nobodys() -> dict[str, str]:
    """Return things of each kind that nobody has."""
    ids = dict.fromkeys((doors.MEMORY, doors.EDGE, doors.NODE, doors.PROPOSAL, doors.COMMAND))
    named = {kind: uuid7() for kind in ids}
    others = (doors.EXTERNAL_ID, doors.THREAD, doors.TAG, doors.NAME, doors.SESSION, doors.KEY)
    return named | {kind: f"Nobody-{uuid7()}" for kind in others} | {
        doors.CONTENT: f"Nobody wrote this, {uuid7()}",
        doors.PROJECT: f"Nobody {uuid7()}",  # two words, as theirs
        doors.ALIKE: f"nobody-{uuid7()}",
        doors.CURSOR: "A" * 88,
    }  # fmt: skip


async def belongings_of(them: Agent) -> Belongings:
    """Let a tenant have something of every kind."""
    first = await them.call(
        "store_memory", content=SECRET, external_id="pond-1", thread=f"{WORD} talks", idempotency_key="pond-key",
        session="pond-session",
        tags=[f"{WORD} tag"],
    )  # fmt: skip
    active = first["stored"]["id"]
    old = (await them.store(f"The {WORD} was dry", session="pond-session"))["id"]
    archived = (await them.store(f"A bridge crosses the {WORD}"))["id"]
    rejected = (await them.store(f"Gold lies in the {WORD}"))["id"]
    untrusted = (await them.store(f"Rumours about the {WORD}", partition="untrusted"))["id"]
    await them.store(f"A heron fishes in the {WORD}")  # a second page
    await them.store(f"A causeway leads through the {WORD}", tags=[f"{WORD} tag"], project=f"{WORD} works")
    await them.call("supersede_memory", old_memory_id=old, new_memory_id=active)
    await them.call("forget_memory", memory_id=archived)
    await them.call("verify_memory", memory_id=rejected, verification="rejected")
    await them.call("verify_memory", memory_id=untrusted, verification="verified")
    await them.call("search_memories", query=SECRET, session="pond-session")
    triple = {"source_name": f"{WORD} spirit", "target_name": "Kühleborn", "relation": "KNOWS"}
    edge = await them.call("graph_add_edge", **triple, properties={"is_constitutive": True})
    proposal = await them.call("reclassify_memory_sector", **triple, new_sector="emotional")
    page = await them.call("list_recent_memories", limit=1)
    things = {
        doors.EDGE: edge["edge_id"],
        doors.NODE: edge["source_id"],
        doors.PROPOSAL: proposal["proposal_id"],
        doors.COMMAND: first["command_id"],
        doors.CURSOR: page["next_cursor"],
        doors.EXTERNAL_ID: "pond-1",
        doors.CONTENT: SECRET,
        doors.THREAD: f"{WORD} talks",
        doors.TAG: f"{WORD} tag",
        doors.PROJECT: f"{WORD} works",
        doors.NAME: f"{WORD} spirit",
        doors.ALIKE: f"{WORD} spirit".upper(),
        doors.SESSION: "pond-session",
        doors.KEY: "pond-key",
    }
    memories = {"active": active, "old": old, "archived": archived, "rejected": rejected, "untrusted": untrusted}
    things[doors.MEMORY] = active
    ids = {item for item in (*things.values(), *memories.values(), edge["target_id"]) if _ID.fullmatch(item)}
    return Belongings(things, memories, ids)


def state_of(database: Database) -> list[Any]:
    """Return what of theirs a stranger could have changed, apart from what the pipeline itself goes on to write."""
    with psycopg.connect(database.owner_url) as connection:
        return [
            connection.execute(
                f"select {columns} from {table} where tenant = tenant_of(%s) order by 1, 2".encode(), [THEIRS]
            ).fetchall()
            for table, columns in STATE.items()
        ]


class Stranger:
    """A caller in a namespace of its own, without the client library: there are hundreds of them."""

    def __init__(self, service: Service) -> None:
        self._service, self._caller = service, local_caller(f"stranger-{uuid7()}", "somebody")

    async def call(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        reply = await self._service.call(Call(tool=TOOLS[tool], arguments=arguments, caller=self._caller))
        return check_reply(tool, reply.body, is_error=reply.is_error)

    async def memory(self) -> str:
        """Store one and return its id."""
        stored = (await self.call("store_memory", {"content": "Nothing in particular"}))["stored"]
        return str(stored["id"])


def normal(reply: Any, given: dict[str, str]) -> str:
    """Return a reply as text, with what was sent, ids and times made the same."""
    text = json.dumps(reply, sort_keys=True, ensure_ascii=False)
    for kind, value in sorted(given.items(), key=lambda item: -len(item[1])):
        text = text.replace(json.dumps(value, ensure_ascii=False)[1:-1], kind)
    for pattern, word in (
        (_ID, "ID"),
        (_TIME, "TIME"),
        (_INSTANCE, "INSTANCE"),
        (_QUEUE, "QUEUE"),
        (_DIGEST, "DIGEST"),
    ):
        text = pattern.sub(word, text)
    return text


@dataclass
class Comparison:
    """Asks the same of the foreign and of what nobody has, and keeps in `found` where the answers are not the same."""

    service: Service
    theirs: Belongings
    found: list[str] = field(default_factory=list)

    async def of_tool(self, tool: str, arguments: dict[str, Any]) -> None:
        """Try arguments whose places are filled with theirs and with nobody's, each in a namespace of its own."""
        nobody = nobodys()
        expected = await self._asked(tool, arguments, nobody)
        for given in self.theirs.variants(doors.kinds_in(arguments)):
            answered = await self._asked(tool, arguments, given)
            if answered != expected:
                self.found.append(f"{tool} {arguments}:\n  nobody's: {expected}\n  theirs:   {answered}")

    async def _asked(self, tool: str, arguments: dict[str, Any], given: dict[str, str]) -> str:
        us = Stranger(self.service)
        own = {doors.MINE: await us.memory()} if doors.MINE in str(arguments) else {}
        sent = doors.filled(arguments, given | own)
        reply = await us.call(tool, sent)
        self.reveals_nothing(reply, sent)
        return normal(reply, own | {kind: given[kind] for kind in doors.kinds_in(arguments)})

    def reveals_nothing(self, reply: Any, sent: Any) -> None:
        """Assert that a reply has nothing of theirs that was not in the question."""
        told, asked = json.dumps(reply), json.dumps(sent)
        if any(item in told and item not in asked for item in self.theirs.ids):
            self.found.append(f"an id of theirs: {asked}: {told}")
        if WORD in told.lower() and WORD not in asked.lower():
            self.found.append(f"a word of theirs: {asked}: {told}")


def test_every_tool_and_every_parameter_that_can_name_something_has_a_probe() -> None:
    for name, tool in TOOLS.items():
        given: dict[str, set[str]] = {}
        for probe in probes_of(tool):
            for parameter, value in probe.items():
                given.setdefault(parameter, set()).update(doors.kinds_in(value))
        alone = [item for item in tool.parameters.__struct_fields__ if item not in tool.batches]
        named = [(item, item, tool.ids) for item in alone]
        for batch, items in tool.batches.items():
            named += [(batch, item, items.ids) for item in items.taken.__struct_fields__]
        texts = {
            text
            for taken in (tool.parameters, *(items.taken for items in tool.batches.values()))
            for text in free_texts(taken)
        }
        for parameter, item, ids in named:
            if item in ids:
                assert doors.MEMORY in given[parameter], (name, item)
            elif item in doors.MAY_NAME:
                assert given[parameter] & set(doors.MAY_NAME[item]), (name, item)
            elif item in texts and item not in doors.NAMES_NOTHING:
                assert given[parameter] & set(doors.ANY_KIND), (name, item)


@pytest.mark.long
@pytest.mark.promise("MT-14", "GE-19")
async def test_what_is_anothers_is_answered_as_what_nobody_has(stage: Stage, database: Database) -> None:
    service = await stage.gateway()
    async with agent_of(service, THEIRS, "somebody") as them:
        theirs = await belongings_of(them)
        session_state = await them.call("get_breadcrumbs", session="pond-session")
        before = state_of(database)
        comparison = Comparison(service, theirs)
        for tool, probes in ((tool, probes_of(TOOLS[tool])) for tool in TOOLS):
            for arguments in probes:
                await comparison.of_tool(tool, arguments)
            if TOOLS[tool].takes_session:
                await comparison.of_tool(tool, {**probes[0], "session": doors.SESSION})
            if TOOLS[tool].write:
                await comparison.of_tool(tool, {**probes[0], "idempotency_key": doors.KEY})
            for parameter in TOOLS[tool].ids:
                for reference in ("@stored", "@recalled[0]"):
                    value = [reference] if isinstance(probes[0][parameter], list) else reference
                    await comparison.of_tool(tool, {**probes[0], parameter: value, "session": doors.SESSION})
        assert comparison.found == [], "\n".join(comparison.found)
        assert state_of(database) == before
        after = await them.call("get_breadcrumbs", session="pond-session")
        assert {**after, "expires_at": None} == {**session_state, "expires_at": None}


@pytest.mark.promise("MT-14")
async def test_every_resource_answers_likewise(stage: Stage) -> None:
    service = await stage.gateway()
    async with agent_of(service, THEIRS, "somebody") as them, agent_of(service, "ours", "somebody") as us:
        theirs, mine = await belongings_of(them), (await us.store("Nothing in particular"))["id"]
        comparison = Comparison(service, theirs)
        listed = {str(resource.uri) for resource in (await us.client.list_resources()).resources}
        listed |= {template.uri_template for template in (await us.client.list_resource_templates()).resource_templates}
        assert listed == RESOURCES.keys(), "a new resource needs a probe in tests/workers/tenants/doors.py"

        async def is_classified() -> bool:  # which changes the statistics, and comes after the store
            (memory,) = (await us.call("list_recent_memories"))["memories"]
            return "sector" in memory

        await until(is_classified)

        async def read(uri: str) -> Any:
            try:
                (content,) = (await us.client.read_resource(uri)).contents
            except MCPError as refused:
                return f"{type(refused).__name__}: {refused}"
            assert isinstance(content, TextResourceContents)
            return json.loads(content.text)

        for addresses in RESOURCES.values():
            for address in addresses:
                nobody = nobodys()
                kinds = doors.kinds_in(address)
                expected = normal(await read(doors.filled(address, nobody)), {kind: nobody[kind] for kind in kinds})
                for given in theirs.variants(kinds):
                    uri = doors.filled(address, given)
                    told = await read(uri)
                    comparison.reveals_nothing(told, uri)
                    assert normal(told, {kind: given[kind] for kind in kinds}) == expected, address
        assert comparison.found == []
        assert (await read(f"engramq://memory/{mine}"))["memory"]["id"] == mine
