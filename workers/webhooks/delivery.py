"""Send what waits in the outbox: webhooks side by side, the messages of each one by one, oldest first.

A message goes only when its receiver has taken it, so it is told at least once: twice where a process dies in between.
A receiver that fails is left alone for a while with all that waits for it.
"""

import logging
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Final
from uuid import UUID

import anyio

from engramq.schemas.faults import EngramqError
from engramq.schemas.settings import Settings, SettingsError
from engramq.workers.db.database import Store
from engramq.workers.db.queries import sql
from engramq.workers.db.transaction import Transaction
from engramq.workers.queue.contract import OutcomeUnknown
from engramq.workers.webhooks.sending import Message, Sender, signing_key

log = logging.getLogger(__name__)

DUE_NAMESPACES: Final = sql("namespaces_to_tell")
DUE: Final = sql("due_messages")
RECEIVED: Final = sql("messages_received")
FAILED: Final = sql("message_failed")
POSTPONED: Final = sql("messages_postponed")
TRIM: Final = sql("trim_messages")

MESSAGES_AT_ONCE: Final = 50  # of one webhook
RECEIVERS_AT_ONCE: Final = 8
PASS_S: Final = 30.0  # after which nothing more is begun, so that others get their turn
DEAD_DAYS: Final = 30
# Seconds from one try to the next; after the last a message is dead. All together 33 hours.
WAITS_S: Final = (5.0, 30.0, 120.0, 600.0, 3_600.0, 21_600.0, 93_600.0)
JITTER: Final = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """What one worker of upkeep does for the webhooks; one per process."""

    store: Store
    settings: Settings
    waits_s: Sequence[float] = WAITS_S
    chance: random.Random = field(default_factory=random.Random)

    async def run(self) -> None:
        """Tell what is due; while the database is away there is nothing to tell."""
        try:
            due = [row["namespace"] for row in await self.store.ask(DUE_NAMESPACES, days=DEAD_DAYS)]
            if due:
                await self._tell(due)
        except (EngramqError, OutcomeUnknown):
            log.warning("No webhook told: the database is away")
        except SettingsError as problem:
            log.error("No webhook told", extra={"problem": str(problem)})

    async def _tell(self, namespaces: Sequence[str]) -> None:
        key = signing_key(self.settings)
        bound = anyio.CapacityLimiter(RECEIVERS_AT_ONCE)
        until = anyio.current_time() + PASS_S
        async with Sender(key, private=self.settings.webhooks_private) as sender, anyio.create_task_group() as tasks:
            for namespace in namespaces:
                for waiting in await self._due(namespace, key.id):
                    tasks.start_soon(self._tell_one, sender, namespace, waiting, bound, until)

    async def _due(self, namespace: str, key_id: str) -> list[list[dict[str, Any]]]:
        """Return the messages of each webhook that are due, and forget those that died long ago."""

        async def work(tx: Transaction) -> list[dict[str, Any]]:
            await tx.send(TRIM, days=DEAD_DAYS)
            return await tx.rows(DUE, limit=MESSAGES_AT_ONCE, key_id=key_id)

        rows = sorted(await self.store.write(namespace, work), key=_webhook)  # stable: still the oldest first
        return [list(waiting) for _, waiting in groupby(rows, key=_webhook)]

    async def _tell_one(
        self,
        sender: Sender,
        namespace: str,
        waiting: Sequence[dict[str, Any]],
        bound: anyio.CapacityLimiter,
        until: float,
    ) -> None:
        """Tell a webhook its messages, up to the first that it does not take."""
        async with bound:
            for row in waiting:
                if anyio.current_time() > until:
                    return
                problem = await sender.tell(_message(row, namespace))
                try:
                    await self._note(namespace, row, problem)
                except (EngramqError, OutcomeUnknown):
                    log.warning("A message of a webhook may be sent again", extra={"message_id": str(row["id"])})
                    return
                if problem is not None:
                    return

    async def _note(self, namespace: str, row: dict[str, Any], problem: str | None) -> None:
        async def received(tx: Transaction) -> None:
            await tx.send(RECEIVED, ids=[row["id"]])

        async def failed(tx: Transaction) -> None:
            await tx.send(FAILED, id=row["id"], problem=problem, wait_s=wait_s)
            await tx.send(POSTPONED, webhook_id=row["webhook_id"], wait_s=behind_s)

        if problem is None:
            await self.store.write(namespace, received)
            return
        tried = row["attempts"]
        wait_s = self._jittered(self.waits_s[tried]) if tried < len(self.waits_s) else None
        behind_s = self._jittered(self.waits_s[0])  # not as long as this one: it may be this one alone
        await self.store.write(namespace, failed)
        about = {"webhook": str(row["webhook_id"]), "message_id": str(row["id"]), "problem": problem}
        log.log(logging.ERROR if wait_s is None else logging.WARNING, "A webhook was not taken", extra=about)

    def _jittered(self, wait_s: float) -> float:
        return wait_s * self.chance.uniform(1 - JITTER, 1 + JITTER)


def _webhook(row: dict[str, Any]) -> UUID:
    webhook_id: UUID = row["webhook_id"]
    return webhook_id


def _message(row: dict[str, Any], namespace: str) -> Message:
    told = {"namespace": namespace, **row["told"]}
    if row["with_content"] and "memory_id" in told:
        told["content"] = row["content"]  # null when it is gone
    return Message(
        id=row["id"], webhook_id=row["webhook_id"], url=row["url"], event=row["event"], at=row["at"], data=told
    )
