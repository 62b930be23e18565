"""Run periodic work: hand unfinished work on, forget what is out of date, count words for full text.

Namespaces are looked after one by one: where the work of one fails, the next has its turn.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any, Final
from uuid import UUID

from engramq.schemas import limits
from engramq.schemas.faults import EngramqError
from engramq.schemas.limits import MEMORIES_PER_FOLLOW_UP
from engramq.schemas.setting_values import Retention
from engramq.schemas.vocabulary import Partition
from engramq.workers.db import namespaces
from engramq.workers.db.database import Store
from engramq.workers.db.loads import index_loads
from engramq.workers.db.memory_rows import BETWEEN_TURNS_S
from engramq.workers.db.namespaces import Looks
from engramq.workers.db.transaction import Transaction
from engramq.workers.db.viewers import PUBLIC
from engramq.workers.links import co_retrieval, writer
from engramq.workers.memories import change
from engramq.workers.memories.pending import pending_after, pending_contents, request_vectors
from engramq.workers.queue.contract import FollowUp, Periodic, ResultUnknown
from engramq.workers.upkeep.unfinished import BackOff, Unfinished

log = logging.getLogger(__name__)


# Counting every lexeme takes 0.8 s for 100,000 memories; of more the newest are a sample.
LEXEME_SAMPLE: Final = 100_000
COUNTED_FROM: Final = 3_000  # memories; below, full text reads every posting list anyway
RARE: Final = 30  # memories with a lexeme below which it is not worth a row

PENDING_S: Final = 3.0  # a memory younger than this may be in somebody's hands
BATCH: Final = MEMORIES_PER_FOLLOW_UP
BATCHES: Final = 10  # follow-ups of one namespace in a sweep that finds the embedder working
TRIM_EVERY_S: Final = 600.0
TRIMMED_AT_ONCE: Final = 5_000  # rows of one transaction
# What is forgotten, each by its query, after so many days: commands, pairs found together, deletions, ended proposals,
# messages of webhooks that nobody took.
TRIMMED: Final = {
    "ledger_trim": limits.IDEMPOTENCY_DAYS,
    "trim_co_retrieved": co_retrieval.KEPT_DAYS,
    "trim_deleted": limits.DELETED_KEPT_DAYS,
    "trim_proposals": limits.PROPOSAL_DAYS,
    "trim_messages": limits.MESSAGE_DAYS,
}
COUNT_EVERY_S: Final = 300.0
EXPIRE_EVERY_S: Final = 60.0
RETAIN_EVERY_S: Final = 3_600.0  # it looks through all memories
FOLD_EVERY_S: Final = 10.0
MEND_EVERY_S: Final = 86_400.0  # it counts all memories
DECAY_EVERY_S: Final = 900.0
DECAYED_ANEW_HOURS: Final = 1.0  # of active hours, between two passes through the links of a namespace
FIRST: Final = UUID(int=0)


async def trim(tx: Transaction, query: str) -> int:
    """Forget what such a query finds too old, at most TRIMMED_AT_ONCE rows; return how many."""
    row = await tx.only_row(query, days=TRIMMED[query], limit=TRIMMED_AT_ONCE)
    return int(row["trimmed"])


async def is_worth_counting(tx: Transaction, partition: Partition) -> bool:
    """Say whether a partition of the namespace is large enough for counts of its lexemes, or was once."""
    return bool((await tx.only_row("worth_counting", partition=partition, least=COUNTED_FROM))["so"])


async def count_lexemes(tx: Transaction, partition: Partition) -> int:
    """Write anew how many memories of a partition hold each lexeme; return how many lexemes are not rare."""
    await tx.send("forget_lexeme_counts", partition=partition)
    return len(await tx.rows("count_lexemes", partition=partition, sample=LEXEME_SAMPLE, rare=RARE))


def periodic(name: str, every_s: float, work: Callable[[], Awaitable[Any]]) -> Periodic:
    """Return work that is done every so many seconds; what the database refuses waits for its next turn."""

    async def run() -> Any:
        try:
            return await work()
        except (EngramqError, ResultUnknown) as problem:
            code = problem.fault.code if isinstance(problem, EngramqError) else type(problem).__name__
            log.warning("Periodic work waits for its next turn", extra={"schedule": name, "code": code})
            return None

    return Periodic(name, every_s, run)


@dataclass(slots=True)
class SweepProgress:
    """The progress of the last sweeps of a namespace."""

    after: UUID = FIRST  # the sweep goes round, so that memories that cannot be embedded do not block the others
    handed_on: tuple[UUID, ...] = ()
    back_off: BackOff = field(default_factory=BackOff)


@dataclass(frozen=True, slots=True, kw_only=True)
class Upkeep:
    """The scheduled work of one worker of the kind; one per process."""

    store: Store
    unfinished: Unfinished
    interval_s: float
    retention: Sequence[Retention] = ()
    pending_s: float = PENDING_S
    _progress: dict[str, SweepProgress] = field(default_factory=dict)

    async def look(self) -> tuple[FollowUp, ...]:
        """Return the commands that finish what is unfinished, where something changed since all was finished."""
        changed = await namespaces.find_changed(self.store, Looks.SWEEP)
        for gone in self._progress.keys() - changed.keys():
            del self._progress[gone]
        self.unfinished.forget(set(changed))
        found: list[FollowUp] = []
        settled: dict[str, datetime] = {}
        for namespace, seen_at in changed.items():
            unfinished = await self.store.apart(namespace, self._unfinished(namespace, seen_at), None)
            if unfinished is None:
                continue
            found += unfinished
            until = self.unfinished.settled(namespace)
            if until is not None and namespace not in self._progress:
                settled[namespace] = until
        await namespaces.settle(self.store, Looks.SWEEP, settled)
        return tuple(found)

    async def _unfinished(self, namespace: str, seen_at: datetime) -> list[FollowUp]:
        # Pending memories first: one that gets its vector meanwhile is seen by the second look.
        pending = await self._look_at(namespace)
        return [*pending, *await self.unfinished.look_at(namespace, seen_at)]

    async def _look_at(self, namespace: str) -> tuple[FollowUp, ...]:
        progress = self._progress.setdefault(namespace, SweepProgress())
        now = time.monotonic()
        if now < progress.back_off.not_before:
            return ()
        handed_on = progress.handed_on
        waiting = await self.store.read(namespace, lambda tx: pending_contents(tx, handed_on)) if handed_on else []
        stuck = bool(handed_on) and len(waiting) == len(handed_on)
        batches = 1 if stuck else BATCHES
        ids = await self._pending(namespace, progress.after, BATCH * batches)
        if not ids and progress.after != FIRST:
            ids = await self._pending(namespace, FIRST, BATCH * batches)
        progress.after = ids[-1] if len(ids) == BATCH * batches else FIRST
        progress.handed_on = tuple(ids[:BATCH])
        progress.back_off.note(now, stuck=stuck)
        if not ids:
            del self._progress[namespace]
        return request_vectors(namespace, map(str, ids))

    async def _pending(self, namespace: str, after: UUID, limit: int) -> list[UUID]:
        return await self.store.read(
            namespace, lambda tx: pending_after(tx, after, older_than_s=self.pending_s, limit=limit)
        )

    async def trim(self) -> None:
        """Forget what TRIMMED names and is older than it says."""
        kept = {
            "ledger_days": limits.IDEMPOTENCY_DAYS,
            "pair_days": co_retrieval.KEPT_DAYS,
            "graph_days": limits.DELETED_KEPT_DAYS,
            "message_days": limits.MESSAGE_DAYS,
        }
        outdated = await self._named("outdated_namespaces", **kept)
        for query in TRIMMED:  # each apart: where one fails, the others are trimmed
            await self._each(outdated, partial(self._trim, query))

    async def _trim(self, query: str, namespace: str) -> None:
        while await self.store.write(namespace, partial(trim, query=query)) == TRIMMED_AT_ONCE:
            pass

    async def archive_expired(self) -> None:
        """Archive memories that have expired."""
        await self._each(await self._named("expiring_namespaces"), self._archive_expired)

    async def _archive_expired(self, namespace: str) -> None:
        while await self.store.write(namespace, change.archive_expired) == change.EXPIRED_AT_ONCE:
            pass

    async def fold_totals(self) -> None:
        """Add what writers have noted to the totals, so that a count reads few rows."""
        await self._each(await self._named("unfolded_namespaces"), self._fold_totals)

    async def _fold_totals(self, namespace: str) -> None:
        await self.store.write(namespace, lambda tx: tx.only_row("fold_totals", waits=False))

    async def mend_totals(self) -> None:
        """Compare the totals with the memories, and mend them: somebody may have written past the trigger."""
        await self._each(await self._named("uncompared_namespaces"), self._mend_totals)

    async def _mend_totals(self, namespace: str) -> None:
        row = await self.store.write(namespace, lambda tx: tx.only_row("mend_totals"))
        if row["wrong"]:
            log.warning("Totals were wrong and are mended", extra={"count": row["wrong"]})

    async def apply_retention(self) -> None:
        """Give memories that a rule of retention is about a time to expire: older than the rule, or brought back.

        The shortest rule comes first, and what has a time keeps it.
        """
        if self.retention:
            await self._each(await self.store.namespaces(), self._apply_retention)

    async def _apply_retention(self, namespace: str) -> None:
        for rule in self.retention:
            after: UUID | None = FIRST
            while after is not None:
                after = await self.store.write(namespace, partial(change.give_expiry, rule=rule, after=after))
                if after is not None:
                    await asyncio.sleep(BETWEEN_TURNS_S)

    async def index_loads(self) -> None:
        """Build vector indexes anew for bulk loads that are over."""
        if indexed := await index_loads(self.store):
            log.info("Vector index built for bulk loads", extra={"loads": indexed})

    async def decay_links(self) -> None:
        """Let automatic links get lighter by the active hours in which nobody used them, and remove the lightest."""
        await self._each(await self._named("decaying_namespaces", hours=DECAYED_ANEW_HOURS), self._decay_links)

    async def _decay_links(self, namespace: str) -> None:
        hours = await self.store.read(namespace, writer.clock)
        decayed = await self.store.write(namespace, lambda tx: writer.decay_links(tx, None))
        while decayed.after is not None:
            decayed = await self.store.write(namespace, partial(writer.decay_links, after=decayed.after))
        await self.store.write(namespace, partial(writer.note_decayed, hours=hours))

    async def count_lexemes(self) -> None:
        """Count the words of large namespaces that changed, for full text to tell common ones from rare ones."""
        changed = await namespaces.find_changed(self.store, Looks.COUNTS)
        public = self.store.seen_by(PUBLIC)  # else a word would rank by how often others keep it to themselves

        async def count(namespace: str) -> None:
            for partition in Partition:
                if await public.read(namespace, partial(is_worth_counting, partition=partition)):
                    await public.write(namespace, partial(count_lexemes, partition=partition))
            await namespaces.settle(self.store, Looks.COUNTS, {namespace: changed[namespace]})

        await self._each(changed, count)

    async def _each(self, wanted: Iterable[str], work: Callable[[str], Awaitable[None]]) -> None:
        """Do this for namespace by namespace; see `Store.apart`."""
        for namespace in wanted:
            await self.store.apart(namespace, work(namespace), None)

    async def _named(self, query: str, **values: Any) -> list[str]:
        """Return the namespaces that a query of all of them names."""
        return [row["namespace"] for row in await self.store.ask(query, **values)]

    def schedule(self) -> tuple[Periodic, ...]:
        """Return the periodic work. Over a cluster of Citus there are neither bulk loads nor kept totals."""
        single = (
            ()
            if self.store.sharded
            else (
                periodic("index_loads", self.interval_s, self.index_loads),
                periodic("fold_totals", FOLD_EVERY_S, self.fold_totals),
                periodic("mend_totals", MEND_EVERY_S, self.mend_totals),
            )
        )
        return (
            periodic("sweep", self.interval_s, self.look),
            *single,
            periodic("trim", TRIM_EVERY_S, self.trim),
            periodic("archive_expired", EXPIRE_EVERY_S, self.archive_expired),
            periodic("apply_retention", RETAIN_EVERY_S, self.apply_retention),
            periodic("decay_links", DECAY_EVERY_S, self.decay_links),
            periodic("count_lexemes", COUNT_EVERY_S, self.count_lexemes),
        )
