"""Whether calls are answered, and what servers refuse: what /readyz and `engramq status` tell."""

from collections.abc import Callable, Coroutine
from typing import Any, Final, Literal

import msgspec

from engramq.gateway.identity.authorization import Caller
from engramq.gateway.queue.bus import Bus
from engramq.schemas.commands import Ping, Pong
from engramq.schemas.envelope import Answer
from engramq.schemas.faults import EngramqError

READY_S: Final = 2.0  # in which a worker answers


class Health(msgspec.Struct, frozen=True, omit_defaults=True):
    """`unavailable`: calls are not answered, and `missing` names what they lack. `degraded`: reads are, writes are not.

    `refused` holds a sentence on each server that is there and refuses.
    """

    status: Literal["ready", "degraded", "unavailable"]
    missing: list[str] = []
    refused: list[str] = []


AskHealth = Callable[[], Coroutine[Any, Any, Health]]


def health(missing: str = "", *refused: str) -> Health:
    """Return the health that follows from what is missing and what is refused; empty words are none."""
    told = [one for one in refused if one]
    if missing:
        return Health("unavailable", [missing], told)
    return Health("degraded" if told else "ready", refused=told)


async def health_of(bus: Bus, caller: Caller) -> Health:
    """Return the health that a look now finds: of Redis, a worker that answers, and the database, within about 4 s."""
    try:
        await bus.ready()
    except EngramqError as refusal:
        return health("redis", bus.refused and refusal.fault.error)
    asked = Ping(database=True)
    try:
        answer = await bus.ask(asked, namespace=caller.namespace, principal=caller.principal, timeout_s=READY_S)
    except EngramqError:
        return health("redis" if bus.refused else "worker", bus.refused)
    pong = answer.reply if isinstance(answer, Answer) else None
    if not isinstance(pong, Pong):
        return health("worker")
    return health("" if pong.reads else "database", bus.refused, pong.refused)
