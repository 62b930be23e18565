"""Who asks to be told how far a batch is hears it while the call is open, over HTTP and in lines, in both eras."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from mcp.client import Client

from engramq.gateway.run import Gateway
from engramq.schemas.commands import ImportMemories
from engramq.schemas.keys import Keys
from tests.gateway.conftest import gateway_over
from tests.gateway.test_http import Site, site_of
from tests.gateway.test_lines import INITIALIZE, INITIALIZED, conversation
from tests.gateway.wire import NEWER, OLDER, call_of, encoded
from tests.gateway.worker_side import worker_side

RECORDS = {"records": [{"content": "tea"}, {"content": ""}, {"content": "coffee"}]}
TOLD = [(0, 3, "3 items checked, 1 refused"), (3, 3, "3 items settled")]
STREAM = "application/json, text/event-stream"


@pytest.fixture
async def gateway(redis_url: str, keys: Keys) -> AsyncIterator[Gateway]:
    async with worker_side(redis_url, keys), gateway_over(redis_url, keys) as running:
        yield running


@pytest.fixture
async def site(gateway: Gateway) -> AsyncIterator[Site]:
    async with site_of(gateway) as served:
        yield served


def asking(version: str, token: str | int | None = 7, tool: Any = "import_memories") -> dict[str, Any]:
    call = call_of(tool, RECORDS, version=version)
    if token is not None:
        call["params"].setdefault("_meta", {})["progressToken"] = token
    return call


def told(messages: list[dict[str, Any]], token: str | int) -> list[tuple[Any, ...]]:
    """Return what notifications say, in order; the last message must be the answer."""
    *notifications, answer = messages
    assert answer["result"]["structuredContent"]["status"] == "accepted"
    params = [
        notification["params"] for notification in notifications if notification["method"] == "notifications/progress"
    ]
    assert all(param["progressToken"] == token for param in params)
    return [(param["progress"], param["total"], param["message"]) for param in params]


@pytest.mark.parametrize("era", ["legacy", NEWER])
async def test_a_client_over_http_hears_of_its_rows(site: Site, era: str) -> None:
    heard: list[tuple[float, float | None, str | None]] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        heard.append((progress, total, message))

    async with Client(site.url, mode=era) as client:
        result = await client.call_tool("import_memories", RECORDS, progress_callback=hear)
        assert result.structured_content is not None
        assert result.structured_content["status"] == "accepted"
        assert heard == TOLD
        assert not (await client.call_tool("import_memories", RECORDS)).is_error


async def posted(site: Site, version: str, call: Any, accept: str = STREAM) -> tuple[str, bytes]:
    """Return the content type and the body of an answer."""
    named = {"mcp_protocol_version": version, "content_type": "application/json", "accept": accept}
    if version == NEWER:
        named |= {"mcp_method": "tools/call", "mcp_name": call["params"]["name"]}
    status, headers, body = await site.exchange("POST", "/mcp", encoded(call), **named)
    assert status == 200, body
    return headers["content-type"], body


@pytest.mark.parametrize("version", [OLDER, NEWER])
async def test_only_what_is_asked_for_is_a_stream(site: Site, version: str) -> None:
    kind, body = await posted(site, version, asking(version))
    assert kind.startswith("text/event-stream")
    events = [json.loads(line[6:]) for line in body.decode().splitlines() if line.startswith("data: ")]
    assert told(events, 7) == TOLD
    for call, accept in [
        (asking(version, token=None), STREAM),
        (asking(version), "application/json"),
        (asking(version, tool="memory_stats"), STREAM),
        (asking(version, token=True), STREAM),
    ]:
        kind, body = await posted(site, version, call, accept)
        assert kind.startswith("application/json")
        assert json.loads(body)["id"] == call["id"]


@pytest.mark.parametrize("version", [OLDER, NEWER])
async def test_a_conversation_in_lines_hears_of_its_rows(gateway: Gateway, version: str) -> None:
    async with conversation(gateway) as held:
        before = 0
        if version == OLDER:
            await held.say(INITIALIZE)
            await held.answers(1)
            await held.say(INITIALIZED)
            before = 1
        await held.say(asking(version, "mine"))
        heard = [json.loads(line) for line in (await held.answers(before + 3))[before:]]
        assert told(heard, "mine") == TOLD
        await held.say({**asking(version, None), "id": 99})
        assert len(await held.answers(before + 4)) == before + 4


async def test_nobody_hears_that_rows_are_settled_before_they_are(redis_url: str, keys: Keys) -> None:
    heard: list[float] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        heard.append(progress)

    async with worker_side(redis_url, keys) as workers, gateway_over(redis_url, keys, 0.3) as gateway:
        workers.script[ImportMemories] = lambda _command, _envelope: None
        async with site_of(gateway) as site, Client(site.url, mode=NEWER) as client:
            result = await client.call_tool("import_memories", RECORDS, progress_callback=hear)
            assert result.structured_content is not None
            assert result.structured_content["status"] == "pending"
    assert heard == [0]
