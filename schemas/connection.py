"""One connection to Redis, used bare: packed commands out, that many replies back.

redis-py's client costs more than the round trip itself; its Connection (handshake, TLS, authentication, parser)
does not. Both halves of the queue use this one; it is the only module of the contract that does I/O.
"""

import asyncio
import logging
import re
import time
from collections.abc import Iterable, Sequence
from typing import Any, Final

import hiredis
from redis.asyncio import ConnectionPool
from redis.exceptions import (
    AuthenticationError,
    BusyLoadingError,
    MasterDownError,
    MaxConnectionsError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
)

from engramq.schemas.scripts import Script

CONNECT_S: Final = 1.0  # to connect, and once more for the handshake
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
    NoPermissionError: "Redis does not let this user do that.",
    BusyLoadingError: "Redis is still loading its data.",
    MaxConnectionsError: "Redis has no connection left.",
}
_REFUSAL_WORDS: Final = {
    "MISCONF": "Redis cannot write to its disk.",
    "NOREPLICAS": "Redis has too few replicas to take writes.",
    "NOAUTH": _NOT_LET_IN,
    "Authentication": _NOT_LET_IN,  # required: as the driver's faster parser has it
    "DENIED": "Redis does not take connections from here.",
}
SAY_AGAIN_S: Final = 60.0


def refusal_of(problem: object) -> str:
    """Return what a server refuses, as a sentence; nothing where it cannot be reached or made another error."""
    for kind, name in _REFUSALS.items():
        if isinstance(problem, kind):
            return name
    return _REFUSAL_WORDS.get(str(problem).partition(" ")[0], "") if isinstance(problem, RedisError) else ""


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


class UnsupportedServer(RuntimeError):
    """The Redis server is too old; the message names its version."""


class RedisConnection:
    """A connection that opens itself when it is used. One exchange at a time: the caller sees to that."""

    def __init__(self, redis_url: str, scripts: Sequence[Script] = ()) -> None:
        pool: Any = ConnectionPool.from_url(redis_url, socket_connect_timeout=CONNECT_S)
        self._connection: Any = pool.make_connection()
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
                await self._connection.connect()
                loads = (pack("SCRIPT", "LOAD", script.text) for script in self._scripts)
                info, *_ = await self.exchange([pack("INFO", "server"), *loads])
            if isinstance(info, ResponseError):
                raise info
            check_server(info.decode())
        except BaseException:
            await self.close()
            raise

    async def exchange(self, commands: Sequence[bytes], timeout_s: float = EXCHANGE_S) -> list[Any]:
        """Send packed commands in one write and return their replies; an error reply is a value among them.

        Raises one of CONNECTION_ERRORS and closes the connection when a reply does not come.
        """
        connection = self._connection
        replies: list[Any] = []
        try:
            async with asyncio.timeout(timeout_s):
                await connection.send_packed_command(commands)
                while len(replies) < len(commands):
                    try:
                        replies.append(await connection.read_response())
                    except ResponseError as refusal:
                        replies.append(refusal)
        except BaseException:
            # Replies may still arrive whose commands were given up.
            await self.close()
            raise
        return replies

    async def close(self) -> None:
        """Close the connection; using the connection opens it again."""
        await self._connection.disconnect(nowait=True)


def pack(*command: str | bytes | int | float) -> bytes:
    """Return a command in the form that Redis reads."""
    packed: bytes = hiredis.pack_command(command)  # type: ignore[arg-type]  # its stub says a tuple of one
    return packed


def pack_script(script: Script, keys: Sequence[str], arguments: Iterable[str | bytes | int | float]) -> bytes:
    """Return the call of a script that the connection has loaded, in the form that Redis reads."""
    packed: bytes = hiredis.pack_command(("EVALSHA", script.sha, len(keys), *keys, *arguments))  # type: ignore[arg-type]  # its stub says a tuple of one
    return packed


def check_server(info: str) -> None:
    """Raise UnsupportedServer when the server whose `INFO server` this is lacks what the queue needs."""
    found = re.search(r"^redis_version:(\S+)", info, re.MULTILINE)
    version = found[1] if found else "unknown"
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    if numbers < OLDEST_SERVER:
        needed = ".".join(map(str, OLDEST_SERVER))
        raise UnsupportedServer(f"Redis {version} is too old: engramq needs Redis {needed} or later, or Valkey.")
