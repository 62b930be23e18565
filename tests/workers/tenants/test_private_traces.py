"""What became of private memories, erased, displaced, renamed or shared in part, nobody else is told (PV-1, PV-5)."""

import json
from dataclasses import dataclass, field
from typing import Any

import pytest

from engramq.gateway.identity.authorization import Caller
from engramq.gateway.service import Call, Service
from engramq.schemas.commands import OPERATOR_TOOLS
from engramq.schemas.vocabulary import AuditAction
from tests.conftest import Database
from tests.scenarios.stage import Agent, agent_of, stage_settings, staged, until
from tests.workers.tenants.test_private import NAMESPACE, READERS, Watch, private_ids

OF_MEMORIES = (("get_memory", "memory_id"), ("why", "memory_id"), ("audit", "target"))
MEMORY = "The heron nests by the pond of {}"


@dataclass
class Traces:
    """What a principal did with private memories: their ids, the commands, and what everybody sees."""

    ada: Agent
    commands: list[str] = field(default_factory=list)
    ids: set[str] = field(default_factory=set)
    shared: list[str] = field(default_factory=list)

    async def does(self, tool: str, **arguments: Any) -> dict[str, Any]:
        reply = await self.ada.call(tool, **arguments)
        assert "command_id" in reply, reply
        self.commands.append(reply["command_id"])
        return reply

    async def keeps(self, marker: str, **more: Any) -> str:
        """Store a private memory, or another."""
        private = {"visibility": "private", **more}
        memory_id: str = (await self.does("store_memory", content=MEMORY.format(marker), **private))["stored"]["id"]
        if private["visibility"] == "private":
            self.ids.add(memory_id)
        else:
            self.shared.append(memory_id)
        return memory_id


async def left(traces: Traces, database: Database) -> None:
    """Leave every kind of trace."""
    one, two = [await traces.keeps(word, visibility="shared") for word in ("the mill", "the abbey")]
    private = await traces.keeps("the mill")  # says almost what the shared one says

    async def linked() -> bool:
        return bool(database.rows("select 1 as there from edges where owner = 'ada'"))

    await until(linked)
    traces.ids |= private_ids(database)
    displaced = await traces.does("connect", source=one, target=two, note="what the abbey owns")
    assert private in json.dumps(displaced["displaced_edges"])
    erased = await traces.keeps("marker9001", project="marker9002")
    await traces.does("verify_memory", memory_id=erased, verification="verified", reason="marker9003")
    await traces.does("forget_memory", memory_id=erased, reason="marker9004")
    await traces.does("restore_memory", memory_id=erased)
    await traces.does("forget_memory", memory_id=erased, erase=True, reason="marker9005")
    old = await traces.keeps("marker9006", project="marker9002")
    new = await traces.keeps("marker9007")
    await traces.does("record_outcome", memory_ids=[new], signal=1.0, note="marker9008")
    await traces.does("supersede_memory", old_memory_id=old, new_memory_id=new)
    traces.ids |= private_ids(database)
    look = await traces.ada.call("get_memory", memory_id=new, detail="full")
    await traces.does("share_memory", memory_id=new, seen=look["memory"]["digest"])
    traces.ids.discard(new)
    traces.shared.append(new)
    await traces.does("forget_memory", memory_id=private, erase=True, reason="marker9009")


async def renamed(service: Service, traces: Traces) -> None:
    """Rename the project of private memories, as an administrator does."""
    (tool,) = [tool for tool in OPERATOR_TOOLS if tool.name == "rename_project"]
    arguments = {"old_name": "marker9002", "new_name": "marker9010", "merge": True}
    reply = await service.call(Call(tool=tool, arguments=arguments, caller=Caller(NAMESPACE, READERS[1])))
    assert not reply.is_error, reply.body
    traces.commands.append(reply.body["command_id"])


async def asked(watch: Watch, traces: Traces) -> None:
    """Ask at every door where a trace may be."""
    everything = {"states": ["active", "archived"], "include_superseded": True, "project": "*", "limit": 50}
    questions: list[tuple[str, dict[str, Any]]] = [
        *(("get_command", {"command_id": command_id}) for command_id in traces.commands),
        *((tool, {name: of}) for of in (*traces.ids, *traces.shared) for tool, name in OF_MEMORIES),
        *(("audit", {"action": action.value, "limit": 100}) for action in AuditAction),
        ("list_recent_memories", everything),
        ("list_proposals", {}),
        ("memory_stats", {}),
    ]
    for principal in READERS:
        for tool, arguments in questions:
            reply = await watch.call(principal, tool, arguments)
            assert reply.get("code") != "invalid_parameter", reply


@pytest.mark.promise("PV-1", "PV-5")
async def test_what_became_of_private_memories_is_told_to_nobody_else(
    database: Database, redis_url: str, key_prefix: str
) -> None:
    settings = stage_settings(database, redis_url, key_prefix, degree_cap="1")
    async with staged(settings) as stage:
        service = await stage.gateway()
        async with agent_of(service, NAMESPACE, "ada") as ada:
            traces = Traces(ada)
            await left(traces, database)
            await renamed(service, traces)
            watch = Watch(service, traces.ids, {"marker9007", "marker9010"})
            await asked(watch, traces)
    assert watch.seen == [], "\n".join(watch.seen)
