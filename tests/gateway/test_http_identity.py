"""The door before every route of HTTP: who has no good token comes no further, whatever else goes wrong."""

import itertools
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2  # the SDK's client library
import pytest
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import ProtectedResourceMetadata
from mcp.shared.exceptions import MCPError

from engramq.gateway.http import KEEP_ALIVE_S
from engramq.gateway.identity import bearer
from engramq.gateway.run import Gateway
from engramq.schemas.commands import Authenticate, Identity
from engramq.schemas.ids import TOKEN_PREFIX, new_token, token_digest
from engramq.schemas.keys import Keys
from engramq.schemas.settings import Settings, SettingsError, read_settings
from engramq.schemas.vocabulary import Scope
from tests.gateway.conftest import gateway_over
from tests.gateway.issuer import AUDIENCE, ISSUER, jwt_setting, key_for, key_server, public_jwk, public_pem, signed
from tests.gateway.test_http import ERAS, Site, message, serve, site_of
from tests.gateway.worker_side import SCRIPT, WorkerSide, worker_side

METADATA = ["/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"]
OPEN = ["/healthz", "/readyz", "/.well-known/engramq.json", *METADATA]
GOOD, UNKNOWN = (TOKEN_PREFIX + letter * 43 for letter in "gu")

ADDRESSES = itertools.count(1)


def identities(command: Authenticate, _envelope: Any) -> Identity:
    if command.token_sha256 != token_digest(GOOD):
        return Identity(status="unknown")
    return Identity(
        status="success", namespace="tenant", principal="ada", scopes=(Scope.READ, Scope.WRITE), untrusted=True
    )


@asynccontextmanager
async def guarded(redis_url: str, keys: Keys, **variables: str) -> AsyncIterator[tuple[Site, WorkerSide]]:
    """Serve with tokens over scripted workers."""
    chosen: dict[str, Any] = {"auth": "token", **variables}
    async with serve(redis_url, keys, **chosen) as (site, workers):
        workers.script[Authenticate] = identities
        yield site, workers


@pytest.fixture(scope="module")
async def shared(redis_url: str) -> AsyncIterator[tuple[Site, WorkerSide]]:
    async with guarded(redis_url, Keys("test-http-identity"), trusted_proxies="127.0.0.1") as made:
        yield made


@pytest.fixture
def workers(shared: tuple[Site, WorkerSide]) -> WorkerSide:
    shared[1].script = {**SCRIPT, Authenticate: identities}
    shared[1].seen.clear()
    return shared[1]


@pytest.fixture
def site(shared: tuple[Site, WorkerSide], workers: WorkerSide) -> Site:
    return shared[0]


@asynccontextmanager
async def client_with(site: Site, token: str, mode: str = "auto") -> AsyncIterator[Client]:
    async with (
        httpx2.AsyncClient(headers={"authorization": f"Bearer {token}"}) as http,
        Client(streamable_http_client(site.url, http_client=http), mode=mode) as client,
    ):
        yield client


@pytest.mark.promise("SE-1")
@pytest.mark.parametrize("mode", ["legacy", "auto", "2026-07-28"])
async def test_the_token_alone_says_who_calls(site: Site, workers: WorkerSide, mode: str) -> None:
    async with client_with(site, GOOD, mode) as client:
        arguments = {"content": "x", "session": "principal=eve"}
        result = await client.call_tool("store_memory", arguments, meta={"namespace": "n", "principal": "eve"})  # type: ignore[arg-type]  # what a liar sends
        assert result.structured_content is not None
        assert result.structured_content["status"] == "stored"
        resource = await client.read_resource("engramq://memory/m")
        assert resource.contents
    asked = [envelope for envelope in workers.seen if not isinstance(envelope.command, Authenticate)]
    assert {(envelope.namespace, envelope.principal.name) for envelope in asked} == {("tenant", "ada")}
    assert all(envelope.principal.untrusted for envelope in asked)
    assert {envelope.principal.scopes for envelope in asked} == {(Scope.READ, Scope.WRITE)}


async def test_every_route_but_the_allowed_ones_wants_a_token(redis_url: str, keys: Keys) -> None:
    async with (
        worker_side(redis_url, keys),
        gateway_over(redis_url, keys, auth="token") as gateway,
        site_of(gateway) as site,
    ):
        app: Any = gateway.web().server().config.app
        paths = {route.path for route in app.routes.others.routes}
        assert paths == {"/metrics", *OPEN}
        for path in sorted({"/mcp", *paths}):
            for method in ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS"):
                status, _ = await site.ask(method, path)
                allowed = 200 if method in ("GET", "HEAD") else 405
                assert status == (allowed if path in OPEN else 401), (method, path)


@pytest.mark.parametrize(
    "path", ["/", "/nothing", "/mcp/", "//mcp", "/healthz/", "/healthz/../mcp", "/healthz%2f..%2fmcp", "/MCP"]
)
async def test_no_other_path_leads_past_the_door(site: Site, path: str) -> None:
    assert (await site.ask("POST", path))[0] == 401


@pytest.mark.promise("SE-1")
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    ("presented", "error"),
    [
        ("", False),
        ("Bearer " + UNKNOWN, True),
        ("Bearer x", True),
        ("Bearer " + GOOD + "x", True),
        ("Bearer " + GOOD[:-1], True),
        ("Bearer", True),
        ("Bearer " + GOOD + " " + GOOD, True),
        ("Basic " + GOOD, False),  # no attempt at a bearer token, so RFC 6750 wants no error code
        (GOOD, False),
        ("Bearer " + "a" * 60_000, True),
        ("Bearer \xff", True),
    ],
)
async def test_without_a_good_token_the_answer_is_401_and_says_where_tokens_come_from(
    site: Site, workers: WorkerSide, era: str, presented: str, error: bool
) -> None:
    body = json.dumps(message(era)).encode()
    named = {"content_type": "application/json", "authorization": presented, **site.routing(body, era)}
    address = f"2001:db8:{next(ADDRESSES):x}::1"  # another one each time: failures are limited
    status, headers, answer = await site.exchange("POST", "/mcp", body, x_forwarded_for=address, **named)
    assert status == 401
    challenge = headers["www-authenticate"]
    assert challenge.startswith("Bearer ")
    assert ('error="invalid_token"' in challenge) == error
    found = re.search(r'resource_metadata="([^"]+)"', challenge)
    assert found is not None
    assert found[1] == f"http://127.0.0.1:{site.port}/.well-known/oauth-protected-resource/mcp"
    assert json.loads(answer)["status"] == "error"
    assert GOOD not in answer.decode() + str(headers)
    assert all(isinstance(envelope.command, Authenticate) for envelope in workers.seen)


async def test_two_tokens_are_none(site: Site) -> None:
    request = (
        f"POST /mcp HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {GOOD}\r\nauthorization: Bearer {GOOD}\r\n"
    )
    assert (await site.raw(f"{request}connection: close\r\n\r\n".encode()))[0] == 401


async def test_a_token_in_the_address_is_none(site: Site) -> None:
    assert (await site.ask("POST", f"/mcp?access_token={GOOD}"))[0] == 401


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("scheme", ["bearer", "BEARER", "Bearer  "])
async def test_the_scheme_may_be_written_in_any_case(site: Site, era: str, scheme: str) -> None:
    status, _ = await site.post(json.dumps(message(era)).encode(), era, authorization=f"{scheme} {GOOD}")
    assert status == 200


@pytest.mark.promise("SE-1")
async def test_the_metadata_say_what_the_resource_is(site: Site) -> None:
    for path in METADATA:
        status, answer = await site.ask("GET", path, host="localhost:1")
        described = json.loads(answer)
        assert status == 200
        assert described["resource"] == "http://localhost:1/mcp"
        assert described["scopes_supported"] == ["read", "write", "verify", "admin"]
        assert described["bearer_methods_supported"] == ["header"]
        assert "authorization_servers" not in described  # our own tokens come from no server


@pytest.mark.promise("SE-1")
@pytest.mark.parametrize("era", ERAS)
async def test_while_nobody_can_say_it_is_503(
    site: Site, workers: WorkerSide, era: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bearer, "LOOKUP_S", 0.2)
    workers.script[Authenticate] = lambda _c, _e: None
    body = json.dumps(message(era)).encode()
    status, headers, answer = await site.exchange("POST", "/mcp", body, authorization=f"Bearer {new_token()}")
    assert (status, headers["retry-after"]) == (503, "2")
    assert "www-authenticate" not in headers
    assert json.loads(answer)["status"] == "error"


@pytest.mark.long
async def test_without_redis_it_is_503_and_never_open(keys: Keys) -> None:
    async with gateway_over("unix:///nowhere/redis.sock", keys, auth="token") as gateway, site_of(gateway) as site:
        assert (await site.ask("POST", "/mcp", authorization=f"Bearer {GOOD}"))[0] == 503
        assert (await site.ask("POST", "/mcp"))[0] == 401
        assert await site.alive()


async def test_who_guesses_too_often_is_told_to_wait_and_harms_no_good_token(
    redis_url: str, keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with guarded(redis_url, keys) as (site, workers):
        body = json.dumps(message(ERAS[1])).encode()
        assert (await site.post(body, ERAS[1], authorization=f"Bearer {GOOD}"))[0] == 200
        statuses = [(await site.ask("POST", "/mcp", authorization="Bearer x"))[0] for _ in range(40)]
        assert statuses[:30] == [401] * 30
        assert 429 in statuses[30:]
        asked = len(workers.seen)
        status, headers, _ = await site.exchange("POST", "/mcp", authorization=f"Bearer {new_token()}")
        assert (status, int(headers["retry-after"]) >= 1) == (429, True)
        assert len(workers.seen) == asked  # no worker is bothered with it
        assert (await site.post(body, ERAS[1], authorization=f"Bearer {GOOD}"))[0] == 200
        assert (await site.ask("POST", "/mcp"))[0] == 401  # asking where tokens come from is no failure


@pytest.mark.promise("SE-9")
async def test_who_comes_with_a_token_is_limited_and_told_so_by_the_tool(redis_url: str, keys: Keys) -> None:
    async with guarded(redis_url, keys, quotas="principal_calls_per_second=1") as (site, workers):
        async with client_with(site, GOOD) as client:
            results = [await client.call_tool("memory_stats", {}) for _ in range(4)]
        refused = [result for result in results if result.is_error]
        assert 1 <= len(refused) <= 2
        body = refused[0].structured_content
        assert body is not None
        assert (body["status"], body["code"], body["retry_after_s"] > 0) == ("error", "rate_limited", True)
        assert len([item for item in workers.seen if not isinstance(item.command, Authenticate)]) == 4 - len(refused)


# JWTs over HTTP.


def provider(keys: str) -> dict[str, str]:
    return {"auth": "jwt", "jwt": jwt_setting(keys=keys)}


def test_jwt_takes_an_issuer_an_audience_and_keys() -> None:
    def read(**parts: str) -> Settings:
        return read_settings({"ENGRAMQ_AUTH": "jwt", "ENGRAMQ_JWT": jwt_setting(**parts)})

    for missing in ("issuer", "audience", "keys"):
        with pytest.raises(SettingsError, match=f"ENGRAMQ_JWT must say {missing}="):
            read(**{"keys": "/k", missing: ""})
    with pytest.raises(SettingsError, match="use https"):
        read(keys="http://login.example.org/keys")
    assert read(keys="http://127.0.0.1:1/keys", audience=f"{AUDIENCE} other").jwt.audience == (AUDIENCE, "other")


@pytest.mark.promise("SE-1")
@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_a_jwt_says_who_calls(redis_url: str, keys: Keys, tmp_path: Path, mode: str) -> None:
    (tmp_path / "key.pem").write_bytes(public_pem(key_for("ES256")))
    async with guarded(redis_url, keys, **provider(str(tmp_path / "key.pem"))) as (site, workers):
        async with client_with(site, signed("ES256"), mode) as client:
            await client.call_tool("memory_stats", {})
        assert (workers.seen[0].namespace, workers.seen[0].principal.name) == ("ns", "ada")
        with pytest.raises((MCPError, ExceptionGroup)):
            async with client_with(site, signed("ES256", name="theirs"), mode) as client:
                await client.call_tool("memory_stats", {})
        assert len(workers.seen) == 1
        _, answer = await site.ask("GET", METADATA[1])
        described = ProtectedResourceMetadata.model_validate_json(answer)
        assert [str(server) for server in described.authorization_servers] == [ISSUER]


async def test_a_jwt_whose_key_cannot_be_fetched_is_503(redis_url: str, keys: Keys) -> None:
    async with (
        key_server(public_jwk("RS256", "k1")) as server,
        guarded(redis_url, keys, **provider(server.url)) as (site, _),
    ):
        server.answer = b"HTTP/1.1 500 Oh no\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
        assert (await site.ask("POST", "/mcp", authorization=f"Bearer {signed()}"))[0] == 503
        assert (await site.ask("POST", "/mcp", authorization="Bearer x.y.z"))[0] == 401


def test_a_key_file_that_is_missing_is_named_at_start() -> None:
    chosen = read_settings({"ENGRAMQ_AUTH": "jwt", "ENGRAMQ_JWT": jwt_setting(keys="/no/key.pem")})
    gateway = Gateway(chosen, bus=None, service=None, redis=None, keys=None)  # type: ignore[arg-type]  # none is reached
    with pytest.raises(SettingsError, match=r"ENGRAMQ_JWT: /no/key\.pem"):
        gateway.web().server()


def test_an_idle_connection_is_closed_by_its_client_or_proxy_first() -> None:
    usual_proxies_s = 60
    clients_s = httpx2.Limits().keepalive_expiry or 0.0
    assert max(usual_proxies_s, clients_s) < KEEP_ALIVE_S
