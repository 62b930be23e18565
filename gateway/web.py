"""Serve HTTP: MCP, REST, the page, health and metrics, for whom the settings let in.

The SDK (20 MB and .4 s of CPU) and the page (5 MB) are loaded for the first who asks for them.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from anyio import to_thread
from redis.asyncio import Redis
from starlette.applications import Starlette
from starlette.types import ASGIApp, Receive, Scope, Send

from engramq.gateway.http import HttpServer, health_routes, http_server, receipt_key_route
from engramq.gateway.identity.authorization import settings_caller
from engramq.gateway.identity.bearer import METADATA_PATHS, Authenticator, Bearer, Resource, TokenAuthenticator
from engramq.gateway.identity.local_peer import Account, home_token
from engramq.gateway.late import Late
from engramq.gateway.limits import call_limits
from engramq.gateway.mcp.http_wire import HttpWire
from engramq.gateway.mcp.listing import Profile, profile_of
from engramq.gateway.mcp.wire import ToolCalls
from engramq.gateway.metrics import GatewayMetrics
from engramq.gateway.overview import AskHealth
from engramq.gateway.protocol import BOUNDS, ConnectionBounds
from engramq.gateway.queue.bus import Bus
from engramq.gateway.replies import ReplyStyle
from engramq.gateway.rest.app import OPENAPI_PATH, Rest
from engramq.gateway.router import HEALTH_PATHS, METRICS_PATH, RECEIPT_KEY_PATH, IdentifyCaller, Routes
from engramq.gateway.service import Service
from engramq.schemas.checks import Health
from engramq.schemas.commands import OPERATOR_TOOLS, ReceiptKey, ReceiptKeyShown
from engramq.schemas.envelope import Answer
from engramq.schemas.faults import EngramqError, FaultCode, refuse
from engramq.schemas.keys import Keys
from engramq.schemas.limits import REPLY_CHARS_MAX
from engramq.schemas.settings import Auth, Settings
from engramq.schemas.uploads import PageFiles
from engramq.schemas.vocabulary import Detail

if TYPE_CHECKING:
    from engramq.gateway.mcp.server import SdkApp

log = logging.getLogger(__name__)

WHOLE: Final = ReplyStyle(Detail.FULL, REPLY_CHARS_MAX)  # for programs and people: neither has a context window


@dataclass(frozen=True, slots=True, kw_only=True)
class Web:
    """HTTP of one gateway, by its settings or those of a hold; `overview` says how the installation is."""

    settings: Settings
    bus: Bus
    service: Service
    redis: Redis
    keys: Keys
    overview: AskHealth
    files: PageFiles | None

    def server(self, bounds: ConnectionBounds = BOUNDS) -> HttpServer:
        """Return the HTTP server, not yet running; raises SettingsError when its keys cannot be used."""
        settings, metrics = self.settings, GatewayMetrics(waiting=lambda: self.bus.waiting)
        profile = profile_of(settings.tools, output_schemas=settings.output_schemas, in_session=False)
        authenticator = self._authenticator()
        limits = call_limits(settings, authenticated=authenticator is not None)
        observed = replace(self.service, limits=limits, observe=metrics.count_call)
        service = replace(observed, style=ReplyStyle(settings.detail, settings.reply_chars))
        # Of the same limits: a caller has one share, whatever the door.
        whole = replace(observed, style=WHOLE)
        open_paths = {*HEALTH_PATHS, OPENAPI_PATH, RECEIPT_KEY_PATH}
        beside = [*health_routes(self._health), receipt_key_route(self._receipt_key)]
        by_caller = authenticator is not None and not settings.metrics_token
        open_paths |= set() if by_caller else {METRICS_PATH}
        beside.append(metrics.route(self.overview, token=settings.metrics_token, by_caller=by_caller))
        account = None
        if authenticator is None:
            authenticator = account = Account(settings_caller(settings), _token_of(settings.home))
            authenticate: IdentifyCaller = account.authenticate
        else:
            resource = Resource(settings)
            beside += resource.routes()
            open_paths |= {*METADATA_PATHS}
            authenticate = Bearer(authenticator, resource).authenticate
        calls = ToolCalls(service.call, profile.tools, (*profile.unlisted, *OPERATOR_TOOLS))
        mcp = HttpWire(partial(_sdk_app, service, profile), calls, profile)
        routes = Routes(
            authenticate=authenticate,
            mcp=mcp,
            others=Starlette(routes=beside, lifespan=mcp.running),
            rest=Rest(whole),
            page=self._page(whole, authenticator, account),
            open_paths=frozenset(open_paths),
        )
        return http_server(routes, settings, metrics.bodies, bounds)

    def _page(self, service: Service, authenticator: Authenticator, account: Account | None) -> ASGIApp:
        """Return the page; `account`: whose processes need no token."""

        def make() -> ASGIApp:
            from engramq.gateway.ui.page import PageApp  # noqa: PLC0415 - see above

            return PageApp(
                service,
                self.overview,
                authenticator=authenticator,
                account=account,
                redis=self.redis,
                keys=self.keys,
                settings=self.settings,
                files=self.files,
            )

        page = Late(partial(to_thread.run_sync, make))

        async def show(scope: Scope, receive: Receive, send: Send) -> None:
            await (await page.get())(scope, receive, send)

        return show

    async def _health(self) -> Health:
        """Return what everybody may know of that."""
        return (await self.overview()).without_details()

    async def _receipt_key(self) -> str:
        """Return the public key by which receipts are signed, as a worker knows it; raises EngramqError."""
        caller = settings_caller(self.settings)
        answer = await self.bus.ask(
            ReceiptKey(),
            namespace=caller.namespace,
            principal=caller.principal,
            timeout_s=self.settings.reply_timeout_s,
        )
        if isinstance(answer, Answer) and isinstance(answer.reply, ReceiptKeyShown):
            return answer.reply.public_key
        fault = answer.fault if isinstance(answer, Answer) else None
        raise refuse(FaultCode.UNAVAILABLE, "No worker answered.") if fault is None else EngramqError(fault)

    def _authenticator(self) -> Authenticator | None:
        """Return the authenticator of HTTP callers, None when every caller is the one that the settings name."""
        match self.settings.auth:
            case Auth.NONE:
                return None
            case Auth.TOKEN:
                return TokenAuthenticator(self.bus)
            case Auth.JWT:
                from engramq.gateway.identity.jwt import jwt_authenticator  # noqa: PLC0415 - 50 ms of imports, for JWTs only

                return jwt_authenticator(self.settings)


def _sdk_app(service: Service, profile: Profile) -> SdkApp:
    from engramq.gateway.mcp.server import SdkApp, build_server, http_caller  # noqa: PLC0415 - see above

    return SdkApp(build_server(service, profile, http_caller))


def _token_of(home: Path) -> str | None:
    """Return the token that stands in where a caller's account cannot be known; None where there can be none."""
    try:
        return home_token(home)
    except OSError as problem:
        log.warning("No token of the home", extra={"home": str(home), "error": str(problem)})
        return None
