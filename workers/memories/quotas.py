"""Quotas: how many memories, and bytes of their contents and metadata, a namespace and each of its principals may have.

To count takes a look at every memory. So a count serves for some seconds, to which a process adds what it writes
itself: others may exceed a quota by what they write in that time. What does not fit by that is decided by a count that
began after the command did, and by that alone: what transactions under way have taken is waited for, not held against
anybody. Whoever needs a count undoes its transaction first, so that a count holds up nothing and no lock.
"""

import asyncio
import json
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from msgspec import UNSET

from engramq.schemas.commands import NewMemory
from engramq.schemas.faults import EngramqError, FaultCode, refuse
from engramq.schemas.records import Memory
from engramq.schemas.settings import Settings
from engramq.workers.db.database import Store
from engramq.workers.db.errors import Again
from engramq.workers.db.queries import sql
from engramq.workers.db.transaction import Transaction
from engramq.workers.memories.tallies import Amount, Known, Taking, Tally

log = logging.getLogger(__name__)

AMOUNTS: Final = sql("stored_amounts")

COUNTED_S: Final = 5.0  # for which a count serves
SHARE: Final = 50  # and for so many times as long as it took, so that counting takes no more than 2 % of the time
FAILED_S: Final = 60.0  # for which nobody counts again when that failed
WAIT_S: Final = 2.0  # for a count; then what was known before decides
OTHERS_S: Final = 0.5  # for what others have under way, each time
KEPT: Final = 10_000  # namespaces of which something is known

Held = Callable[[Taking, str | None], Amount]


@dataclass(frozen=True, slots=True)
class Quota:
    """The bounds of a namespace, or of a principal; 0 for none. `settings` is what refusals name."""

    settings: str
    memories: int
    bytes: int

    def refusal(self, whose: str, held: Amount, memories: int, size: int) -> str | None:
        """Return what to say when there would be too much; None when there is room, or no more is asked for."""
        for word, what, bound, has, more in (
            ("MEMORIES", "memories", self.memories, held.memories, memories),
            ("BYTES", "bytes of contents and metadata", self.bytes, held.bytes, size),
        ):
            if bound and more > 0 and has + more > bound:
                return f"{whose} may have {bound} {what} and has {has} ({self.settings}_{word})."
        return None


class Quotas:
    """The quotas of one process, and what it knows of each namespace."""

    def __init__(self, settings: Settings, store: Store) -> None:
        self.of_all = Quota("ENGRAMQ_QUOTA", settings.quota_memories, settings.quota_bytes)
        self.of_one = Quota(
            "ENGRAMQ_QUOTA_PRINCIPAL", settings.quota_principal_memories, settings.quota_principal_bytes
        )
        self.are_set = any(bound for one in (self.of_all, self.of_one) for bound in (one.memories, one.bytes))
        self._store = store
        self._known: OrderedDict[str, Known] = OrderedDict()

    def room(self, tx: Transaction, principal: str, since: float) -> "Room":
        """Return the room that there is for what a principal writes in this transaction.

        `since`: when its command was begun, by time.monotonic: no refusal rests on an older count.
        """
        return Room(self, tx, principal, since)

    def known(self, namespace: str) -> Known:
        """Return what is known of a namespace."""
        known = self._known.setdefault(namespace, Known())
        self._known.move_to_end(namespace)
        if len(self._known) > KEPT:
            self._known.popitem(last=False)
        return known

    def count(self, namespace: str) -> asyncio.Task[None]:
        """Return the count that is under way, or begin one."""
        known = self.known(namespace)
        if known.count is None or known.count.done():
            known.begin(time.monotonic())
            known.count = asyncio.create_task(self._count(namespace, known))
        return known.count

    async def counted(self, namespace: str, since: float) -> None:
        """Wait for a count that began after `since`, but not for long."""
        known = self.known(namespace)
        under_way = known.count is not None and not known.count.done()
        began = known.count_began if under_way else time.monotonic()
        try:
            async with asyncio.timeout_at(asyncio.get_running_loop().time() + began + WAIT_S - time.monotonic()):
                while max(known.began, known.missed) < since:
                    await asyncio.shield(self.count(namespace))
        except TimeoutError:
            known.missed = time.monotonic()
            log.warning("A quota rests on an old count", extra={"namespace": namespace})

    async def others_ended(self, namespace: str) -> None:
        """Wait until the transactions that have taken something end, but not for long, and count what they wrote."""
        known = self.known(namespace)
        waits = [asyncio.create_task(one.ended.wait()) for one in known.open]
        if waits:
            _, late = await asyncio.wait(waits, timeout=OTHERS_S)
            for one in late:
                one.cancel()
        await self.counted(namespace, known.ended)

    async def _count(self, namespace: str, known: Known) -> None:
        """Count in a transaction of its own; a statement's bound of time is its bound."""
        counted = None
        try:
            rows = await self._store.read(namespace, lambda tx: tx.rows(AMOUNTS))
            counted = Tally.counted((row["principal"], row["memories"], row["bytes"]) for row in rows)
        except EngramqError as problem:
            log.warning("A quota was not counted", extra={"namespace": namespace, "error": problem.fault.error})
        finally:
            now = time.monotonic()
            rest_s = FAILED_S if counted is None else max(COUNTED_S, SHARE * (now - known.count_began))
            known.finish(counted, now, rest_s)


@dataclass(slots=True)
class Room:
    """What one transaction takes for what a principal writes; given back when the transaction is undone."""

    quotas: Quotas
    tx: Transaction
    principal: str
    since: float
    taking: Taking = field(default_factory=Taking)

    def take(self, memory: NewMemory) -> None:
        """Take room for a memory; raises EngramqError, `quota_exceeded`, and Again when it has to be counted first."""
        if self.quotas.are_set:
            metadata = {} if memory.metadata is UNSET else memory.metadata
            self._take(self.principal, 1, size_of(memory.content, metadata))

    def grow(self, memory: Memory, content: str, metadata: Mapping[str, Any]) -> None:
        """Take room for what a memory is to have in the place of what it has, as `take` does.

        It counts as its creator's; whoever writes it must have had room for it too.
        """
        if self.quotas.are_set:
            size = size_of(content, metadata) - size_of(memory.content, memory.metadata)
            self._take(memory.created_by, 0, size)

    def _take(self, owner: str, memories: int, size: int) -> None:
        quotas, namespace = self.quotas, self.tx.namespace
        known, now = quotas.known(namespace), time.monotonic()
        resting = known.failed and now < known.until
        is_fresh = known.began >= self.since
        is_missed = resting or known.missed >= self.since
        if known.is_counted and now >= known.until:
            quotas.count(namespace)  # for whoever comes next
        refusal = self._refusal(known.possible, owner, memories, size)
        if not (is_fresh or is_missed) and (refusal or not known.is_counted):
            raise Again(first=partial(quotas.counted, namespace, self.since))
        if refusal and is_fresh:
            refusal = self._refusal(known.certain, owner, memories, size)
            if refusal is None:
                raise Again(first=partial(quotas.others_ended, namespace))
        if refusal:
            raise refuse(FaultCode.QUOTA_EXCEEDED, refusal)
        self._note(known, owner, memories, size)

    def _refusal(self, held: Held, owner: str, memories: int, size: int) -> str | None:
        """Return what to say when one of those who have to have the room does not."""
        of_all, of_one = self.quotas.of_all, self.quotas.of_one
        refusal = of_all.refusal("The namespace", held(self.taking, None), memories, size)
        refusal = refusal or of_one.refusal("The principal", held(self.taking, self.principal), memories, size)
        if refusal is None and owner != self.principal:
            refusal = of_one.refusal("The memory's creator", held(self.taking, owner), memories, size)
        return refusal

    def _note(self, known: Known, owner: str, memories: int, size: int) -> None:
        if self.taking not in known.open:
            known.open.add(self.taking)
            self.tx.at_end.append(partial(known.end, self.taking))
        self.taking.tally.add(owner, memories, size)


def size_of(content: str, metadata: Mapping[str, Any]) -> int:
    """Return the bytes that a memory counts for: of its content, and of its metadata as jsonb writes them."""
    return len(content.encode()) + (len(json.dumps(metadata, ensure_ascii=False).encode()) if metadata else 0)
