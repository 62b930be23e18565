"""Room for a memory that comes back: its links count again, at the memories that they lead to as well."""

from typing import Final
from uuid import UUID

from schemas.vocabulary import Standing
from workers.domain.displacement import Displaced, Full, displacement
from workers.domain.links import LinkRules
from workers.store.errors import Again
from workers.store.link_table import LinkTable
from workers.store.links import over_cap
from workers.store.pool import Row
from workers.store.queries import sql
from workers.store.supersession import lock
from workers.store.transaction import Transaction

LINKED_WITH: Final = sql("linked_with")


async def lock_with_linked(tx: Transaction, memory_id: UUID) -> Row | None:
    """Lock a memory, all that it has links with, and what replaced it, in canonical order; None when it is not there.

    What brings a memory back does this first, then its change, then `make_room_again`. Raises Again when there were
    more of them by the time of the lock.
    """
    seen = await _linked_with(tx, memory_id)
    rows = await lock(tx, memory_id, *seen)
    row = rows.get(memory_id)
    if row is not None and not await _linked_with(tx, memory_id) <= seen:
        raise Again
    return row


async def make_room_again(tx: Transaction, memory_id: UUID, rules: LinkRules) -> list[Displaced]:
    """Remove links so that nobody is above the cap now that a memory, locked with what it is linked with, is back.

    Where one of the others is full the link between both goes if it may, else that one's weakest. Who was above the cap
    before is only kept from getting more. Raises EngramqError with `degree_limit` when too few links may go; the
    memory cannot come back then.
    """
    linked = await _linked_with(tx, memory_id)
    table = await LinkTable.open(tx, {memory_id, *linked})
    if table.standing(memory_id) is not Standing.ACTIVE:
        return []
    others = [one for one in table.neighbors(memory_id) if table.standing(one) is Standing.ACTIVE]
    links = {one: table.counting(one) for one in (*sorted(others), memory_id)}
    keep = {one: max(rules.cap, len(links[one]) - 1) for one in others} | {memory_id: rules.cap}
    going = displacement(links, keep, first_of=memory_id)
    if isinstance(going, Full):
        raise over_cap(going.end, rules.cap)
    for one in going:
        table.remove(one.link)
    await table.save()
    return going


async def _linked_with(tx: Transaction, memory_id: UUID) -> set[UUID]:
    return {row["id"] for row in await tx.rows(LINKED_WITH, id=memory_id)}
