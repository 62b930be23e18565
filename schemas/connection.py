"""One connection to Redis, used bare: packed commands out, that many replies back.

redis-py's client costs more than the round trip itself; its Connection (handshake, TLS, authentication, parser)
does not. Both halves of the queue use this one; with schemas/servers.py it is all of the contract that does I/O.
"""

import asyncio
import logging
import re
import time
from collections.abc import Iterable, Sequence
from typing import Any, Final

import hiredis
from redis.asyncio import ConnectionPool, SSLConnection
from redis.asyncio.sentinel import MasterNotFoundError
from redis.exceptions import (
    AskError,
    AuthenticationError,
    BusyLoadingError,
    ClusterDownError,
    MasterDownError,
    MaxConnectionsError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
    TryAgainError,
)
from redis.exceptions import (
    ConnectionError as ConnectionBroken,
)

from engramq.schemas.keys import Keys
from engramq.schemas.redis_problems import (
    ACL_IN_SCRIPT,
    CLOSES,
    handshake_problem,
    looked_at,
    missing_right,
    together,
    transaction,
)
from engramq.schemas.redis_urls import Place
from engramq.schemas.scripts import Script
from engramq.schemas.servers import CONNECT_S, ClusterServer, NoMaster, Server, UnsupportedServer, server_of

EXCHANGE_S: Final = 5.0  # for the replies to commands that do not block

OLDEST_SERVER: Final = (7, 0)  # BLMPOP came with Redis 7.0

# What an exchange raises when the connection is gone. Whether the server carried the commands out is then unknown.
CONNECTION_ERRORS: Final = (RedisError, OSError, TimeoutError)


_NOT_LET_IN: Final = "Redis wants a password, or another one."
# What a server that is there refuses with: by the driver's class where it has one, else by the answer's first word.
_REFUSALS: Final[dict[type[RedisError], str]] = {
    OutOfMemoryError: "Redis is out of memory.",
    ReadOnlyError: "Redis is a read-only replica.",
    MasterDownError: "Redis is a replica that has lost its master.",
    AuthenticationError: _NOT_LET_IN,
    BusyLoadingError: "Redis is still loading its data.",
    MaxConnectionsError: "Redis has no connection left.",
    ClusterDownError: "The Redis Cluster is down: some of its slots have no master.",
    TryAgainError: "The Redis Cluster is moving the keys to another master.",
    AskError: "The Redis Cluster is moving the keys to another master.",
    NoMaster: "The Redis Cluster is down: some of its slots have no master.",
    MasterNotFoundError: "The Sentinels cannot be reached, or know no master of that name now.",
}
_REFUSAL_WORDS: Final = {
    "MISCONF": "Redis cannot write to its disk.",
    "NOREPLICAS": "Redis has too few replicas to take writes.",
    "NOAUTH": _NOT_LET_IN,
    "Authentication": _NOT_LET_IN,  # required: as the driver's faster parser has it
    "DENIED": "Redis does not take connections from here.",
}
_CLOSED: Final = "Connection closed by server."  # redis-py's words for the end of a stream
SAY_AGAIN_S: Final = 60.0


def refusal_of(problem: object) -> str:
    """Return what a server refuses, as a sentence; nothing where it cannot be reached or made another error."""
    for kind, name in _REFUSALS.items():
        if isinstance(problem, kind):
            return name
    if not isinstance(problem, RedisError):
        return handshake_problem(problem) if isinstance(problem, OSError) else ""
    told = str(problem)
    if isinstance(problem, NoPermissionError) or ACL_IN_SCRIPT in told:
        return missing_right(told)
    return _REFUSAL_WORDS.get(told.partition(" ")[0], "") or handshake_problem(problem)


def doubt_of(problem: object) -> str:
    """Return what a server refuses, or may refuse without saying so: for who looks, not for who decides by it."""
    return refusal_of(problem) or (CLOSES if isinstance(problem, ClosedAfterHandshake) else "")


class RefusalLog:
    """Logs what a server refuses: when that begins, and then once a minute."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._said = ""
        self._said_at = 0.0

    def note(self, problem: object) -> str:
        """Return what is refused, if anything is; see `refusal_of`."""
        name = refusal_of(problem)
        now = time.monotonic()
        if name and (name != self._said or now >= self._said_at + SAY_AGAIN_S):
            self._log.error("Redis refuses", extra={"error": name})
            self._said, self._said_at = name, now
        return name


# What a server answers that has surely not carried a command out, since its keys are, or will soon be, elsewhere. MOVED
# is an AskError; one that became a replica takes no writes.
ELSEWHERE: Final = (AskError, TryAgainError, ClusterDownError, ReadOnlyError)
AGAIN_S: Final = 0.05  # before what belongs elsewhere is sent again; each time twice as long,
AGAIN_AT_MOST_S: Final = 0.5  # but no longer
REFUSED_AFTER_S: Final = 0.3  # of an exchange's time that is left when it is given up, so that the refusal is told


class ClosedAfterHandshake(ConnectionBroken):
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
        self._place: Place | None = None  # where it is connected to, if that may change
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

        What another server has to carry out is sent there, for as long as there is time. Raises one of
        CONNECTION_ERRORS and closes the connection when a reply does not come.
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
            answers = await self._exchange([pack(*command) for command in transaction(keys)])
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
