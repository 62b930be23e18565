"""Where Redis is: one server at a fixed address, or the master of some keys, which may be another one at any time.

See schemas/redis_urls.py for how settings say it.
"""

import asyncio
import time
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, Protocol

from redis.asyncio import Connection, ConnectionPool, SSLConnection
from redis.asyncio.cluster import ClusterParser
from redis.asyncio.connection import parse_url
from redis.crc import key_slot
from redis.exceptions import (
    AskError,
    ClusterDownError,
    MovedError,
    ReadOnlyError,
    RedisError,
    ResponseError,
    TryAgainError,
)
from redis.exceptions import ConnectionError as NotConnected

from engramq.schemas.redis_parameters import UNNAMED
from engramq.schemas.redis_urls import Place, several

FAREWELL_S: Final = 0.1
CONNECT_S: Final = 1.0  # to connect, and once more for the handshake
MAP_S: Final = 0.1  # a map that is younger is not asked for anew: many connections find at once that it is wrong

SLOTS: Final = 16_384

# What a server answers that has surely not carried a command out, since its keys are, or will soon be, elsewhere.
# One that became a replica takes no writes.
ELSEWHERE: Final = (AskError, TryAgainError, ClusterDownError, ReadOnlyError)  # MovedError is an AskError


class UnsupportedServer(RuntimeError):
    """The Redis server cannot be used as it is; the message says why and what mends it."""


class NoMaster(RedisError):
    """The servers answer, but none of them is the master of the keys; the message is a sentence."""


class Server(Protocol):
    """Where the server is that holds some keys, as far as that is known.

    url    of one server: scheme, user, password, database and options hold for every server that `locate` returns
    moves  whether another server may come to hold the keys
    """

    url: str
    moves: bool

    async def locate(self) -> Place | None:
        """Return where it is, None for where `url` says; raises RedisError, OSError, TimeoutError, UnsupportedServer.

        `NoMaster` says that there is none now.
        """

    def moved(self, place: Place) -> None:
        """Note that a server has said that another one holds the keys now."""

    def forget(self) -> None:
        """Note that the server is gone, or not the right one any more: `locate` has to ask."""


class FixedServer:
    """A server that stays where its URL says."""

    moves = False

    def __init__(self, url: str) -> None:
        self.url = url

    async def locate(self) -> Place | None:
        """Return None: where the URL says."""
        return None

    def moved(self, place: Place) -> None:
        """Do nothing: such a server holds all keys."""

    def forget(self) -> None:
        """Do nothing: there is nobody to ask."""


class _Map(NamedTuple):
    """What a node of a cluster says of the others: first slot, last slot and master of each range, and all nodes."""

    masters: Sequence[tuple[int, int, Place]]
    nodes: Sequence[Place]

    @property
    def slots(self) -> int:
        """How many slots have a master."""
        return sum(last - first + 1 for first, last, _ in self.masters)


class Cluster:
    """The map of a Redis Cluster, which masters hold which slots; shared by all connections of a process."""

    def __init__(self, url: str) -> None:
        self.url, self._seeds = several(url)
        self._nodes = list(self._seeds)  # to be asked, in this order
        self._map = _Map((), ())
        self._told_by = self._seeds[0]
        self._moved: dict[int, Place] = {}  # what the map does not know yet, by slot
        self._fresh = False
        self._asked_at = -MAP_S  # monotonic, in seconds
        self._turn = asyncio.Lock()

    async def locate(self, slot: int) -> Place:
        """Return the master of a slot; see Server.locate."""
        if not self._is_usable():
            async with self._turn:
                if not self._is_usable():
                    await self._ask()
        if slot in self._moved:
            return self._moved[slot]
        for first, last, place in self._map.masters:
            if first <= slot <= last:
                return place
        self.forget()
        raise NoMaster(f"No master of the Redis Cluster holds slot {slot} now.")

    def moved(self, slot: int, place: Place) -> None:
        """Note the new master of a slot."""
        self._moved[slot] = place

    def forget(self) -> None:
        """Ask for the map before it is used again, and another node first: this one's may stay wrong."""
        if self._fresh:
            self._fresh = False
            self._ask_last(self._told_by)

    def _is_usable(self) -> bool:
        return self._fresh or time.monotonic() < self._asked_at + MAP_S

    async def _ask(self) -> None:
        """Ask the nodes in turn until one knows a master of every slot; else the map with the most slots counts.

        One that does not answer or knows less goes to the end: it may stand alone, outside the cluster.
        """
        problem: BaseException | None = None
        best: _Map | None = None
        for node in list(self._nodes):
            try:
                async with asyncio.timeout(CONNECT_S):
                    found = await _ask_for_map(self.url, node)
            except (RedisError, OSError, TimeoutError) as failure:
                problem = failure
                self._ask_last(node)
                continue
            if best is None or found.slots > best.slots:
                best, self._told_by = found, node
            if found.slots == SLOTS:
                break
            self._ask_last(node)
        if best is None:
            raise problem or NotConnected("no node of the Redis Cluster answers")
        self._map, self._fresh, self._asked_at = best, True, time.monotonic()
        self._moved.clear()
        self._know(best)

    def _know(self, found: _Map) -> None:
        """Keep in their order the nodes that may be asked; whoever is not in a whole map is gone."""
        nodes = dict.fromkeys((self._told_by, *found.nodes, *self._seeds))
        kept = [node for node in self._nodes if node in nodes or found.slots < SLOTS]
        self._nodes = list(dict.fromkeys((*kept, *nodes)))

    def _ask_last(self, node: Place) -> None:
        if node in self._nodes:
            self._nodes.remove(node)
            self._nodes.append(node)


class ClusterServer:
    """The master of the slot of a key, and so of all keys with the same hash tag."""

    moves = True

    def __init__(self, cluster: Cluster, key: str) -> None:
        self.url = cluster.url
        self.slot = slot_of(key)
        self._cluster = cluster

    async def locate(self) -> Place | None:
        """Return the master of the slot; see Server.locate."""
        return await self._cluster.locate(self.slot)

    def moved(self, place: Place) -> None:
        """Note the new master, which MOVED names."""
        self._cluster.moved(self.slot, place)

    def forget(self) -> None:
        """Have the map asked for anew."""
        self._cluster.forget()


def slot_of(key: str) -> int:
    """Return the slot of a key, as a Redis Cluster counts it: CRC16 of its hash tag, or of all of it."""
    return int(key_slot(key.encode()))


class _Located:
    """What finds its server each time it connects; the keyword `server` says how."""

    def __init__(self, *, server: Server, **options: Any) -> None:
        self._server = server
        super().__init__(**options)

    async def connect(self) -> None:
        connection: Any = self
        if connection.is_connected:
            return
        place = await self._server.locate()
        if place is not None:
            connection.host, connection.port = place
        try:
            await super().connect()  # type: ignore[misc]  # of the class that this one stands before
        except BaseException:  # a server that hangs is given up by whoever waits: CancelledError
            self._server.forget()
            raise

    async def read_response(self, *arguments: Any, **options: Any) -> Any:
        """Return a reply; a server that says that it has the keys no more is noted, as is one that does not answer."""
        connection: Any = self
        try:
            return await super().read_response(*arguments, **options)  # type: ignore[misc]  # as above
        except MovedError as refusal:
            # Without a name of its host the new master is where this one is.
            self._server.moved(Place(refusal.host or connection.host, refusal.port))
            raise
        except ResponseError as refusal:
            if isinstance(refusal, ClusterDownError | ReadOnlyError):
                self._server.forget()
            raise
        except BaseException:
            self._server.forget()
            raise


class _LocatedConnection(_Located, Connection):
    pass


class _LocatedSsl(_Located, SSLConnection):
    pass


_TLS: Final[set[bool]] = set()  # not empty once this process has had to do with TLS


async def let_tls_end() -> None:
    """Give TLS connections that were closed the time to end, before their loop is closed; without any return at once.

    They wait for the server's farewell, and uvloop cannot be closed over one that does.
    """
    if _TLS:
        await asyncio.sleep(FAREWELL_S)


def connection_options(redis: "str | Server") -> dict[str, Any]:
    """Return the keywords of a pool whose connections go to this server, wherever it is when they connect."""
    options: dict[str, Any] = UNNAMED | parse_url(redis if isinstance(redis, str) else redis.url)
    if options.get("connection_class") is SSLConnection:
        _TLS.add(True)
    if not isinstance(redis, str) and redis.moves:
        secure = options.pop("connection_class", Connection) is SSLConnection
        connection_class = _LocatedSsl if secure else _LocatedConnection
        # The usual parser does not tell MOVED and its like from other errors.
        options |= {"connection_class": connection_class, "server": redis, "parser_class": ClusterParser}
    return options


async def _ask_for_map(url: str, node: Place) -> _Map:
    options: dict[str, Any] = (
        UNNAMED
        | parse_url(url)
        | {
            "host": node.host,
            "port": node.port,
            "socket_connect_timeout": CONNECT_S,
        }
    )
    pool: Any = ConnectionPool(**options)
    connection = pool.make_connection()
    try:
        await connection.connect()
        await connection.send_command("CLUSTER", "SLOTS")
        found: Sequence[Any] = await connection.read_response()
    except ResponseError as refusal:
        if "cluster support disabled" in str(refusal):
            error = (
                f"The Redis at {node.host}:{node.port} is no cluster: begin ENGRAMQ_REDIS_URL with redis:// instead."
            )
            raise UnsupportedServer(error) from None
        raise
    finally:
        await connection.disconnect(nowait=True)
    return _Map(
        [(first, last, _place(master, node)) for first, last, master, *_ in found],
        [_place(one, node) for _, _, *nodes in found for one in nodes],
    )


def _place(told: Sequence[Any], node: Place) -> Place:
    """Return where a node is; one without a name of its host is where the one is that tells of it."""
    return Place(_text(told[0]) or node.host, told[1])


def _text(host: bytes | str | None) -> str:
    """Return the name of a host; nothing where the node does not know its own."""
    return host.decode() if isinstance(host, bytes) else host or ""
