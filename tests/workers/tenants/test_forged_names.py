"""Names made to look like another's key, or like another's name, lead to nothing of theirs."""

from typing import Any

import pytest
from redis.asyncio import Redis

from engramq.gateway.identity.authorization import local_caller
from engramq.gateway.service import Call, Service
from engramq.schemas.commands import TOOLS
from engramq.schemas.envelope import PrincipalId
from engramq.schemas.ids import uuid7
from tests.gateway.replies import check_reply
from tests.scenarios.stage import Stage

ADA = ("acme", "ada", "work")  # namespace, principal, session
LOOKALIKES = ("аda", "ada\u200b", "ada ", " ada", "ADA", "ａｄａ", "a\u0301da", "ada\0", "ada\n", "ada\r\n")
FORGED = [
    *((ADA[0], name, ADA[2]) for name in LOOKALIKES),
    ("acme", "ada:work", ""),
    ("acme", "", "ada:work"),
    ("acme:ada", "work", "work"),
    ("acme", "ada%3Awork", "work"),
    ("acme", "%61da", "work"),
    ("acme", "{ada}", "work"),
    ("acme", "*", "*"),
    ("acme", "eve", "work"),
    ("acme", "eve", "../ada/work"),
    ("acme", "eve", "acme:ada:work"),
    ("acme", "eve", "ada:work\r\nGET x"),
    ("acme", "eve", "%s%n{0}"),
    ("аcme", "ada", "work"),
    ("acme\n", "ada", "work"),
    ("ACME", "ada", "work"),
]


async def ask(service: Service, who: tuple[str, str, str], tool: str, **arguments: Any) -> dict[str, Any]:
    namespace, principal, session = who
    given = arguments | ({"session": session} if session.strip() and TOOLS[tool].takes_session else {})
    call = Call(tool=TOOLS[tool], arguments=given, caller=local_caller(namespace, principal))
    reply = await service.call(call)
    return check_reply(tool, reply.body, is_error=reply.is_error)


@pytest.mark.promise("SE-11", "CN-43")
async def test_breadcrumbs_and_references_are_their_principals_alone(stage: Stage) -> None:
    service = await stage.gateway()
    stored = await ask(service, ADA, "store_memory", content="The heron comes at dawn")
    memory = stored["stored"]["id"]
    await ask(service, ADA, "search_memories", query="When does the heron come?")
    assert (await ask(service, ADA, "get_memory", memory_id="@stored"))["memory"]["id"] == memory
    assert (await ask(service, ADA, "get_memory", memory_id="@recalled[0]"))["memory"]["id"] == memory
    for forged in FORGED:
        trail = await ask(service, forged, "get_breadcrumbs")
        if trail["status"] == "success":
            told = (trail["last_stored_id"], trail["last_recalled_ids"], trail["session_memory_ids"])
            assert told == (None, [], []), forged
        else:
            assert (trail["status"], trail["field"]) == ("invalid_parameter", "session"), forged
        for reference in ("@stored", "@recalled[0]"):
            refused = await ask(service, forged, "get_memory", memory_id=reference)
            assert refused["status"] == "invalid_parameter", forged
            assert memory not in str(refused), forged
        await ask(service, forged, "begin_session")  # which clears nobody else's
    assert (await ask(service, ADA, "get_breadcrumbs"))["last_stored_id"] == memory


@pytest.mark.promise("SE-11", "QP-2")
async def test_a_commands_reply_is_its_principals_alone(stage: Stage) -> None:
    service = await stage.gateway()
    command = (await ask(service, ADA, "store_memory", content="The heron comes at dawn"))["command_id"]
    assert (await ask(service, ADA, "get_command", command_id=command))["status"] == "done"
    for forged in FORGED:
        caller = local_caller(*forged[:2])
        # Not an administrator, who may see any principal's of the namespace.
        principal = type(caller.principal)(name=forged[1], scopes=caller.principal.scopes[:2])
        for asked in (command, f"{command}\n", f"{stage.keys.note(command)}", uuid7()):
            call = Call(
                tool=TOOLS["get_command"], arguments={"command_id": asked}, caller=type(caller)(forged[0], principal)
            )
            body = (await service.call(call)).body
            assert body["status"] in {"unknown", "invalid_parameter"}, forged
            assert "heron" not in str(body), forged


@pytest.mark.promise("SE-11")
async def test_no_argument_says_where_a_reply_goes(stage: Stage) -> None:
    service = await stage.gateway()
    await ask(service, ADA, "memory_stats")
    redis = Redis.from_url(stage.settings.redis_url, decode_responses=True)
    try:
        lists = await redis.zrange(stage.keys.reply_lists, 0, -1)
    finally:
        await redis.aclose()
    assert lists
    for name in ("reply_to", "namespace", "principal", "scopes", "untrusted", "command_id", "attempt"):
        for tool in TOOLS:
            if name in TOOLS[tool].parameters.__struct_fields__:
                continue
            body = await ask(service, ADA, tool, **{name: lists[0]})
            assert body["status"] == "invalid_parameter", (tool, name)
    for session in (*lists, stage.keys.session("acme", PrincipalId("ada"), "work").state):
        forger = ("acme", "eve", session[:100])
        assert (await ask(service, forger, "get_breadcrumbs"))["session_memory_ids"] == []
