"""List the services of a supervisor, which of them each kind of client waits for, and what that client gets.

`default_stack` makes engramq's own: embedded PostgreSQL and Redis (unless the environment names others), a worker and
a gateway. Knows nothing of how services are run (runner.py), so tests supervise programs of their own.
"""

import contextlib
import logging
import signal
import socket
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

from engramq.deploy.local import settings
from engramq.deploy.local.embedded import postgres, redis
from engramq.deploy.local.embedded.process import LaunchOrder
from engramq.deploy.local.home import DeployError, Home
from engramq.deploy.local.lines import ask_once
from engramq.deploy.local.stack_hold import SERVING
from engramq.deploy.local.supervisor import silence

logger = logging.getLogger(__name__)

POSTGRES = "postgres"
REDIS = "redis"
MIGRATE = "migrate"
WORKER = "worker"
GATEWAY = "gateway"

PROBE_BOUND_S = 2.0
# Within this a gateway sends its last replies, and a worker ends or hands back what it holds; then it is killed.
GRACE_S = 12.0
# Programs that cannot start (a bad setting, a broken installation) have mostly ended by then.
SETTLE_S = 1.5
HTTP_BOUND_S = 15.0  # a gateway that closes HTTP sends its last answers for up to 11 s
# Clients wait for the next stack meanwhile, and what an orphan holds is handed on when it is killed.
ORPHAN_GRACE_S = 2.0


@dataclass(frozen=True)
class SupervisedService:
    """One program to be kept running.

    `after` are the services that must be ready before it starts; it `uses` others, for which it waits by itself. Both
    are stopped after it. `prepare` runs before the first start; before each later one `mend` runs, or `prepare` again
    if there is none. `is_ready` is a probe. Without one a service is ready once it has lived for `settle_s` seconds, or
    if it runs `once`, when it has ended well. `before_stop` runs before it is stopped, when nobody uses it.

    While it is ready, `tend` runs every second and returns what is wrong, "" for nothing. `answers` says whether it has
    answered anything: see silence.py. All of these may block, within a bound: they run in threads. `sockets` are where
    it is reached or says that it lives: if one is missing, it is started anew.

    `stop_signals` end it, each within its seconds. `orphan_signals` end it when its supervisor was killed.
    `hung_signals` end it when it answers nothing any more, or a service that was stopped before it did not end by its
    first signal.
    """

    name: str
    launch: Callable[[], LaunchOrder]
    after: tuple[str, ...] = ()
    uses: tuple[str, ...] = ()
    prepare: Callable[[], None] | None = None
    mend: Callable[[], None] | None = None
    is_ready: Callable[[], bool] | None = None
    tend: Callable[[], str] | None = None
    answers: Callable[[], bool] | None = None
    before_stop: Callable[[], object] | None = None
    sockets: tuple[Path, ...] = ()
    settle_s: float = SETTLE_S
    once: bool = False
    stop_signals: Sequence[tuple[int, float]] = ((signal.SIGTERM, GRACE_S), (signal.SIGKILL, 5.0))
    orphan_signals: Sequence[tuple[int, float]] = ((signal.SIGTERM, ORPHAN_GRACE_S), (signal.SIGKILL, 5.0))
    hung_signals: Sequence[tuple[int, float]] = ((signal.SIGTERM, ORPHAN_GRACE_S), (signal.SIGKILL, 5.0))


_SEE = "See gateway.log in the home's folder logs."


class HttpDoor:
    """HTTP at the home's gateway, with the settings of the first hold of SERVING. Every method blocks."""

    def __init__(self, gateway_socket: Path) -> None:
        self.url = ""
        self.settings: dict[str, str] = {}
        self._gateway_socket = gateway_socket
        self._variables: dict[str, str] | None = None
        self._served: dict[str, str] | None = None  # as far as the gateway has said
        self._started = 0  # gateways, one after another
        self._lock = threading.Lock()

    def choose(self, wanted: dict[str, str]) -> None:
        """Choose where HTTP is served, unless that is chosen. Raises DeployError when the port is taken."""
        if self.url:
            return
        host, port = free_address(wanted.get(settings.HOST, settings.DEFAULT_HOST), settings.port(wanted))
        # A server on every address also answers on the loopback one.
        reachable = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - recognised, not bound
        self.url = f"http://{f'[{reachable}]' if ':' in reachable else reachable}:{port}"
        self.settings, self._variables = wanted, {**wanted, settings.HOST: host, settings.PORT: str(port)}

    def open(self) -> None:
        """Let the gateway serve HTTP, unless it does. Raises DeployError when it refuses or does not answer."""
        with self._lock:
            self._bring_about()

    def close(self) -> None:
        """Let the gateway serve HTTP no more; if it does not answer now, `tend` asks again."""
        with self._lock:
            self.url, self.settings, self._variables = "", {}, None
            try:
                self._bring_about()
            except DeployError as problem:
                logger.warning("HTTP not closed yet", extra={"problem": str(problem)})

    def forget(self) -> None:
        """Note that a gateway starts, which serves no HTTP yet."""
        self._started += 1
        self._served = None

    def tend(self) -> str:
        """Open HTTP at a gateway that was started anew, close what is still open; return what is wrong."""
        try:
            self.open()
        except DeployError as problem:
            return str(problem)
        return ""

    def _bring_about(self) -> None:
        if self._served != self._variables:
            started = self._started
            self._ask(self._variables)
            self._served = self._variables if started == self._started else None  # the one that answered has gone

    def _ask(self, variables: dict[str, str] | None) -> None:
        try:
            answer = ask_once(self._gateway_socket, {"engramq": 1, "http": variables}, HTTP_BOUND_S) or {}
        except (OSError, ValueError) as error:
            raise DeployError("not_answering", f"The gateway does not serve HTTP: {error}.", _SEE) from error
        if not answer.get("ok"):
            why = answer.get("error") or "it hung up"
            raise DeployError("http_refused", f"The gateway does not serve HTTP: {why}", _SEE)


@dataclass(frozen=True)
class Stack:
    """All services of a supervisor. They start in their order (as far as `after` lets them) and stop in the reverse.

    `needs` names what a hold of each kind waits for. `addresses` goes to its holder. `http` is open only while a hold
    of SERVING is held. `settings` are the ENGRAMQ_* variables that all of this was started with.
    """

    services: tuple[SupervisedService, ...]
    needs: Mapping[str, tuple[str, ...]]
    addresses: Mapping[str, str] = field(default_factory=dict)
    http: "HttpDoor | None" = None
    settings: Mapping[str, str] = field(default_factory=dict)


def default_stack(home: Home, environment: Mapping[str, str]) -> Stack:
    """The stack that the environment asks for. A server that it gives a URL for is not embedded.

    Raises DeployError when the embedder cannot be reached.
    """
    settings.require_endpoint(dict(environment))
    database_url = environment.get(settings.DATABASE_URL, "")
    redis_url = environment.get(settings.REDIS_URL, "")
    services: list[SupervisedService] = []
    owner_url = database_url
    if not database_url:
        database = postgres.Postgres(home)
        database_url, owner_url = database.url(postgres.WORKER_ROLE), database.url(postgres.OWNER_ROLE)
        services.append(_postgres(database))
    if not redis_url:
        queue = redis.Redis(home, environment)
        redis_url = queue.url
        services.append(_redis(queue))
    servers = {service.name for service in services}
    base = {name: value for name, value in environment.items() if name not in settings.FOR_HTTP}
    base |= {settings.HOME: str(home.path), settings.REDIS_URL: redis_url}
    with_database = base | {settings.DATABASE_URL: database_url}
    after_redis = tuple(servers & {REDIS})
    http = HttpDoor(home.gateway_socket)

    def make_way() -> None:
        home.gateway_socket.unlink(missing_ok=True)
        http.forget()

    owns = POSTGRES in servers
    if owns:  # the worker migrates this database, as its owner: that spares a process
        with_database[settings.MIGRATE_DATABASE_URL] = owner_url
    else:
        services.append(SupervisedService(MIGRATE, _command(with_database, "migrate"), once=True))
    services += [
        # It loads its modules and its model while the servers are still being made, and waits for them itself.
        _program(
            *(home, WORKER, with_database, "worker", "--all", "--embedder-file", str(home.embedder)),
            *(["--ends-refused"] if owns else []),
            uses=(POSTGRES, REDIS),
            # If a database elsewhere is away, callers hear so from the worker: they must not wait for that database.
            says_ready=owns,
        ),
        # Needs Redis only, so that `initialize` is answered while PostgreSQL is still being made.
        _program(
            *(home, GATEWAY, base, "gateway", "--socket", str(home.gateway_socket)),
            before=make_way,
            after=after_redis,
            tend=http.tend,
            sockets=(home.gateway_socket,),
            is_ready=lambda: accepts(socket.AF_UNIX, str(home.gateway_socket)),
        ),
    ]
    everything = (*(service.name for service in services if service.name != GATEWAY),)
    needs = {"stdio": (GATEWAY,), "command": everything, "worker": everything}
    needs |= dict.fromkeys(SERVING, (*everything, GATEWAY))
    return Stack(
        services=tuple(services),
        needs=needs | {"backup": tuple(servers & {POSTGRES})},  # whatever else fails
        addresses={
            "gateway_socket": str(home.gateway_socket),
            "database_url": database_url,
            "owner_database_url": owner_url,
            "redis_url": redis_url,
        },
        http=http,
        settings=settings.stack_settings(dict(environment)),
    )


def stop_order(services: Sequence[SupervisedService]) -> list[list[str]]:
    """Return the names of services in the order in which they stop, the last started first.

    Those that need the same are stopped together: on a busy machine each takes a second or more.
    """
    needed = groupby(reversed(services), lambda service: (service.after, service.uses))
    return [[service.name for service in together] for _, together in needed]


def _postgres(database: postgres.Postgres) -> SupervisedService:
    return SupervisedService(
        POSTGRES,
        database.launch,
        prepare=database.prepare,
        mend=database.prepare_again,
        sockets=(database.socket,),
        is_ready=database.is_ready,
        answers=lambda: database.answers(silence.PROBE_BOUND_S),
        stop_signals=postgres.STOP_SIGNALS,
        orphan_signals=postgres.HUNG_SIGNALS,
        hung_signals=postgres.HUNG_SIGNALS,
    )


def _redis(queue: redis.Redis) -> SupervisedService:
    return SupervisedService(
        REDIS,
        queue.launch,
        prepare=queue.prepare,
        sockets=(queue.socket,),
        is_ready=queue.is_ready,
        tend=queue.tend,
        answers=lambda: queue.answers(silence.PROBE_BOUND_S),
        before_stop=queue.rewrite_log,
        stop_signals=redis.STOP_SIGNALS,
        orphan_signals=redis.STOP_SIGNALS,
    )


def accepts(family: socket.AddressFamily, address: str | tuple[str, int]) -> bool:
    """Whether somebody takes connections at this address."""
    with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.settimeout(PROBE_BOUND_S)
        probe.connect(address)
        return True
    return False


def free_address(host: str, port: int) -> tuple[str, int]:
    """Check that a TCP port can be listened on, and choose one if it is 0.

    Raises DeployError when somebody else listens there, or the host is not an address of this machine.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
            return host, probe.getsockname()[1]
    except OSError as error:
        raise DeployError(
            "port_taken",
            f"{host}:{port} cannot be listened on: {error.strerror}.",
            f"Set {settings.PORT} to another port (or {settings.HOST} to an address of this machine).",
        ) from error


def _program(
    home: Home,
    name: str,
    environment: Mapping[str, str],
    *arguments: str,
    before: Callable[[], None] = lambda: None,
    after: tuple[str, ...] = (),
    uses: tuple[str, ...] = (),
    sockets: tuple[Path, ...] = (),
    tend: Callable[[], str] | None = None,
    is_ready: Callable[[], bool] | None = None,
    says_ready: bool = False,
) -> SupervisedService:
    """A process of ours, which says again and again that its event loop turns. `before` runs before each start.

    Where it `says_ready` it is ready once it does.
    """
    alive = home.run / f"{name}.alive"
    heartbeat = silence.Heartbeat(alive)
    asked = {key: value for key, value in environment.items() if key != "WATCHDOG_PID"}  # of us, by systemd

    def prepare() -> None:
        home.make_again()
        before()
        heartbeat.listen()

    return SupervisedService(
        name,
        _command({**asked, **heartbeat.variables()}, *arguments),
        after=after,
        uses=uses,
        prepare=prepare,
        sockets=(*sockets, alive),
        tend=tend,
        answers=heartbeat.was_heard,
        is_ready=heartbeat.said_ready if says_ready else is_ready,
    )


def _command(environment: Mapping[str, str], *arguments: str) -> Callable[[], LaunchOrder]:
    # -P: a folder that happens to be the current one must not provide our modules.
    argv = (sys.executable, "-P", "-m", "engramq", *arguments)
    if not Path(sys.executable).is_absolute():
        raise DeployError("no_python", f"The path of the Python interpreter is not known ({sys.executable!r}).")
    return lambda: LaunchOrder(argv=argv, environment=environment, death_signal=signal.SIGTERM)
