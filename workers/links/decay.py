"""Links that no agent asserted get lighter by the active hours in which nobody uses them, and go in the end."""

from dataclasses import dataclass
from typing import Final
from uuid import UUID

from engramq.schemas.vocabulary import DISPLACEABLE, Origin
from engramq.workers.db.queries import sql
from engramq.workers.db.transaction import Transaction
from engramq.workers.sectors.decay import LINK_HALF_LIFE_HOURS

DECAY: Final = sql("decay_links")
CLOCK: Final = sql("clock_of")
NOTE_DECAYED: Final = sql("note_decayed")

AUTOMATIC: Final = (Origin.SIMILARITY, Origin.CO_RETRIEVAL)
STEP_HOURS: Final = 10.0  # active hours of decay that are written at once: fewer take less than a percent
LEAST_WEIGHT: Final = 0.10  # below, a link that was never counted goes
LOOKED_AT: Final = 1_000  # links of one transaction

_FIRST: Final = UUID(int=0)


@dataclass(frozen=True, slots=True)
class Decayed:
    """What one step of a pass did; `after` is where the next one goes on, None at the end."""

    decayed: int
    gone: int
    after: tuple[UUID, UUID] | None


async def decay(tx: Transaction, after: tuple[UUID, UUID] | None) -> Decayed:
    """Decay down or remove automatic links among the next LOOKED_AT ones."""
    source, target = after or (_FIRST, _FIRST)
    row = await tx.row(
        DECAY,
        after_source=source,
        after_target=target,
        limit=LOOKED_AT,
        half_life=LINK_HALF_LIFE_HOURS,
        origins=[origin.value for origin in AUTOMATIC],
        relations=[relation.value for relation in DISPLACEABLE],
        step=STEP_HOURS,
        least=LEAST_WEIGHT,
    )
    assert row is not None
    more = row["looked_at"] == LOOKED_AT
    return Decayed(row["decayed"], row["gone"], (row["after_source"], row["after_target"]) if more else None)


async def clock(tx: Transaction) -> float:
    """Return what the namespace's clock shows, in active hours."""
    row = await tx.row(CLOCK)
    assert row is not None
    return float(row["hours"])


async def note_decayed(tx: Transaction, hours: float) -> None:
    """Note that a pass has gone through all links, and what the clock showed when it began."""
    await tx.send(NOTE_DECAYED, hours=hours)
