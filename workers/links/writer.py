"""Make links that nobody asserts where there is room, let them fade with disuse, and hold the cap for all links.

No end ever has more links than the cap. `make_room_again` keeps it when a memory comes back.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple
from uuid import UUID

import msgspec

from engramq.schemas.faults import EngramqError, FaultCode, refuse
from engramq.schemas.ids import Pair, pair_of, uuid7
from engramq.schemas.records import DisplacedLink
from engramq.schemas.vocabulary import DISPLACEABLE, Linkability, Origin
from engramq.workers.db.errors import Again
from engramq.workers.db.memory_rows import lock
from engramq.workers.db.transaction import Row, Transaction
from engramq.workers.links.rules import Displaced, Full, LinkRules, StoredLink, displacement
from engramq.workers.links.snapshot import LinkTable
from engramq.workers.sectors.decay import LINK_HALF_LIFE_HOURS

AUTOMATIC: Final = (Origin.SIMILARITY, Origin.CO_RETRIEVAL)
DECAYED_AT_ONCE_HOURS: Final = 10.0  # active hours of decay that are written at once: fewer take less than a percent
LEAST_WEIGHT: Final = 0.10  # below, a link that was never counted goes
LOOKED_AT: Final = 1_000  # links of one transaction

_FIRST: Final = UUID(int=0)


class AutomaticLink(NamedTuple):
    """A link that no agent asserts, to be made if there is none yet and there is room."""

    source: UUID
    target: UUID
    relation: str
    weight: float
    origin: Origin

    @property
    def pair(self) -> Pair:
        """The two ends as the link is stored."""
        return pair_of(self.source, self.target)


@dataclass(slots=True)
class AutomaticWritten:
    """The outcome for automatic links: made, there already (in whatever relation), or left out."""

    created: list[AutomaticLink] = field(default_factory=list)
    existing: list[AutomaticLink] = field(default_factory=list)
    skipped: list[AutomaticLink] = field(default_factory=list)


async def write_automatic(tx: Transaction, wanted: Sequence[AutomaticLink], *, rules: LinkRules) -> AutomaticWritten:
    """Make those of these links that may be made, the heaviest first; nothing is refused, only left out.

    Left out are pairs that somebody took away, that are not both active and of one partition, and those without room:
    such a link takes the place only of a lighter one that no agent asserted.
    """
    written = AutomaticWritten()
    if not wanted:
        return written
    pairs = list(dict.fromkeys(link.pair for link in wanted))
    table = await LinkTable.open(tx, {end for pair in pairs for end in pair}, making=pairs)
    for link in sorted(wanted, key=lambda link: (-link.weight, link.pair)):
        if table.link(link.pair) is not None:
            written.existing.append(link)
        elif add_automatic(table, link, rules.cap):
            written.created.append(link)
        else:
            written.skipped.append(link)
    await table.save()
    return written


def add_automatic(table: LinkTable, wanted: AutomaticLink, cap: int) -> bool:
    """Add a link where there is none, if it may be; say whether it was added."""
    source, target = wanted.source, wanted.target
    if source == target or {table.linkability(source), table.linkability(target)} != {Linkability.ACTIVE}:
        return False
    if (
        table.partition(source) != table.partition(target)
        or table.is_buried(wanted.pair)
        or table.are_apart(wanted.pair)
    ):
        return False
    going = room_for(table, wanted.pair, cap, lighter_than=wanted.weight)
    if isinstance(going, Full):
        return False
    for displaced in going:
        table.remove(displaced.link)
    table.put(
        StoredLink(
            id=UUID(uuid7()),
            pair=wanted.pair,
            declared_from=source,
            relation=wanted.relation,
            weight=wanted.weight,
            origin=wanted.origin,
        )
    )
    return True


def room_for(table: LinkTable, pair: Pair, cap: int, *, lighter_than: float = math.inf) -> list[Displaced] | Full:
    """Return which links have to go for one more at both of these ends."""
    held = {end: table.counting(end) for end in pair}
    return displacement(held, dict.fromkeys(held, cap - 1), lighter_than=lighter_than)


def make_room(table: LinkTable, pair: Pair, cap: int) -> list[Displaced]:
    """Remove what has to go for one more link at both of these ends; raises EngramqError with `degree_limit`."""
    going = room_for(table, pair, cap)
    if isinstance(going, Full):
        raise over_cap(going.end, cap)
    for displaced in going:
        table.remove(displaced.link)
    return going


def over_cap(memory_id: UUID, cap: int) -> EngramqError:
    """Return the refusal of a memory whose links may not make room."""
    error = f"Memory {memory_id} is at the cap of {cap} links, and too few of them may be displaced."
    return refuse(FaultCode.DEGREE_LIMIT, error, memory_id=str(memory_id))


async def lock_with_linked(tx: Transaction, memory_id: UUID) -> Row | None:
    """Lock a memory, all that it has links with, and what replaced it, in canonical order; None when it is not there.

    A caller that brings a memory back does this first, then its change, then `make_room_again`. Raises Again when there
    were more of them by the time of the lock.
    """
    seen = await _read_linked(tx, memory_id)
    rows = await lock(tx, memory_id, *seen)
    row = rows.get(memory_id)
    if row is not None and not await _read_linked(tx, memory_id) <= seen:
        raise Again
    return row


async def make_room_again(tx: Transaction, memory_id: UUID, rules: LinkRules) -> list[Displaced]:
    """Remove links so that nobody is above the cap now that a memory, locked with what it is linked with, is back.

    Where one of the others is full the link between both goes if it may, else that one's weakest. A memory that was
    above the cap before only gets no more links. Raises EngramqError with `degree_limit` when too few links may go; the
    memory cannot come back then.
    """
    linked = await _read_linked(tx, memory_id)
    table = await LinkTable.open(tx, {memory_id, *linked})
    if table.linkability(memory_id) is not Linkability.ACTIVE:
        return []
    others = [other for other in table.neighbors(memory_id) if table.linkability(other) is Linkability.ACTIVE]
    links = {end: table.counting(end) for end in (*sorted(others), memory_id)}
    keep = {other: max(rules.cap, len(links[other]) - 1) for other in others} | {memory_id: rules.cap}
    going = displacement(links, keep, first_of=memory_id)
    if isinstance(going, Full):
        raise over_cap(going.end, rules.cap)
    for displaced in going:
        table.remove(displaced.link)
    await table.save()
    return going


async def _read_linked(tx: Transaction, memory_id: UUID) -> set[UUID]:
    return {row["id"] for row in await tx.rows("linked_with", id=memory_id)}


def record_displaced(displaced: Displaced) -> DisplacedLink:
    """Return a link that had to go as replies have it."""
    link = displaced.link
    source = link.declared_from or link.pair[0]
    return DisplacedLink(
        memory_id=str(displaced.end),
        other_id=str(link.other(displaced.end)),
        relation=link.relation,
        weight=link.weight,
        origin=link.origin,
        source_id=str(source),
        target_id=str(link.other(source)),
    )


def audit_displaced(displaced: Sequence[Displaced]) -> list[dict[str, Any]]:
    """Return links that had to go as the audit log keeps them."""
    return [msgspec.to_builtins(record_displaced(link)) for link in displaced]


@dataclass(frozen=True, slots=True)
class Decayed:
    """The work of one transaction of a pass; `after` is where the next one goes on, None at the end."""

    decayed: int
    gone: int
    after: tuple[UUID, UUID] | None


async def decay_links(tx: Transaction, after: tuple[UUID, UUID] | None) -> Decayed:
    """Decay down or remove automatic links among the next LOOKED_AT ones."""
    source, target = after or (_FIRST, _FIRST)
    row = await tx.only_row(
        "decay_links",
        after_source=source,
        after_target=target,
        limit=LOOKED_AT,
        half_life=LINK_HALF_LIFE_HOURS,
        origins=[origin.value for origin in AUTOMATIC],
        relations=[relation.value for relation in DISPLACEABLE],
        step=DECAYED_AT_ONCE_HOURS,
        least=LEAST_WEIGHT,
    )
    unfinished = row["looked_at"] == LOOKED_AT
    after = (row["after_source"], row["after_target"]) if unfinished else None
    return Decayed(row["decayed"], row["gone"], after)


async def clock(tx: Transaction) -> float:
    """Return what the namespace's clock shows, in active hours."""
    row = await tx.only_row("clock_of")
    return float(row["hours"])


async def note_decayed(tx: Transaction, hours: float) -> None:
    """Note that a pass has gone through all links, and what the clock showed when it began."""
    await tx.send("note_decayed", hours=hours)
