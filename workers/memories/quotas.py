"""Quotas: how many memories, and bytes of their contents, a namespace and each of its principals may have.

To count costs as much as a look at every memory, so a count serves for some seconds, in which a process adds what it
stores itself. So a quota is exceeded by no more than other processes store in these seconds, and what is under way.
Before anything is refused it is counted anew, unless that was done within the last second.
"""

import time
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from engramq.schemas.faults import FaultCode, refuse
from engramq.schemas.settings import Settings
from engramq.workers.db.queries import sql
from engramq.workers.db.transaction import Transaction

AMOUNTS: Final = sql("stored_amounts")

COUNTED_S: Final = 5.0  # for which a count serves
SHARE: Final = 50  # and for so many times as long as it took, so that counting takes no more than 2 % of the time
REFUSED_S: Final = 1.0  # how old a count may be that a refusal rests on
KEPT: Final = 10_000  # namespaces whose counts are kept


@dataclass(slots=True)
class Amount:
    """So many memories, and bytes of their contents."""

    memories: int = 0
    bytes: int = 0

    def add(self, memories: int, size: int) -> None:
        """Count what is about to be stored."""
        self.memories += memories
        self.bytes += size


@dataclass(slots=True)
class Totals:
    """What a namespace has, and each principal in it; `counted` and `until`, how long that serves, by our clock."""

    all: Amount = field(default_factory=Amount)
    of: defaultdict[str, Amount] = field(default_factory=lambda: defaultdict(Amount))
    counted: float = 0.0
    until: float = 0.0

    def add(self, principal: str, memories: int, size: int) -> None:
        """Count what a principal is about to store."""
        for amount in (self.all, self.of[principal]):
            amount.add(memories, size)


@dataclass(frozen=True, slots=True)
class Quota:
    """The bounds of a namespace, or of a principal; 0 for none. `whose` and `settings` are what refusals say."""

    whose: str
    settings: str
    memories: int
    bytes: int

    def refusal(self, held: Amount, memories: int, size: int) -> str | None:
        """Return what to say when there would be too much; None when there is room, or no more is asked for."""
        for word, what, bound, has, more in (
            ("MEMORIES", "memories", self.memories, held.memories, memories),
            ("BYTES", "bytes of contents", self.bytes, held.bytes, size),
        ):
            if bound and more > 0 and has + more > bound:
                return f"{self.whose} may have {bound} {what} and has {has} ({self.settings}_{word})."
        return None


class Quotas:
    """The quotas of one process, and what it has counted."""

    def __init__(self, settings: Settings, clock: Callable[[], float] = time.monotonic) -> None:
        self.of_all = Quota("The namespace", "ENGRAMQ_QUOTA", settings.quota_memories, settings.quota_bytes)
        self.of_one = Quota(
            "The principal",
            "ENGRAMQ_QUOTA_PRINCIPAL",
            settings.quota_principal_memories,
            settings.quota_principal_bytes,
        )
        self.are_set = any(bound for one in (self.of_all, self.of_one) for bound in (one.memories, one.bytes))
        self._clock = clock
        self._known: OrderedDict[str, Totals] = OrderedDict()

    def room(self, tx: Transaction, principal: str) -> "Room":
        """Return the room that there is for what a principal stores in this transaction."""
        return Room(self, tx, principal)

    def known(self, namespace: str, age_s: float | None = None) -> Totals | None:
        """Return the last count of a namespace, if it serves, or is at most so many seconds old."""
        totals, now = self._known.get(namespace), self._clock()
        if totals is None or now >= (totals.until if age_s is None else totals.counted + age_s):
            return None
        return totals

    async def count(self, tx: Transaction) -> Totals:
        """Count what the namespace has."""
        begun, totals = self._clock(), Totals()
        for row in await tx.rows(AMOUNTS):
            totals.add(row["principal"], row["memories"], row["bytes"])
        totals.counted = self._clock()
        totals.until = totals.counted + max(COUNTED_S, SHARE * (totals.counted - begun))
        self._known[tx.namespace] = totals
        self._known.move_to_end(tx.namespace)
        if len(self._known) > KEPT:
            self._known.popitem(last=False)
        return totals


@dataclass(slots=True)
class Room:
    """What one transaction takes for a principal's memories; a count does not see that yet."""

    quotas: Quotas
    tx: Transaction
    principal: str
    taken: Amount = field(default_factory=Amount)

    async def take(self, content: str, *, replaces: str | None = None) -> None:
        """Take room for a memory, or for the content that replaces another; raises EngramqError, `quota_exceeded`."""
        if not self.quotas.are_set:
            return
        memories = 1 if replaces is None else 0
        size = len(content.encode()) - len((replaces or "").encode())
        totals = self.quotas.known(self.tx.namespace) or await self._count()
        if self._refusal(totals, memories, size):
            totals = self.quotas.known(self.tx.namespace, REFUSED_S) or await self._count()
        refusal = self._refusal(totals, memories, size)
        if refusal:
            raise refuse(FaultCode.QUOTA_EXCEEDED, refusal)
        totals.add(self.principal, memories, size)
        self.taken.add(memories, size)

    async def _count(self) -> Totals:
        totals = await self.quotas.count(self.tx)
        totals.add(self.principal, self.taken.memories, self.taken.bytes)
        return totals

    def _refusal(self, totals: Totals, memories: int, size: int) -> str | None:
        of_all = self.quotas.of_all.refusal(totals.all, memories, size)
        return of_all or self.quotas.of_one.refusal(totals.of[self.principal], memories, size)
