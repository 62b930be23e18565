"""Add, list and remove webhooks for an operator, and send once more what they did not take."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final
from uuid import UUID, uuid4

from engramq.schemas.ids import uuid7
from engramq.schemas.settings import Settings
from engramq.schemas.vocabulary import AuditAction, WebhookEvent
from engramq.workers.db import audit
from engramq.workers.db.database import Store
from engramq.workers.db.transaction import Transaction
from engramq.workers.webhooks.sending import Sender, WebhookMessage, check_url, signing_key

TEST_EVENT: Final = "webhook.test"


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """The public description of a webhook. `waiting` and `dead` count its messages."""

    id: UUID
    namespace: str
    url: str
    events: list[str]
    with_content: bool
    key_id: str
    created_by: str
    created_at: datetime
    waiting: int
    dead: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadMessage:
    """A message that was not taken in all its tries; `problem` is the last one's."""

    id: UUID
    webhook_id: UUID
    event: str
    at: datetime
    attempts: int
    problem: str | None
    dead_at: datetime


async def add(
    store: Store, settings: Settings, namespace: str, url: str, events: Sequence[WebhookEvent], *, with_content: bool
) -> tuple[UUID, str]:
    """Tell these events to a URL from now on; return the webhook's id and its secret.

    Raises EngramqError for a URL that is none, SettingsError without a key.
    """
    url, key, webhook_id = check_url(url, private=settings.webhooks_private), signing_key(settings), UUID(uuid7())
    words = [event.value for event in dict.fromkeys(events)]

    async def work(tx: Transaction) -> None:
        await tx.row(
            "add_webhook",
            id=webhook_id,
            url=url,
            events=words,
            with_content=with_content,
            key_id=key.id,
            created_by=settings.principal,
        )
        new = {"url": url, "events": words, "with_content": with_content}
        await audit.write(tx, settings.principal, AuditAction.ADD_WEBHOOK, webhook_id, old={}, new=new)

    await store.write(namespace, work)
    return webhook_id, key.secret(webhook_id)


async def list_webhooks(store: Store, namespace: str) -> list[Webhook]:
    """Return the webhooks of a namespace, oldest first."""
    return [Webhook(**row) for row in await store.read(namespace, lambda tx: tx.rows("list_webhooks"))]


async def remove(store: Store, namespace: str, webhook_id: UUID, actor: str) -> bool:
    """Tell a webhook nothing any more, not even what waits; False when there is none of that id."""

    async def work(tx: Transaction) -> bool:
        row = await tx.row("remove_webhook", id=webhook_id)
        if row is not None:
            await audit.write(tx, actor, AuditAction.REMOVE_WEBHOOK, webhook_id, old={"url": row["url"]}, new={})
        return row is not None

    return await store.write(namespace, work)


async def list_dead(store: Store, namespace: str) -> list[DeadMessage]:
    """Return the messages of a namespace that nobody took, oldest first."""
    return [DeadMessage(**row) for row in await store.read(namespace, lambda tx: tx.rows("dead_messages"))]


async def retry(store: Store, namespace: str, wanted: UUID) -> int:
    """Send a dead message once more, or all of a webhook; return how many."""

    async def work(tx: Transaction) -> int:
        row = await tx.row("retry_messages", id=wanted)
        return 0 if row is None else int(row["messages"])

    return await store.write(namespace, work)


async def test(settings: Settings, webhook: Webhook) -> str | None:
    """Send a message that says only that it is a test, now; return None when it was taken, else why not."""
    key = signing_key(settings)
    if key.id != webhook.key_id:
        return "it was added with another ENGRAMQ_WEBHOOKS_KEY than this one"
    message = WebhookMessage(
        id=uuid4(),
        webhook_id=webhook.id,
        url=webhook.url,
        event=TEST_EVENT,
        at=datetime.now(UTC),
        data={"namespace": webhook.namespace},
    )
    async with Sender.by_settings(key, settings) as sender:
        return await sender.tell(message)
