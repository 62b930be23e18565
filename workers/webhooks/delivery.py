"""Send what waits in the outbox: webhooks side by side, the messages of each one by one, oldest first.

A message is gone only when its receiver has taken it, so it is sent at least once: twice where a process dies in
between. A receiver that fails is left alone for a while with all that waits for it. Namespaces take turns: each has few
places at once, and a pass begins with the one that had its last turn longest ago. A turn is noted with its webhook as
it begins, so whichever process makes the next pass, after a restart too, goes on from there.
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
from engramq.workers.db.transaction import Transaction
from engramq.workers.queue.contract import ResultUnknown
from engramq.workers.webhooks.sending import Sender, WebhookMessage, signing_key

log = logging.getLogger(__name__)


MESSAGES_AT_ONCE: Final = 50  # of one webhook
RECEIVERS_AT_ONCE: Final = 8
OF_A_NAMESPACE: Final = 2  # of these
PASS_S: Final = 10.0  # after which nothing more is begun, so that others get their turn
# Seconds from one try to the next; after the last a message is dead. All together 33 hours.
WAITS_S: Final = (5.0, 30.0, 120.0, 600.0, 3_600.0, 21_600.0, 93_600.0)
WAITS_OF_ALL: Final = 4  # of these are for a webhook as a whole: it is tried again after ten minutes at the latest
JITTER: Final = 0.2


@dataclass(slots=True, kw_only=True)
class Delivery:
    """The work of one worker of upkeep for the webhooks; one per process."""

    store: Store
    settings: Settings
    waits_s: Sequence[float] = WAITS_S
    chance: random.Random = field(default_factory=random.Random)

    async def run(self) -> None:
        """Tell what is due."""
        try:
            due = [row["namespace"] for row in await self.store.ask("namespaces_to_tell")]
            if due:
                await self._tell(due)
        except SettingsError as problem:
            log.error("No webhook told", extra={"problem": str(problem)})

    async def _tell(self, namespaces: Sequence[str]) -> None:
        key = signing_key(self.settings)
        everybody = anyio.CapacityLimiter(RECEIVERS_AT_ONCE)
        until = anyio.current_time() + PASS_S
        async with Sender.by_settings(key, self.settings) as sender, anyio.create_task_group() as tasks:
            for namespace in namespaces:
                if anyio.current_time() > until:
                    return
                own = anyio.CapacityLimiter(OF_A_NAMESPACE)
                for waiting in await self.store.apart(namespace, self._due(namespace, key.id), []):
                    tasks.start_soon(self._tell_one, sender, namespace, waiting, (own, everybody), until)

    async def _due(self, namespace: str, key_id: str) -> list[list[dict[str, Any]]]:
        """Return the messages of each webhook that are due."""
        found = await self.store.read(
            namespace, lambda tx: tx.rows("due_messages", limit=MESSAGES_AT_ONCE, key_id=key_id)
        )
        rows = sorted(found, key=_webhook)  # stable: still the oldest first
        return [list(waiting) for _, waiting in groupby(rows, key=_webhook)]

    async def _tell_one(
        self,
        sender: Sender,
        namespace: str,
        waiting: Sequence[dict[str, Any]],
        bounds: tuple[anyio.CapacityLimiter, anyio.CapacityLimiter],
        until: float,
    ) -> None:
        """Tell a webhook its messages, up to the first that it does not take."""
        async with bounds[0], bounds[1]:
            if anyio.current_time() > until or not await self._has_turn(namespace, waiting[0]["webhook_id"]):
                return
            for row in waiting:
                if anyio.current_time() > until:
                    return
                problem = await sender.tell(_message(row, namespace))
                try:
                    await self._note(namespace, row, problem)
                except (EngramqError, ResultUnknown):
                    log.warning("A message of a webhook may be sent again", extra={"message_id": str(row["id"])})
                    return
                if problem is not None:
                    return

    async def _has_turn(self, namespace: str, webhook_id: UUID) -> bool:
        """Note that a webhook has its turn; False where that cannot be noted, nor could what it takes."""
        try:
            await self.store.write(namespace, lambda tx: tx.send("webhook_has_turn", webhook_id=webhook_id))
        except (EngramqError, ResultUnknown):
            log.warning("A webhook gets no message: the database is away", extra={"webhook": str(webhook_id)})
            return False
        return True

    async def _note(self, namespace: str, row: dict[str, Any], problem: str | None) -> None:
        async def received(tx: Transaction) -> None:
            await tx.send("messages_received", ids=[row["id"]])
            if row["failures"]:
                await tx.send("webhook_recovered", webhook_id=row["webhook_id"])

        async def failed(tx: Transaction) -> list[dict[str, Any]]:
            waits_s, most = [self._jitter(wait_s) for wait_s in self.waits_s], min(WAITS_OF_ALL, len(self.waits_s))
            about = {"id": row["id"], "webhook_id": row["webhook_id"], "problem": problem}
            return await tx.rows("webhook_failed", waits_s=waits_s, most=most, **about)

        if problem is None:
            await self.store.write(namespace, received)
            return
        about = {"webhook": str(row["webhook_id"]), "message_id": str(row["id"]), "problem": problem}
        log.warning("A webhook was not taken", extra=about)
        if dead := [str(given_up["id"]) for given_up in await self.store.write(namespace, failed)]:
            log.error("Messages of a webhook were given up", extra={"webhook": about["webhook"], "messages": dead})

    def _jitter(self, wait_s: float) -> float:
        return wait_s * self.chance.uniform(1 - JITTER, 1 + JITTER)


def _webhook(row: dict[str, Any]) -> UUID:
    webhook_id: UUID = row["webhook_id"]
    return webhook_id


def _message(row: dict[str, Any], namespace: str) -> WebhookMessage:
    told = {"namespace": namespace, **row["told"]}
    if row["with_content"] and "memory_id" in told:
        told["content"] = row["content"]  # null when it is gone
    return WebhookMessage(
        id=row["id"], webhook_id=row["webhook_id"], url=row["url"], event=row["event"], at=row["at"], data=told
    )
