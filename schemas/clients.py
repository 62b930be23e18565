"""Clients of redis-py for what is no command of the queue: breadcrumbs, dead letters, looks.

They follow a master that moves: what was surely not carried out, and what met a lost connection, is sent again for a
while. Whoever uses one sends nothing that does harm when it is carried out twice.
"""

from collections.abc import Sequence
from typing import Any, Final

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialBackoff
from redis.exceptions import ConnectionError as NotConnected
from redis.exceptions import RedisError

from engramq.schemas.keys import Keys
from engramq.schemas.scripts import Script
from engramq.schemas.sentinel import server_of
from engramq.schemas.servers import ELSEWHERE, NoMaster, Server, UnsupportedServer, connection_options

# What a client raises whose server is away, or cannot be used or found as the settings say.
CLIENT_ERRORS: Final = (RedisError, OSError, UnsupportedServer)
CONNECTIONS: Final = 16  # of one client; more callers wait for one
AGAIN_S: Final = 0.05  # before what a master refused that lost its keys is sent again; then twice as long each time,
AGAIN_AT_MOST_S: Final = 0.5  # but no longer
AGAIN: Final = 5  # times: 1.25 s in all


def open_client(redis: str | Server, *, timeout_s: float, connections: int = CONNECTIONS) -> Redis:
    """Return a client of this server; it connects when it is used, and belongs to the caller."""
    server = server_of(redis)
    options = connection_options(server) | {"timeout": timeout_s, "max_connections": connections}
    if server.moves:
        options |= {
            "retry": Retry(ExponentialBackoff(AGAIN_AT_MOST_S, AGAIN_S / 2), AGAIN),
            "retry_on_error": [*ELSEWHERE, NoMaster, NotConnected],
        }
    pool = BlockingConnectionPool(
        **options,
        socket_timeout=timeout_s,
        socket_connect_timeout=timeout_s,
    )
    return Redis.from_pool(pool)


async def run(redis: Any, script: Script, keys: Keys, where: Sequence[str], *arguments: str | bytes | int) -> Any:
    """Run a script over keys of a lane; raises one of CLIENT_ERRORS.

    The text goes along each time: it is a few KB, and no NOSCRIPT has to be handled.
    """
    return await redis.eval(script.text, len(where) + len(keys.guard), *where, *keys.guard, *arguments)
