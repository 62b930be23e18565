"""Room for a memory that comes back: its links count again, at the memories that they lead to as well."""

from typing import Final
from uuid import UUID

from engramq.schemas.vocabulary import Standing
from engramq.workers.db.errors import Again
from engramq.workers.db.memory_rows import lock
from engramq.workers.db.pool import Row
from engramq.workers.db.queries import sql
from engramq.workers.db.transaction import Transaction
from engramq.workers.links.rules import Displaced, Full, LinkRules, displacement
from engramq.workers.links.snapshot import LinkTable
from engramq.workers.links.writer import over_cap

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
