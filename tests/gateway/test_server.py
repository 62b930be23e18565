"""Every tool through the SDK's own client, in both protocol eras, over a real queue."""

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import jsonschema
import jsonschema_rs
import pytest
from mcp.client import Client
from mcp.shared.exceptions import MCPError

from engramq.gateway.identity.authorization import local_caller
from engramq.gateway.mcp.listing import profile_of
from engramq.gateway.mcp.schema import output_schema
from engramq.gateway.service import Service
from engramq.schemas.commands import TOOLS, Command, MemoryFound, StoreMemory, Surveyed, SurveyMemories
from engramq.schemas.envelope import Answer
from engramq.schemas.faults import Fault, FaultCode
from engramq.schemas.ids import mark_of, parse_uuid, uuid7
from engramq.schemas.keys import Keys
from engramq.schemas.limits import ADVISED_CHARS
from engramq.schemas.records import Extract, SurveyTotals
from tests.gateway.conftest import gateway_over
from tests.gateway.line_client import line_client
from tests.gateway.replies import check_reply
from tests.gateway.test_arguments import MINIMAL
from tests.gateway.worker_side import WorkerSide

ERAS = ["legacy", "2026-07-28"]
INVALID_PARAMS = -32602
UNUSUAL = "x\u202e\u200b\u2028'\"<script>; drop table memories --"


@asynccontextmanager
async def client_of(service: Service, era: str, tools: str = "full", **shown: Any) -> AsyncIterator[Client]:
    caller = local_caller("a namespace", "a principal")
    async with line_client(service, profile_of(tools, **shown), caller, era) as client:
        yield client


@pytest.fixture(params=ERAS)
async def client(request: pytest.FixtureRequest, service: Service, workers: WorkerSide) -> AsyncIterator[Client]:
    async with client_of(service, request.param) as client:
        yield client


async def call(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """Call a tool, check that text and structure agree and fulfil the tool's schema, and return the body."""
    result = await client.call_tool(tool, arguments)
    (block,) = result.content
    assert block.type == "text"
    assert json.loads(block.text) == result.structured_content
    return check_reply(tool, result.structured_content, is_error=result.is_error)


async def test_a_write_reply_carries_the_id_of_its_command(client: Client, workers: WorkerSide) -> None:
    body = await call(client, "store_memory", content=UNUSUAL, session="s", idempotency_key="k")
    (envelope,) = workers.seen
    assert body["command_id"] == envelope.id
    assert parse_uuid(envelope.id)
    assert (envelope.namespace, envelope.principal.name) == ("a namespace", "a principal")
    assert (envelope.session, envelope.idempotency_key) == ("s", "k")
    assert envelope.command == StoreMemory(content=UNUSUAL)


async def test_the_trace_of_a_call_goes_on_to_the_worker(client: Client, workers: WorkerSide) -> None:
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    meta: Any = {"traceparent": trace}
    await client.call_tool("memory_stats", {}, meta=meta)
    assert workers.seen[0].traceparent == trace


async def test_a_refusal_by_a_worker_reaches_the_client_with_its_recovery(client: Client, workers: WorkerSide) -> None:
    fault = Fault(code=FaultCode.SELF_LOOP, error="It cannot replace itself.", recovery="Give two.", memory_id="m")
    workers.script = {kind: (lambda _c, _e: fault) for kind in workers.script}
    body = await call(client, "supersede_memory", **MINIMAL["supersede_memory"])
    assert body == {
        "status": "error", "code": "self_loop", "error": "It cannot replace itself.", "recovery": "Give two.",
        "memory_id": "m", "command_id": workers.seen[0].id,
    }  # fmt: skip


async def test_what_a_caller_may_expect_is_no_error(client: Client, workers: WorkerSide) -> None:
    workers.script = {kind: (lambda _c, _e: MemoryFound(memory=None, status="not_found")) for kind in workers.script}
    assert await call(client, "get_memory", memory_id="not even a uuid") == {"memory": None, "status": "not_found"}


async def test_an_unanswered_write_is_pending_and_an_unanswered_read_unavailable(
    redis_url: str, keys: Keys, workers: WorkerSide
) -> None:
    workers.script = {kind: (lambda _c, _e: None) for kind in workers.script}
    async with gateway_over(redis_url, keys, 0.3) as gateway, client_of(gateway.service, ERAS[0]) as client:
        pending = await call(client, "store_memory", content="x")
        assert pending == {"status": "pending", "command_id": workers.seen[0].id}
        refused = await call(client, "search_memories", query="x")
        assert (refused["status"], refused["code"]) == ("error", "unavailable")


@pytest.mark.parametrize("name", ["no_such_tool", "", "Store_Memory", "store_memory\0", "get_memory "])
async def test_an_unknown_tool_is_a_protocol_error(client: Client, name: str) -> None:
    with pytest.raises(MCPError) as refused:
        await client.call_tool(name, {})
    assert refused.value.code == INVALID_PARAMS


async def test_a_tool_that_went_is_answered_with_what_to_call(client: Client) -> None:
    with pytest.raises(MCPError, match="Call reclassify_memory_sector: it makes"):
        await client.call_tool("propose_reclassification", {"edge_id": "e", "new_sector": "episodic"})


@pytest.mark.parametrize("era", ERAS)
async def test_a_profile_hides_what_it_does_not_list(service: Service, workers: WorkerSide, era: str) -> None:
    async with client_of(service, era, "get_memory, store_memory") as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["store_memory", "get_memory"]
        await call(client, "get_memory", memory_id="m")
        with pytest.raises(MCPError) as refused:
            await client.call_tool("memory_stats", {})
        assert refused.value.code == INVALID_PARAMS


@pytest.mark.promise("MT-10")
@pytest.mark.parametrize("era", ERAS)
async def test_every_tool_answers_in_the_shape_that_is_advertised_when_asked_for(
    service: Service, workers: WorkerSide, era: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The client judges each schema once; its own way takes 80 times as long.
    monkeypatch.setattr(jsonschema.Draft202012Validator, "check_schema", jsonschema_rs.meta.validate)
    async with client_of(service, era) as client:
        assert {tool.output_schema is None for tool in (await client.list_tools()).tools} == {True}
    async with client_of(service, era, output_schemas=True) as client:
        for tool in (await client.list_tools()).tools:
            assert tool.output_schema == output_schema(TOOLS[tool.name])
            # The client itself checks replies now, refusals too.
            body = await call(client, tool.name, **MINIMAL[tool.name])
            assert body["status"] not in {"error", "invalid_parameter"}, tool.name
            assert "type" not in body, tool.name
            workers.seen.clear()
            body = await call(client, tool.name, **MINIMAL[tool.name], bogus=1)
            assert (body["status"], body["code"], body["field"]) == ("invalid_parameter", "invalid_parameter", "bogus")
            assert workers.seen == [], tool.name


async def test_memories_and_statistics_can_be_read_as_resources(client: Client, workers: WorkerSide) -> None:
    assert [str(resource.uri) for resource in (await client.list_resources()).resources] == [
        "engramq://guide",
        "engramq://stats",
    ]
    templates = (await client.list_resource_templates()).resource_templates
    assert [template.uri_template for template in templates] == ["engramq://memory/{id}", "engramq://guide/{topic}"]
    (memory,) = (await client.read_resource("engramq://memory/m%2D7")).contents
    assert json.loads(memory.text)["memory"]["id"] == "m-7"  # type: ignore[union-attr]
    (stats,) = (await client.read_resource("engramq://stats")).contents
    assert json.loads(stats.text)["status"] == "success"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "uri",
    [
        "engramq://nothing", "engramq://memory/", "engramq://memory/%20", "engramq://guide/",
        "engramq://guide/nothing", "file:///etc/passwd",
    ],
)  # fmt: skip
async def test_an_unknown_resource_is_not_found(client: Client, uri: str) -> None:
    with pytest.raises(MCPError, match="Resource not found") as refused:
        await client.read_resource(uri)
    assert refused.value.code == INVALID_PARAMS


async def test_a_memory_that_is_not_there_is_a_resource_not_found(client: Client, workers: WorkerSide) -> None:
    workers.script = {kind: (lambda _c, _e: MemoryFound(memory=None, status="not_found")) for kind in workers.script}
    with pytest.raises(MCPError, match="Resource not found"):
        await client.read_resource("engramq://memory/m")


async def test_a_resource_that_cannot_be_named_says_why(client: Client) -> None:
    with pytest.raises(MCPError, match="memory_id holds a NUL"):
        await client.read_resource("engramq://memory/a%00b")


async def test_the_prompt_takes_the_task_ahead(client: Client) -> None:
    (prompt,) = (await client.list_prompts()).prompts
    assert prompt.name == "recall_before_acting"
    (message,) = (await client.get_prompt(prompt.name, {"task": "Pack for Oslo"})).messages
    assert message.content.text.startswith("The task: Pack for Oslo\n")  # type: ignore[union-attr]
    (bare,) = (await client.get_prompt(prompt.name)).messages
    assert bare.content.text.startswith("Before acting")  # type: ignore[union-attr]
    with pytest.raises(MCPError) as refused:
        await client.get_prompt("another")
    assert refused.value.code == INVALID_PARAMS


@pytest.mark.promise("AG-4")
async def test_a_survey_keeps_its_budget_however_much_was_shown(client: Client, workers: WorkerSide) -> None:
    extracts = [Extract(id=uuid7(), at="2026-01-31", text="Ada sails " * 10) for _ in range(200)]

    def survey(command: Any, _envelope: Any) -> Surveyed:
        shown = command.cursor or ""
        before = [shown[start : start + 4] for start in range(0, len(shown), 4)]
        page = [extract for extract in extracts if mark_of(extract.id) not in before][:40]
        marks = shown + "".join(mark_of(extract.id) for extract in page)
        after = marks if page[-1] is not extracts[-1] else None
        totals = SurveyTotals(named=200, near=0, by_month={}, by_thread={})
        return Surveyed(topic="Ada", answered="yes", extracts=page, totals=totals, next_cursor=after, shown=shown)

    workers.script[SurveyMemories] = survey
    seen, cursor, budget = list[str](), None, 500
    while len(seen) < len(extracts):
        body = await call(client, "survey_memories", topic="Ada", cursor=cursor, max_chars=budget)
        assert len(json.dumps(body, separators=(",", ":"))) <= budget
        assert body["extracts"]
        if body["next_cursor"] is None and len(seen) + len(body["extracts"]) < len(extracts):
            wider = re.search(r"repeat the call with max_chars=(\d+)", body["rest"])
            assert wider is not None
            assert budget < int(wider[1]) <= ADVISED_CHARS
            budget = int(wider[1])
            continue
        seen += [extract["id"] for extract in body["extracts"]]
        cursor = body["next_cursor"]
    assert seen == [extract.id for extract in extracts]
    assert budget > 500


@pytest.mark.promise("MT-13")
async def test_the_listing_shows_types_bounds_defaults_and_an_example(client: Client) -> None:
    for tool in (await client.list_tools()).tools:
        assert tool.title
        assert tool.description
        assert f"Example: {tool.name}(" in tool.description
        assert len(tool.description) <= 400
        hints = tool.annotations
        assert hints is not None
        assert hints.open_world_hint is False
        assert hints.read_only_hint is (True if TOOLS[tool.name].read_only else None)
        assert (hints.destructive_hint is None) is TOOLS[tool.name].read_only
        assert (hints.idempotent_hint is True) is (TOOLS[tool.name].idempotent and not hints.read_only_hint)
        for name, schema in tool.input_schema["properties"].items():
            assert "type" in schema, name
            if name == "new_sector":
                assert schema["type"] == "string"  # whatever it is, it gets an answer that names the sectors
    store = {tool.name: tool for tool in (await client.list_tools()).tools}["store_memory"].input_schema["properties"]
    assert store["confidence"] == {
        "description": "How sure you are", "type": "number", "minimum": 0, "maximum": 1, "default": 1.0,
    }  # fmt: skip
    assert (store["source"]["enum"], store["source"]["default"]) == (["extracted", "explicit"], "extracted")
    assert "default" not in store["session"]
    assert store["sector"]["enum"] == ["emotional", "episodic", "semantic", "procedural", "reflective"]


async def test_an_unforeseen_error_tells_the_client_nothing_of_itself(caplog: pytest.LogCaptureFixture) -> None:
    class Broken:
        async def ask(self, command: Command, **_rest: Any) -> Answer:
            raise RuntimeError("select secret from memories")

        begin = read = resolve = cursor_secret = ask

    broken: Any = Broken()
    for era in ERAS:
        async with client_of(Service(broken, broken, broken), era) as client:
            body = await call(client, "store_memory", content="x")
            assert (body["status"], body["code"]) == ("error", "internal")
            assert "secret" not in json.dumps(body)
    assert "Tool call failed" in caplog.messages
