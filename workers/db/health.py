"""What a database refuses, as far as that is known: for logs, readiness and status."""

import logging
import time
from typing import Final, NamedTuple, Protocol

from engramq.schemas.checks import DATABASE_AWAY
from engramq.schemas.faults import EngramqError
from engramq.workers.db.errors import READ_ONLY
from engramq.workers.db.pool import Row, within
from engramq.workers.db.queries import sql

log = logging.getLogger(__name__)

TAKES_WRITES: Final = sql("takes_writes")

LOOK_S: Final = 1.5  # in which a database answers that serves
REFUSED_S: Final = 30.0  # how long a refusal is told that no write since has contradicted
SAY_AGAIN_S: Final = 60.0


class Refusals:
    """What the database refused of late; one per store. Logs it when it begins, and then once a minute."""

    def __init__(self) -> None:
        self._name = ""
        self._at = 0.0
        self._said_at = 0.0

    @property
    def latest(self) -> str:
        """The last refusal as a sentence; nothing when a write has been taken since."""
        return self._name if time.monotonic() < self._at + REFUSED_S else ""

    def note(self, name: str) -> None:
        """Note a refusal; an empty name is none."""
        now = time.monotonic()
        if not name:
            return
        if name != self._name or now >= self._said_at + SAY_AGAIN_S:
            log.error("The database refuses", extra={"error": name})
            self._said_at = now
        self._name, self._at = name, now

    def note_write(self) -> None:
        """Note that a write was taken."""
        self._name = ""


class Health(NamedTuple):
    """What the database refuses, as a sentence (nothing: nothing), and whether it serves reads."""

    refused: str = ""
    reads: bool = True


class Asked(Protocol):
    """What health is asked of: a store."""

    refusals: Refusals

    async def ask(self, query: bytes) -> list[Row]:
        """Return the rows of a query that belongs to no namespace."""

    async def renew(self) -> None:
        """Ask on newer connections from now on."""


async def health_of(store: Asked) -> Health:
    """Return what the database refuses, within LOOK_S. A full disk shows only when somebody has tried to write."""
    try:
        read_only = await within(LOOK_S, _is_read_only(store))
    except TimeoutError:
        return Health(DATABASE_AWAY, reads=False)
    except EngramqError as refusal:
        return Health(refusal.fault.error, reads=False)
    return Health(READ_ONLY if read_only else store.refusals.latest)


async def _is_read_only(store: Asked) -> bool:
    (row,) = await store.ask(TAKES_WRITES)
    if row["read_only"]:  # or was so when this session began
        await store.renew()
        (row,) = await store.ask(TAKES_WRITES)
    return bool(row["read_only"])
