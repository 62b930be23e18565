"""The options of `engramq webhook`."""

from __future__ import annotations

from uuid import UUID

import click

from engramq.deploy.cli import options as common
from engramq.deploy.cli.options import identifier
from engramq.deploy.servers_for import servers_for
from engramq.schemas.command_line import ExitCode
from engramq.schemas.vocabulary import WebhookEvent

webhook_argument = click.argument("webhook_id", metavar="ID", type=identifier)


@click.group("webhook", subcommand_metavar="add|list|remove|test|dead|retry", no_args_is_help=False)
def command() -> None:
    """Tell servers of others what happens in a namespace."""


@command.command("add")
@click.argument("url", metavar="URL")
@click.option(
    "--event",
    "events",
    metavar="EVENT",
    type=click.Choice([event.value for event in WebhookEvent]),
    multiple=True,
    help=f"Of {', '.join(WebhookEvent)}; may be given again. Default: all.",
)
@click.option("--with-content", is_flag=True, help="Send what memories say too, not their ids alone.")
@common.NAMESPACE
@common.JSON
def add(
    url: str,
    events: tuple[str, ...],
    namespace: str | None,
    *,
    with_content: bool,
    as_json: bool,
) -> None:
    """Tell URL from now on, and show the secret of its signatures."""
    with servers_for("webhook") as settings:
        from engramq.workers.cli.webhook_command import (  # noqa: PLC0415 - psycopg, wasted on wrong options
            add_webhook,
        )

        wanted = [WebhookEvent(event) for event in events] or list(WebhookEvent)
        place = namespace or settings.namespace
        add_webhook(settings, place, url, wanted, with_content=with_content, as_json=as_json)


@command.command("list")
@common.NAMESPACE
@common.JSON
def list_(namespace: str | None, *, as_json: bool) -> None:
    """Show the webhooks, and how much waits for each."""
    with servers_for("webhook") as settings:
        from engramq.workers.cli.webhook_command import (  # noqa: PLC0415 - psycopg, wasted on wrong options
            list_webhooks,
        )

        list_webhooks(settings, namespace or settings.namespace, as_json=as_json)


@command.command("remove")
@webhook_argument
@common.NAMESPACE
def remove(webhook_id: UUID, namespace: str | None) -> ExitCode:
    """Tell the webhook nothing any more, not even what waits."""
    with servers_for("webhook") as settings:
        from engramq.workers.cli.webhook_command import (  # noqa: PLC0415 - psycopg, wasted on wrong options
            remove_webhook,
        )

        return remove_webhook(settings, namespace or settings.namespace, webhook_id)


@command.command("test")
@webhook_argument
@common.NAMESPACE
def test(webhook_id: UUID, namespace: str | None) -> ExitCode:
    """Send a webhook.test message now, and say what became of it."""
    with servers_for("webhook") as settings:
        from engramq.workers.cli.webhook_command import (  # noqa: PLC0415 - psycopg, wasted on wrong options
            test_webhook,
        )

        return test_webhook(settings, namespace or settings.namespace, webhook_id)


@command.command("dead")
@common.NAMESPACE
@common.JSON
def dead(namespace: str | None, *, as_json: bool) -> None:
    """Show the messages that were not taken in all their tries."""
    with servers_for("webhook") as settings:
        from engramq.workers.cli.webhook_command import list_dead  # noqa: PLC0415 - psycopg, wasted on wrong options

        list_dead(settings, namespace or settings.namespace, as_json=as_json)


@command.command("retry")
@click.argument("wanted", metavar="ID", type=identifier)
@common.NAMESPACE
def retry(wanted: UUID, namespace: str | None) -> ExitCode:
    """Send a dead message once more, or all of a webhook. ID is the message's or the webhook's."""
    with servers_for("webhook") as settings:
        from engramq.workers.cli.webhook_command import (  # noqa: PLC0415 - psycopg, wasted on wrong options
            retry_messages,
        )

        return retry_messages(settings, namespace or settings.namespace, wanted)
