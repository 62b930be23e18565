"""The gateway process: one bus, one service, HTTP and stdio sessions over them, ended by SIGTERM or SIGINT."""

import logging
import signal
import socket
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Final

import anyio
from anyio import CancelScope
from anyio.abc import SocketListener, TaskStatus
from redis.asyncio import BlockingConnectionPool, Redis

from engramq.gateway.connections import BOUNDS, Bounds
from engramq.gateway.cursors import CursorSecret
from engramq.gateway.health import Health, health_of
from engramq.gateway.http import GRACE_S, HEALTH_PATHS, HttpServer, bind, health_routes, http_server
from engramq.gateway.identity.authorization import local_caller, settings_caller
from engramq.gateway.identity.bearer import Authenticator, Bearer
from engramq.gateway.identity.local_peer import OwnerOnly, home_token
from engramq.gateway.identity.metadata import METADATA_PATHS, Resource
from engramq.gateway.identity.tokens import TokenAuthenticator
from engramq.gateway.limits import call_limits
from engramq.gateway.mcp.lines import serve_lines
from engramq.gateway.mcp.listing import Profile, profile_of
from engramq.gateway.mcp.server import McpServer, build_server
from engramq.gateway.mcp.tool_calls import ToolCalls
from engramq.gateway.mcp.tools import choose_tools
from engramq.gateway.mcp.transport import http_app, http_caller
from engramq.gateway.queue.bus import Bus
from engramq.gateway.rendering.replies import ReplyStyle
from engramq.gateway.service import Service
from engramq.gateway.sessions import Breadcrumbs, fresh_session
from engramq.gateway.stdio_sessions import Hello, Serve, listen, serve_stdio_sessions
from engramq.schemas.keys import Keys
from engramq.schemas.settings import Auth, Settings, SettingsError, parse_setting

log = logging.getLogger(__name__)

REDIS_S: Final = 2.0  # to connect, to get a connection, and for an answer
REDIS_CONNECTIONS: Final = 16
LAST_STOP_S: Final = GRACE_S + 2.0  # after which whatever still runs is cancelled


class Gateway:
    """What every client of the process shares."""

    def __init__(self, settings: Settings, bus: Bus, service: Service, *, by_sdk_alone: bool = False) -> None:
        """Serve by the SDK alone in tests, which compare what it answers."""
        self._settings = settings
        self._by_sdk_alone = by_sdk_alone
        self._bus = bus
        self.service = service
        self._local_limits = call_limits(settings, authenticated=False)

    async def health(self) -> Health:
        """Return whether calls are answered now."""
        return await health_of(self._bus, settings_caller(self._settings))

    def open_stdio_session(self, hello: Hello) -> Serve:
        """Return what serves a stdio session; raises SettingsError when it asks for tools that do not exist."""
        profile = profile_of(hello.tools, output_schemas=hello.output_schemas)
        caller = local_caller(hello.namespace, hello.principal, hello.session or fresh_session(), hello.project)
        service = self.service.for_clients(self._local_limits, self._style_of(hello))
        server = build_server(service, profile, lambda _ctx: caller)
        return partial(serve_lines, server, self._calls(server, service, profile), caller)

    def web(self, bounds: Bounds = BOUNDS) -> HttpServer:
        """Return the HTTP server, not yet running; raises SettingsError when its keys cannot be used."""
        settings = self._settings
        profile = profile_of(settings.tools, output_schemas=settings.output_schemas)
        authenticator = self._authenticator()
        limits = call_limits(settings, authenticated=authenticator is not None)
        service = self.service.for_clients(limits, ReplyStyle(settings.detail, settings.reply_chars))
        server = build_server(service, profile, http_caller)
        calls = self._calls(server, service, profile)
        if authenticator is None:
            app = http_app(server, calls, health_routes(self.health))
            owner = OwnerOnly(
                app, settings_caller(settings), open_paths=frozenset(HEALTH_PATHS), token=_token_of(settings.home)
            )
            return http_server(owner, settings, bounds)
        resource = Resource(settings)
        app = http_app(server, calls, [*health_routes(self.health), *resource.routes()])
        open_paths = frozenset({*HEALTH_PATHS, *METADATA_PATHS})
        return http_server(Bearer(app, authenticator, resource, open_paths=open_paths), settings, bounds)

    def _style_of(self, hello: Hello) -> ReplyStyle:
        """Return how a stdio session is answered; raises SettingsError for what its front should not have."""
        settings = self._settings
        return ReplyStyle(
            parse_setting("detail", hello.detail) if hello.detail else settings.detail,
            parse_setting("reply_chars", hello.reply_chars) if hello.reply_chars else settings.reply_chars,
        )

    def _calls(self, server: McpServer, service: Service, profile: Profile) -> ToolCalls | None:
        """Return what answers calls of tools ahead of `server`, None when it is to answer them itself."""
        return None if self._by_sdk_alone else ToolCalls(service, profile, server.server_info_stamp)

    def _authenticator(self) -> Authenticator | None:
        """Return the authenticator of HTTP callers, None when every caller is the one that the settings name."""
        match self._settings.auth:
            case Auth.NONE:
                return None
            case Auth.TOKEN:
                return TokenAuthenticator(self._bus)
            case Auth.JWT:
                from engramq.gateway.identity.jwt import jwt_authenticator  # noqa: PLC0415 - 50 ms of imports, for JWTs only

                return jwt_authenticator(self._settings)


def _token_of(home: Path) -> str | None:
    """Return the token that stands in where a caller's account cannot be known; None where there can be none."""
    try:
        return home_token(home)
    except OSError as problem:
        log.warning("No token of the home", extra={"home": str(home), "error": str(problem)})
        return None


async def run_gateway(settings: Settings, *, socket_path: Path | None, http: bool) -> None:
    """Serve until SIGTERM or SIGINT: stdio sessions on `socket_path` if there is one, and HTTP if asked for.

    Redis may come later. Raises SettingsError when something that was asked for cannot be served, UnsupportedServer
    when the Redis there is too old, and BusFailed when the bus has failed for good: the
    supervisor of the process starts another one.
    """
    if not settings.redis_url:
        raise SettingsError("ENGRAMQ_REDIS_URL is not set. `engramq up` brings one along; or name your own.")
    choose_tools(settings.tools)
    keys = Keys(settings.key_prefix)
    async with AsyncExitStack() as stack:
        listener = bound = None
        if socket_path is not None:
            listener = await listen(socket_path)
            stack.callback(socket_path.unlink, missing_ok=True)
        if http:
            authenticated = settings.auth is not Auth.NONE
            bound = stack.enter_context(bind(settings.host, settings.port, authenticated=authenticated))
        stopping = anyio.Event()
        bus = await stack.enter_async_context(
            Bus(
                settings.redis_url,
                keys,
                mailbox_bound=settings.mailbox_bound,
                reply_timeout_s=settings.reply_timeout_s,
                on_failure=stopping.set,  # callers read their last answers first
            )
        )
        redis = open_redis(settings.redis_url)
        stack.push_async_callback(redis.aclose)
        service = Service(bus, Breadcrumbs(redis, keys), CursorSecret(redis, keys), redact=settings.redact)
        await _serve(Gateway(settings, bus, service), listener, bound, stopping)


def open_redis(redis_url: str) -> Redis:
    """Return a client for what is no command (breadcrumbs, the cursors' key); it connects when it is used."""
    pool = BlockingConnectionPool.from_url(
        redis_url,
        max_connections=REDIS_CONNECTIONS,
        timeout=REDIS_S,
        socket_timeout=REDIS_S,
        socket_connect_timeout=REDIS_S,
    )
    return Redis.from_pool(pool)


async def _serve(
    gateway: Gateway, listener: SocketListener | None, bound: socket.socket | None, stopping: anyio.Event
) -> None:
    web = gateway.web() if bound is not None else None
    async with anyio.create_task_group() as tasks:
        awaiting_signal = await tasks.start(_await_signal, stopping)
        if listener is not None:
            tasks.start_soon(serve_stdio_sessions, listener, gateway.open_stdio_session, stopping, gateway.health)
            log.info("Serving stdio sessions")
        if web is not None and bound is not None:
            tasks.start_soon(web.run_on, bound)
            host, port = bound.getsockname()[:2]
            url = f"http://{f'[{host}]' if ':' in host else host}:{port}/mcp"
            log.info("Serving MCP over HTTP", extra={"host": host, "port": port, "url": url})
        await stopping.wait()
        awaiting_signal.cancel()
        log.info("Stopping")
        tasks.cancel_scope.deadline = anyio.current_time() + LAST_STOP_S
        if web is not None:
            web.should_exit = True


async def _await_signal(stopping: anyio.Event, *, task_status: TaskStatus[CancelScope]) -> None:
    """Say once that the process is to end; a second signal ends it at once."""
    with CancelScope() as scope, anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        task_status.started(scope)
        async for _ in signals:
            break
    stopping.set()
