"""HTTP as it comes over the wire: who may ask, what may be asked, and that nothing ends the process."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import anyio
import pytest
from mcp.client import Client

from engramq.gateway.http import bind
from engramq.gateway.protocol import BOUNDS, ConnectionBounds
from engramq.gateway.run import Gateway
from engramq.schemas import limits
from engramq.schemas.command_line import SMALLER
from engramq.schemas.keys import Keys
from engramq.schemas.settings import SettingsError, read_settings
from tests.gateway.conftest import gateway_over
from tests.gateway.replies import check_reply
from tests.gateway.test_arguments import MINIMAL
from tests.gateway.worker_side import SCRIPT, WorkerSide, worker_side

ROUTES = [("POST", "/mcp"), ("GET", "/mcp"), ("GET", "/healthz"), ("GET", "/readyz"), ("GET", "/nothing")]
ERAS = ["2025-11-25", "2026-07-28"]
CALL = {"name": "store_memory", "arguments": {"content": "x"}}


class Site:
    """A served gateway, asked in raw HTTP."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.url = f"http://127.0.0.1:{port}/mcp"

    async def ask(self, method: str, path: str, body: bytes = b"", **headers: str) -> tuple[int, bytes]:
        """Send a request with just these headers (Host and Content-Length unless given) and return status and body."""
        status, _, answer = await self.exchange(method, path, body, **headers)
        return status, answer

    async def exchange(
        self, method: str, path: str, body: bytes = b"", **headers: str
    ) -> tuple[int, dict[str, str], bytes]:
        """Send a request as `ask` does and return status, headers by their names in lower case, and body."""
        named = {"host": f"127.0.0.1:{self.port}", "content-length": str(len(body)), **headers}
        lines = [f"{method} {path} HTTP/1.1", "connection: close"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in named.items() if value]
        return await self.talk("\r\n".join(lines).encode() + b"\r\n\r\n" + body)

    async def raw(self, request: bytes) -> tuple[int, bytes]:
        status, _, body = await self.talk(request)
        return status, body

    async def talk(self, request: bytes) -> tuple[int, dict[str, str], bytes]:
        answer = b""
        with anyio.fail_after(20):
            async with await anyio.connect_tcp("127.0.0.1", self.port) as line:
                try:
                    await line.send(request)
                    async for chunk in line:
                        answer += chunk
                except anyio.BrokenResourceError:
                    assert answer
        head, _, body = answer.partition(b"\r\n\r\n")
        first, *others = head.decode().split("\r\n")
        named = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in others)}
        return int(first.split(" ", 2)[1]), named, body

    async def post(self, body: bytes, era: str, **more: str) -> tuple[int, Any]:
        """Post a message to /mcp as a client of that era would, with `more` headers; return status and JSON."""
        headers = {"content_type": "application/json", "accept": "application/json, text/event-stream", **more}
        status, answer = await self.ask("POST", "/mcp", body, **headers, **self.routing(body, era))
        return status, json.loads(answer) if answer.startswith(b"{") else answer

    def routing(self, body: bytes, era: str) -> dict[str, str]:
        named = {"mcp_protocol_version": era}
        return named if era == ERAS[0] else {**named, "mcp_method": "tools/call", "mcp_name": "store_memory"}

    async def alive(self) -> bool:
        return await self.ask("GET", "/healthz") == (200, b'{"status":"alive"}')


@asynccontextmanager
async def site_of(gateway: Gateway, bounds: ConnectionBounds = BOUNDS) -> AsyncIterator[Site]:
    with bind("127.0.0.1", 0) as bound:
        web = gateway.web().server(bounds)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(web.serve, [bound])
            yield Site(bound.getsockname()[1])
            web.should_exit = True


@asynccontextmanager
async def serve(
    redis_url: str, keys: Keys, reply_timeout_s: float = 5.0, bounds: ConnectionBounds = BOUNDS, **variables: str
) -> AsyncIterator[tuple[Site, WorkerSide]]:
    """Serve a site, and what stands in for its workers, for as long as the block lasts."""
    async with (
        worker_side(redis_url, keys) as workers,
        gateway_over(redis_url, keys, reply_timeout_s, **variables) as gateway,
        site_of(gateway, bounds) as site,
    ):
        yield site, workers


def unused(workers: WorkerSide) -> WorkerSide:
    """Return workers that answer as at first and have seen nothing."""
    workers.script = dict(SCRIPT)
    workers.seen.clear()
    return workers


@pytest.fixture(scope="module")
async def shared(redis_url: str) -> AsyncIterator[tuple[Site, WorkerSide]]:
    """One site for all these tests: it has to outlive whatever they send."""
    async with serve(redis_url, Keys(f"test-{uuid4().hex[:12]}")) as site:
        yield site


@pytest.fixture
def workers(shared: tuple[Site, WorkerSide]) -> WorkerSide:
    return unused(shared[1])


@pytest.fixture
def site(shared: tuple[Site, WorkerSide], workers: WorkerSide) -> Site:
    return shared[0]


def message(era: str, **changes: Any) -> dict[str, Any]:
    params: dict[str, Any] = dict(CALL)
    if era == ERAS[1]:
        prefix = "io.modelcontextprotocol/"
        params["_meta"] = {
            f"{prefix}protocolVersion": era,
            f"{prefix}clientInfo": {"name": "test", "version": "1"},
            f"{prefix}clientCapabilities": {},
        }
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params, **changes}


def with_arguments(era: str, arguments: str) -> bytes:
    """Return a call of store_memory whose arguments are this raw JSON."""
    whole = message(era)
    whole["params"] = {**whole["params"], "arguments": "HERE"}
    return json.dumps(whole).replace('"HERE"', arguments).encode("utf-8", "surrogatepass")


@pytest.mark.parametrize("mode", ["legacy", "auto", "2026-07-28"])
async def test_the_sdk_client_is_served_in_both_eras(site: Site, mode: str) -> None:
    async with Client(site.url, mode=mode) as client:
        assert client.protocol_version == ("2025-11-25" if mode == "legacy" else "2026-07-28")
        for tool, arguments in MINIMAL.items():
            result = await client.call_tool(tool, arguments)
            check_reply(tool, result.structured_content, is_error=result.is_error)


@pytest.mark.parametrize("era", ERAS)
async def test_nobody_keeps_a_connection_by_listening(site: Site, era: str) -> None:
    asked = site.exchange("GET", "/mcp", accept="text/event-stream", mcp_protocol_version=era)
    status, named, answer = await asked
    assert (status, named["allow"], json.loads(answer)["error"]["code"]) == (405, "POST", -32600)


async def test_callers_without_authentication_are_who_the_settings_say(site: Site, workers: WorkerSide) -> None:
    async with Client(site.url) as client:
        await client.call_tool("memory_stats", {})
    assert (workers.seen[0].namespace, workers.seen[0].principal.name) == ("default_user", "I/O")


@pytest.mark.parametrize("era", ERAS)
async def test_white_space_around_a_header_means_nothing(site: Site, era: str) -> None:
    body = json.dumps(message(era)).encode()
    headers = {"content_type": "application/json", "accept": "application/json", **site.routing(body, era)}
    padded = {name: f" \t{value}\t " for name, value in headers.items()}
    status, answer = await site.ask("POST", "/mcp", body, **padded)
    assert (status, json.loads(answer)["result"]["isError"]) == (200, False)


@pytest.mark.promise("SE-2")
@pytest.mark.parametrize(("method", "path"), ROUTES)
@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "user@127.0.0.1", "[::2]:1"]
)
async def test_a_foreign_host_is_refused_on_every_route(site: Site, method: str, path: str, host: str) -> None:
    status, body = await site.ask(method, path, host=host)
    assert (status, json.loads(body)["error"]) == (421, "The Host header names another server.")


@pytest.mark.promise("SE-2")
@pytest.mark.parametrize(("method", "path"), ROUTES)
@pytest.mark.parametrize(
    "origin",
    ["http://evil.example", "https://127.0.0.1.evil.example", "null", "file:///x", "http://localhost@evil.example"],
)
async def test_a_foreign_origin_is_refused_on_every_route(site: Site, method: str, path: str, origin: str) -> None:
    status, body = await site.ask(method, path, origin=origin)
    assert (status, json.loads(body)["error"]) == (403, "Requests of this Origin are not served.")


@pytest.mark.promise("SE-2")
async def test_two_hosts_or_none_are_refused(site: Site) -> None:
    twice = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nhost: evil.example\r\nconnection: close\r\n\r\n"
    assert (await site.raw(twice))[0] in {400, 421}
    assert (await site.ask("GET", "/healthz", host=""))[0] in {400, 421}


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "LOCALHOST:1", "[::1]:8765"])
async def test_pages_of_this_machine_are_served(site: Site, name: str) -> None:
    assert (await site.ask("GET", "/healthz", host=name, origin=f"http://{name}"))[0] == 200


@pytest.mark.promise("SE-3")
@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org"])
async def test_nothing_but_loopback_is_bound_without_authentication(host: str) -> None:
    with pytest.raises(SettingsError, match=r"ENGRAMQ_HOST: .* is not a loopback address"):
        bind(host, 0)
    with pytest.raises(SettingsError, match=r"ENGRAMQ_HOST: .* is not a loopback address"):
        read_settings({"ENGRAMQ_HOST": host})


@pytest.mark.promise("SE-3")
async def test_a_public_address_is_bound_with_authentication() -> None:
    assert read_settings({"ENGRAMQ_HOST": "0.0.0.0", "ENGRAMQ_AUTH": "token"}).host == "0.0.0.0"
    with bind("0.0.0.0", 0, authenticated=True) as bound:
        assert bound.getsockname()[0] == "0.0.0.0"
    assert read_settings({}).host == "127.0.0.1"


async def test_a_taken_port_is_named() -> None:
    with bind("127.0.0.1", 0) as bound, pytest.raises(SettingsError, match=r"ENGRAMQ_PORT: port .* is taken"):
        bind("127.0.0.1", bound.getsockname()[1])


@pytest.mark.promise("SE-4")
@pytest.mark.parametrize("era", ERAS)
async def test_a_body_over_the_limit_is_refused(site: Site, era: str) -> None:
    body = json.dumps(message(era)).encode()
    fits = body + b" " * (limits.BODY_BYTES - len(body))
    assert (await site.post(fits, era))[0] == 200
    status, refused = await site.post(fits + b" ", era)
    assert (status, SMALLER in refused["error"]) == (413, True)
    assert (await site.ask("POST", "/healthz", b"", content_length="9" * 23))[0] in {400, 413}
    chunks = b"%x\r\n%s\r\n" % (len(fits) + 1, fits + b" ") + b"0\r\n\r\n"
    head = f"POST /mcp HTTP/1.1\r\nhost: localhost\r\nmcp-protocol-version: {era}\r\nconnection: close\r\n"
    kind = "content-type: application/json\r\naccept: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
    assert (await site.raw((head + kind).encode() + chunks))[0] == 413
    assert await site.alive()


@pytest.mark.promise("SE-4")
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("levels", [33, 100, 180, 210, 450, 900, 1_000, 1_100, 5_000, 100_000])
async def test_deep_json_is_refused(site: Site, workers: WorkerSide, era: str, levels: int) -> None:
    deep = '{"content": "x", "metadata": ' + '{"a":' * levels + "1" + "}" * levels + "}"
    status, answer = await site.post(with_arguments(era, deep), era)
    refused_as_parse_error = status == 400 and answer["error"]["code"] == -32700
    assert refused_as_parse_error or answer["result"]["structuredContent"]["field"] == "metadata", answer
    assert workers.seen == []
    assert await site.alive()


@pytest.mark.promise("SE-4")
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ('{"content": "a\\u0000b"}', "content"),
        ('{"content": "x", "metadata": {"a\\u0000": 1}}', "metadata"),
        ('{"content": "x", "confidence": 1e999}', "confidence"),
        ('{"content": "x", "confidence": NaN}', "confidence"),
        ('{"content": "x", "position": 1' + "0" * 4_000 + "}", "position"),
        ('{"content": "x", "metadata": {"n": 1' + "0" * 30 + "}}", "metadata"),
        ('{"content": "x", "metadata": {"n": -1e400}}', "metadata"),
        ('["content"]', "arguments"),
        ('{"content": "\\ud83e"}', "content"),
        ('{"content": "x", "metadata": {"\\udd86\\ud83e": 1}}', "metadata"),
    ],
)
async def test_what_cannot_be_kept_is_refused_by_name(
    site: Site, workers: WorkerSide, era: str, arguments: str, field: str
) -> None:
    status, answer = await site.post(with_arguments(era, arguments), era)
    assert status == 200
    body = check_reply("store_memory", answer["result"]["structuredContent"], is_error=answer["result"]["isError"])
    assert (body["status"], body["field"]) == ("invalid_parameter", field)
    assert workers.seen == []
    assert await site.alive()


@pytest.mark.promise("SE-4")
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b"\xff\xfe{}",
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"\xc3\x28"}}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":' + b"9" * 5_000 + b"}",
        b"[" * 200_000,
        b'{"a":' * 200_000,
        b'{"jsonrpc":"2.0","id":1' + b"0" * 5_000 + b',"method":"ping"}',
    ],
)
async def test_broken_messages_are_answered_with_an_error(site: Site, era: str, body: bytes) -> None:
    status, answer = await site.post(body, era)
    assert status in {400, 404}, answer
    assert answer["error"]["message"]
    assert "Traceback" not in json.dumps(answer)
    assert await site.alive()


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("part", ["id", "method"])
async def test_half_a_surrogate_pair_outside_the_arguments_harms_nothing(site: Site, era: str, part: str) -> None:
    broken = {"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {}, part: "\ud800"}
    _, answer = await site.post(json.dumps(broken).encode(), era)
    assert answer["jsonrpc"] == "2.0"
    assert await site.alive()


@pytest.mark.long
async def test_ready_means_that_a_worker_answers(site: Site, workers: WorkerSide) -> None:
    assert await site.ask("GET", "/readyz") == (200, b'{"status":"ready"}')
    workers.script = {kind: (lambda _c, _e: None) for kind in workers.script}
    status, body = await site.ask("GET", "/readyz")
    told = json.loads(body)
    assert (status, told["status"], told["missing"]) == (503, "unavailable", ["worker"])
    (check,) = told["checks"]
    hangs = "1 of the kind recall was seen in the last 15 s: it hangs, or ended just now."
    assert (check["name"], check["told"]) == ("worker", f"No worker answers. {hangs}")
    assert "mailboxes" not in told, "who does not say who he is learns nothing of the load"
    assert await site.alive()


@pytest.mark.long
async def test_without_redis_the_process_lives_and_says_what_is_missing(keys: Keys) -> None:
    async with gateway_over("unix:///nowhere/redis.sock", keys) as gateway, site_of(gateway) as site:
        status, body = await site.ask("GET", "/readyz")
        told = json.loads(body)
        assert (status, told["status"], told["missing"]) == (503, "unavailable", ["redis"])
        assert [check["told"] for check in told["checks"]] == ["Redis cannot be reached."]
        assert await site.alive()
        async with Client(site.url) as client:
            for tool in ("store_memory", "begin_session"):
                result = await client.call_tool(tool, MINIMAL[tool])
                body_of = check_reply(tool, result.structured_content, is_error=result.is_error)
                assert body_of["code"] == "unavailable"
