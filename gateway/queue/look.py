"""A look at every mailbox: read from Redis in one step, also when Redis takes no writes."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, NamedTuple

from redis.exceptions import RedisError

from engramq.schemas.connection import CONNECTION_ERRORS, RedisConnection, doubt_of, pack, refusal_of
from engramq.schemas.jobs import ALIVE_S
from engramq.schemas.keys import Keys
from engramq.schemas.lanes import Lanes
from engramq.schemas.overview import MailboxState
from engramq.schemas.scripts import LOOK
from engramq.schemas.servers import Server, UnsupportedServer
from engramq.schemas.vocabulary import WorkerKind

SILENT_S: Final = 3 * ALIVE_S  # after which a worker counts as gone
LOOK_S: Final = 2.0
_FIGURES: Final = 5  # of each kind


class Look(NamedTuple):
    """What a look found. `ahead_s`: how far the clock of Redis is ahead of this machine's.

    `refused`: what Redis refuses besides, as a sentence.
    """

    mailboxes: list[MailboxState]
    ahead_s: float
    refused: str = ""


class NoLook(Exception):
    """Redis cannot be looked at; the message is a sentence on why, where it is there and refuses."""


async def look_at(redis: str | Server, keys: Keys) -> Look:
    """Return the state of every mailbox, over a connection of its own: a new one meets what new callers meet.

    Raises NoLook within about 4 s.
    """
    names = [name for of in keys.of.values() for name in (of.mailbox, of.depth, of.rate, of.dead_index, of.alive)]
    names += keys.guard
    look = pack("EVAL", LOOK.text, len(names), *names, SILENT_S)
    async with _connected(redis) as connection:
        found, pong = await connection.exchange([look, pack("PING")], LOOK_S)
    if isinstance(found, RedisError):
        raise NoLook(refusal_of(found))
    now, *figures = found
    states = [_state(kind, *figures[place * _FIGURES : (place + 1) * _FIGURES]) for place, kind in enumerate(keys.of)]
    return Look(states, now / 1000 - time.time(), refusal_of(pong))


async def look_at_former(lanes: Lanes) -> list[Look | NoLook]:
    """Return the state of each lane that is none of these any more and has something, or why it cannot be told."""
    try:
        most = await _number_at(lanes.first.redis, lanes.mark)
    except NoLook:
        return []  # the look at that lane says so
    looks = (look_at(lane.redis, lane.keys) for lane in lanes.former(most).values())
    found: list[Look | NoLook] = []
    for one in await asyncio.gather(*looks, return_exceptions=True):
        if isinstance(one, BaseException):
            if not isinstance(one, NoLook):
                raise one
            found.append(one)
        elif any(state.depth or state.dead for state in one.mailboxes):
            found.append(one)
    return found


async def _number_at(redis: str | Server, key: str) -> int:
    """Return the number at a key, 0 where there is none; raises NoLook."""
    async with _connected(redis) as connection:
        (found,) = await connection.exchange([pack("GET", key)], LOOK_S)
    if isinstance(found, RedisError):
        raise NoLook(refusal_of(found))
    return int(found or 0)


async def missing_rights(redis: str | Server, keys: Keys) -> str:
    """Return what of all that engramq does this user may not do, as a sentence; raises NoLook."""
    async with _connected(redis) as connection:
        return await connection.missing_rights(keys)


@asynccontextmanager
async def _connected(redis: str | Server) -> AsyncIterator[RedisConnection]:
    """Open a connection for a block; NoLook is raised in place of the errors of Redis."""
    connection = RedisConnection(redis)
    try:
        await connection.open()
        yield connection
    except UnsupportedServer as problem:
        raise NoLook(str(problem)) from None
    except CONNECTION_ERRORS as problem:
        raise NoLook(doubt_of(problem)) from problem
    finally:
        await connection.close()


def _state(kind: WorkerKind, depth: int, oldest_ms: int, per_ks: int, dead: int, workers: int) -> MailboxState:
    return MailboxState(
        kind=kind,
        depth=depth,
        oldest_s=oldest_ms / 1000,
        per_s=None if per_ks < 0 else per_ks / 1000,
        dead=dead,
        workers=workers,
    )
