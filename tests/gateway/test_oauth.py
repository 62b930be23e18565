"""The recipe of docs/oauth.md: a client of the SDK knows the URL alone, and gets a token from the identity provider."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

import anyio
import httpx2  # the SDK's client library
import pytest
from mcp.client import Client
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from mcp.shared.exceptions import MCPError

from engramq.gateway.http import bind
from engramq.schemas.keys import Keys
from engramq.schemas.settings import SETTINGS
from tests.architecture.source import ROOT
from tests.gateway.conftest import gateway_over
from tests.gateway.provider import Provider, provider
from tests.gateway.test_http import Site
from tests.gateway.worker_side import WorkerSide, worker_side

REDIRECT = "http://127.0.0.1:7777/callback"  # nobody listens: the test reads the address that it is sent to
PAGE = ROOT / "docs" / "oauth.md"


class Person:
    """Signs in for a client: follows the address that the client opens, and hands back the code."""

    def __init__(self) -> None:
        self.tokens: OAuthToken | None = None
        self.client: OAuthClientInformationFull | None = None
        self.returned = ""

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info

    async def open(self, address: str) -> None:
        async with httpx2.AsyncClient() as browser:
            self.returned = (await browser.get(address)).headers["location"]

    async def code(self) -> AuthorizationCodeResult:
        said = parse_qs(urlsplit(self.returned).query)
        return AuthorizationCodeResult(code=said["code"][0], state=said["state"][0])


@asynccontextmanager
async def guarded_by(there: Provider, redis_url: str, keys: Keys) -> AsyncIterator[tuple[Site, WorkerSide]]:
    """Serve with the JWTs of this provider, set as the page says."""
    with bind("127.0.0.1", 0) as bound:
        site = Site(bound.getsockname()[1])
        jwt = f"issuer={there.issuer}, audience={site.url}, keys={there.jwks_url}"
        door: dict[str, Any] = {"auth": "jwt", "jwt": jwt}
        async with worker_side(redis_url, keys) as workers, gateway_over(redis_url, keys, **door) as gateway:
            web = gateway.web().server()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(web.serve, [bound])
                yield site, workers
                web.should_exit = True


@asynccontextmanager
async def signing_in(site: Site, person: Person) -> AsyncIterator[Client]:
    wanted = OAuthClientMetadata.model_validate(
        {"client_name": "a hosted client", "redirect_uris": [REDIRECT], "token_endpoint_auth_method": "none"}
    )
    flow = OAuthClientProvider(site.url, wanted, person, person.open, person.code)
    async with (
        httpx2.AsyncClient(auth=flow) as http,
        Client(streamable_http_client(site.url, http_client=http)) as client,
    ):
        yield client


async def test_a_client_that_knows_the_url_alone_signs_in_and_calls(redis_url: str, keys: Keys) -> None:
    async with provider(sub="ada", namespace="acme") as there, guarded_by(there, redis_url, keys) as (site, workers):
        person = Person()
        async with signing_in(site, person) as client:
            names = {tool.name for tool in (await client.list_tools()).tools}
            stored = await client.call_tool("store_memory", {"content": "Ada signs in at her provider"})
        assert {"store_memory", "search_memories"} <= names
        assert stored.structured_content is not None
        assert stored.structured_content["status"] == "stored"
        assert there.asked[:4] == ["/.well-known/oauth-authorization-server", "/register", "/authorize", "/token"]
        # Who calls is whom the provider says, in the tenant that it says, with the scopes that were asked for.
        assert person.tokens is not None
        assert person.tokens.scope == "read write"
        envelope = workers.seen[-1]
        assert (envelope.principal.name, envelope.namespace) == ("ada", "acme")


async def test_a_person_of_no_tenant_gets_a_token_and_is_not_let_in(redis_url: str, keys: Keys) -> None:
    async with provider(sub="eve") as there, guarded_by(there, redis_url, keys) as (site, workers):
        with pytest.raises((MCPError, httpx2.HTTPStatusError, ExceptionGroup)):
            async with signing_in(site, Person()) as client:
                await client.list_tools()
        assert "/token" in there.asked
        assert workers.seen == []


def test_the_page_names_settings_that_exist() -> None:
    text = PAGE.read_text(encoding="utf-8")
    named = {word for word in text.replace("`", " ").replace("=", " ").split() if word.startswith("ENGRAMQ_")}
    assert len(named) > 3
    assert named <= {setting.variable for setting in SETTINGS}
