"""A call that is answered ahead of the SDK reads, byte for byte, as the SDK would have answered it over HTTP."""

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engramq.gateway.identity.authorization import local_caller
from engramq.gateway.mcp.listing import profile_of
from engramq.gateway.mcp.server import WRAPPED
from engramq.gateway.mcp.tool_calls import ToolCalls
from engramq.gateway.service import Service
from engramq.schemas import limits
from engramq.schemas.commands import TOOLS, GetEdge
from tests.gateway.both_ways import (
    ENVELOPE,
    NEWER,
    OLDER,
    PREFIX,
    VERSIONS,
    call_of,
    encoded,
    exchange,
    headers_of,
    running,
    two_gateways,
)
from tests.gateway.fitting import JSON, fitting
from tests.gateway.test_arguments import MINIMAL
from tests.gateway.test_fuzz import EXAMPLES, SLOW
from tests.gateway.worker_side import WorkerSide

pytestmark = pytest.mark.anyio

ERAS = [OLDER, NEWER]
TOOL = "get_edge"
UNUSUAL = "é\u2028\x7f\x01\b\f\n\r\t\"\\/<>&'😀 ﷽ \u202e"
WRONG: list[Any] = [None, 5, UNUSUAL, [], {"a": 1.5}, 10**30, ""]
IDS: list[Any] = [0, -1, 2**53, 2**53 + 1, 2**64, 10**40, "", "1", UNUSUAL, 1.0, 1.5, True, None, [], {}]
NO_OBJECTS: list[Any] = [None, [], [1], "x", 5, 1.5, True, {}]
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Both:
    """Two applications that are asked the same."""

    def __init__(self, apps: list[Any], workers: list[WorkerSide]) -> None:
        self.apps = apps
        self.workers = workers

    async def same(self, body: bytes, headers: list[tuple[str, str]], parts: int = 1) -> tuple[int, bytes]:
        """Ask both, check that they answer the same and ask their workers the same, and return status and body."""
        for side in self.workers:
            side.seen.clear()
        direct, by_sdk = [await exchange(app, headers, body, parts) for app in self.apps]
        assert direct == by_sdk
        # A call that names no trace gets one of its own.
        sent = [[(one.command, one.session, one.traceparent == TRACE) for one in side.seen] for side in self.workers]
        assert sent[0] == sent[1]
        return direct[0][0], direct[1]

    async def call(self, message: Any, version: str | None, **more: Any) -> tuple[int, bytes]:
        params = message.get("params") if isinstance(message, dict) else None
        name = params.get("name") if isinstance(params, dict) else None
        headers = headers_of(version, name if isinstance(name, str) and name.isascii() else TOOL)
        return await self.same(encoded(message), headers, **more)


@pytest.fixture(scope="module")
async def both(redis_url: str) -> AsyncIterator[Both]:
    async with two_gateways(redis_url, "test-tool-calls") as gateways, AsyncExitStack() as stack:
        apps = [await stack.enter_async_context(running(one.web().config.app)) for one, _ in gateways]
        yield Both(apps, [workers for _, workers in gateways])


@pytest.fixture
def calls(service: Service) -> ToolCalls:
    return ToolCalls(service, profile_of("full"), {"name": "engramq"})


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("tool", TOOLS)
async def test_every_tool_answers_the_same(both: Both, tool: str, version: str | None) -> None:
    minimal = MINIMAL[tool]
    given = [minimal, {}, {**minimal, "bogus": 1}, {**minimal, UNUSUAL: UNUSUAL}]
    given += [{**minimal, name: wrong} for name in minimal for wrong in WRONG]
    for arguments in given:
        status, _ = await both.call(call_of(tool, arguments, version=version), version)
        assert status == 200


def unusual_messages(version: str) -> Iterator[tuple[str, Any]]:
    plain = call_of(TOOL, version=version)
    params = plain["params"]
    for one in IDS:
        yield f"id {one!r}", {**plain, "id": one}
    unusual: dict[str, dict[str, Any]] = {
        "no id": {"id": ...},
        "no jsonrpc": {"jsonrpc": ...},
        "no params": {"params": ...},
        "params are null": {"params": None},
        "params are a list": {"params": [1]},
        "jsonrpc 1.0": {"jsonrpc": "1.0"},
        "another key": {"extra": 1},
        "a result too": {"result": {}},
        "an error too": {"error": {"code": 1, "message": "x"}},
        "another method": {"method": "tools/list"},
        "an unknown method": {"method": "tools/calls"},
        "method of another type": {"method": 5},
    }
    for name, changes in unusual.items():
        yield name, {key: value for key, value in {**plain, **changes}.items() if value is not ...}
    unusual = {
        "no name": {"name": ...},
        "name of another type": {"name": 5},
        "unknown tool": {"name": "no_tool"},
        "unknown tool, unusual": {"name": UNUSUAL},
        "no arguments": {"arguments": ...},
        "task": {"task": {"ttl": 60}},
        "inputResponses": {"inputResponses": {}},
        "requestState": {"requestState": "x"},
        "wrong requestState": {"requestState": 5},
        "another parameter": {"extra": 1},
        "the name of the field": {"meta": {}},
        "wrapped": {"arguments": {WRAPPED: {"a": 1}}},
        **{f"arguments {one!r}": {"arguments": one} for one in NO_OBJECTS},
    }
    for name, changes in unusual.items():
        yield (
            name,
            {**plain, "params": {key: value for key, value in {**params, **changes}.items() if value is not ...}},
        )
    for name, meta in _metas(version).items():
        yield f"_meta: {name}", {**plain, "params": {**params, "_meta": meta}}
    yield "no _meta", {**plain, "params": {key: value for key, value in params.items() if key != "_meta"}}
    yield "the other era", call_of(TOOL, version=OLDER if version == NEWER else NEWER)
    yield "a batch", [plain]
    yield "an empty batch", []
    yield "a notification", {"jsonrpc": "2.0", "method": "notifications/initialized"}
    yield "a cancellation", {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
    yield "a response", {"jsonrpc": "2.0", "id": 1, "result": {}}
    yield "a text", "x"
    yield "null", None


def _metas(version: str) -> dict[str, Any]:
    own = dict(ENVELOPE) if version == NEWER else {}
    capabilities, info = f"{PREFIX}clientCapabilities", f"{PREFIX}clientInfo"
    metas: dict[str, Any] = {
        **{f"progressToken {one!r}": {"progressToken": one} for one in IDS},
        **{f"traceparent {one!r}": {"traceparent": one} for one in (TRACE, *NO_OBJECTS)},
        "vendor": {"claudecode/toolUseId": UNUSUAL, "com.example/x": {"a": [1.5]}},
        "short": {"x": 1},
        "python's name": {"progress_token": {}},
        "python's name of the envelope": {"io_modelcontextprotocol_client_info": 5},
        "logLevel": {f"{PREFIX}logLevel": "debug"},
        "wrong logLevel": {f"{PREFIX}logLevel": 5},
        "related task": {f"{PREFIX}related-task": {"taskId": "x"}},
        "capabilities": {capabilities: {"elicitation": {}, "roots": {"listChanged": True}, "sampling": {}, "x": 1}},
        "wrong capabilities": {capabilities: {"elicitation": 5}},
        "no object of capabilities": {capabilities: 5},
        "info": {info: {"name": UNUSUAL, "version": "1", "title": "T", "websiteUrl": "x", "icons": [{"src": "x"}]}},
        "wrong info": {info: {"name": 5}},
        "null info": {info: None},
        "huge info": {info: {"name": "x" * 5_000, "version": "1"}},
        "a number beyond 64 bits": {info: {"name": "x", "version": "1", "n": 10**30}},
        "another version": {f"{PREFIX}protocolVersion": OLDER},
        "null version": {f"{PREFIX}protocolVersion": None},
        "list of versions": {f"{PREFIX}protocolVersion": [NEWER]},
    }
    metas = {name: {**own, **meta} for name, meta in metas.items()}
    metas |= {f"without {left}": {key: one for key, one in own.items() if key != left} for left in own}
    return {**metas, "empty": {}, "null": None, "a list": [], "a text": "x"}


@pytest.mark.parametrize("version", ERAS)
async def test_unusual_messages_are_answered_the_same(both: Both, version: str) -> None:
    for name, message in unusual_messages(version):
        try:
            await both.call(message, version)
        except AssertionError as problem:
            raise AssertionError(name) from problem


def unusual_bodies(version: str) -> dict[str, bytes]:
    plain = encoded(call_of(TOOL, version=version))
    noted = encoded(call_of("store_memory", {"content": "x", "metadata": {"a": "HERE"}}, version=version))

    def with_value(value: bytes) -> bytes:
        return noted.replace(b'"HERE"', value)

    nested = {f"{levels} levels": with_value(b"[" * levels + b"]" * levels) for levels in (30, 180, 186, 190, 200, 250)}
    numbers = (b"1e16", b"1E400", b"-0", b"-0.0", b"1e-5", b"0.1e1", b"NaN", b"Infinity", b"01", b"1.", b"1" * 5_000)
    texts = (b'"\\ud800"', b'"\\ud83d\\ude00"', b'"\\\\ud800"', b'"\xff"', b'"\xed\xa0\x80"', b'"\x01"', b'"\\u0000"')
    return {
        **nested,
        **{repr(value[:20]): with_value(value) for value in (*numbers, *texts)},
        "nothing": b"",
        "white space": b" \t\r\n" + plain + b"\n ",
        "byte order mark": b"\xef\xbb\xbf" + plain,
        "utf-16": plain.decode().encode("utf-16"),
        "cut off": plain[:-1],
        "more": plain + b"x",
        "two": plain + plain,
        "an id twice": plain.replace(b'"id":1', b'"id":1,"id":2'),
        "a method twice": plain.replace(b'"id":1', b'"id":1,"method":"tools/list"'),
        "an argument twice": plain.replace(b'"relation":', b'"relation":5,"relation":'),
        "escaped keys": plain.replace(b'"method"', b'"m\\u0065thod"'),
        "too large": plain[:-1] + b" " * limits.BODY_BYTES + b"}",
        "almost too large": plain[:-1] + b" " * (limits.BODY_BYTES - len(plain)) + b"}",
    }


@pytest.mark.parametrize("version", ERAS)
async def test_unusual_bodies_are_answered_the_same(both: Both, version: str) -> None:
    for name, body in unusual_bodies(version).items():
        tool = "store_memory" if b"store_memory" in body else TOOL
        try:
            await both.same(body, headers_of(version, tool))
        except AssertionError as problem:
            raise AssertionError(name) from problem


@pytest.mark.parametrize("version", ERAS)
@pytest.mark.parametrize("parts", [2, 7])
async def test_a_body_in_parts_is_answered_the_same(both: Both, version: str, parts: int) -> None:
    assert (await both.call(call_of(TOOL, version=version), version, parts=parts))[0] == 200


HEADERS: dict[str, list[str]] = {
    "content-type": ["", "text/plain", "APPLICATION/JSON", "application/json; charset=utf-8", "application/jsonp"],
    "accept": ["", "*/*", "application/json;q=0.5", "APPLICATION/JSON", "text/event-stream", "text/*", "\xa0*/*"],
    "mcp-protocol-version": ["", "1999-01-01", *(version for version in VERSIONS if version), " " + OLDER],
    "mcp-method": ["", "tools/list", "TOOLS/CALL"],
    "mcp-name": ["", "store_memory", "=?base64?Z2V0X2VkZ2U=?=", "=?base64?x?="],
    "mcp-param-relation": ["KNOWS"],
    "mcp-session-id": ["x"],
    "last-event-id": ["1"],
    "content-encoding": ["gzip"],
}


@pytest.mark.parametrize("version", [None, *ERAS])
async def test_unusual_headers_are_answered_the_same(both: Both, version: str | None) -> None:
    usual = headers_of(version, TOOL)
    body = encoded(call_of(TOOL, version=version))
    for name, values in HEADERS.items():
        others = [(key, value) for key, value in usual if key != name]
        for headers in (others, [*usual, (name, values[-1])], *([*others, (name, value)] for value in values)):
            try:
                await both.same(body, headers)
            except AssertionError as problem:
                raise AssertionError(headers) from problem


@pytest.mark.parametrize("version", ERAS)
async def test_numbers_read_the_same(both: Both, version: str) -> None:
    properties = {"a": 1e16, "b": 1e-7, "c": 5e-324, "d": 1.0, "e": -0.0, "f": 2**63 - 1, "g": 1e300, "h": UNUSUAL}
    kept = [dict(side.script) for side in both.workers]
    for side in both.workers:
        usual = side.script[GetEdge]

        def found(command: Any, envelope: Any, usual: Any = usual) -> Any:
            reply = usual(command, envelope)
            reply.properties = properties
            return reply

        side.script[GetEdge] = found
    try:
        _, answer = await both.call(call_of(TOOL, version=version), version)
    finally:
        for side, script in zip(both.workers, kept, strict=True):
            side.script = script
    result = json.loads(answer)["result"]
    assert result["structuredContent"]["properties"] == properties
    assert json.loads(result["content"][0]["text"]) == result["structuredContent"]


ODD: st.SearchStrategy[Any] = st.sampled_from([..., *IDS, "x", TRACE, [{}], {"a": 1}])


@st.composite
def odd_messages(draw: st.DrawFn) -> tuple[bytes, str]:
    """Return a call that is mostly well made, with something else here and there, and its version."""
    version = draw(st.sampled_from(ERAS))
    tool = draw(st.sampled_from(list(TOOLS.values())))
    message = call_of(tool.name, draw(fitting(tool) | JSON), version=version)
    params = message["params"]
    meta = params.setdefault("_meta", {})
    places = [(message, key) for key in (*message, "x")] + [(params, key) for key in (*params, "task", "x")]
    places += [(meta, key) for key in (*ENVELOPE, "progressToken", "traceparent", f"{PREFIX}logLevel", "a/b", "x")]
    for holder, key in draw(st.lists(st.sampled_from(places), max_size=2)):
        value = draw(ODD)
        if value is ...:
            holder.pop(key, None)
        else:
            holder[key] = value
    body = json.dumps(message, ensure_ascii=draw(st.booleans())).encode("utf-8", "surrogatepass")
    if draw(st.integers(0, 3)) == 0:
        at, left_out = draw(st.integers(0, len(body))), draw(st.integers(0, 2))
        body = body[:at] + draw(st.binary(max_size=3)) + body[at + left_out :]
    return body, version


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[*SLOW, HealthCheck.differing_executors])
@given(sent=odd_messages())
async def test_whatever_is_sent_is_answered_the_same(both: Both, sent: tuple[bytes, str]) -> None:
    body, version = sent
    try:
        name = json.loads(body)["params"]["name"]
    except (ValueError, LookupError, TypeError):
        name = TOOL
    await both.same(body, headers_of(version, name if isinstance(name, str) and name in TOOLS else TOOL))


USUAL = {
    "python": '{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"guide","arguments":{}}}',
    "typescript": '{"method":"tools/call","params":{"name":"guide","arguments":{}},"jsonrpc":"2.0","id":3}',
    "with a token": '{"method":"tools/call","params":{"name":"guide","arguments":{},"_meta":{"progressToken":3,'
    '"claudecode/toolUseId":"toolu_01"}},"jsonrpc":"2.0","id":3}',
    "no arguments": '{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"guide"}}',
    "newer": json.dumps(call_of("guide", {}, version=NEWER)),
    "newer with a trace": json.dumps(
        call_of("guide", {}, version=NEWER, _meta={**ENVELOPE, "traceparent": TRACE, "progressToken": "t"})
    ),
}


@pytest.mark.parametrize("name", USUAL)
async def test_the_calls_of_the_usual_clients_need_no_sdk(calls: ToolCalls, name: str) -> None:
    call = calls.read(USUAL[name].encode())
    assert call is not None
    assert (call.tool.name, call.arguments) == ("guide", {})
    answer = await calls.answer(call, local_caller("ns", "me"))
    assert answer["result"]["structuredContent"]["status"] == "success"


@pytest.mark.parametrize("version", ERAS)
async def test_what_is_unusual_is_left_to_the_sdk(calls: ToolCalls, version: str) -> None:
    plain = call_of("no_tool", {}, version=version)
    left = [plain, [call_of(TOOL)], call_of(TOOL, {WRAPPED: 1}, version=version), call_of(TOOL, task={})]
    assert [calls.read(encoded(message)) for message in left] == [None] * len(left)
