"""What a principal may do is decided at the door, before anything is enqueued."""

from itertools import chain, combinations, product
from typing import Any

import pytest

from engramq.gateway.identity.authorization import Caller
from engramq.gateway.service import Call, Service
from engramq.schemas.commands import TOOLS, StoreMemory
from engramq.schemas.envelope import Principal
from engramq.schemas.vocabulary import ALL_SCOPES, Partition, Scope
from tests.gateway.replies import check_reply
from tests.gateway.test_arguments import MINIMAL
from tests.gateway.worker_side import WorkerSide

WRITES = {
    "store_memory", "supersede_memory", "update_memory", "forget_memory", "restore_memory", "graph_add_node",
    "graph_add_edge", "graph_delete_edge", "graph_delete_node", "reclassify_memory_sector", "connect", "disconnect",
    "connect_by_query", "connects", "record_outcome", "import_memories", "share_memory", "unshare_memory",
}  # fmt: skip
VERIFIES = {"decide_proposal", "verify_memory", "memory_promote_to_trusted"}
READS = {
    "search_memories", "list_recent_memories", "list_contradictions", "list_standing", "survey_memories",
    "get_memory", "get_node_by_name", "get_edge", "graph_list_edges", "graph_query_neighbors", "graph_find_path",
    "list_proposals", "begin_session", "get_breadcrumbs", "guide", "get_command", "memory_stats", "why",
}  # fmt: skip
ADMINISTERS = {"audit"}
UNTRUSTED_WRITES = {"store_memory", "import_memories", "supersede_memory", "connect", "connects", "disconnect"}
UNTRUSTED_MAY = READS | ADMINISTERS | UNTRUSTED_WRITES
SCOPE_SETS = tuple(chain.from_iterable(combinations(Scope, size) for size in range(len(Scope) + 1)))


def needed_by(tool: str) -> Scope:
    if tool in ADMINISTERS:
        return Scope.ADMIN
    return Scope.WRITE if tool in WRITES else Scope.VERIFY if tool in VERIFIES else Scope.READ


async def call(service: Service, principal: Principal, tool: str, **arguments: Any) -> dict[str, Any]:
    reply = await service.call(Call(tool=TOOLS[tool], arguments=arguments, caller=Caller("ns", principal)))
    return check_reply(tool, reply.body, is_error=reply.is_error)


@pytest.mark.promise("SE-13")
def test_every_tool_has_a_row_in_the_scope_table() -> None:
    assert set(TOOLS) == READS | WRITES | VERIFIES | ADMINISTERS
    assert len(TOOLS) == len(READS) + len(WRITES) + len(VERIFIES) + len(ADMINISTERS)


@pytest.mark.promise("SE-12", "SE-13", "TP-24")
@pytest.mark.parametrize("untrusted", [False, True], ids=["trusted", "untrusted"])
async def test_every_cell_of_the_scope_table(service: Service, workers: WorkerSide, untrusted: bool) -> None:
    for tool, scopes in product(TOOLS, SCOPE_SETS):
        needed = needed_by(tool)
        workers.seen.clear()
        principal = Principal(name="p", scopes=scopes, untrusted=untrusted)
        body = await call(service, principal, tool, **MINIMAL[tool])
        if needed in scopes and (tool in UNTRUSTED_MAY or not untrusted):
            assert body.get("code") is None, (tool, scopes, body)
            continue
        assert body["code"] == "forbidden", (tool, scopes, body)
        assert (f"'{needed}'" in body["error"]) == (needed not in scopes), (tool, scopes, body)
        assert body["recovery"]
        assert workers.seen == []  # decided before anything is enqueued


@pytest.mark.promise("SE-13", "TP-28")
async def test_to_vouch_for_a_memory_takes_the_scope_verify(service: Service, workers: WorkerSide) -> None:
    writer = Principal(name="p", scopes=(Scope.READ, Scope.WRITE))
    for verification in ("verified", "approved", "rejected"):
        body = await call(service, writer, "store_memory", content="x", verification=verification)
        assert (body["code"], "'verify'" in body["error"]) == ("forbidden", True)
    assert workers.seen == []
    verifier = Principal(name="p", scopes=(Scope.WRITE, Scope.VERIFY))
    assert (await call(service, verifier, "store_memory", content="x", verification="verified"))["status"] == "stored"
    assert (await call(service, writer, "store_memory", content="x", verification="unverified"))["status"] == "stored"


@pytest.mark.promise("TP-23")
async def test_an_untrusted_principal_stores_into_untrusted_only(service: Service, workers: WorkerSide) -> None:
    untrusted = Principal(name="p", scopes=ALL_SCOPES, untrusted=True)
    for given in ({}, {"partition": "untrusted"}, {"source_type": "lesson_learned"}):
        await call(service, untrusted, "store_memory", content="x", **given)
        command = workers.seen[-1].command
        assert isinstance(command, StoreMemory)
        assert command.partition is Partition.UNTRUSTED
    refused = await call(service, untrusted, "store_memory", content="x", partition="trusted")
    assert refused["code"] == "untrusted_source"
    assert len(workers.seen) == 3


@pytest.mark.promise("TP-23", "TP-28", "SE-12")
async def test_an_untrusted_principal_vouches_for_nothing_whatever_its_scopes(
    service: Service, workers: WorkerSide
) -> None:
    untrusted = Principal(name="p", scopes=ALL_SCOPES, untrusted=True)
    for verification in ("verified", "approved", "rejected"):
        body = await call(service, untrusted, "store_memory", content="x", verification=verification)
        assert (body["code"], "vouch" in body["error"]) == ("forbidden", True)
    assert workers.seen == []


@pytest.mark.promise("SE-13")
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
