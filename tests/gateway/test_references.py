"""Sessions at the door: references in place of ids, and the two tools that the gateway answers by itself."""

from typing import Any

import pytest

from engramq.gateway.identity.authorization import local_caller
from engramq.gateway.mcp.schema import input_schema
from engramq.gateway.mcp.tools import TOOLS
from engramq.gateway.service import Call, Service
from tests.gateway.replies import check_reply
from tests.gateway.test_arguments import MINIMAL
from tests.gateway.worker_side import WorkerSide

pytestmark = pytest.mark.anyio

ID_PARAMETERS = [(tool.name, field) for tool in TOOLS.values() for field in tool.ids]

NOTHING = ["@recalled[2]", "@recalled[3]", "@recalled[-1]", "@recalled[]", "@recalled", "@Stored", "@", "@stored "]


def with_id(tool: str, field: str, reference: str) -> dict[str, Any]:
    """Return arguments that name a memory by a reference, alone or in a list."""
    listed = input_schema(TOOLS[tool])["properties"][field]["type"] == "array"
    return {**MINIMAL[tool], field: [reference] if listed else reference}


async def call(service: Service, tool: str, *, principal: str = "me", **arguments: Any) -> dict[str, Any]:
    caller = local_caller("ns", principal)
    reply = await service.call(Call(tool=TOOLS[tool], arguments=arguments, caller=caller))
    return check_reply(tool, reply.body, is_error=reply.is_error)


@pytest.mark.promise("CN-44")
@pytest.mark.parametrize(("tool", "field"), ID_PARAMETERS)
async def test_every_memory_id_may_be_a_reference(
    service: Service, workers: WorkerSide, breadcrumbs: None, tool: str, field: str
) -> None:
    for reference, expected in (("@stored", "m-9"), ("@recalled[0]", "m-1"), ("@recalled[1]", "m-2")):
        await call(service, tool, **with_id(tool, field, reference), session="s")
        assert getattr(workers.seen[-1].command, field) in (expected, (expected,))


@pytest.mark.promise("CN-44")
@pytest.mark.parametrize(("tool", "field"), ID_PARAMETERS)
@pytest.mark.parametrize("reference", NOTHING)
async def test_a_reference_to_nothing_is_refused_by_name(
    service: Service, workers: WorkerSide, breadcrumbs: None, tool: str, field: str, reference: str
) -> None:
    body = await call(service, tool, **with_id(tool, field, reference), session="s")
    assert (body["status"], body["field"]) == ("invalid_parameter", field)
    assert "@recalled[N]" in body["recovery"]
    assert workers.seen == []


async def test_references_mean_nothing_in_another_session_or_to_another_principal(
    service: Service, workers: WorkerSide, breadcrumbs: None
) -> None:
    for other in ({"session": "t"}, {}, {"session": "s", "principal": "you"}):
        body = await call(service, "get_memory", memory_id="@stored", **other)
        assert (body["status"], body["field"]) == ("invalid_parameter", "memory_id")


async def test_a_malformed_id_is_just_an_unknown_one(service: Service, workers: WorkerSide) -> None:
    for strange in ("x", "00000000-0000-0000-0000", "'; drop table memories --", "🦆", "stored"):
        await call(service, "get_memory", memory_id=strange)
        assert workers.seen[-1].command.memory_id == strange  # type: ignore[union-attr]


async def test_breadcrumbs_are_read_and_cleared_by_the_gateway(
    service: Service, workers: WorkerSide, breadcrumbs: None
) -> None:
    body = await call(service, "get_breadcrumbs", session="s")
    assert body.pop("expires_at").endswith("Z")
    assert body == {
        "status": "success",
        "last_stored_id": "m-9",
        "last_recalled_ids": ["m-1", "m-2", None],
        "session_memory_ids": ["m-1", "m-2", "m-9"],
    }
    begun = await call(service, "begin_session", session="s")
    assert (begun["status"], begun["session"]) == ("success", "s")
    assert (await call(service, "begin_session", session="s"))["instance"] > begun["instance"]
    cleared = await call(service, "get_breadcrumbs", session="s")
    assert (cleared["last_stored_id"], cleared["last_recalled_ids"], cleared["session_memory_ids"]) == (None, [], [])
    assert workers.seen == []
