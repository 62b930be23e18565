"""A small OAuth provider on the loopback address: authorization code with PKCE, registration, tokens that are JWTs.

It knows one person, who is signed in already. What real providers have besides (pages, consent, refreshing) is left
out; what they check of a request is checked.
"""

import base64
import hashlib
import secrets
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

import anyio
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from engramq.gateway.http import bind
from tests.gateway.issuer import public_jwk, signed

LIFETIME_S = 300


@dataclass
class Provider:
    """The provider; `claims` are those of its one person besides what the flow gives. `asked` holds paths in order."""

    port: int
    claims: dict[str, Any]
    clients: dict[str, list[str]] = field(default_factory=dict)
    grants: dict[str, dict[str, str]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    @property
    def issuer(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def jwks_url(self) -> str:
        return f"{self.issuer}/jwks.json"

    def app(self) -> Starlette:
        """Return what serves it."""
        return Starlette(
            routes=[
                Route("/.well-known/oauth-authorization-server", self.metadata),
                Route("/register", self.register, methods=["POST"]),
                Route("/authorize", self.authorize),
                Route("/token", self.token, methods=["POST"]),
                Route("/jwks.json", self.keys),
            ]
        )

    async def metadata(self, request: Request) -> Response:
        self.asked.append(request.url.path)
        ways = {name: f"{self.issuer}/{path}" for name, path in ENDPOINTS.items()}
        return JSONResponse(
            {
                "issuer": self.issuer,
                **ways,
                "response_types_supported": ["code"],
                "grant_types_supported": ["authorization_code"],
                "code_challenge_methods_supported": ["S256"],
                "token_endpoint_auth_methods_supported": ["none"],
                "scopes_supported": ["read", "write"],
            }
        )

    async def register(self, request: Request) -> Response:
        self.asked.append(request.url.path)
        wanted = await request.json()
        client_id = secrets.token_urlsafe(8)
        self.clients[client_id] = wanted["redirect_uris"]
        return JSONResponse({**wanted, "client_id": client_id, "token_endpoint_auth_method": "none"}, 201)

    async def authorize(self, request: Request) -> Response:
        """Send the person back with a code; they are signed in, and say yes."""
        self.asked.append(request.url.path)
        said = dict(request.query_params)
        if said["redirect_uri"] not in self.clients[said["client_id"]] or said["code_challenge_method"] != "S256":
            return JSONResponse({"error": "invalid_request"}, 400)
        code = secrets.token_urlsafe(16)
        self.grants[code] = said
        return RedirectResponse(f"{said['redirect_uri']}?{urlencode({'code': code, 'state': said['state']})}", 302)

    async def token(self, request: Request) -> Response:
        self.asked.append(request.url.path)
        form = await request.form()
        grant = self.grants.pop(str(form["code"]), {})
        digest = hashlib.sha256(str(form["code_verifier"]).encode()).digest()
        proof = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if not grant or proof != grant["code_challenge"] or form["client_id"] != grant["client_id"]:
            return JSONResponse({"error": "invalid_grant"}, 400)
        now = int(time.time())
        said = {"iss": self.issuer, "aud": grant["resource"], "iat": now, "exp": now + LIFETIME_S}
        scope = grant.get("scope", "")
        token = signed(said={**said, "scope": scope, **self.claims})
        return JSONResponse({"access_token": token, "token_type": "Bearer", "expires_in": LIFETIME_S, "scope": scope})

    async def keys(self, request: Request) -> Response:
        self.asked.append(request.url.path)
        return JSONResponse({"keys": [public_jwk("RS256", "k1")]})


ENDPOINTS = {"authorization_endpoint": "authorize", "token_endpoint": "token", "registration_endpoint": "register"}


@asynccontextmanager
async def provider(**claims: Any) -> AsyncIterator[Provider]:
    """Run a provider whose one person has these claims."""
    with bind("127.0.0.1", 0) as bound:
        made = Provider(bound.getsockname()[1], claims)
        server = uvicorn.Server(uvicorn.Config(made.app(), lifespan="off", log_config=None))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.serve, [bound])
            yield made
            server.should_exit = True
