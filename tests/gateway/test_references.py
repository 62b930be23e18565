"""Sessions at the door: references in place of ids, and the two tools that the gateway answers by itself."""

from typing import Any

import pytest

from engramq.gateway.identity.authorization import local_caller
from engramq.gateway.mcp.schema import input_schema
from engramq.gateway.service import Call, Service
from engramq.schemas.commands import TOOLS
from tests.gateway.replies import check_reply
from tests.gateway.test_arguments import MINIMAL
from tests.gateway.worker_side import WorkerSide

ID_PARAMETERS = [(tool.name, field) for tool in TOOLS.values() if not tool.ids_only for field in tool.ids]

NOTHING = ["@recalled[2]", "@recalled[3]", "@recalled[-1]", "@recalled[]", "@recalled", "@Stored", "@"]


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
    for reference, expected in (("@stored", "m-9"), ("@recalled[0]", "m-1"), (" `@recalled[1]` ", "m-2")):
        await call(service, tool, **with_id(tool, field, reference), session="s")
        assert getattr(workers.seen[-1].command, field) in (expected, (expected,))


@pytest.mark.promise("CN-44")
@pytest.mark.parametrize(("tool", "field"), ID_PARAMETERS)
async def test_a_reference_to_nothing_is_refused_by_name(
    service: Service, workers: WorkerSide, breadcrumbs: None, tool: str, field: str
) -> None:
    for reference in NOTHING:
        body = await call(service, tool, **with_id(tool, field, reference), session="s")
        assert (body["status"], body["field"]) == ("invalid_parameter", field), reference
        assert "@recalled[N]" in body["recovery"]
    assert workers.seen == []


async def test_a_malformed_id_is_just_an_unknown_one(service: Service, workers: WorkerSide) -> None:
    for strange in ("x", "00000000-0000-0000-0000", "1'; drop table memories --", "🦆", "stored"):
        await call(service, "get_memory", memory_id=strange)
        assert workers.seen[-1].command.memory_id == strange  # type: ignore[attr-defined]


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


@pytest.mark.promise("AG-12")
@pytest.mark.parametrize(
    ("tool", "given", "field"),
    [
        ("verify_memory", {"memory_id": "@stored", "verification": "verified"}, "memory_id"),
        ("memory_promote_to_trusted", {"record_id": "@stored"}, "record_id"),
        ("memory_promote_to_trusted", {"recordId": "@recalled[0]"}, "record_id"),
        ("memory_promote_to_trusted", {"memory_id": "@stored"}, "record_id"),
        ("forget_memory", {"memory_id": "@recalled[0]", "erase": True}, "memory_id"),
    ],
)
async def test_what_harms_the_wrong_memory_takes_ids_only(
    service: Service, workers: WorkerSide, breadcrumbs: None, tool: str, given: dict[str, Any], field: str
) -> None:
    body = await call(service, tool, **given, session="s")
    assert (body["status"], body["field"]) == ("invalid_parameter", field)
    assert "id itself" in body["recovery"]
    assert workers.seen == []
    await call(service, tool, **{**given, next(iter(given)): "m-9"}, session="s")
    assert len(workers.seen) == 1


@pytest.mark.promise("AG-11")
@pytest.mark.parametrize(
    ("tool", "given", "field"),
    [
        ("get_memory", {"memory_id": "@stored"}, "memory_id"),
        ("connect", {"source": "m-1", "target": "@recalled[0]"}, "target"),
        ("connects", {"edges": [{"source": "m-1", "target": "@stored"}]}, "target"),
        ("record_outcome", {"memory_ids": ["m-1", "@stored"], "signal": 1}, "memory_ids"),
        ("get_breadcrumbs", {}, "session"),
    ],
)
async def test_without_a_session_references_are_refused_and_plain_calls_work(
    service: Service, workers: WorkerSide, breadcrumbs: None, tool: str, given: dict[str, Any], field: str
) -> None:
    body = await call(service, tool, **given)
    assert (body["status"], body["field"]) == ("invalid_parameter", field)
    assert body["recovery"].startswith("Call begin_session, then pass its session.")
    assert workers.seen == []
    await call(service, "store_memory", content="Ada prefers tea")
    assert [(item.session, item.in_session) for item in workers.seen] == [("", True)]


@pytest.mark.promise("AG-11")
async def test_begin_session_makes_a_name_that_nobody_has(service: Service, workers: WorkerSide) -> None:
    names = {(await call(service, "begin_session"))["session"] for _ in range(5)}
    assert len(names) == 5
    assert all(name for name in names)
    own = next(iter(names))
    assert (await call(service, "get_breadcrumbs", session=own))["session_memory_ids"] == []


@pytest.mark.promise("AG-10")
async def test_a_front_has_a_session_of_its_own(service: Service, workers: WorkerSide, breadcrumbs: None) -> None:
    tool = TOOLS["get_memory"]
    own, other = (local_caller("ns", "me", session) for session in ("s", "t"))
    await service.call(Call(tool=tool, arguments={"memory_id": "@stored"}, caller=own))
    assert [(item.command.memory_id, item.session) for item in workers.seen] == [("m-9", "s")]  # type: ignore[attr-defined]
    refused = await service.call(Call(tool=tool, arguments={"memory_id": "@stored"}, caller=other))
    assert refused.body["field"] == "memory_id"
    begun = await service.call(Call(tool=TOOLS["begin_session"], arguments={}, caller=own))
    assert begun.body["session"] == "s"
    cleared = await service.call(Call(tool=tool, arguments={"memory_id": "@stored"}, caller=own))
    assert cleared.body["field"] == "memory_id"
    assert len(workers.seen) == 1


@pytest.mark.promise("AG-12")
async def test_what_references_stand_for_is_told_to_the_worker_and_in_replies_and_refusals(
    service: Service, workers: WorkerSide, breadcrumbs: None
) -> None:
    await call(service, "connect", source="@stored", target="@recalled[1]", session="s")
    told = await call(service, "get_memory", memory_id="@stored", session="s")
    assert told["resolved_references"] == {"@stored": {"id": "m-9"}}
    assert "resolved_references" not in await call(service, "get_memory", memory_id="m-9", session="s")
    assert [item.references for item in workers.seen] == [
        {"@stored": "m-9", "@recalled[1]": "m-2"},
        {"@stored": "m-9"},
        {},
    ]
    body = await call(service, "connect", source="@stored", target="@recalled[99]", session="s")
    assert (body["field"], body["resolved_references"]) == ("target", {"@stored": {"id": "m-9"}})
    assert len(workers.seen) == 3
