"""Where Redis is: one server, the master that Sentinels name, or the masters of a Redis Cluster.

redis-py finds it: its Sentinel names the master of a service, its cluster client knows which master has which keys.
schemas/redis_urls.py has the forms of the address. The clients are for what is no command of the queue (breadcrumbs,
dead letters, looks). They send what met a lost connection again for a while, so send nothing by them that does harm
when it is carried out twice.
"""

import asyncio
import time
from collections.abc import Sequence
from typing import Any, Final

from redis.asyncio import BlockingConnectionPool, Connection, Redis, RedisCluster, SSLConnection
from redis.asyncio.cluster import ClusterNode, ClusterParser
from redis.asyncio.connection import parse_url
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel
from redis.backoff import ExponentialBackoff
from redis.exceptions import ConnectionError as NotConnected
from redis.exceptions import RedisClusterException, RedisError, ResponseError
from redis.exceptions import TimeoutError as RedisTimeout

from engramq.schemas.keys import Keys
from engramq.schemas.redis_urls import Place, is_cluster, is_sentinel, sentinels_of, several
from engramq.schemas.scripts import Script

FAREWELL_S: Final = 0.1
CONNECT_S: Final = 1.0  # to find the server and to connect, and once more for the handshake
SENTINEL_S: Final = 0.4  # for one Sentinel: another one is asked then
MAP_S: Final = 0.1  # a map that is younger is not read anew: many connections find at once that it is wrong

CONNECTIONS: Final = 16  # of one client; more callers wait for one
AGAIN_S: Final = 0.05  # before a client sends again; then twice as long each time,
AGAIN_AT_MOST_S: Final = 0.5  # but no longer
AGAIN: Final = 4  # times

# redis-py's clients name the library to the server otherwise, which a user of the least rights may not.
UNNAMED: Final[dict[str, Any]] = {"lib_name": None, "lib_version": None}


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

    async def locate(self, key: str) -> Place | None:  # noqa: ARG002 - a server of its own holds all keys
        """Return where the server is that holds a key, None for where the URL says.

        Raises RedisError, OSError, TimeoutError, UnsupportedServer.
        """
        return None

    def forget(self, place: Place | None) -> None:
        """Note that the server there is gone, or does not hold the keys any more: `locate` has to ask."""

    def client(self, *, timeout_s: float, connections: int = CONNECTIONS) -> Redis:
        """Return a client; it connects when it is used, and belongs to the caller."""
        times = {"socket_timeout": timeout_s, "socket_connect_timeout": timeout_s}
        pool: Any = BlockingConnectionPool
        return Redis.from_pool(pool(**self.options, **times, timeout=timeout_s, max_connections=connections))


class _Sentinels(Sentinel):
    """redis-py's Sentinel, but it leaves no connection open."""

    def __init__(self, places: Sequence[Place], options: dict[str, Any]) -> None:
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
        self._sentinels = self._connected()

    async def locate(self, key: str) -> Place | None:  # noqa: ARG002 - the master holds all keys
        """Return the master that the Sentinels name; see Server.locate."""
        return Place(*await self._sentinels.discover_master(self._watched.service))

    def client(self, *, timeout_s: float, connections: int = CONNECTIONS) -> Redis:
        """Return a client of whatever server is the master; see Server.client."""
        client: Redis = self._connected().master_for(
            self._watched.service,
            **_keywords(self.url),
            max_connections=connections,
            socket_timeout=timeout_s,
            socket_connect_timeout=timeout_s,
            retry=_again(),
            retry_on_error=[NotConnected, RedisTimeout],
        )
        return client

    def _connected(self) -> _Sentinels:
        times = {"socket_timeout": SENTINEL_S, "socket_connect_timeout": SENTINEL_S}
        return _Sentinels(self._watched.sentinels, _keywords(self._watched.sentinel_url) | times)


class ClusterServer(Server):
    """The masters of a Redis Cluster, each of some keys. All connections of a process share the map of them."""

    moves = True

    def __init__(self, url: str) -> None:
        first, self._seeds = several(url)
        super().__init__(first)
        self._cluster = self._of_redis_py(CONNECT_S / 2)  # for its map alone: it keeps no connection
        self._fresh = False
        self._read_at = -MAP_S  # monotonic, in seconds
        self._turn = asyncio.Lock()

    async def locate(self, key: str) -> Place | None:
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
        return Place(node.host, int(node.port))

    def forget(self, place: Place | None) -> None:
        """Read the map before it is used again, from another node than the one that is gone."""
        self._fresh = False
        seeds = self._cluster.nodes_manager.startup_nodes
        if place is not None and len(seeds) > 1:
            seeds.pop(f"{place.host}:{place.port}", None)

    def client(self, *, timeout_s: float, connections: int = CONNECTIONS) -> Redis:  # noqa: ARG002 - it has no bound
        """Return a client of all masters, which has the commands of a single one; see Server.client."""
        client: Any = self._of_redis_py(timeout_s, retry=_again())
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
        self._fresh, self._read_at = True, time.monotonic()


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


async def masters_of(client: Any) -> list[Any]:
    """Return what takes commands for one server each: all masters of a cluster, else the client itself."""
    if not isinstance(client, RedisCluster):
        return [client]
    await client.initialize()
    return list(client.get_primaries())


_TLS: Final[set[bool]] = set()  # not empty once this process has had to do with TLS


async def let_tls_end() -> None:
    """Give TLS connections that were closed the time to end, before their loop is closed; without any return at once.

    They wait for the server's farewell, and uvloop cannot be closed over one that does.
    """
    if _TLS:
        await asyncio.sleep(FAREWELL_S)


def _keywords(url: str) -> dict[str, Any]:
    """Return what a URL says but for the address, as keywords of redis-py's clients."""
    options: dict[str, Any] = UNNAMED | parse_url(url)
    options.pop("host", None), options.pop("port", None)
    if options.pop("connection_class", Connection) is SSLConnection:
        options["ssl"] = True
        _TLS.add(True)
    return options


def _again() -> Retry:
    return Retry(ExponentialBackoff(AGAIN_AT_MOST_S, AGAIN_S / 2), AGAIN)
