"""Quotas: how many memories, and bytes of their contents and metadata, a namespace and each of its principals may have.

A count looks at every memory, so it is kept for some seconds, and what this process writes is added to it. What would
not fit is counted anew before it is refused: no refusal rests on a count that is older than the command. Others may
exceed a quota by what they write in those seconds. The command's transaction is undone while it waits for a count.
"""

import asyncio
import json
import logging
import math
import time
from collections import Counter, OrderedDict
from collections.abc import Mapping
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

log = logging.getLogger(__name__)

AMOUNTS: Final = sql("stored_amounts")

COUNTED_S: Final = 5.0  # for which a count serves
SHARE: Final = 50  # and for so many times as long as it took, so that counting takes no more than 2 % of the time
FAILED_S: Final = 60.0  # for which nobody counts again when that failed
KEPT: Final = 10_000  # namespaces of which something is known


@dataclass(slots=True, eq=False)
class Amounts:
    """Memories and bytes by principal; None: all together. `ended`: when a transaction committed them, inf: not yet."""

    memories: Counter[str | None] = field(default_factory=Counter)
    bytes: Counter[str | None] = field(default_factory=Counter)
    ended: float = math.inf

    def add(self, principal: str, memories: int, size: int) -> None:
        """Add what a principal has more, or less."""
        for key in (principal, None):
            self.memories[key] += memories
            self.bytes[key] += size


@dataclass(slots=True)
class Known:
    """What is known of a namespace: the last count, when it began, until when it serves, and what was written since."""

    counted: Amounts = field(default_factory=Amounts)
    began: float = -math.inf
    until: float = -math.inf
    failed: bool = False
    written: list[Amounts] = field(default_factory=list)
    counting: asyncio.Lock = field(default_factory=asyncio.Lock)

    def held(self, mine: Amounts, principal: str | None) -> tuple[int, int]:
        """Return the memories and bytes of a principal, None for all; room that others may not make does not count."""
        memories, size = self.counted.memories[principal], self.counted.bytes[principal]
        for amounts in self.written:
            is_sure = amounts is mine or amounts.ended < math.inf
            memories += amounts.memories[principal] if is_sure else max(0, amounts.memories[principal])
            size += amounts.bytes[principal] if is_sure else max(0, amounts.bytes[principal])
        return memories, size

    def end(self, amounts: Amounts, committed: bool) -> None:
        """Note how a transaction that wrote has ended."""
        amounts.ended = time.monotonic()
        if not committed:
            self.written.remove(amounts)


@dataclass(frozen=True, slots=True)
class Quota:
    """The bounds of a namespace, or of a principal; 0 for none. `settings` is what refusals name."""

    settings: str
    memories: int
    bytes: int

    def refusal(self, whose: str, held: tuple[int, int], memories: int, size: int) -> str | None:
        """Return what to say when there would be too much; None when it fits, or no more is asked for."""
        for word, what, bound, has, more in (
            ("MEMORIES", "memories", self.memories, held[0], memories),
            ("BYTES", "bytes of contents and metadata", self.bytes, held[1], size),
        ):
            if bound and more > 0 and has + more > bound:
                return f"{whose} may have {bound} {what} and has {has} ({self.settings}_{word})."
        return None


class Quotas:
    """The quotas of one process, and what it knows of each namespace."""

    def __init__(self, settings: Settings, store: Store) -> None:
        self.of_all = Quota("ENGRAMQ_QUOTA", settings.quota_memories, settings.quota_bytes)
        self.of_principal = Quota(
            "ENGRAMQ_QUOTA_PRINCIPAL", settings.quota_principal_memories, settings.quota_principal_bytes
        )
        self.are_set = any(quota.memories or quota.bytes for quota in (self.of_all, self.of_principal))
        self._store = store
        self._known: OrderedDict[str, Known] = OrderedDict()

    def allowance(self, tx: Transaction, principal: str, since: float) -> "Allowance":
        """Return what a principal may still write in this transaction.

        `since`: when its command was begun, by time.monotonic: no refusal rests on an older count.
        """
        return Allowance(self, tx, principal, since)

    def known(self, namespace: str) -> Known:
        """Return what is known of a namespace."""
        known = self._known.setdefault(namespace, Known())
        self._known.move_to_end(namespace)
        if len(self._known) > KEPT:
            self._known.popitem(last=False)
        return known

    async def count(self, namespace: str, since: float) -> None:
        """Count, unless somebody has since; a count that fails leaves what was known before."""
        known = self.known(namespace)
        async with known.counting:
            began = time.monotonic()
            if known.began >= since:
                return
            try:
                rows = await self._store.read(namespace, lambda tx: tx.rows(AMOUNTS))
            except EngramqError as problem:
                log.warning("A quota was not counted", extra={"namespace": namespace, "error": problem.fault.error})
                known.began, known.until, known.failed = began, began + FAILED_S, True
                return
            now = time.monotonic()
            known.began, known.until, known.failed = began, now + max(COUNTED_S, SHARE * (now - began)), False
            known.counted = Amounts()
            for row in rows:
                known.counted.add(row["principal"], row["memories"], row["bytes"])
            known.written = [amounts for amounts in known.written if amounts.ended > began]


@dataclass(slots=True)
class Allowance:
    """What one transaction takes for what a principal writes; given back when the transaction is undone."""

    quotas: Quotas
    tx: Transaction
    principal: str
    since: float
    taken: Amounts = field(default_factory=Amounts)

    def take(self, memory: NewMemory) -> None:
        """Count a new memory in; raises EngramqError, `quota_exceeded`, and Again when it has to be counted first."""
        if self.quotas.are_set:
            metadata = {} if memory.metadata is UNSET else memory.metadata
            self._take(self.principal, 1, size_of(memory.content, metadata))

    def grow(self, memory: Memory, content: str, metadata: Mapping[str, Any]) -> None:
        """Count in what a memory is to have in the place of what it has, as `take` does.

        It counts as its creator's; whoever writes it must have had room for it too.
        """
        if self.quotas.are_set:
            size = size_of(content, metadata) - size_of(memory.content, memory.metadata)
            self._take(memory.created_by, 0, size)

    def _take(self, owner: str, memories: int, size: int) -> None:
        namespace, now = self.tx.namespace, time.monotonic()
        known = self.quotas.known(namespace)
        refusal = self._refusal(known, owner, memories, size)
        may_be_old = known.began < self.since and not (known.failed and now < known.until)
        if may_be_old and (refusal or now >= known.until):
            raise Again(first=partial(self.quotas.count, namespace, self.since))
        if refusal:
            raise refuse(FaultCode.QUOTA_EXCEEDED, refusal)
        if self.taken not in known.written:
            known.written.append(self.taken)
            self.tx.at_end.append(partial(known.end, self.taken))
        self.taken.add(owner, memories, size)

    def _refusal(self, known: Known, owner: str, memories: int, size: int) -> str | None:
        """Return what to say when one of those who have to have the room does not."""
        asked = [
            ("The namespace", None, self.quotas.of_all),
            ("The principal", self.principal, self.quotas.of_principal),
        ]
        if owner != self.principal:
            asked.append(("The memory's creator", owner, self.quotas.of_principal))
        refusals = (quota.refusal(whose, known.held(self.taken, key), memories, size) for whose, key, quota in asked)
        return next((refusal for refusal in refusals if refusal), None)


def size_of(content: str, metadata: Mapping[str, Any]) -> int:
    """Return the bytes that a memory counts for: of its content, and of its metadata as jsonb writes them."""
    return len(content.encode()) + (len(json.dumps(metadata, ensure_ascii=False).encode()) if metadata else 0)
