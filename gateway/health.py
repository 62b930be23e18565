"""Whether calls are answered, and what servers refuse: what /readyz and a home's supervisor are told."""

from collections.abc import Callable, Coroutine
from typing import Any, Final, Literal

import msgspec

from engramq.schemas.checks import DATABASE_AWAY, REDIS_AWAY, CheckName
from engramq.schemas.overview import Check, MailboxState, Overview

_NEEDED: Final = frozenset({CheckName.REDIS, CheckName.WORKER, CheckName.DATABASE})
_SERVERS: Final = frozenset({CheckName.REDIS, CheckName.DATABASE})
_AWAY: Final = frozenset({REDIS_AWAY, DATABASE_AWAY})


class Health(msgspec.Struct, frozen=True, omit_defaults=True):
    """`unavailable`: calls are not answered, and `missing` names what they lack. `degraded`: reads are.

    `refused` holds a sentence on each server that is there and refuses; `checks` those that did not pass (all, where
    the mailboxes are told too).
    """

    status: Literal["ready", "degraded", "unavailable"]
    missing: list[str] = []
    refused: list[str] = []
    checks: list[Check] = []
    mailboxes: list[MailboxState] = []


AskHealth = Callable[[], Coroutine[Any, Any, Health]]


def health_in(overview: Overview) -> Health:
    """Return what everybody may know of an overview."""
    troubles = [check for check in overview.checks if check.state != "ok"]
    return Health(
        overview.status,
        missing=[check.name for check in troubles if check.state == "failed" and check.name in _NEEDED],
        refused=[check.told for check in troubles if check.name in _SERVERS and check.told not in _AWAY],
        checks=troubles,
    )


def whole_health_in(overview: Overview) -> Health:
    """Return the same with every check and every mailbox: it reads as an Overview too."""
    return msgspec.structs.replace(health_in(overview), checks=overview.checks, mailboxes=overview.mailboxes)
