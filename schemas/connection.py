"""Connect to Redis, for both halves of the queue; all of the contract that speaks to a server.

A RedisConnection is used bare: packed commands out, that many replies back. redis-py's client costs more than the round
trip itself; its Connection (handshake, TLS, authentication, parser) does not. redis-py finds the server too: its
Sentinel names the master of a service, its cluster client knows which master has which keys; redis_urls.py has the
forms of the address. Its clients are for what is no command of the queue (breadcrumbs, dead letters, looks). They send
what met a lost connection again for a while, so send nothing by them that does harm when it is carried out twice.
"""

import asyncio
import re
import time
from collections.abc import Iterable, Sequence
from typing import Any, Final

import hiredis
from redis.asyncio import BlockingConnectionPool, Connection, ConnectionPool, Redis, RedisCluster, SSLConnection
from redis.asyncio.cluster import ClusterNode, ClusterParser
from redis.asyncio.connection import parse_url
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel
from redis.backoff import ExponentialBackoff
from redis.exceptions import (
    AskError,
    ClusterDownError,
    NoPermissionError,
    ReadOnlyError,
    RedisClusterException,
    RedisError,
    ResponseError,
    TryAgainError,
)
from redis.exceptions import ConnectionError as NotConnected
from redis.exceptions import TimeoutError as RedisTimeout

from engramq.schemas.keys import Keys, keys_of_lanes, lane_of
from engramq.schemas.limits import ALIVE_S, REGISTER_S
from engramq.schemas.redis_problems import looked_at, make_empty_transaction, refusal_of, together
from engramq.schemas.redis_urls import ServerPlace, is_cluster, is_sentinel, read_servers, sentinels_of
from engramq.schemas.scripts import COUNT_PRESENT, Script
from engramq.schemas.settings import Settings

EXCHANGE_S: Final = 5.0  # for the replies to commands that do not block

OLDEST_SERVER: Final = (7, 0)  # BLMPOP came with Redis 7.0
FAREWELL_S: Final = 0.1
CONNECT_S: Final = 1.0  # to find the server and to connect, and once more for the handshake
SENTINEL_S: Final = 0.4  # for one Sentinel: another one is asked then
MAP_S: Final = 0.1  # a map that is younger is not read anew: many connections find at once that it is wrong

CONNECTIONS: Final = 16  # of one client; more callers wait for one
AGAIN_S: Final = 0.05  # before a client, or what belongs elsewhere, is sent again; then twice as long each time,
AGAIN_AT_MOST_S: Final = 0.5  # but no longer
AGAIN: Final = 4  # times

# redis-py's clients name the library to the server otherwise, which a user of the least rights may not.
UNNAMED: Final[dict[str, Any]] = {"lib_name": None, "lib_version": None}
_CLOSED: Final = "Connection closed by server."  # redis-py's words for the end of a stream
_NUMBER_S: Final = 5.0  # for each answer about the number of lanes

# The errors of an exchange whose connection is gone. Whether the server carried the commands out is then unknown.
CONNECTION_ERRORS: Final = (RedisError, RedisClusterException, OSError, TimeoutError)
# What a server answers that has surely not carried a command out, since its keys are, or will soon be, elsewhere. MOVED
# is an AskError; one that became a replica takes no writes.
ELSEWHERE: Final = (AskError, TryAgainError, ClusterDownError, ReadOnlyError)
REFUSED_AFTER_S: Final = 0.3  # of an exchange's time that is left when it is given up, so that the refusal is reported


class UnsupportedServer(RuntimeError):
    """The Redis server cannot be used as it is; the message says why and what mends it."""


class NoMaster(RedisError):
    """The servers answer, but none of them is the master of the keys; the message is a sentence."""


# What a client raises whose server is away, or cannot be used or found as the settings say.
CLIENT_ERRORS: Final = (RedisError, RedisClusterException, OSError, UnsupportedServer)


class Server:
    """A server that stays where its URL says."""

    moves = False  # whether another server may come to hold the keys

    def __init__(self, url: str) -> None:
        self.url = url

    @property
    def options(self) -> dict[str, Any]:
        """The keywords of a connection to a server that `locate` returns."""
        options: dict[str, Any] = UNNAMED | parse_url(self.url)
        if options.get("connection_class") is SSLConnection:
            _TLS.add(True)
        # The usual parser does not tell MOVED and its like from other errors.
        return options | {"parser_class": ClusterParser} if self.moves else options

    async def locate(self, key: str) -> ServerPlace | None:  # noqa: ARG002 - a server of its own holds all keys
        """Return where the server is that holds a key, None for where the URL says.

        Raises RedisError, OSError, TimeoutError, UnsupportedServer.
        """
        return None

    def forget(self, place: ServerPlace | None) -> None:
        """Note that the server there is gone, or does not hold the keys any more: `locate` has to ask."""

    def client(self, *, timeout_s: float) -> Redis:
        """Return a client; it connects when it is used, and belongs to the caller."""
        times = {"socket_timeout": timeout_s, "socket_connect_timeout": timeout_s}
        pool: Any = BlockingConnectionPool
        return Redis.from_pool(pool(**self.options, **times, timeout=timeout_s, max_connections=CONNECTIONS))


class _Sentinels(Sentinel):
    """redis-py's Sentinel, but it leaves no connection open."""

    def __init__(self, places: Sequence[ServerPlace], options: dict[str, Any]) -> None:
        super().__init__(places, sentinel_kwargs=options)  # type: ignore[no-untyped-call]
        self._turn = asyncio.Lock()

    async def discover_master(self, service_name: str) -> Any:
        async with self._turn:
            try:
                return await super().discover_master(service_name)
            except ResponseError as refusal:
                if "unknown command" not in str(refusal).lower():
                    raise
                raise UnsupportedServer(
                    "ENGRAMQ_REDIS_URL names a Redis that is no Sentinel: begin it with redis:// to use it itself."
                ) from None
            finally:
                for sentinel in self.sentinels:
                    await sentinel.aclose()


class SentinelServer(Server):
    """The master of a service. The Sentinels are asked with each new connection: only they know of a failover."""

    moves = True

    def __init__(self, url: str) -> None:
        self._watched = sentinels_of(url)
        super().__init__(self._watched.master_url)
        self._sentinels = self._connect_sentinels()

    async def locate(self, key: str) -> ServerPlace | None:  # noqa: ARG002 - the master holds all keys
        """Return the master that the Sentinels name; see Server.locate."""
        return ServerPlace(*await self._sentinels.discover_master(self._watched.service))

    def client(self, *, timeout_s: float) -> Redis:
        """Return a client of whatever server is the master; see Server.client."""
        client: Redis = self._connect_sentinels().master_for(
            self._watched.service,
            **_keywords(self.url),
            max_connections=CONNECTIONS,
            socket_timeout=timeout_s,
            socket_connect_timeout=timeout_s,
            retry=Retry(ExponentialBackoff(AGAIN_AT_MOST_S, AGAIN_S / 2), AGAIN),
            retry_on_error=[NotConnected, RedisTimeout],
        )
        return client

    def _connect_sentinels(self) -> _Sentinels:
        times = {"socket_timeout": SENTINEL_S, "socket_connect_timeout": SENTINEL_S}
        return _Sentinels(self._watched.sentinels, _keywords(self._watched.sentinel_url) | times)


class ClusterServer(Server):
    """The masters of a Redis Cluster, each of some keys. All connections of a process share the map of them."""

    moves = True

    def __init__(self, url: str) -> None:
        first, self._seeds = read_servers(url)
        super().__init__(first)
        self._cluster = self._of_redis_py(CONNECT_S / 2)  # for its map alone: it keeps no connection
        self._fresh = False
        self._gone: set[ServerPlace | None] = set()
        self._read_at = -MAP_S  # monotonic, in seconds
        self._turn = asyncio.Lock()

    async def locate(self, key: str) -> ServerPlace | None:
        """Return the master of a key; see Server.locate."""
        async with self._turn:
            if not self._fresh and time.monotonic() >= self._read_at + MAP_S:
                await self._read_map()
        try:
            node = self._cluster.get_node_from_key(key)
        except RedisClusterException:
            node = None
        if node is None:
            self.forget(None)
            raise NoMaster(f"No master of the Redis Cluster holds the slot of {key} now.")
        return ServerPlace(node.host, int(node.port))

    def forget(self, place: ServerPlace | None) -> None:
        """Read the map before it is used again, from another node than the one that is gone."""
        self._fresh = False
        self._gone.add(place)  # for the next reading: one that is under way walks over the nodes

    def client(self, *, timeout_s: float) -> Redis:
        """Return a client of all masters, which has the commands of a single one; see Server.client."""
        client: Any = self._of_redis_py(timeout_s, retry=Retry(ExponentialBackoff(AGAIN_AT_MOST_S, AGAIN_S / 2), AGAIN))
        return client  # type: ignore[no-any-return]

    def _of_redis_py(self, timeout_s: float, *, retry: Retry | None = None) -> RedisCluster:
        cluster: RedisCluster = RedisCluster(
            startup_nodes=[ClusterNode(*seed) for seed in self._seeds],
            **_keywords(self.url),
            require_full_coverage=False,
            connection_error_retry_attempts=0,
            retry=retry,
            socket_timeout=timeout_s,
            socket_connect_timeout=timeout_s,
        )
        return cluster

    async def _read_map(self) -> None:
        nodes = self._cluster.nodes_manager
        seeds, gone, self._gone = nodes.startup_nodes, self._gone, set()
        nodes.startup_nodes = {at: node for at, node in seeds.items() if (node.host, node.port) not in gone} or seeds
        try:
            await nodes.initialize()
        except IndexError:
            raise NoMaster("No slot of the Redis Cluster has a master.") from None
        except RedisClusterException as problem:
            if "Cluster mode is not enabled" in str(problem):
                raise UnsupportedServer(
                    f"The Redis at {self._seeds[0].host}:{self._seeds[0].port} is no cluster: begin ENGRAMQ_REDIS_URL "
                    "with redis:// instead."
                ) from None
            cause = problem.__cause__
            raise cause if isinstance(cause, RedisError | OSError) else NotConnected(str(problem)) from None
        finally:
            await nodes.aclose()
            await nodes.aclose("startup_nodes")
        self._fresh, self._read_at = not self._gone, time.monotonic()  # it may be of before a node went meanwhile


def server_of(redis: str | Server) -> Server:
    """Return where Redis is, by its URL."""
    if not isinstance(redis, str):
        return redis
    return SentinelServer(redis) if is_sentinel(redis) else ClusterServer(redis) if is_cluster(redis) else Server(redis)


async def run(redis: Any, script: Script, keys: Keys, where: Sequence[str], *arguments: str | bytes | int) -> Any:
    """Run a script over keys of a lane; raises one of CLIENT_ERRORS.

    The text goes along each time: it is a few KB, and no NOSCRIPT has to be handled.
    """
    return await redis.eval(script.text, len(where) + len(keys.guard), *where, *keys.guard, *arguments)


_TLS: Final[set[bool]] = set()  # not empty once this process has had to do with TLS


async def let_tls_end() -> None:
    """Give TLS connections that were closed the time to end, before their loop is closed; without any return at once.

    They wait for the server's farewell, and uvloop cannot be closed over one that does.
    """
    if _TLS:
        await asyncio.sleep(FAREWELL_S)


def _keywords(url: str) -> dict[str, Any]:
    """Return the options of a URL, all but its address, as keywords of redis-py's clients."""
    options: dict[str, Any] = UNNAMED | parse_url(url)
    options.pop("host", None), options.pop("port", None)
    if options.pop("connection_class", Connection) is SSLConnection:
        options["ssl"] = True
        _TLS.add(True)
    return options


class ClosedAfterHandshake(NotConnected):
    """A server closed a connection by TLS before it answered anything: with TLS 1.3 it says no more to a client whose
    certificate it does not take, and a proxy says no more whose server is away.
    """


class RedisConnection:
    """A connection that opens itself when it is used. One exchange at a time: the caller sees to that.

    `redis`: a server's URL, or where the server is that has `key` (which may move; it is found again then).
    """

    def __init__(self, redis: str | Server, scripts: Sequence[Script] = (), *, key: str = "") -> None:
        self._server = server_of(redis)
        self._key = key
        pool: Any = ConnectionPool(**self._server.options, socket_connect_timeout=CONNECT_S)
        self._connection: Any = pool.make_connection()
        self._place: ServerPlace | None = None  # where it is connected to, if that may change
        self._scripts = scripts

    async def open(self) -> None:
        """Connect unless connected, check the server's version, load the scripts.

        Raises one of CONNECTION_ERRORS, or UnsupportedServer.
        """
        if self._connection.is_connected:
            # redis-py offers no way to ask whether the server has hung up (its end is read) or the connection was reset
            # (its transport closes). Knowing it before anything is written tells "never sent" from "perhaps carried
            # out"; uvloop raises RuntimeError when one writes to a closed transport.
            if not (self._connection._reader.at_eof() or self._connection._writer.is_closing()):
                return
            await self.close()
        try:
            async with asyncio.timeout(2 * CONNECT_S):
                self._place = await self._server.locate(self._key)
                if self._place is not None:
                    self._connection.host, self._connection.port = self._place
                await self._connection.connect()
                loads = (pack("SCRIPT", "LOAD", script.text) for script in self._scripts)
                info, *_ = await self.exchange([pack("INFO", "server"), *loads])
            if isinstance(info, ResponseError):
                raise info
            check_server(info.decode(), in_cluster=isinstance(self._server, ClusterServer))
        except BaseException as problem:
            await self.close()
            self._server.forget(self._place)
            if isinstance(self._connection, SSLConnection) and str(problem) == _CLOSED:
                raise ClosedAfterHandshake(_CLOSED) from problem
            raise

    async def exchange(self, commands: Sequence[bytes], timeout_s: float = EXCHANGE_S) -> list[Any]:
        """Send packed commands in one write and return their replies; an error reply is a value among them.

        A command for another server is sent there, as long as there is time. Raises one of CONNECTION_ERRORS and closes
        the connection when a reply does not come.
        """
        try:
            async with asyncio.timeout(timeout_s):
                replies = await self._exchange(commands)
                if self._server.moves:
                    await self._send_elsewhere(commands, replies, time.monotonic() + timeout_s - REFUSED_AFTER_S)
        except BaseException:
            # Replies may still arrive whose commands were given up.
            await self.close()
            self._server.forget(self._place)
            raise
        return replies

    async def _exchange(self, commands: Sequence[bytes]) -> list[Any]:
        connection = self._connection
        replies: list[Any] = []
        await connection.send_packed_command(commands)
        while len(replies) < len(commands):
            try:
                replies.append(await connection.read_response())
            except ResponseError as refusal:
                replies.append(refusal)
        return replies

    async def _send_elsewhere(self, commands: Sequence[bytes], replies: list[Any], until: float) -> None:
        """Send what was surely not carried out to where it belongs now, and put its replies in place.

        While a slot moves its commands wait. At `until` the refusals are left as they are.
        """
        pause_s = AGAIN_S
        while places := [place for place, reply in enumerate(replies) if isinstance(reply, ELSEWHERE)]:
            self._server.forget(None)
            if (left_s := until - time.monotonic()) <= 0:
                return
            await asyncio.sleep(min(pause_s, left_s))
            # A slot that moves key by key is there in a moment; a failover takes longer.
            if not isinstance(replies[places[0]], AskError | TryAgainError):
                pause_s = min(2 * pause_s, AGAIN_AT_MOST_S)
            if await self._server.locate(self._key) != self._place:
                await self.close()
            await self.open()
            answers = await self._exchange([commands[place] for place in places])
            for place, answer in zip(places, answers, strict=True):
                replies[place] = answer

    async def missing_rights(self, keys: Keys) -> str:
        """Return what of all that engramq does this user may not do, as a sentence; nothing is carried out.

        Redis looks at a user's rights when a command joins a transaction, which is then discarded; in a cluster before
        it says which server has the key, where this does not follow. The caller closes the connection afterwards: it
        may not be able to discard anything. Raises as `exchange`.
        """
        async with asyncio.timeout(EXCHANGE_S):
            answers = await self._exchange([pack(*command) for command in make_empty_transaction(keys)])
            if not any(isinstance(answer, NoPermissionError) for answer in answers):
                commands = [("MULTI",), *looked_at(keys), ("DISCARD",)]
                answers = await self._exchange([pack(*command) for command in commands])
        return together([refusal_of(answer) for answer in answers if isinstance(answer, NoPermissionError)])

    async def close(self) -> None:
        """Close the connection; using the connection opens it again."""
        writer = self._connection._writer
        await self._connection.disconnect(nowait=True)
        if writer is not None and isinstance(self._connection, SSLConnection):
            # Else TLS waits for the server's farewell, and a loop that is closed meanwhile fails.
            writer.transport.abort()


def pack(*command: str | bytes | int | float) -> bytes:
    """Return a command in the form that Redis reads."""
    packed: bytes = hiredis.pack_command(command)  # type: ignore[arg-type]  # its stub says a tuple of one
    return packed


def pack_script(script: Script, keys: Sequence[str], arguments: Iterable[str | bytes | int | float]) -> bytes:
    """Return the call of a script that the connection has loaded, in the form that Redis reads."""
    packed: bytes = hiredis.pack_command(("EVALSHA", script.sha, len(keys), *keys, *arguments))  # type: ignore[arg-type]  # its stub says a tuple of one
    return packed


def check_server(info: str, *, in_cluster: bool = False) -> None:
    """Raise UnsupportedServer when the server whose `INFO server` this is lacks what the queue needs.

    `in_cluster`: it was found as a node of a cluster.
    """
    found = re.search(r"^redis_version:(\S+)", info, re.MULTILINE)
    version = found[1] if found else "unknown"
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    if numbers < OLDEST_SERVER:
        needed = ".".join(map(str, OLDEST_SERVER))
        raise UnsupportedServer(f"Redis {version} is too old: engramq needs Redis {needed} or later, or Valkey.")
    mode = re.search(r"^(?:redis|server)_mode:(\w+)", info, re.MULTILINE)  # Valkey 9 says server_mode
    if mode is not None and mode[1] == "sentinel":
        raise UnsupportedServer(
            "This is a Redis Sentinel: begin ENGRAMQ_REDIS_URL with redis+sentinel:// (TLS: rediss+sentinel://), and "
            "name behind its address the master that it watches: redis+sentinel://host:port,host:port/NAME."
        )
    if mode is not None and mode[1] == "cluster" and not in_cluster:
        raise UnsupportedServer(
            "This Redis is a node of a Redis Cluster: begin ENGRAMQ_REDIS_URL with redis+cluster:// (TLS: "
            "rediss+cluster://), then host:port of some of its nodes, with commas."
        )


class Lanes:
    """Where Redis is, and the keys of every lane there; shared by all parts of a process.

    The number of lanes changes only while nothing waits in any and nobody uses one: see `require_number`.
    """

    def __init__(self, redis: str | Server, key_prefix: str, count: int = 1) -> None:
        self.server = server_of(redis)
        tagged = count > 1 or isinstance(self.server, ClusterServer)
        self.all = keys_of_lanes(key_prefix, count, tagged=tagged)
        self._prefix = key_prefix
        self._number_key = f"{key_prefix}:lanes"  # string: how many lanes there are; without it one
        self.number_is_right = False  # it is known to be the installation's

    @property
    def first(self) -> Keys:
        """The lane that has what belongs to no namespace."""
        return self.all[0]

    def of(self, namespace: str) -> Keys:
        """Return the lane of a namespace."""
        return self.all[lane_of(namespace, len(self.all))]

    async def require_number(self) -> None:
        """Take the number of lanes for the installation's.

        Raises UnsupportedServer when another number is in use: processes of that number live, or something waits in
        their lanes. Raises one of CONNECTION_ERRORS.
        """
        if self.number_is_right:
            return
        client: Any = self.server.client(timeout_s=_NUMBER_S)
        try:
            known = int(await client.get(self._number_key) or 1)
            if known != len(self.all):
                await self._change_number(client, known)
        finally:
            await client.aclose()
        self.number_is_right = True

    async def _change_number(self, client: Any, known: int) -> None:
        """Write another number than the `known` one, unless something is in those lanes or somebody uses them."""
        jobs = dead = workers = gateways = 0
        tagged = known > 1 or isinstance(self.server, ClusterServer)
        for keys in keys_of_lanes(self._prefix, known, tagged=tagged):
            gateways += await run(client, COUNT_PRESENT, keys, (keys.reply_lists,), round(2 * REGISTER_S))
            for kind in keys.of.values():
                jobs += await client.zcard(kind.mailbox)
                dead += await client.zcard(kind.dead_index)
                workers += await run(client, COUNT_PRESENT, keys, (kind.alive,), round(3 * ALIVE_S))
        counts = {"waiting jobs": jobs, "dead letters": dead, "mailboxes with workers": workers, "gateways": gateways}
        if used := ", ".join(f"{count} {what}" for what, count in counts.items() if count):
            raise UnsupportedServer(
                f"ENGRAMQ_LANES is {len(self.all)}, but this Redis is used with {known}: {used}. Set it to "
                f"{known} until `engramq status` shows nothing that waits and no dead letter, stop all workers and "
                f"gateways, wait {REGISTER_S * 2:.0f} s, then start them with the new number."
            )
        await client.set(self._number_key, len(self.all))


def lanes_of(settings: Settings) -> Lanes:
    """Return the lanes that settings ask for."""
    return Lanes(settings.redis_url, settings.key_prefix, settings.lanes)
