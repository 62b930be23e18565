"""Run a gateway process: one bus, one service, HTTP and stdio sessions over them, until SIGTERM or SIGINT."""

from __future__ import annotations

import gc
import logging
import os
import signal
import socket
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio
from anyio import CancelScope, to_thread
from anyio.abc import SocketListener, TaskGroup, TaskStatus
from msgspec import UnsetType
from redis.asyncio import Redis

from engramq.gateway.cursors import CursorSecret
from engramq.gateway.identity.authorization import local_caller, settings_caller, untrusted_caller
from engramq.gateway.limits import GRACE_S, SharedWork, call_limits
from engramq.gateway.mcp.audience import choose_tools
from engramq.gateway.mcp.lines import serve_lines
from engramq.gateway.mcp.listing import profile_of
from engramq.gateway.operator import run
from engramq.gateway.overview import overview_of
from engramq.gateway.queue.bus import Bus, open_bus
from engramq.gateway.replies import ReplyStyle
from engramq.gateway.service import Service
from engramq.gateway.sessions import Breadcrumbs, fresh_session
from engramq.gateway.stdio_sessions import Hello, HomeRequest, Serve, listen, serve_stdio_sessions
from engramq.schemas.checks import Health
from engramq.schemas.connection import lanes_of
from engramq.schemas.keys import Keys
from engramq.schemas.limits import COLLECTED_AT
from engramq.schemas.settings import Auth, Redact, Settings, SettingsError, parse_setting, read_settings
from engramq.schemas.uploads import PageFiles
from engramq.telemetry.listener import telling_watchdog
from engramq.telemetry.pages import giving_back_pages
from engramq.telemetry.spans import configure_logging

if TYPE_CHECKING:
    from engramq.gateway.http import HttpServer
    from engramq.gateway.web import Web

log = logging.getLogger(__name__)

REDIS_S: Final = 2.0  # to connect, to get a connection, and for an answer
LAST_STOP_S: Final = GRACE_S + 2.0  # after which whatever still runs is cancelled


class Gateway:
    """The objects that all clients of the process share."""

    def __init__(
        self,
        settings: Settings,
        bus: Bus,
        service: Service,
        redis: Redis,
        keys: Keys,
        *,
        files: PageFiles | None = None,
    ) -> None:
        """`redis` keeps who has signed in at the page.

        `files` are taken and given there; None: none is taken, and exports have our own form alone.
        """
        self._settings = settings
        self._redis = redis
        self._keys = keys
        self._files = files
        self._bus = bus
        self.service = service
        self._local_limits = call_limits(settings, authenticated=False)
        self._looks: SharedWork[Health] = SharedWork(1)

    async def overview(self) -> Health:
        """Return how the installation is now. All who ask at the same time share one look, which no limit bounds."""
        return await self._looks.run("overview", partial(overview_of, self._bus, settings_caller(self._settings)))

    def open_stdio_session(self, hello: Hello) -> Serve:
        """Return what serves a stdio session; raises SettingsError when it asks for tools that do not exist."""
        profile = profile_of(hello.tools, output_schemas=hello.output_schemas)
        caller_of = (
            partial(untrusted_caller, acts_for=hello.acts_for)
            if hello.untrusted
            else partial(local_caller, actor=hello.actor)
        )
        caller = caller_of(hello.namespace, hello.principal, hello.session or fresh_session(), hello.project)
        # Nobody has looked at captured turns, so the operator's choice about secrets does not hold for them.
        redact = Redact.ALL if hello.untrusted else self.service.redact
        service = replace(self.service, limits=self._local_limits, style=self._style_of(hello), redact=redact)
        return partial(serve_lines, service, profile, caller)

    def web(self, settings: Settings | None = None) -> Web:
        """Return what serves HTTP by these settings, else by the gateway's own."""
        from engramq.gateway.web import Web  # noqa: PLC0415 - uvicorn, starlette, SDK: much of a start, for HTTP only

        return Web(
            settings=settings or self._settings,
            bus=self._bus,
            service=self.service,
            redis=self._redis,
            keys=self._keys,
            overview=self.overview,
            files=self._files,
        )

    def _style_of(self, hello: Hello) -> ReplyStyle:
        """Return how a stdio session is answered; raises SettingsError for what its front should not have."""
        settings = self._settings
        return ReplyStyle(
            parse_setting("detail", hello.detail) if hello.detail else settings.detail,
            parse_setting("reply_chars", hello.reply_chars) if hello.reply_chars else settings.reply_chars,
        )


def serve(settings: Settings, *, socket_path: Path | None, http: bool, files: PageFiles | None = None) -> None:
    """Do what `engramq gateway` does until SIGTERM or SIGINT. Raises SettingsError, CommandFailed."""
    configure_logging(settings.log_level, "mcp", "uvicorn")
    gc.set_threshold(COLLECTED_AT)
    run(partial(run_gateway, settings, socket_path=socket_path, http=http, files=files))


async def run_gateway(
    settings: Settings, *, socket_path: Path | None, http: bool, files: PageFiles | None = None
) -> None:
    """Serve until SIGTERM or SIGINT: stdio sessions on `socket_path` if there is one, and HTTP if asked for.

    Redis may come later. Raises SettingsError when something that was asked for cannot be served, UnsupportedServer
    when the Redis there is too old, and BusFailed when the bus has failed for good: the
    supervisor of the process starts another one.
    """
    if not settings.redis_url:
        raise SettingsError("ENGRAMQ_REDIS_URL is not set. `engramq up` brings one along; or name your own.")
    choose_tools(settings.tools)
    lanes = lanes_of(settings)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(telling_watchdog())
        await stack.enter_async_context(giving_back_pages())
        if settings.otel_endpoint:
            from engramq.telemetry.otlp import recording  # noqa: PLC0415 - 0.3 s of imports, for those who trace

            stack.enter_context(recording(settings.otel_endpoint, "engramq-gateway"))
        listener = bound = None
        if socket_path is not None:
            listener = await listen(socket_path)
            stack.callback(socket_path.unlink, missing_ok=True)
        if http:
            bound = stack.enter_context(_bind(settings))
        stopping = anyio.Event()
        # On failure callers read their last answers first.
        bus = await stack.enter_async_context(open_bus(settings, lanes=lanes, on_failure=stopping.set))
        redis, keys = lanes.server.client(timeout_s=REDIS_S), lanes.first
        stack.push_async_callback(redis.aclose)
        service = Service(
            bus, Breadcrumbs(redis, lanes), CursorSecret(redis, keys), redact=settings.redact, zone=settings.timezone
        )
        gateway = Gateway(settings, bus, service, redis, keys, files=files)
        web = None if bound is None else (gateway.web().server(), bound)
        await _serve(gateway, listener, web, stopping)


def _bind(settings: Settings) -> socket.socket:
    from engramq.gateway.http import bind  # noqa: PLC0415 - uvicorn, for HTTP only

    return bind(settings.host, settings.port, authenticated=settings.auth is not Auth.NONE)


class _HttpSwitch:
    """HTTP of this process, which opens and closes while it runs, and what the home's supervisor asks of it."""

    def __init__(self, gateway: Gateway, tasks: TaskGroup, stopping: anyio.Event) -> None:
        self._gateway = gateway
        self._tasks = tasks
        self._stopping = stopping
        self._web: HttpServer | None = None

    async def answer(self, request: HomeRequest) -> object:
        """Do what the supervisor asks, and return the answer."""
        if isinstance(request.http, UnsetType):
            return await self._gateway.overview()
        await self.close()
        if self._stopping.is_set():
            return {"ok": False, "error": "The gateway is stopping."}
        try:
            if request.http is not None:
                settings = read_settings({**os.environ, **request.http})
                # In a thread, since stdio sessions are served meanwhile.
                web = await to_thread.run_sync(self._gateway.web, settings)
                self.open(web.server(), _bind(settings))
        except SettingsError as problem:
            return {"ok": False, "error": str(problem)}
        return {"ok": True}

    def open(self, web: HttpServer, bound: socket.socket) -> None:
        """Serve HTTP on a socket that listens."""
        self._web = web
        self._tasks.start_soon(web.serve, [bound])
        host, port = bound.getsockname()[:2]
        url = f"http://{f'[{host}]' if ':' in host else host}:{port}/mcp"
        log.info("Serving MCP over HTTP", extra={"host": host, "port": port, "url": url})

    async def close(self) -> None:
        """Serve HTTP no more; return when its last answer is sent."""
        if self._web is not None:
            self._web.should_exit = True
            await self._web.ended.wait()


async def _serve(
    gateway: Gateway,
    listener: SocketListener | None,
    web: tuple[HttpServer, socket.socket] | None,
    stopping: anyio.Event,
) -> None:
    async with anyio.create_task_group() as tasks:
        doors = _HttpSwitch(gateway, tasks, stopping)
        awaiting_signal = await tasks.start(_await_signal, stopping)
        if listener is not None:
            tasks.start_soon(serve_stdio_sessions, listener, gateway.open_stdio_session, stopping, doors.answer)
            log.info("Serving stdio sessions")
        if web is not None:
            doors.open(*web)
        await stopping.wait()
        awaiting_signal.cancel()
        log.info("Stopping")
        tasks.cancel_scope.deadline = anyio.current_time() + LAST_STOP_S
        await doors.close()


async def _await_signal(stopping: anyio.Event, *, task_status: TaskStatus[CancelScope]) -> None:
    """Say once that the process is to end; a second signal ends it at once."""
    with CancelScope() as scope, anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        task_status.started(scope)
        async for _ in signals:
            break
    stopping.set()
