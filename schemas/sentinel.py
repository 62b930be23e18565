"""The master that some Redis Sentinels name: another one after a failover."""

import asyncio
from typing import Any, Final

from redis.asyncio import ConnectionPool
from redis.asyncio.connection import parse_url
from redis.exceptions import ConnectionError as NotConnected
from redis.exceptions import RedisError, ResponseError

from engramq.schemas.redis_parameters import UNNAMED
from engramq.schemas.redis_urls import Place, is_sentinel, sentinels_of
from engramq.schemas.servers import CONNECT_S, FixedServer, Server, UnsupportedServer

_GET_MASTER: Final = ("SENTINEL", "GET-MASTER-ADDR-BY-NAME")


class SentinelServer:
    """The master of a service. The Sentinels are asked with each new connection: only they know of a failover."""

    moves = True

    def __init__(self, url: str) -> None:
        self._watched = sentinels_of(url)
        self.url = self._watched.master_url
        self._sentinels = list(self._watched.sentinels)  # to be asked, in this order

    async def locate(self) -> Place | None:
        """Return the master that the Sentinels name; see Server.locate."""
        return await self._ask()

    def moved(self, place: Place) -> None:
        """Do nothing: no server tells of another one."""

    def forget(self) -> None:
        """Do nothing: nothing is kept."""

    async def _ask(self) -> Place:
        """Ask the Sentinels in turn; one that does not answer goes to the end.

        What one says that answers counts for more than that another one is away.
        """
        problem: BaseException | None = None
        for sentinel in list(self._sentinels):
            try:
                async with asyncio.timeout(CONNECT_S):
                    found = await self._ask_one(sentinel)
            except UnsupportedServer as failure:
                problem = failure
                continue
            except (RedisError, OSError, TimeoutError) as failure:
                if not isinstance(problem, UnsupportedServer):
                    problem = failure
                self._sentinels.remove(sentinel)
                self._sentinels.append(sentinel)
                continue
            if found is not None:
                return found
            problem = UnsupportedServer(
                f"The Sentinel at {sentinel.host}:{sentinel.port} knows no master called {self._watched.service!r}: "
                "ENGRAMQ_REDIS_URL names it behind the addresses, redis+sentinel://host:port,host:port/NAME."
            )
        raise problem or NotConnected("no Sentinel answers")

    async def _ask_one(self, sentinel: Place) -> Place | None:
        options: dict[str, Any] = UNNAMED | parse_url(self._watched.sentinel_url)
        options |= {"host": sentinel.host, "port": sentinel.port, "socket_connect_timeout": CONNECT_S}
        pool: Any = ConnectionPool(**options)
        connection = pool.make_connection()
        try:
            await connection.connect()
            await connection.send_command(*_GET_MASTER, self._watched.service)
            found = await connection.read_response()
        except ResponseError as refusal:
            if "unknown command" in str(refusal).lower():
                raise UnsupportedServer(
                    f"The Redis at {sentinel.host}:{sentinel.port} is no Sentinel: begin ENGRAMQ_REDIS_URL with "
                    "redis:// to use it itself."
                ) from None
            raise
        finally:
            await connection.disconnect(nowait=True)
        return None if found is None else Place(found[0].decode(), int(found[1]))


def server_of(redis: str | Server) -> Server:
    """Return where the server is that a URL of one server, or of a service's Sentinels, names."""
    if not isinstance(redis, str):
        return redis
    return SentinelServer(redis) if is_sentinel(redis) else FixedServer(redis)
