"""Serve HTTP: bind the address, run uvicorn on bounded connections, answer /healthz and /readyz."""

import errno
import socket
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

import anyio
import msgspec
import uvicorn
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from engramq.gateway.bodies import Bodies
from engramq.gateway.limits import GRACE_S, SharedWork
from engramq.gateway.overview import AskHealth
from engramq.gateway.protocol import BOUNDS, BoundedProtocol, ConnectionBounds, ConnectionCounts, affordable
from engramq.gateway.router import HEALTH_PATHS, RECEIPT_KEY_PATH, Router, Routes
from engramq.schemas.checks import Health
from engramq.schemas.faults import EngramqError
from engramq.schemas.settings import Settings, SettingsError, is_loopback
from engramq.schemas.vocabulary import GUARDS

# Longer than clients (5 s) and proxies (60 s) keep an idle connection, so that the side which sends requests closes
# it: otherwise a call that arrives just as the time is up is cut off, and its fate is unknown.
KEEP_ALIVE_S: Final = 75
# At a stop clients hear with their next answer that the connection ends; only one on which nothing comes for so long is
# closed by us, for a call that is on its way then would be cut off.
DRAIN_S: Final = 1.0
DRAIN_POLL_S: Final = 0.02


def health_routes(ask_health: AskHealth) -> list[Route]:
    """Return /healthz (the process lives) and /readyz (calls can be answered; 503 names what is missing).

    Where reads are answered and writes refused, /readyz says `degraded` and why; it stays 200, for reads to go on.

    These need no authentication, so requests at the same time share one check.
    """
    looks: SharedWork[Health] = SharedWork(1)

    async def healthz(_request: Request) -> JSONResponse:
        return JSONResponse({"status": "alive"})

    async def readyz(_request: Request) -> JSONResponse:
        try:
            found = await looks.run("ready", ask_health)
        except EngramqError as refusal:
            found = Health("unavailable", [refusal.fault.error])
        return JSONResponse(msgspec.to_builtins(found), 503 if found.missing else 200)

    return [Route(path, endpoint) for path, endpoint in zip(HEALTH_PATHS, (healthz, readyz), strict=True)]


def receipt_key_route(ask_key: Callable[[], Coroutine[Any, Any, str]]) -> Route:
    """Return the route of the public key for receipts, which anybody may read. It is asked for once: it stays the same.

    503 while no worker says what it is.
    """
    looks: SharedWork[str] = SharedWork(1)
    known: list[str] = []

    async def key(_request: Request) -> JSONResponse:
        try:
            known[:] = known or [await looks.run("key", ask_key)]
        except EngramqError as refusal:
            return JSONResponse({"error": refusal.fault.error, "recovery": refusal.fault.recovery}, 503)
        return JSONResponse({"receipts": {"algorithm": "Ed25519", "public_key": known[0]}})

    return Route(RECEIPT_KEY_PATH, key)


def bind(host: str, port: int, *, authenticated: bool = False) -> socket.socket:
    """Return a socket that listens there; raises SettingsError naming the variable that is wrong.

    Only a server that authenticates its callers listens on an address which other machines reach.
    """
    if not authenticated and not is_loopback(host):
        raise SettingsError(
            f"ENGRAMQ_HOST: {host!r} is not a loopback address, and without authentication nothing else is served. "
            "Use 127.0.0.1, or set ENGRAMQ_AUTH to token or jwt."
        )
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host.strip("[]"), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except OSError as problem:
        raise SettingsError(f"ENGRAMQ_HOST: {host!r} cannot be resolved: {problem}.") from None
    bound = socket.socket(family, kind, protocol)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind(address)
        bound.listen(1024)
    except OSError as problem:
        bound.close()
        taken = problem.errno == errno.EADDRINUSE
        reason = "is taken; give another one, or 0 for a free one" if taken else f"cannot be used: {problem.strerror}"
        raise SettingsError(f"ENGRAMQ_PORT: port {port} on {host} {reason}.") from None
    return bound


class HttpServer(uvicorn.Server):
    """uvicorn without its signal handlers: the process has its own, since it may serve stdio sessions too."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ended = anyio.Event()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals alone while it serves, and say at the end that it has ended."""
        try:
            yield
        finally:
            self.ended.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Take no new connections, end those that are kept open with their next answer, then the others."""
        for server in self.servers:
            server.close()
        self.server_state.default_headers.append((b"connection", b"close"))  # of every answer from now on
        with anyio.move_on_after(DRAIN_S):
            while self.server_state.connections:  # noqa: ASYNC110 - uvicorn tells nobody when one has gone
                await anyio.sleep(DRAIN_POLL_S)
        await super().shutdown(sockets)


def http_server(routes: Routes, settings: Settings, bodies: Bodies, bounds: ConnectionBounds = BOUNDS) -> HttpServer:
    """Return a server of what answers requests, on connections that are bounded, as are their bodies."""
    bounds = affordable(bounds)
    options: dict[str, Any] = {
        "http": partial(
            BoundedProtocol,
            bounds=bounds,
            connections=ConnectionCounts(bounds, settings.trusted_proxies),
            health=frozenset(HEALTH_PATHS),
        ),
        "ws": "none",
        "lifespan": "on",
        "log_config": None,
        "access_log": False,
        "server_header": False,
        "headers": list(GUARDS),
        "proxy_headers": bool(settings.trusted_proxies),
        "forwarded_allow_ips": list(settings.trusted_proxies),
        "timeout_graceful_shutdown": GRACE_S,
        "timeout_keep_alive": KEEP_ALIVE_S,
    }
    return HttpServer(uvicorn.Config(Router(routes, settings, bodies), **options))
