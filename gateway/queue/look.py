"""Read the state of every mailbox from Redis by one script, also when Redis takes no writes."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final, NamedTuple

from redis.exceptions import RedisError

from engramq.schemas.checks import MailboxState
from engramq.schemas.clocks import ahead_s
from engramq.schemas.connection import CONNECTION_ERRORS, Lanes, RedisConnection, Server, UnsupportedServer, pack
from engramq.schemas.keys import Keys
from engramq.schemas.limits import ALIVE_S
from engramq.schemas.redis_problems import doubt_of, refusal_of
from engramq.schemas.scripts import LOOK
from engramq.schemas.vocabulary import WorkerKind

SILENT_S: Final = 3 * ALIVE_S  # after which a worker counts as gone
LOOK_S: Final = 2.0
_FIGURES: Final = 5  # of each kind


class Look(NamedTuple):
    """The result of a look.

    `ahead_s`: how far the clock of Redis is ahead of this machine's; `clocks`: by how much those of processes are ahead
    of its own, which are wrong.

    `refused`: what Redis refuses besides, as a sentence. `away`: that some lanes do not answer, as a sentence.
    """

    mailboxes: list[MailboxState]
    ahead_s: float
    clocks: dict[str, float]
    refused: str = ""
    away: str = ""


class NoLook(Exception):
    """Redis cannot be looked at; the message is a sentence on why, where it is there and refuses."""


async def look_at_mailboxes(lanes: Lanes) -> Look:
    """Return the state of every mailbox, over connections of its own: a new one meets what new callers meet.

    Among several lanes only those that answer count. Raises NoLook within about 4 s, where none does.
    """
    if len(lanes.all) == 1:
        return await _look_at_lane(lanes.server, lanes.first)
    found = await asyncio.gather(*(_look_at_lane(lanes.server, keys) for keys in lanes.all), return_exceptions=True)
    looks = [look for look in found if isinstance(look, Look)]
    for problem in found:
        if isinstance(problem, BaseException) and (not looks or not isinstance(problem, NoLook)):
            raise problem
    away = len(found) - len(looks)
    return Look(
        [_sum(states) for states in zip(*(look.mailboxes for look in looks), strict=True)],
        max((look.ahead_s for look in looks), key=abs),
        {name: ahead for look in looks for name, ahead in look.clocks.items()},
        next((look.refused for look in looks if look.refused), ""),
        f"Redis does not answer for {away} of {len(found)} lanes." if away else "",
    )


async def _look_at_lane(server: Server, keys: Keys) -> Look:
    names = [name for of in keys.of.values() for name in (of.mailbox, of.depth, of.rate, of.dead_index, of.alive)]
    names = [keys.clocks, *names, *keys.guard]
    asked_at = time.time()
    look = pack("EVAL", LOOK.text, len(names), *names, SILENT_S)
    async with _connect(server, keys) as connection:
        found, pong = await connection.exchange([look, pack("PING")], LOOK_S)
    if isinstance(found, RedisError):
        raise NoLook(refusal_of(found))
    now, clocks, *figures = found
    states = [_state(kind, *figures[place * _FIGURES : (place + 1) * _FIGURES]) for place, kind in enumerate(keys.of)]
    wrong = {name.decode(): float(ahead) for name, ahead in zip(clocks[0::2], clocks[1::2], strict=True)}
    return Look(states, ahead_s(now / 1000, asked_at, time.time()), wrong, refusal_of(pong))


async def missing_rights(lanes: Lanes) -> str:
    """Return what of all that engramq does this user may not do, as a sentence; raises NoLook."""
    for keys in lanes.all[:-1]:
        with suppress(NoLook):
            return await _missing_rights(lanes.server, keys)
    return await _missing_rights(lanes.server, lanes.all[-1])


async def _missing_rights(server: Server, keys: Keys) -> str:
    async with _connect(server, keys) as connection:
        return await connection.missing_rights(keys)


@asynccontextmanager
async def _connect(server: Server, keys: Keys) -> AsyncIterator[RedisConnection]:
    """Open a connection for a block; NoLook is raised in place of the errors of Redis."""
    connection = RedisConnection(server, key=keys.prefix)
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


def _sum(states: Sequence[MailboxState]) -> MailboxState:
    """Return the states of a mailbox in all lanes as one; it has as many workers as the lane that has fewest."""
    rates = [state.per_s for state in states if state.per_s is not None]
    return MailboxState(
        kind=states[0].kind,
        depth=sum(state.depth for state in states),
        oldest_s=max(state.oldest_s for state in states),
        per_s=sum(rates) if rates else None,
        dead=sum(state.dead for state in states),
        workers=min(state.workers for state in states),
    )
