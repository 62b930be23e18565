"""Hold quotas: how many memories, and how many bytes, a namespace and each of its principals may have.

A count looks at every memory, so it is kept for some seconds, and what this process writes is added to it. A write that
would not fit is counted anew before it is refused: no refusal rests on a count that is older than the command. Others
may exceed a quota by what they write in those seconds. The command's transaction is rolled back while it waits for a
count.
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
from typing import Any, Final, Self

from engramq.schemas.faults import EngramqError, FaultCode, refuse
from engramq.schemas.records import Memory
from engramq.schemas.settings import Settings
from engramq.workers.db.database import Store
from engramq.workers.db.errors import Again
from engramq.workers.db.transaction import Transaction
from engramq.workers.runner import Context

log = logging.getLogger(__name__)


COUNTED_S: Final = 5.0  # for which a count serves
SHARE: Final = 50  # and for so many times as long as it took, so that counting takes no more than 2 % of the time
FAILED_S: Final = 60.0  # for which nobody counts again when that failed
KEPT: Final = 10_000  # namespaces of which something is known
UNITS: Final = {"memories": "memories", "bytes": "bytes of contents and metadata"}
NAMESPACE, PRINCIPAL = "", "principal_"  # before a unit: whose bound it is, in the setting

Amounts = Counter[tuple[str | None, str]]  # by principal, None for all together, and unit


@dataclass(slots=True, eq=False)
class TransactionWrites:
    """The writes of one transaction. `ended`: when it was committed, by time.monotonic; inf: not yet."""

    amounts: Amounts = field(default_factory=Counter)
    ended: float = math.inf


@dataclass(slots=True)
class CountedNamespace:
    """The last count of a namespace, when it began, until when it serves, and what was written since."""

    counted: Amounts = field(default_factory=Counter)
    began: float = -math.inf
    until: float = -math.inf
    failed: bool = False
    written: list[TransactionWrites] = field(default_factory=list)
    counting: asyncio.Lock = field(default_factory=asyncio.Lock)

    def held(self, mine: TransactionWrites, principal: str | None, unit: str) -> int:
        """Return what a principal has, None for all; room that others may not make does not count."""
        key, amount = (principal, unit), self.counted[principal, unit]
        for written in self.written:
            is_sure = written is mine or written.ended < math.inf
            amount += written.amounts[key] if is_sure else max(0, written.amounts[key])
        return amount

    def end(self, written: TransactionWrites, committed: bool) -> None:
        """Note how a transaction that wrote has ended."""
        written.ended = time.monotonic()
        if not committed:
            self.written.remove(written)


class ProcessQuotas:
    """The quotas of one process, and what it knows of each namespace."""

    def __init__(self, settings: Settings, store: Store) -> None:
        self.bounds = settings.quotas
        self.are_set = any(getattr(self.bounds, each + unit) for each in (NAMESPACE, PRINCIPAL) for unit in UNITS)
        self._store = store
        self._namespaces: OrderedDict[str, CountedNamespace] = OrderedDict()

    def namespace(self, name: str) -> CountedNamespace:
        """Return what is known of a namespace."""
        known = self._namespaces.setdefault(name, CountedNamespace())
        self._namespaces.move_to_end(name)
        if len(self._namespaces) > KEPT:
            self._namespaces.popitem(last=False)
        return known

    async def count(self, namespace: str, since: float) -> None:
        """Count, unless somebody has since; a count that fails leaves what was known before."""
        known = self.namespace(namespace)
        async with known.counting:
            began = time.monotonic()
            if known.began >= since:
                return
            try:
                rows = await self._store.read(namespace, lambda tx: tx.rows("stored_amounts"))
            except EngramqError as problem:
                log.warning("A quota was not counted", extra={"namespace": namespace, "error": problem.fault.error})
                known.began, known.until, known.failed = began, began + FAILED_S, True
                return
            now = time.monotonic()
            known.began, known.until, known.failed = began, now + max(COUNTED_S, SHARE * (now - began)), False
            known.counted = Counter()
            for row in rows:
                known.counted += Counter({(who, unit): row[unit] for who in (row["principal"], None) for unit in UNITS})
            known.written = [written for written in known.written if written.ended > began]


@dataclass(slots=True)
class Allowance:
    """The room that one transaction takes of a principal's quotas; given back when it is rolled back.

    `since`: when the command was begun, by time.monotonic.
    """

    quotas: ProcessQuotas
    tx: Transaction
    principal: str
    since: float
    written: TransactionWrites = field(default_factory=TransactionWrites)

    @classmethod
    def of(cls, tx: Transaction, context: Context) -> Self:
        """Return what a command may still write in this transaction."""
        return cls(context.services[ProcessQuotas], tx, context.envelope.principal.name, context.since)

    def take(self, content: str, metadata: Mapping[str, Any]) -> None:
        """Count a new memory in; raises EngramqError, `quota_exceeded`, and Again when it has to be counted first."""
        if self.quotas.are_set:
            self._take(self.principal, {"memories": 1, "bytes": size_of(content, metadata)})

    def grow(self, memory: Memory, content: str, metadata: Mapping[str, Any]) -> None:
        """Count in what a memory is to have in the place of what it has, as `take` does.

        It counts as its creator's; its writer must have room for it too.
        """
        if self.quotas.are_set:
            size = size_of(content, metadata) - size_of(memory.content, memory.metadata)
            self._take(memory.created_by, {"memories": 0, "bytes": size})

    def _take(self, owner: str, added: Mapping[str, int]) -> None:
        namespace, now = self.tx.namespace, time.monotonic()
        known = self.quotas.namespace(namespace)
        refusal = self._refusal(known, owner, added)
        may_be_old = known.began < self.since and not (known.failed and now < known.until)
        if may_be_old and (refusal or now >= known.until):
            raise Again(first=partial(self.quotas.count, namespace, self.since))
        if refusal:
            raise refuse(FaultCode.QUOTA_EXCEEDED, refusal)
        if self.written not in known.written:
            known.written.append(self.written)
            self.tx.at_end.append(partial(known.end, self.written))
        for unit, amount in added.items():
            self.written.amounts[owner, unit] += amount
            self.written.amounts[None, unit] += amount

    def _refusal(self, known: CountedNamespace, owner: str, added: Mapping[str, int]) -> str | None:
        """Return what to say when one of those who have to have the room does not; what asks for no more fits.

        It names no amount that is there: what the caller does not see counts too.
        """
        holders = [("The namespace", None, NAMESPACE), ("The principal", self.principal, PRINCIPAL)]
        if owner != self.principal:
            holders.append(("The memory's creator", owner, PRINCIPAL))
        for whose, holder, prefix in holders:
            for unit, words in UNITS.items():
                bound, has = getattr(self.quotas.bounds, prefix + unit), known.held(self.written, holder, unit)
                if bound and added[unit] > 0 and has + added[unit] > bound:
                    return f"{whose} may have no more than {bound} {words} ({prefix}{unit} in ENGRAMQ_QUOTAS)."
        return None


def size_of(content: str, metadata: Mapping[str, Any]) -> int:
    """Return the bytes that a memory counts for: of its content, and of its metadata as jsonb writes them."""
    return len(content.encode()) + (len(json.dumps(metadata, ensure_ascii=False).encode()) if metadata else 0)
