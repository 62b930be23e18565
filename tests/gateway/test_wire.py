"""Messages over HTTP and in lines: plain calls, odd ids, batches, headers, and whatever else is sent."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Protocol

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engramq.gateway.identity.authorization import local_caller
from engramq.gateway.mcp.listing import profile_of
from engramq.gateway.mcp.wire import CallRequest, ToolCalls
from engramq.gateway.run import Gateway
from engramq.gateway.service import Service
from engramq.schemas import limits
from engramq.schemas.commands import TOOLS, DeletedList, ListDeleted, MemoryStats
from engramq.schemas.keys import Keys
from tests.gateway.conftest import gateway_over
from tests.gateway.fitting import JSON, fitting
from tests.gateway.test_http import site_of
from tests.gateway.test_lines import Conversation, conversation, opened
from tests.gateway.wire import ENVELOPE, NEWER, OLDER, PREFIX, call_of, encoded, exchange, headers_of, running
from tests.gateway.worker_side import WorkerSide, worker_side

pytestmark = pytest.mark.promise("AG-22")

SLOW = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large]

INVALID = -32600
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}
NO_IDS = [1.5, -0.1, 1e300, 2.0**53 + 2, True, False, [], [1], {}, {"a": 1}]
UNWRITABLE = [b"1e400", b"-Infinity", b"NaN"]
FINE_IDS = [0, -1, 2**53 + 1, 10**40, "", "1.5", "true", "é\u2028😀"]


class Door(Protocol):
    """One way in, for a client of one version."""

    async def say(self, message: Any) -> Any:
        """Return the answer to a message or batch."""

    async def tell(self, message: Any) -> None:
        """Say what is not answered, and check that it is not."""


class HttpDoor:
    """MCP over HTTP; a client of no version names none."""

    def __init__(self, app: Any, version: str | None) -> None:
        self._app = app
        self._version = version

    async def say(self, message: Any) -> Any:
        status, answer = await self._exchange(message)
        assert status in {200, 400, 404}
        return json.loads(answer)

    async def tell(self, message: Any) -> None:
        assert await self._exchange(message) == (202, b"")

    async def _exchange(self, message: Any) -> tuple[int, bytes]:
        body = message if isinstance(message, bytes) else encoded(message)
        headers = headers_of(self._version, "guide")
        if b'"ping"' in body:
            headers = [(name, "ping" if name == "mcp-method" else value) for name, value in headers]
        (status, _), answer = await exchange(self._app, headers, body)
        return status, answer


class LineDoor:
    """MCP in lines."""

    def __init__(self, held: Conversation, version: str) -> None:
        self._held = held
        self._version = version

    async def say(self, message: Any) -> Any:
        before = len(self._held.heard)
        await self._held.say(message)
        return json.loads((await self._held.answers(before + 1))[before])

    async def tell(self, message: Any) -> None:
        await self._held.say(message)
        assert (await self.say(ping_of("mark", self._version)))["id"] == "mark"


def ping_of(request_id: Any, version: str) -> dict[str, Any]:
    """Return what is answered at once: a ping, which the newer era has not, so that this is refused there."""
    call = call_of("guide", {}, version=NEWER)
    params = {"_meta": call["params"]["_meta"]} if version == NEWER else {}
    return {"jsonrpc": "2.0", "id": request_id, "method": "ping", "params": params}


def handshake(version: str = OLDER, request_id: Any = 0) -> dict[str, Any]:
    params = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    return {"jsonrpc": "2.0", "id": request_id, "method": "initialize", "params": params}


def guide(request_id: Any, version: str = OLDER) -> dict[str, Any]:
    return {**call_of("guide", {}, version=version), "id": request_id}


@asynccontextmanager
async def http_door(gateway: Gateway, version: str | None) -> AsyncIterator[HttpDoor]:
    async with running(gateway.web().server().config.app) as app:
        yield HttpDoor(app, version)


@asynccontextmanager
async def line_door(gateway: Gateway, version: str) -> AsyncIterator[LineDoor]:
    async with conversation(gateway) as held:
        await held.say(opened(NEWER)[0] if version == NEWER else handshake(version))
        await held.answers(1)
        yield LineDoor(held, version)


@pytest.fixture(params=["http", "lines"])
def way(request: pytest.FixtureRequest) -> str:
    way: str = request.param
    return way


@asynccontextmanager
async def door(gateway: Gateway, way: str, version: str) -> AsyncIterator[Door]:
    async with http_door(gateway, version) if way == "http" else line_door(gateway, version) as opened_door:
        yield opened_door


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", OLDER, NEWER])
async def test_a_request_whose_id_is_none_is_refused_never_passed_over(
    gateway: Gateway, way: str, version: str
) -> None:
    async with door(gateway, way, version) as way_in:
        for request_id in NO_IDS:
            for message in (guide(request_id, version), ping_of(request_id, version)):
                answer = await way_in.say(message)
                assert answer["error"]["code"] == INVALID, (request_id, answer)
                assert answer["error"]["message"].startswith("An id must be a text or an integer, not ")
                assert answer["id"] == (request_id if isinstance(request_id, float) else None)
        for written in UNWRITABLE:
            answer = await way_in.say(encoded(guide("HERE", version)).replace(b'"HERE"', written))
            assert (answer["id"], answer["error"]["code"]) == (None, INVALID)


@pytest.mark.parametrize("version", [OLDER, NEWER])
async def test_a_request_with_the_id_null_is_refused_and_a_notification_is_not(
    gateway: Gateway, way: str, version: str
) -> None:
    async with door(gateway, way, version) as way_in:
        answer = await way_in.say(guide(None, version))
        assert (answer["id"], answer["error"]["code"]) == (None, INVALID)
        assert "null" in answer["error"]["message"]
        if version == OLDER:
            await way_in.tell({**INITIALIZED, "id": None})


@pytest.mark.parametrize("version", [OLDER, NEWER])
async def test_every_text_and_every_integer_is_an_id(gateway: Gateway, way: str, version: str) -> None:
    async with door(gateway, way, version) as way_in:
        for request_id in (*FINE_IDS, 1.0, -7.0, 2.0**53):  # an integer may be written with a fraction
            answer = await way_in.say(guide(request_id, version))
            assert answer["id"] == request_id
            assert answer["result"]["structuredContent"]["status"] == "success"


@pytest.mark.parametrize("version", [OLDER, NEWER])
async def test_what_is_no_message_is_refused_in_plain_words(gateway: Gateway, way: str, version: str) -> None:
    no_messages: list[Any] = [
        {**guide(7, version), "jsonrpc": "1.0"},
        {**guide(7, version), "method": 5},
        {**guide(7, version), "params": [1]},
        {"jsonrpc": "2.0", "id": 7, "method": "x", "params": "y"},
    ]
    async with door(gateway, way, version) as way_in:
        for message in no_messages:
            answer = await way_in.say(message)
            assert (answer["id"], answer["error"]["code"]) == (7, INVALID)
            assert "pydantic" not in json.dumps(answer)
            assert answer["error"]["message"].startswith("A message must be one JSON-RPC 2.0")


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", OLDER, NEWER])
async def test_a_batch_is_refused(gateway: Gateway, way: str, version: str, workers: WorkerSide) -> None:
    stats = call_of("memory_stats", version=version)
    async with door(gateway, way, version) as way_in:
        for batch in ([], [stats], [{**stats, "id": 2}, {**stats, "id": 3}], [INITIALIZED]):
            answer = await way_in.say(batch)
            assert (answer["id"], answer["error"]["code"]) == (None, INVALID)
            assert answer["error"]["message"] == "JSON-RPC batches are not supported: send every message by itself."
    assert workers.seen == []


TYPES = {"content_type": "application/json", "accept": "application/json"}


@pytest.mark.parametrize("path", ["/mcp", "/mcp/"])
async def test_a_slash_more_leads_to_the_same_server(gateway: Gateway, workers: WorkerSide, path: str) -> None:
    async with site_of(gateway) as site:
        for message in (call_of("memory_stats"), ping_of(1, OLDER)):
            status, answer = await site.ask("POST", path, encoded(message), **TYPES)
            assert (status, "result" in json.loads(answer)) == (200, True)
        assert (await site.ask("GET", path, accept="text/event-stream"))[0] == 405
        assert (await site.ask("POST", path, encoded(guide(1)), **TYPES, origin="https://evil.example"))[0] == 403
        assert (await site.ask("POST", path, encoded(guide(1)), **TYPES, host="evil.example"))[0] == 421
        assert (await site.ask("POST", path, b" " * (limits.BODY_BYTES + 1), **TYPES))[0] == 413
        assert [seen.command for seen in workers.seen] == [MemoryStats()]
        assert (await site.ask("POST", "/mcp//", encoded(guide(1)), **TYPES))[0] in {307, 404}


async def test_a_message_is_read_behind_the_authentication(redis_url: str, keys: Keys) -> None:
    async with gateway_over(redis_url, keys, auth="token") as gateway, site_of(gateway) as site:
        for path in ("/mcp", "/mcp/"):
            assert (await site.ask("POST", path, encoded(guide(1)), **TYPES))[0] == 401


@pytest.mark.promise("MT-10")
@pytest.mark.parametrize("version", [OLDER, NEWER])
async def test_arguments_that_are_no_object_are_named(gateway: Gateway, way: str, version: str) -> None:
    async with door(gateway, way, version) as way_in:
        for given_arguments in ([], ["content"], "text", 5, True, 0, ""):
            answer = await way_in.say(call_of("guide", given_arguments, version=version))
            body = answer["result"]["structuredContent"]
            assert (body["status"], body["field"]) == ("invalid_parameter", "arguments")


TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
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


ME = local_caller("ns", "me")


@pytest.fixture
def calls(service: Service) -> ToolCalls:
    return ToolCalls(service.call, profile_of("full").tools)


async def unheard(message: bytes) -> None:
    raise AssertionError(message)


@pytest.mark.parametrize("name", USUAL)
async def test_the_calls_of_the_usual_clients_need_no_sdk(calls: ToolCalls, name: str) -> None:
    call = calls.read(USUAL[name].encode(), ME)
    assert isinstance(call, CallRequest)
    assert (call.tool.name, call.arguments) == ("guide", {})
    answer = json.loads(await calls.answer(call, unheard))
    assert answer["result"]["structuredContent"]["status"] == "success"
    assert json.loads(answer["result"]["content"][0]["text"]) == answer["result"]["structuredContent"]


@pytest.mark.parametrize("version", [OLDER, NEWER])
async def test_calls_that_no_version_knows_are_left_to_the_sdk(calls: ToolCalls, version: str) -> None:
    left = [
        call_of("no_tool", {}, version=version),
        {**call_of("guide", {}, version=version), "method": "tools/list"},
        call_of("guide", {}, _meta={**ENVELOPE, f"{PREFIX}protocolVersion": "1999-01-01"}),
        call_of("guide", {}, _meta={f"{PREFIX}protocolVersion": NEWER}),
        call_of("guide", {}, _meta={**ENVELOPE, f"{PREFIX}clientInfo": 5}),
        call_of("guide", {}, _meta=[]),
    ]
    assert {type(calls.read(encoded(message), ME)) for message in left} == {dict}


HEADERS: dict[str, list[tuple[str, int]]] = {
    "content-type": [("", 400), ("text/plain", 400), ("APPLICATION/JSON; charset=UTF-8", 200)],
    "accept": [
        *[(accepted, 200) for accepted in ("*/*", "application/*", "text/html, APPLICATION/JSON ;q=0.5")],
        *[(refused, 406) for refused in ("", "text/event-stream", "application/jsonp, text/event-stream")],
        ("application/json-seq, x/application/json", 406),
    ],
    "mcp-protocol-version": [("1999-01-01", 400), ("", 400)],
    "mcp-session-id": [("x", 200)],
}


@pytest.mark.parametrize("version", [OLDER, NEWER])
async def test_the_headers_of_a_call_are_judged(gateway: Gateway, workers: WorkerSide, version: str) -> None:
    body = encoded(guide(1, version))
    cases = [(name, value, status) for name, values in HEADERS.items() for value, status in values]
    if version == NEWER:
        cases += [("mcp-method", "tools/list", 400), ("mcp-name", "store_memory", 400)]
    async with running(gateway.web().server().config.app) as app:
        for name, value, expected in cases:
            others = [(key, item) for key, item in headers_of(version, "guide") if key != name]
            (status, _), _ = await exchange(app, [*others, (name, value)], body)
            assert status == expected, (name, value)


OF_PROXIES: dict[str, list[tuple[str, str]]] = {
    "a header of proxies comes twice": [("x-forwarded-for", "192.0.2.1"), ("x-forwarded-for", "192.0.2.2")],
    "a list comes in parts": [("accept", "text/html")],
    "the same comes twice": [("content-type", "application/json")],
}


@pytest.mark.parametrize("more", OF_PROXIES)
async def test_what_proxies_add_to_a_call_leaves_it_an_operators_one(
    gateway: Gateway, workers: WorkerSide, more: str
) -> None:
    workers.script[ListDeleted] = lambda _command, _envelope: DeletedList(deletions=[], truncated=False)
    call = encoded(call_of("list_deleted", {}))
    usual = headers_of(OLDER, "list_deleted")
    shouted = [(name, value.upper() if name == "content-type" else value) for name, value in usual]
    async with running(gateway.web().server().config.app) as app:
        for headers in ([*usual, *OF_PROXIES[more]], [*OF_PROXIES[more], *usual], shouted):
            (status, _), answer = await exchange(app, headers, call)
            assert (status, json.loads(answer)["result"]["structuredContent"]["status"]) == (200, "success")
        _, answer = await exchange(app, [*usual, ("content-type", "text/plain")], call)
        assert "structuredContent" not in json.loads(answer).get("result", {}), "two types of content are none"


@pytest.mark.parametrize("version", [OLDER, NEWER])
async def test_a_body_in_parts_is_one_message(gateway: Gateway, version: str) -> None:
    async with running(gateway.web().server().config.app) as app:
        for parts in (2, 7):
            (status, _), answer = await exchange(app, headers_of(version, "guide"), encoded(guide(1, version)), parts)
            assert (status, json.loads(answer)["result"]["isError"]) == (200, False)


ODD: st.SearchStrategy[Any] = st.sampled_from([..., *FINE_IDS, *NO_IDS, "x", TRACE, [{}]])


@st.composite
def odd_messages(draw: st.DrawFn) -> tuple[bytes, str]:
    """Return a call that is mostly well made, with something else here and there, and its version."""
    version = draw(st.sampled_from([OLDER, NEWER]))
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


@pytest.fixture(scope="module")
async def served(redis_url: str) -> AsyncIterator[Any]:
    keys = Keys("test-wire")
    async with (
        worker_side(redis_url, keys),
        gateway_over(redis_url, keys) as gateway,
        running(gateway.web().server().config.app) as app,
    ):
        yield app


@settings(suppress_health_check=[*SLOW, HealthCheck.differing_executors])
@given(sent=odd_messages())
async def test_whatever_is_sent_is_answered(served: Any, sent: tuple[bytes, str]) -> None:
    body, version = sent
    try:
        name = json.loads(body)["params"]["name"]
    except (ValueError, LookupError, TypeError):
        name = "guide"
    headers = headers_of(version, name if isinstance(name, str) and name in TOOLS else "guide")
    (status, _), answer = await exchange(served, headers, body)
    assert status in {200, 202, 400, 404}
    if answer.startswith(b"event:"):  # of a batch with a progress token: the last event has the result
        answer = answer.rpartition(b"\ndata: ")[2]
    assert status == 202 or {"result", "error"} & json.loads(answer).keys()
