"""engramq's own stack: embedded PostgreSQL and Redis (unless the environment names others), workers, gateways."""

from __future__ import annotations

import contextlib
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from engramq.deploy.local import settings
from engramq.deploy.local.embedded import postgres, redis
from engramq.deploy.local.embedded.process import Launch
from engramq.deploy.local.home import DeployError, Home
from engramq.deploy.local.supervisor.stack import Stack, SupervisedService

POSTGRES = "postgres"
REDIS = "redis"
MIGRATE = "migrate"
WORKER = "worker"
GATEWAY = "gateway"
HTTP = "http"

PROBE_BOUND_S = 2.0


def default_stack(home: Home, environment: Mapping[str, str]) -> Stack:
    """The stack that the environment asks for. A server that it gives a URL for is not embedded.

    Raises:
        DeployError: the embedder cannot be reached.
    """
    settings.require_endpoint(dict(environment))
    database_url = environment.get(settings.DATABASE_URL, "")
    redis_url = environment.get(settings.REDIS_URL, "")
    services: list[SupervisedService] = []
    owner_url = database_url
    if not database_url:
        server = postgres.Postgres(home)
        database_url, owner_url = server.url(postgres.WORKER_ROLE), server.url(postgres.OWNER_ROLE)
        services.append(_postgres(server))
    if not redis_url:
        queue = redis.Redis(home, environment)
        redis_url = queue.url
        services.append(_redis(queue))
    servers = {service.name for service in services}
    base = {name: value for name, value in environment.items() if name not in settings.FOR_HTTP}
    base |= {settings.HOME: str(home.path), settings.REDIS_URL: redis_url}
    with_database = base | {settings.DATABASE_URL: database_url}
    after_redis = tuple(servers & {REDIS})
    services += [
        SupervisedService(
            MIGRATE,
            _command({**base, settings.DATABASE_URL: owner_url}, "migrate"),
            after=tuple(servers & {POSTGRES}),
            once=True,
        ),
        SupervisedService(
            WORKER,
            _command(with_database, "worker", "--all", "--embedder-file", str(home.embedder)),
            after=(MIGRATE, *after_redis),
        ),
        # Needs Redis only, so that `initialize` is answered while PostgreSQL is still being made.
        SupervisedService(
            GATEWAY,
            _command(base, "gateway", "--socket", str(home.gateway_socket)),
            after=after_redis,
            prepare=lambda: home.gateway_socket.unlink(missing_ok=True),
            mend=lambda: home.gateway_socket.unlink(missing_ok=True),
            is_ready=lambda: accepts(socket.AF_UNIX, str(home.gateway_socket)),
        ),
    ]
    everything = (*sorted(servers), MIGRATE, WORKER)
    needs = {"stdio": (GATEWAY,), "up": (*everything, GATEWAY), "command": everything, "worker": everything}
    return Stack(
        services=tuple(services),
        needs=needs | {"backup": tuple(servers & {POSTGRES})},  # whatever else fails
        addresses={
            "gateway_socket": str(home.gateway_socket),
            "database_url": database_url,
            "owner_database_url": owner_url,
            "redis_url": redis_url,
        },
        http=lambda wanted: _http(base, wanted, after_redis),
        settings=settings.of_stack(dict(environment)),
    )


def accepts(family: socket.AddressFamily, address: str | tuple[str, int]) -> bool:
    """Whether somebody takes connections at this address."""
    with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.settimeout(PROBE_BOUND_S)
        probe.connect(address)
        return True
    return False


def free_address(host: str, port: int) -> tuple[socket.AddressFamily, str, int]:
    """Check that a TCP port can be listened on, and choose one if it is 0.

    Raises:
        DeployError: somebody else listens there, or the host is not an address of this machine.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
            return family, host, probe.getsockname()[1]
    except OSError as error:
        raise DeployError(
            "port_taken",
            f"{host}:{port} cannot be listened on: {error.strerror}.",
            f"Set {settings.PORT} to another port (or {settings.HOST} to an address of this machine).",
        ) from error


def _postgres(server: postgres.Postgres) -> SupervisedService:
    return SupervisedService(
        POSTGRES,
        server.launch,
        prepare=server.prepare,
        mend=server.mend,
        is_ready=server.is_ready,
        stop_signals=postgres.STOP_SIGNALS,
        orphan_signals=postgres.STOP_SIGNALS,
    )


def _redis(server: redis.Redis) -> SupervisedService:
    return SupervisedService(
        REDIS,
        server.launch,
        prepare=server.prepare,
        mend=server.mend,
        is_ready=server.is_ready,
        tend=server.tend,
        before_stop=server.rewrite_log,
        stop_signals=redis.STOP_SIGNALS,
        orphan_signals=redis.STOP_SIGNALS,
    )


def _http(base: Mapping[str, str], wanted: Mapping[str, str], after: tuple[str, ...]) -> tuple[SupervisedService, str]:
    host = wanted.get(settings.HOST, settings.DEFAULT_HOST)
    family, host, port = free_address(host, settings.port(dict(wanted)))
    environment = {**base, **wanted, settings.HOST: host, settings.PORT: str(port)}
    # Whoever listens on every address also answers on the loopback one.
    reachable = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - recognised, not bound
    shown = f"[{reachable}]" if ":" in reachable else reachable
    service = SupervisedService(
        HTTP,
        _command(environment, "gateway"),
        after=after,
        is_ready=lambda: accepts(family, (reachable, port)),
    )
    return service, f"http://{shown}:{port}"


def _command(environment: Mapping[str, str], *arguments: str) -> Callable[[], Launch]:
    # -P: a folder that happens to be the current one must not provide our modules.
    argv = (sys.executable, "-P", "-m", "engramq", *arguments)
    if not Path(sys.executable).is_absolute():
        raise DeployError("no_python", f"The path of the Python interpreter is not known ({sys.executable!r}).")
    return lambda: Launch(argv=argv, environment=environment, death_signal=signal.SIGTERM)
