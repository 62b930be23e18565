"""What is not one well made JSON-RPC message, over HTTP and in lines: odd ids, batches, and the path with a slash."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Protocol

import anyio
import pytest

from engramq.gateway.run import Gateway
from engramq.schemas import limits
from engramq.schemas.commands import MemoryStats
from engramq.schemas.keys import Keys
from tests.gateway.both_ways import NEWER, OLDER, call_of, encoded, exchange, headers_of, running
from tests.gateway.conftest import gateway_over
from tests.gateway.test_http import Site, site_of
from tests.gateway.test_line_calls import Conversation, cancellation_of, conversation, opened
from tests.gateway.worker_side import WorkerSide

pytestmark = [pytest.mark.anyio, pytest.mark.promise("AG-22")]

BATCHES = "2025-03-26"
INVALID = -32600
BOUND = 50
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


def handshake(version: str = BATCHES, request_id: Any = 0) -> dict[str, Any]:
    params = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    return {"jsonrpc": "2.0", "id": request_id, "method": "initialize", "params": params}


def guide(request_id: Any, version: str = BATCHES) -> dict[str, Any]:
    return {**call_of("guide", {}, version=version), "id": request_id}


@asynccontextmanager
async def http_door(gateway: Gateway, version: str | None) -> AsyncIterator[HttpDoor]:
    async with running(gateway.web().config.app) as app:
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


@pytest.mark.parametrize("version", ["2024-11-05", BATCHES, OLDER, NEWER])
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
        for request_id in FINE_IDS:
            answer = await way_in.say(guide(request_id, version))
            assert answer["id"] == request_id
            assert answer["result"]["structuredContent"]["status"] == "success"


@pytest.mark.parametrize("version", [OLDER, NEWER])
async def test_an_integer_written_with_a_fraction_is_an_integer(gateway: Gateway, way: str, version: str) -> None:
    async with door(gateway, way, version) as way_in:
        for request_id in (1.0, -7.0, 2.0**53):
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


async def test_a_batch_is_answered_in_one_list(gateway: Gateway, way: str, workers: WorkerSide) -> None:
    unknown = {"jsonrpc": "2.0", "id": "c", "method": "no/such"}
    async with door(gateway, way, BATCHES) as way_in:
        batch = [guide(1), INITIALIZED, ping_of("b", BATCHES), unknown, {**call_of("memory_stats"), "id": 4.0}]
        answers = await way_in.say(batch)
        named = {answer["id"]: answer for answer in answers}
        assert named.keys() == {1, "b", "c", 4}
        assert len(answers) == 4
        assert named[1]["result"]["structuredContent"]["status"] == "success"
        assert named["b"]["result"] == {}
        assert named["c"]["error"]["code"] == -32601
        assert named[4]["result"]["structuredContent"]["status"] == "success"
    assert [type(seen.command) for seen in workers.seen] == [MemoryStats]


async def test_http_clients_of_that_version_name_none(gateway: Gateway) -> None:
    async with http_door(gateway, None) as way_in:
        assert [answer["id"] for answer in await way_in.say([guide(2), guide(1)])] == [2, 1]


async def test_what_is_wrong_in_a_batch_is_refused_one_by_one(gateway: Gateway, way: str) -> None:
    async with door(gateway, way, BATCHES) as way_in:
        batch = [guide("fine"), guide(1.5), 5, None, [guide(2)], {}, {"id": 3}, handshake(request_id=9)]
        answers = await way_in.say(batch)
        refused = [answer for answer in answers if "error" in answer]
        assert {answer["id"] for answer in answers if "result" in answer} == {"fine"}
        assert sorted(str(answer["id"]) for answer in refused) == ["1.5", "3", "9", *["None"] * 4]
        assert {answer["error"]["code"] for answer in refused} == {INVALID}
        assert [answer["id"] for answer in await way_in.say([1, 2])] == [None, None]


async def test_a_batch_that_asks_nothing_is_not_answered(gateway: Gateway, way: str) -> None:
    async with door(gateway, way, BATCHES) as way_in:
        response = {"jsonrpc": "2.0", "id": 1, "result": {}}
        for batch in ([INITIALIZED], [INITIALIZED, cancellation_of(77)], [response, response]):
            await way_in.tell(batch)


@pytest.mark.parametrize("version", ["2024-11-05", "2025-06-18", OLDER, NEWER])
async def test_other_versions_have_no_batches(gateway: Gateway, way: str, version: str, workers: WorkerSide) -> None:
    stats = call_of("memory_stats", version=version)
    async with door(gateway, way, version) as way_in:
        for batch in ([stats], [{**stats, "id": 2}, {**stats, "id": 3}], [INITIALIZED]):
            answer = await way_in.say(batch)
            assert (answer["id"], answer["error"]["code"]) == (None, INVALID)
            assert answer["error"]["message"].startswith(f"Batches are part of protocol version {BATCHES} alone")
    assert workers.seen == []


@pytest.mark.parametrize("version", [BATCHES, OLDER, NEWER])
async def test_an_empty_batch_is_refused(gateway: Gateway, way: str, version: str) -> None:
    async with door(gateway, way, version) as way_in:
        answer = await way_in.say([])
        assert answer == {
            "jsonrpc": "2.0",
            "id": None,
            "error": {"code": INVALID, "message": "A batch must have at least one message."},
        }


async def test_a_batch_has_a_bound(gateway: Gateway, way: str, workers: WorkerSide) -> None:
    stats = [{**call_of("memory_stats"), "id": number} for number in range(BOUND + 1)]
    async with door(gateway, way, BATCHES) as way_in:
        answer = await way_in.say(stats)
        assert answer["error"] == {"code": INVALID, "message": f"A batch may have at most {BOUND} messages, not 51."}
        assert workers.seen == []
        assert {answer["id"] for answer in await way_in.say(stats[1:])} == set(range(1, BOUND + 1))
    assert len(workers.seen) == BOUND


async def test_ids_of_a_batch_are_free_once_it_is_answered(gateway: Gateway) -> None:
    async with line_door(gateway, BATCHES) as way_in:
        for _ in range(2):
            answers = await way_in.say([guide(1), guide(2), guide(1), guide("2")])
            assert sorted("error" in answer for answer in answers) == [False, False, True, True]
            assert {answer["id"] for answer in answers if "error" in answer} == {1, "2"}
        assert (await way_in.say(guide(1)))["result"]["structuredContent"]["status"] == "success"


async def test_a_batch_waits_for_the_last_answer_and_for_none_that_was_cancelled(
    gateway: Gateway, workers: WorkerSide
) -> None:
    workers.script[MemoryStats] = lambda _command, _envelope: None
    slow = [{**call_of("memory_stats"), "id": number} for number in ("slow", "slower")]
    async with conversation(gateway) as held:
        await held.say(handshake())
        await held.answers(1)
        await held.say([guide("quick"), *slow])
        await held.say(cancellation_of("slow"))
        await held.say(ping_of("ping", BATCHES))
        assert json.loads((await held.answers(2))[1])["id"] == "ping"
        await held.say(cancellation_of("slower"))
        assert [answer["id"] for answer in json.loads((await held.answers(3))[2])] == ["quick"]
        await held.say([slow[0], cancellation_of("slow")])  # cancelled by the batch itself: no answer at all
        await held.say(ping_of("ping", BATCHES))
        assert json.loads((await held.answers(4))[3])["id"] == "ping"


async def test_a_batch_is_answered_to_a_client_that_has_closed_its_sending_side(
    gateway: Gateway, workers: WorkerSide
) -> None:
    stats = [{**call_of("memory_stats"), "id": number} for number in range(20)]
    async with conversation(gateway) as held:
        await held.say(handshake())
        await held.answers(1)
        await held.say(stats)
        held.say_raw.close()
        assert len(json.loads((await held.answers(2))[1])) == 20


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


async def test_batches_are_behind_the_door_and_within_the_limit(redis_url: str, keys: Keys) -> None:
    batch = encoded([guide(1), guide(2)])
    async with gateway_over(redis_url, keys, auth="token") as gateway, site_of(gateway) as site:
        for path in ("/mcp", "/mcp/"):
            assert (await site.ask("POST", path, batch, **TYPES))[0] == 401
    async with gateway_over(redis_url, keys) as gateway, site_of(gateway) as site:
        assert await too_large(site, batch) == (200, 413)
        assert (await site.ask("POST", "/mcp", batch, **TYPES, origin="https://evil.example"))[0] == 403
        no_types = {"content_type": "text/plain", "accept": "application/json"}, {"content_type": "application/json"}
        assert [(await site.ask("POST", "/mcp", batch, **headers))[0] for headers in no_types] == [400, 406]


async def too_large(site: Site, batch: bytes) -> tuple[int, int]:
    """Return the statuses of a batch that just fits and of one with a byte more."""
    fits = batch + b" " * (limits.BODY_BYTES - len(batch))
    with anyio.fail_after(20):
        return (
            (await site.ask("POST", "/mcp", fits, **TYPES))[0],
            (await site.ask("POST", "/mcp", fits + b" ", **TYPES))[0],
        )
