"""What a model reads before it calls: the listed schemas, the descriptions, the instructions, and for whom."""

import json
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from itertools import combinations
from typing import Any, Final

import mcp_types as types
import pytest
from mcp.client import Client
from mcp.shared.exceptions import MCPError

from bench.replies import tokens
from engramq.gateway.identity.authorization import Caller, local_caller
from engramq.gateway.mcp.listing import INSTRUCTIONS, MAX_RESULT_CHARS, listing_for, profile_of
from engramq.gateway.mcp.schema import listed_schema
from engramq.gateway.service import Call, Service
from engramq.schemas import limits
from engramq.schemas.commands import TOOLS, BatchConnected, BatchRefusal, Connect
from engramq.schemas.envelope import Principal
from engramq.schemas.faults import Fault, FaultCode
from engramq.schemas.keys import Keys
from engramq.schemas.settings import read_settings
from engramq.schemas.vocabulary import ALL_SCOPES, Scope
from tests.gateway.line_client import line_client
from tests.gateway.test_arguments import MINIMAL
from tests.gateway.test_http_identity import GOOD, client_with, guarded
from tests.gateway.test_server import ERAS, call, client_of
from tests.gateway.worker_side import WorkerSide

PROFILES: Final = ["everyday", "graph", "full", "core", "get_edge,record_outcome,connects"]
TYPES: Final = {"object", "array", "string", "integer", "number", "boolean"}
OF_EVERY_SCHEMA: Final = {"type", "description", "default"}
OF_TYPE: Final[Mapping[str, set[str]]] = {
    "object": {"properties", "required"}, "array": {"items"}, "string": {"enum"}, "integer": {"minimum", "maximum"},
    "number": {"minimum", "maximum"}, "boolean": set(),
}  # fmt: skip
NOT_EMPTY: Final = ("get_edge", ("source_name", "target_name", "relation"))


def parts(schema: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Mapping[str, Any]]]:
    """Yield a schema and every schema within it, each with the names that lead to it."""
    yield path, schema
    for name, within in schema.get("properties", {}).items():
        yield from parts(within, (*path, name))
    if "items" in schema:
        yield from parts(schema["items"], (*path, "items"))


@pytest.mark.promise("AG-13")
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("profile", PROFILES)
async def test_listed_schemas_stay_in_the_subset_that_every_host_takes(
    service: Service, profile: str, era: str
) -> None:
    async with client_of(service, era, profile) as client:
        listed = (await client.list_tools()).tools
    assert listed
    for tool in listed:
        assert tool.input_schema["type"] == "object"
        for path, schema in parts(tool.input_schema):
            where = (tool.name, *path)
            assert schema["type"] in TYPES, where
            allowed = OF_EVERY_SCHEMA | OF_TYPE[schema["type"]]
            if tool.name == NOT_EMPTY[0] and len(path) == 1 and path[0] in NOT_EMPTY[1]:
                assert schema["minLength"] == 1
                allowed = allowed | {"minLength"}
            assert set(schema) <= allowed, where
            assert set(schema.get("required", ())) <= set(schema.get("properties", {})), where


def test_only_a_parameter_of_the_tool_is_listed_as_not_empty() -> None:
    assert {tool.name: tool.shown_as_not_empty for tool in TOOLS.values() if tool.shown_as_not_empty} == dict(
        [NOT_EMPTY]
    )


# AG-14: what is read before a call


SELF_EXPLAINING: Final = {
    "add_tags", "remove_tags", "command_id", "cursor", "max_chars", "order", "detail", "edge_id", "end_node",
    "idempotency_key", "limit", "name", "node_id", "node_name", "proposal_id", "decision", "reason", "session",
    "source_name", "speaker", "start_node", "target_name", "valid_from", "valid_until", "stored_since",
    "stored_until", "until",
}  # fmt: skip
WHEN: Final = re.compile(r"\bCall it\b")
WHEN_NOT: Final = re.compile(r"\. (?:Not|If|For|To|Without|Before an edge|Right after|Your own|A write that)\b|, not ")


@pytest.mark.promise("AG-14")
def test_a_description_says_when_and_when_not_with_an_example() -> None:
    for tool in TOOLS.values():
        assert len(tool.description) <= 400
        assert WHEN.search(tool.summary)
        assert WHEN_NOT.search(tool.summary)
        assert tool.description.endswith(f" Example: {tool.example}")
        assert re.fullmatch(rf"{tool.name}\(.*\)", tool.example)
        first = tool.summary.partition(".")[0]
        assert not naming(first) - {tool.name}, "without other tools the description would not say what this one does"


@pytest.mark.promise("AG-14")
def test_every_parameter_whose_name_does_not_say_it_all_is_described() -> None:
    bare: dict[str, set[str]] = {}
    for tool in TOOLS.values():
        for path, schema in parts(listed_schema(tool)):
            if path and path[-1] != "items" and "description" not in schema:
                bare.setdefault(path[-1], set()).add(tool.name)
    assert {name: tools for name, tools in bare.items() if name not in SELF_EXPLAINING} == {}
    assert SELF_EXPLAINING - set(bare) == set(), "these are described by now, everywhere"


# AG-15: what it costs


def cost(shown: Any) -> int:
    return tokens(json.dumps(shown, separators=(",", ":"), ensure_ascii=False))


def dumped(tools: list[types.Tool]) -> list[dict[str, Any]]:
    return [tool.model_dump(by_alias=True, exclude_none=True) for tool in tools]


@pytest.mark.promise("AG-15", "MT-13")
@pytest.mark.parametrize(
    ("profile", "bound", "of_guide"), [("everyday", 4_200, 520), ("full", 8_500, 550), ("core", 2_200, 430)]
)
async def test_listing_and_overview_cost_no_more_tokens_than_promised(
    service: Service, profile: str, bound: int, of_guide: int
) -> None:
    async with client_of(service, ERAS[1], profile) as client:
        assert cost(dumped((await client.list_tools()).tools)) < bound
        assert cost(await read(client, "engramq://guide")) < of_guide


# CL-1: what is listed unless a setting says otherwise


EVERYDAY: Final = {
    *("store_memory", "search_memories", "list_recent_memories", "get_memory", "update_memory", "supersede_memory"),
    *("forget_memory", "survey_memories", "connect", "disconnect", "connects", "connect_by_query", "record_outcome"),
    *("get_breadcrumbs", "guide", "graph_add_edge", "get_edge", "get_node_by_name", "reclassify_memory_sector"),
    *("verify_memory", "memory_promote_to_trusted"),
}
FULL_BYTES_BEFORE: Final = 35_365  # the listing of 40 tools that every client got until 2026-11-29
DOORS: Final = pytest.mark.parametrize("in_session", [True, False], ids=["stdio", "http"])


def listing(profile: str, *, in_session: bool = True) -> list[dict[str, Any]]:
    return listing_for(profile_of(profile, in_session=in_session), TRUSTED)


@pytest.mark.promise("CL-1")
def test_the_everyday_profile_is_the_default_and_lists_the_fixed_tools() -> None:
    assert read_settings({}).tools == "everyday"
    assert {tool["name"] for tool in listing("everyday")} == EVERYDAY


@DOORS
@pytest.mark.promise("CL-1")
def test_the_everyday_listing_costs_less_than_half_of_the_full_one(in_session: bool) -> None:
    listed = listing("everyday", in_session=in_session)
    assert cost(listed) <= 4_200
    size = len(json.dumps(listed, separators=(",", ":"), ensure_ascii=False).encode())
    assert size <= (0.45 if in_session else 0.46) * FULL_BYTES_BEFORE


@pytest.mark.promise("CL-1")
@pytest.mark.parametrize("profile", ["everyday", "graph"])
def test_an_open_profile_lists_what_a_call_needs(profile: str) -> None:
    for tool in listing(profile, in_session=False):
        schema, whole = tool["inputSchema"], TOOLS[tool["name"]]
        assert set(schema.get("required", ())) <= set(schema["properties"])
        assert set(schema["properties"]) <= set(listed_schema(whole)["properties"])
        for name in re.findall(r"[(,] ?(\w+)=", whole.example):
            assert name in schema["properties"], (tool["name"], name)


@pytest.mark.promise("CL-1")
def test_clients_that_defer_tools_are_asked_to_load_the_most_used_at_once() -> None:
    advice = {tool["name"]: tool.get("_meta", {}) for tool in listing("everyday")}
    at_once = {name for name, meta in advice.items() if meta.get("anthropic/alwaysLoad") is True}
    assert at_once == {"store_memory", "search_memories", "get_memory", "supersede_memory", "survey_memories"}
    sizes = {name: meta[MAX_RESULT_CHARS] for name, meta in advice.items() if MAX_RESULT_CHARS in meta}
    assert set(sizes) == {"search_memories", "list_recent_memories", "get_memory", "survey_memories"}
    assert set(sizes.values()) == {limits.REPLY_CHARS_MAX}, "the largest budget that a caller may name"


@pytest.mark.promise("CL-1")
@pytest.mark.parametrize("era", ERAS)
async def test_every_other_tool_can_be_called_by_name(service: Service, workers: WorkerSide, era: str) -> None:
    async with client_of(service, era, "everyday") as client:
        listed = {tool.name for tool in (await client.list_tools()).tools}
        for name in TOOLS.keys() - listed:
            assert not (await client.call_tool(name, MINIMAL[name])).is_error, name
            assert (await call(client, "guide", topic=name))["status"] == "success", name


@pytest.mark.promise("CL-1")
@pytest.mark.parametrize("profile", ["everyday", "graph", "core", "guide,search_memories"])
async def test_guide_and_refusals_say_how_to_list_the_other_tools(service: Service, profile: str) -> None:
    async with client_of(service, ERAS[1], profile) as client:
        with pytest.raises(MCPError, match="ENGRAMQ_TOOLS=full, lists all tools"):
            await client.call_tool("no_such_tool", {})
        if "guide" in {tool.name for tool in (await client.list_tools()).tools}:
            for topic in ("overview", "no such topic"):
                said = await client.call_tool("guide", {"topic": topic})
                assert "ENGRAMQ_TOOLS=full, lists all tools" in json.dumps(said.structured_content)


# AG-16: nothing names a tool that is not there


NAMES: Final = re.compile(rf"(?<![\w/@])(?:{'|'.join(sorted(TOOLS, key=len, reverse=True))})(?!\w)")
LEANEST: Final = [*TOOLS, "everyday", "graph", "core", "guide,search_memories", "graph_add_edge,connects,guide", "full"]
TRUSTED: Final = local_caller("a namespace", "a principal").principal


def naming(text: str) -> set[str]:
    """Return the tools that a text names."""
    return set(NAMES.findall(text))


async def read(client: Client, uri: str) -> dict[str, Any]:
    (content,) = (await client.read_resource(uri)).contents
    body: dict[str, Any] = json.loads(content.text)  # type: ignore[union-attr]
    return body


@asynccontextmanager
async def client_for(service: Service, principal: Principal, profile: str = "full") -> AsyncIterator[Client]:
    """Connect as this principal; the client asks who the server is, in whichever era."""
    async with line_client(service, profile_of(profile), Caller("a namespace", principal), "auto") as client:
        yield client


async def everything_shown(client: Client) -> Iterator[tuple[str, str]]:
    """Return all texts that a client can read without calling a tool, each with where it stands."""
    shown = [("instructions", client.instructions or "")]
    shown += [(tool.name, json.dumps(item)) for tool in (await client.list_tools()).tools for item in dumped([tool])]
    resources = (await client.list_resources()).resources
    templates = (await client.list_resource_templates()).resource_templates
    shown += [(resource.name, f"{resource.title} {resource.description}") for resource in resources]
    shown += [(template.name, f"{template.title} {template.description}") for template in templates]
    (prompt,) = (await client.list_prompts()).prompts
    (message,) = (await client.get_prompt(prompt.name)).messages
    shown += [(prompt.name, f"{prompt.description} {message.content}")]
    if resources:
        overview = await read(client, "engramq://guide")
        shown += [("overview", json.dumps(overview))]
        for topic in (name for area in overview["entry"]["topics"].values() for name in area):
            shown += [(f"guide to {topic}", json.dumps(await read(client, f"engramq://guide/{topic}")))]
    return iter(shown)


@pytest.mark.promise("AG-16")
@pytest.mark.parametrize("profile", LEANEST)
async def test_no_text_names_a_tool_that_the_profile_lacks(service: Service, profile: str) -> None:
    there = {tool.name for tool in profile_of(profile).tools}
    async with client_for(service, TRUSTED, profile) as client:
        for where, text in await everything_shown(client):
            assert naming(text) <= there, where
            assert '""' not in text, where


@pytest.mark.promise("AG-16")
async def test_instructions_are_whole_in_core_and_speak_of_the_guide_only_where_it_is(service: Service) -> None:
    for era in ("auto", "legacy"):
        async with client_of(service, era, "core") as client:
            assert client.instructions == INSTRUCTIONS.removesuffix(" Call guide to see how a tool is used.")
        async with client_of(service, era) as client:
            assert client.instructions == INSTRUCTIONS


@pytest.mark.promise("AG-16")
@pytest.mark.parametrize("era", ERAS)
async def test_core_can_forget(service: Service, workers: WorkerSide, era: str) -> None:
    async with client_of(service, era, "core") as client:
        listed = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert set(listed["forget_memory"].input_schema["properties"]) == {"memory_id", "reason", "erase", "session"}
        assert not (await client.call_tool("forget_memory", {"memory_id": "m", "reason": "asked to"})).is_error
        assert len(workers.seen) == 1


@pytest.mark.promise("AG-16")
async def test_core_lists_everyday_parameters_and_takes_the_others(service: Service, workers: WorkerSide) -> None:
    async with client_of(service, ERAS[1], "core") as client:
        for tool in (await client.list_tools()).tools:
            listed = tool.input_schema["properties"]
            assert list(listed) == [name for name in listed_schema(TOOLS[tool.name])["properties"] if name in listed]
            assert set(listed) == set(TOOLS[tool.name].core) >= set(tool.input_schema.get("required", ()))
        unlisted = {"sectors": ["semantic"], "explain": True, "min_similarity": 0.5}
        assert not (await client.call_tool("search_memories", {"query": "tea", **unlisted})).is_error
        assert workers.seen[-1].command.explain  # type: ignore[attr-defined]


@pytest.mark.promise("AG-16")
@pytest.mark.parametrize("code", FaultCode)
async def test_a_recovery_names_a_command_instead_of_a_tool_that_is_not_there(
    service: Service, workers: WorkerSide, code: FaultCode
) -> None:
    fault = Fault(code=code, error="It is so.", recovery=code.recovery)
    workers.script = {kind: (lambda _c, _e: fault) for kind in workers.script}
    for profile in ("core", "forget_memory", "full"):
        there = {tool.name for tool in profile_of(profile).tools}
        async with client_of(service, ERAS[1], profile) as client:
            recovery = (await call(client, "forget_memory", memory_id="m"))["recovery"]
        assert naming(recovery) <= there
        lacks = naming(code.recovery) - there
        assert recovery == code.recovery if not lacks else "`engramq stdio --tools full`" in recovery


@pytest.mark.promise("AG-16")
async def test_recoveries_within_a_reply_are_worded_too(service: Service, workers: WorkerSide) -> None:
    refusal = BatchRefusal(
        index=0, code=FaultCode.SELF_LOOP, error="It is so.", recovery="Read on. Look with get_memory first."
    )
    batch = BatchConnected(
        results=[], created=0, reinforced=0, updated=0, skipped=0, deferred=0, errors=[refusal], summary=""
    )
    workers.script = {kind: (lambda _c, _e: batch) for kind in workers.script}
    async with client_of(service, ERAS[1], "connects") as client:
        body = await call(client, "connects", **MINIMAL["connects"])
    assert body["errors"][0]["recovery"] == (
        "Read on. `engramq stdio --tools full`, or ENGRAMQ_TOOLS=full, lists a tool for this."
    )


# AG-17: each caller sees what they may call


CALLERS: Final = [
    pytest.param(
        Principal(name="p", scopes=scopes, untrusted=untrusted),
        id=f"{'-'.join(scopes) or 'nothing'}{'-untrusted' if untrusted else ''}",
    )
    for untrusted in (False, True)
    for length in (0, 1, len(Scope))  # each call takes one scope
    for scopes in combinations(Scope, length)
]


@pytest.mark.promise("AG-17")
@pytest.mark.parametrize("principal", CALLERS)
async def test_a_caller_is_shown_what_they_may_call_and_nothing_that_names_more(
    service: Service, workers: WorkerSide, principal: Principal
) -> None:
    async with client_for(service, principal) as client:
        listed = {tool.name for tool in (await client.list_tools()).tools}
        for name, arguments in MINIMAL.items():
            answer = await client.call_tool(name, arguments)
            assert answer.structured_content is not None
            forbidden = answer.structured_content.get("code") == FaultCode.FORBIDDEN
            assert forbidden is (name not in listed), name
            assert forbidden is answer.is_error
            if forbidden:
                assert naming(answer.structured_content["recovery"]) <= listed
        for where, text in await everything_shown(client):
            assert naming(text) <= listed, where


@pytest.mark.promise("AG-17")
async def test_a_tool_of_no_profile_stays_unknown_to_who_lacks_its_scope(service: Service) -> None:
    async with client_for(service, Principal(name="p", scopes=(Scope.READ,)), "core") as client:
        with pytest.raises(MCPError, match="Unknown tool"):
            await client.call_tool("verify_memory", MINIMAL["verify_memory"])
        assert (await call(client, "forget_memory", **MINIMAL["forget_memory"]))["code"] == FaultCode.FORBIDDEN


@pytest.mark.promise("AG-17")
@pytest.mark.parametrize(
    ("principal", "ends"),
    [
        (Principal(name="p", scopes=(Scope.READ, Scope.WRITE)), "`engramq token create --scopes read,write,verify`"),
        (Principal(name="p", scopes=tuple(Scope), untrusted=True), "`engramq token create` without --untrusted"),
    ],
)
async def test_a_recovery_names_the_token_that_may_do_it(
    service: Service, workers: WorkerSide, principal: Principal, ends: str
) -> None:
    fault = Fault(code=FaultCode.UNTRUSTED_LINK, error="It is so.", recovery="Call memory_promote_to_trusted first.")
    workers.script = {kind: (lambda _c, _e: fault) for kind in workers.script}
    async with client_for(service, principal) as client:
        body = await call(client, "connect", **MINIMAL["connect"])
    assert body["recovery"] == f"{ends} makes a token that may do this."


@pytest.mark.promise("AG-17")
async def test_over_http_the_token_decides(redis_url: str, keys: Keys) -> None:
    async with guarded(redis_url, keys) as (site, _):
        for mode in ("legacy", "auto"):
            async with client_with(site, GOOD, mode) as client:  # whose token reads and writes, untrusted
                listed = {tool.name for tool in (await client.list_tools()).tools}
                assert {"store_memory", "connect", "search_memories", "guide"} <= listed
                assert not {"record_outcome", "update_memory", "forget_memory", "verify_memory"} & listed
                assert client.instructions == INSTRUCTIONS.replace(" Judge what you relied on with record_outcome.", "")
                (answer,) = (await client.call_tool("guide", {})).content
                assert naming(answer.text) <= listed  # type: ignore[union-attr]
                unknown = await call(client, "guide", topic="forget_memory")
                assert set(unknown["topics"]) - {"overview"} == listed


@pytest.mark.promise("AG-16")
async def test_over_http_the_profile_decides_too(redis_url: str, keys: Keys) -> None:
    fault = Fault(code=FaultCode.DEGREE_LIMIT, error="It is so.", recovery="Look with get_memory.")
    async with guarded(redis_url, keys, tools="core") as (site, workers):
        workers.script[Connect] = lambda _c, _e: fault
        async with client_with(site, GOOD, "auto") as client:
            assert {tool.name for tool in (await client.list_tools()).tools} < {
                tool.name for tool in profile_of("core").tools
            }
            body = await call(client, "connect", **MINIMAL["connect"])
        assert body["recovery"].startswith("`engramq stdio --tools full`")


@pytest.mark.promise("AG-17")
@pytest.mark.parametrize("given", [{}, {"content": 5}, {"nothing": 1}])
async def test_a_hidden_tool_answers_forbidden_whatever_its_arguments(
    service: Service, workers: WorkerSide, given: dict[str, Any]
) -> None:
    reader = Caller("ns", Principal(name="me", scopes=(Scope.READ,)))
    reply = await service.call(Call(tool=TOOLS["store_memory"], arguments=given, caller=reader))
    assert (reply.body["code"], "content" in reply.body["error"]) == ("forbidden", False)
    untrusted = Caller("ns", Principal(name="me", scopes=ALL_SCOPES, untrusted=True))
    reply = await service.call(Call(tool=TOOLS["update_memory"], arguments=given, caller=untrusted))
    assert reply.body["code"] == "forbidden"
    assert workers.seen == []
