"""`engramq webhook`: who is told what, what was not taken, and a test. A secret is shown when a webhook is added."""

import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from engramq.schemas.command_line import ExitCode
from engramq.schemas.ids import format_time
from engramq.schemas.settings import Settings
from engramq.schemas.vocabulary import WebhookEvent
from engramq.workers.cli.running import in_database, require_database, run
from engramq.workers.db.database import Store
from engramq.workers.webhooks import hooks
from engramq.workers.webhooks.hooks import DeadMessage, Webhook


def add_webhook(
    settings: Settings, namespace: str, url: str, events: Sequence[WebhookEvent], *, with_content: bool, as_json: bool
) -> None:
    """Tell these events to a URL and print the secret. Raises CommandFailed, EngramqError, SettingsError."""
    require_database(settings)

    async def add(store: Store) -> tuple[UUID, str]:
        return await hooks.add(store, settings, namespace, url, events, with_content=with_content)

    webhook_id, secret = run(in_database(settings, add))
    if as_json:
        print(msgspec.json.encode({"id": str(webhook_id), "secret": secret}).decode())
        return
    print(f"webhook {webhook_id}: tells {url} of {', '.join(events)} in {namespace}", file=sys.stderr)
    print("This is the secret that its receiver checks signatures with:", file=sys.stderr)
    print(secret)


def list_webhooks(settings: Settings, namespace: str, *, as_json: bool) -> None:
    """Print the webhooks of a namespace. Raises CommandFailed, EngramqError."""
    found = _listed(settings, namespace)
    for one in found:
        print(msgspec.json.encode(_told(one)).decode() if as_json else _line(one))
    if not found and not as_json:
        print("engramq webhook: there are none", file=sys.stderr)


def remove_webhook(settings: Settings, namespace: str, webhook_id: UUID) -> ExitCode:
    """Tell a webhook nothing any more; FAILED when there is none. Raises CommandFailed, EngramqError."""
    require_database(settings)

    async def remove(store: Store) -> bool:
        return await hooks.remove(store, namespace, webhook_id, settings.principal)

    if run(in_database(settings, remove)):
        print(f"webhook {webhook_id}: removed")
        return ExitCode.DONE
    return _unknown(webhook_id, namespace)


def test_webhook(settings: Settings, namespace: str, webhook_id: UUID) -> ExitCode:
    """Send a test message now; FAILED when it was not taken. Raises CommandFailed, EngramqError, SettingsError."""
    known = [one for one in _listed(settings, namespace) if one.id == webhook_id]
    if not known:
        return _unknown(webhook_id, namespace)
    problem = run(hooks.test(settings, known[0]))
    if problem is None:
        print(f"webhook {webhook_id}: the test was taken")
        return ExitCode.DONE
    print(f"engramq webhook: the test was not taken: {problem}", file=sys.stderr)
    return ExitCode.FAILED


def list_dead(settings: Settings, namespace: str, *, as_json: bool) -> None:
    """Print the messages that nobody took. Raises CommandFailed, EngramqError."""
    require_database(settings)

    async def find(store: Store) -> list[DeadMessage]:
        return await hooks.dead(store, namespace)

    messages = run(in_database(settings, find))
    for one in messages:
        told = f"{one.id}  {one.event} of {format_time(one.at)} for webhook {one.webhook_id}: {one.problem}"
        print(msgspec.json.encode(_told(one)).decode() if as_json else told)
    if not messages and not as_json:
        print("engramq webhook: there are none", file=sys.stderr)


def retry_messages(settings: Settings, namespace: str, wanted: UUID) -> ExitCode:
    """Send a dead message once more, or all of a webhook; FAILED when there is none. Raises as the others."""
    require_database(settings)

    async def retry(store: Store) -> int:
        return await hooks.retry(store, namespace, wanted)

    count = run(in_database(settings, retry))
    if count:
        print(f"{count} message{'s' if count > 1 else ''} will be sent once more")
        return ExitCode.DONE
    print(f"engramq webhook: nothing dead has the id {wanted}; engramq webhook dead shows all.", file=sys.stderr)
    return ExitCode.FAILED


def _listed(settings: Settings, namespace: str) -> list[Webhook]:
    require_database(settings)

    async def find(store: Store) -> list[Webhook]:
        return await hooks.listed(store, namespace)

    return run(in_database(settings, find))


def _unknown(webhook_id: UUID, namespace: str) -> ExitCode:
    said = f"there is no webhook {webhook_id} in {namespace}; engramq webhook list shows all."
    print(f"engramq webhook: {said}", file=sys.stderr)
    return ExitCode.FAILED


def _line(webhook: Webhook) -> str:
    parts = [
        str(webhook.id),
        webhook.url,
        ",".join(webhook.events),
        "with content" if webhook.with_content else "",
        f"{webhook.waiting} waiting" if webhook.waiting else "",
        f"{webhook.dead} dead" if webhook.dead else "",
    ]
    return "  ".join(part for part in parts if part)


def _told(one: Webhook | DeadMessage) -> dict[str, Any]:
    return {name: format_time(value) if isinstance(value, datetime) else value for name, value in asdict(one).items()}
