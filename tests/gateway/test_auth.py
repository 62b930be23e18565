"""What a principal may do is decided at the door, before anything is enqueued."""

from typing import Any

import pytest

from gateway.auth import Caller
from gateway.mcp.tools import TOOLS
from gateway.service import Call, Service
from schemas.commands import StoreMemory
from schemas.envelope import Principal
from schemas.vocabulary import ALL_SCOPES, Partition, Scope
from tests.gateway.replies import check_reply
from tests.gateway.test_arguments import MINIMAL
from tests.gateway.worker_side import WorkerSide

pytestmark = pytest.mark.anyio

WRITES = {
    "store_memory",
    "supersede_memory",
    "update_memory",
    "forget_memory",
    "restore_memory",
    "graph_add_node",
    "graph_add_edge",
    "graph_delete_edge",
    "graph_delete_node",
    "reclassify_memory_sector",
    "propose_reclassification",
}
VERIFIES = {"decide_proposal"}


async def call(service: Service, principal: Principal, tool: str, **arguments: Any) -> dict[str, Any]:
    reply = await service.call(Call(tool=TOOLS[tool], arguments=arguments, caller=Caller("ns", principal)))
    return check_reply(tool, reply.body, is_error=reply.is_error)


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("scope", Scope)
async def test_each_tool_needs_its_scope_and_names_it(
    service: Service, workers: WorkerSide, tool: str, scope: Scope
) -> None:
    body = await call(service, Principal(name="p", scopes=(scope,)), tool, **MINIMAL[tool])
    needed = Scope.WRITE if tool in WRITES else Scope.VERIFY if tool in VERIFIES else Scope.READ
    if scope is needed:
        assert body.get("code") is None
    else:
        assert body["code"] == "forbidden"
        assert f"'{needed}'" in body["error"]
        assert workers.seen == []


async def test_to_vouch_for_a_memory_takes_the_scope_verify(service: Service, workers: WorkerSide) -> None:
    writer = Principal(name="p", scopes=(Scope.READ, Scope.WRITE))
    for verification in ("verified", "approved", "rejected"):
        body = await call(service, writer, "store_memory", content="x", verification=verification)
        assert (body["code"], "'verify'" in body["error"]) == ("forbidden", True)
    assert workers.seen == []
    verifier = Principal(name="p", scopes=(Scope.WRITE, Scope.VERIFY))
    assert (await call(service, verifier, "store_memory", content="x", verification="verified"))["status"] == "stored"
    assert (await call(service, writer, "store_memory", content="x", verification="unverified"))["status"] == "stored"


async def test_an_untrusted_principal_stores_into_untrusted_only(service: Service, workers: WorkerSide) -> None:
    untrusted = Principal(name="p", scopes=ALL_SCOPES, untrusted=True)
    for given in ({}, {"partition": "untrusted"}):
        await call(service, untrusted, "store_memory", content="x", **given)
        command = workers.seen[-1].command
        assert isinstance(command, StoreMemory)
        assert command.partition is Partition.UNTRUSTED
    refused = await call(service, untrusted, "store_memory", content="x", partition="trusted")
    assert refused["code"] == "untrusted_source"
    assert len(workers.seen) == 2


async def test_an_untrusted_principal_may_supersede_and_write_nothing_else(
    service: Service, workers: WorkerSide
) -> None:
    untrusted = Principal(name="p", scopes=ALL_SCOPES, untrusted=True)
    for tool in TOOLS:
        body = await call(service, untrusted, tool, **MINIMAL[tool])
        forbidden = tool in (WRITES | VERIFIES) - {"store_memory", "supersede_memory"}
        assert (body.get("code") == "forbidden") == forbidden, tool


async def test_bad_input_is_named_even_to_those_who_may_not(service: Service, workers: WorkerSide) -> None:
    body = await call(service, Principal(name="p"), "store_memory")
    assert (body["status"], body["field"]) == ("invalid_parameter", "content")


async def test_to_reclassify_in_anothers_name_takes_admin(service: Service, workers: WorkerSide) -> None:
    writer = Principal(name="p", scopes=(Scope.WRITE,))
    arguments = MINIMAL["reclassify_memory_sector"]
    body = await call(service, writer, "reclassify_memory_sector", **arguments, actor="q")
    assert (body["code"], "'admin'" in body["error"]) == ("forbidden", True)
    assert workers.seen == []
    for principal, actor in ((writer, "p"), (Principal(name="p", scopes=ALL_SCOPES), "q")):
        body = await call(service, principal, "reclassify_memory_sector", **arguments, actor=actor)
        assert body.get("code") is None
    assert len(workers.seen) == 2
