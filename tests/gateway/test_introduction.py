"""A client's introduction and lists: answered as the SDK answers them, without it."""

import json
import subprocess
import sys
from typing import Any, Final

import anyio
import pytest
from mcp_types import CLIENT_CAPABILITIES_META_KEY, CLIENT_INFO_META_KEY, SERVER_INFO_META_KEY
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS

from engramq.gateway import web
from engramq.gateway.identity.authorization import Caller, local_caller, untrusted_caller
from engramq.gateway.mcp.introduction import HANDSHAKE_VERSIONS, Introduction
from engramq.gateway.mcp.listing import profile_of
from engramq.gateway.mcp.server import SdkStream
from engramq.gateway.mcp.wire import MODERN_VERSIONS, Refusal
from engramq.gateway.run import Gateway
from engramq.gateway.service import Service
from tests.gateway.test_lines import BOUND_S, CLIENT, INITIALIZE, INITIALIZED, conversation
from tests.gateway.wire import ENVELOPE, encoded, exchange, headers_of, running

LISTS: Final = ("tools/list", "resources/list", "resources/templates/list", "prompts/list")
VERSIONS: Final = [*HANDSHAKE_PROTOCOL_VERSIONS, "1999-01-01", MODERN_PROTOCOL_VERSIONS[0]]
LEFT_TO_THE_SDK: Final[dict[str, dict[str, Any]]] = {
    "another introduction": INITIALIZE,
    "a cursor": {"method": "tools/list", "params": {"cursor": "x"}},
    "a request of the newer version": {"method": "tools/list", "params": {"_meta": ENVELOPE}},
    "parameters that are none": {"method": "prompts/list", "params": []},
    "reading": {"method": "resources/read", "params": {"uri": "engramq://guide"}},
    "a method that nobody has": {"method": "tools/lists"},
}
# What a client that introduces itself may say of itself, and what the SDK refuses in its own words.
SELF_DESCRIPTIONS: Final[list[dict[str, Any]]] = [
    {"capabilities": {"roots": {"listChanged": True}, "sampling": {}, "elicitation": {"form": {}}, "other": 5}},
    {"capabilities": {"experimental": {"a": {"b": 1}}, "extensions": {"a": {}}}},
    {"clientInfo": {**CLIENT, "title": "T", "websiteUrl": "u", "icons": [{"src": "s", "sizes": ["any"]}], "other": 5}},
]
MALFORMED: Final[list[dict[str, Any]]] = [
    *[{"capabilities": {"roots": roots}} for roots in (5, {"listChanged": "x"})],
    *[{"capabilities": {name: {"a": 5}}} for name in ("experimental", "extensions")],
    {"capabilities": {"tasks": 5}},
    *[{"clientInfo": {**CLIENT, **wrong}} for wrong in ({"title": 5}, {"icons": "x"}, {"icons": [{"src": 5}]})],
]
HALF: Final = "\ud800"  # of a surrogate pair
TOKENS: Final[list[Any]] = [[], {}, 1.5, None]  # which are none


def introduction(version: object, **changes: Any) -> dict[str, Any]:
    params = {"protocolVersion": version, "capabilities": {"roots": {}}, "clientInfo": CLIENT, **changes}
    return {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}


def malformed_messages() -> list[dict[str, Any]]:
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    told = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    metas = [{"_meta": {"progressToken": token}} for token in TOKENS]
    return [
        *[introduction(VERSIONS[0], **wrong) for wrong in (*MALFORMED, *metas)],
        *[{**ping, "method": method, "params": wrong} for method in ("ping", *LISTS) for wrong in metas],
        *[{**ping, **wrong} for wrong in ({"id": HALF}, {"params": {"_meta": {"a": HALF}}})],
        *[{**begun, "error": {"code": 1, "message": "x"}} for begun in (ping, told)],
        {**told, "params": {"_meta": {"a": HALF}}},
    ]


async def answers_of_the_sdk(service: Service, profile: str, caller: Caller, *messages: Any) -> list[Any]:
    heard: list[Any] = []
    done = anyio.Event()

    async def hear(answer: bytes, _request_id: object) -> None:
        heard.append(json.loads(answer))
        if len(heard) == len(messages):
            done.set()

    sdk = SdkStream(service, profile_of(profile), caller, hear)
    with anyio.fail_after(BOUND_S):
        async with anyio.create_task_group() as tasks:
            await tasks.start(sdk.run, "")
            for message in messages:
                read = sdk.read(message)
                assert not isinstance(read, Refusal)
                await sdk.send(read)
            await done.wait()
            tasks.cancel_scope.cancel()
    return heard


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("profile", ["everyday", "core", "get_edge,store_memory"])
@pytest.mark.parametrize("caller", [local_caller("ns", "me"), untrusted_caller("ns", "me")], ids=["me", "untrusted"])
async def test_introduction_and_lists_are_those_of_the_sdk(
    service: Service, version: str, profile: str, caller: Caller
) -> None:
    lists = [{"jsonrpc": "2.0", "id": number, "method": method} for number, method in enumerate(LISTS)]
    messages = [introduction(version), *lists, {"jsonrpc": "2.0", "id": "p", "method": "ping", "params": {"_meta": {}}}]
    ours = Introduction(profile_of(profile), caller.principal)
    mine = [{"jsonrpc": "2.0", "id": message["id"], "result": ours.answer(message)} for message in messages]
    assert json.loads(json.dumps(mine)) == await answers_of_the_sdk(service, profile, caller, *messages)


@pytest.mark.parametrize("left", LEFT_TO_THE_SDK.values(), ids=LEFT_TO_THE_SDK)
def test_what_is_unusual_is_left_to_the_sdk(left: dict[str, Any]) -> None:
    ours = Introduction(profile_of("core"), local_caller("ns", "me").principal)
    assert ours.answer({"jsonrpc": "2.0", "id": 0, "method": "tools/list"}) is None, "before an introduction"
    assert ours.answer(introduction(5)) is None
    assert ours.answer(introduction("2025-11-25", clientInfo={"name": "no version"})) is None
    assert ours.answer(introduction("2025-11-25")) is not None
    assert ours.answer({"jsonrpc": "2.0", "id": 1, **left}) is None


@pytest.mark.parametrize("version", [None, *HANDSHAKE_PROTOCOL_VERSIONS])
async def test_over_http_they_are_those_of_the_sdk_too(
    gateway: Gateway, version: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    lists = [{"jsonrpc": "2.0", "id": number, "method": method} for number, method in enumerate((*LISTS, "ping"))]
    told = [{"jsonrpc": "2.0", "method": f"notifications/{name}"} for name in ("initialized", "cancelled", "nothing")]
    messages = [introduction(named) for named in VERSIONS] + lists + told
    messages += [introduction(VERSIONS[0], **said) for said in SELF_DESCRIPTIONS]
    usual = headers_of(version, "")
    left_to_the_sdk = [*usual, ("mcp-method", "of the newer version")]
    async with running(gateway.web().server().config.app) as app:
        theirs = [await exchange(app, left_to_the_sdk, encoded(message)) for message in messages]
        for message in malformed_messages():
            escaped = json.dumps(message).encode()
            (status, _), refused = await exchange(app, left_to_the_sdk, escaped)
            (my_status, _), mine = await exchange(app, usual, escaped)
            assert (my_status, json.loads(mine or b"0")) == (status, json.loads(refused or b"0")), message
            assert status != 200 or json.loads(refused)["error"]["code"] == -32602, message
    monkeypatch.setattr(web, "_sdk_app", pytest.fail)
    async with running(gateway.web().server().config.app) as app:
        for message, ((status, headers), body) in zip(messages, theirs, strict=True):
            (my_status, my_headers), mine = await exchange(app, usual, encoded(message))
            assert (my_status, sorted(my_headers)) == (status, sorted(headers)), message
            assert json.loads(mine or b"0") == json.loads(body or b"0")


async def test_the_sdk_goes_on_with_a_client_that_was_introduced_without_it(gateway: Gateway) -> None:
    async with conversation(gateway) as held:
        await held.say(INITIALIZE)
        await held.say(INITIALIZED)
        for number, method in enumerate(("prompts/list", "prompts/get", "prompts/list", "initialize")):
            params = {"name": "recall_before_acting"} if method == "prompts/get" else {}
            await held.say({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        answers = [json.loads(answer) for answer in await held.answers(5)]
    assert [answer["id"] for answer in answers] == ["first", 0, 1, 2, 3]
    assert ["result" in answer for answer in answers] == [True, True, True, True, False]
    assert answers[1]["result"] == answers[3]["result"]


def test_words_of_the_protocol_are_those_of_the_sdk() -> None:
    assert (HANDSHAKE_VERSIONS, MODERN_VERSIONS) == (HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS)
    assert {CLIENT_CAPABILITIES_META_KEY, CLIENT_INFO_META_KEY, SERVER_INFO_META_KEY} == {
        f"io.modelcontextprotocol/{name}" for name in ("clientCapabilities", "clientInfo", "serverInfo")
    }


@pytest.mark.parametrize(
    ("module", "late"),
    [
        ("deploy.cli.gateway", {"mcp", "mcp_types", "pydantic", "starlette", "uvicorn"}),
        ("gateway.web", {"mcp", "mcp_types", "pydantic", "jinja2"}),
    ],
    ids=["stdio", "http"],
)
def test_a_gateway_loads_nothing_that_its_clients_may_never_need(module: str, late: set[str]) -> None:
    program = f"import sys, engramq.{module}; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert not late & set(loaded)
