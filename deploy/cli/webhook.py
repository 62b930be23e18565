"""`engramq webhook`: tell servers of yours what happens. A secret is shown once, when a webhook is added."""

from uuid import UUID

import click

from engramq.deploy.cli import options as common
from engramq.deploy.cli.options import identifier
from engramq.deploy.cli.output import join_parts, json_line, print_list
from engramq.deploy.local.servers_for import servers_for
from engramq.schemas.command_line import CommandFailed, count_of
from engramq.schemas.ids import format_time
from engramq.schemas.vocabulary import WebhookEvent
from engramq.workers.admin import DeadMessage, Webhook, hooks, in_database
from engramq.workers.migrating import run

webhook_argument = click.argument("webhook_id", metavar="ID", type=identifier)


@click.group("webhook", subcommand_metavar="add|list|remove|test|dead|retry", no_args_is_help=False)
def command() -> None:
    """Tell servers of yours what happens in a namespace."""


@command.command("add")
@click.argument("url", metavar="URL")
@click.option(
    "--event", "events", metavar="EVENT", type=click.Choice([event.value for event in WebhookEvent]), multiple=True,
    help=f"Of {', '.join(WebhookEvent)}; may be given again. Default: all.",
)  # fmt: skip
@click.option("--with-content", is_flag=True, help="Send what memories say too, not their ids alone.")
@common.NAMESPACE
@common.JSON
def add(url: str, events: tuple[str, ...], namespace: str | None, *, with_content: bool, as_json: bool) -> None:
    """Send URL what happens from now on, and show the secret that signs it."""
    with servers_for("webhook") as settings:
        wanted = [WebhookEvent(event) for event in events] or list(WebhookEvent)
        place = namespace or settings.namespace
        webhook_id, secret = in_database(
            settings, lambda store: hooks.add(store, settings, place, url, wanted, with_content=with_content)
        )
    if as_json:
        click.echo(json_line({"id": webhook_id, "secret": secret}))
        return
    click.echo(f"webhook {webhook_id}: tells {url} of {', '.join(wanted)} in {place}", err=True)
    click.echo("This is the secret that its receiver checks signatures with:", err=True)
    click.echo(secret)


@command.command("list")
@common.NAMESPACE
@common.JSON
def list_(namespace: str | None, *, as_json: bool) -> None:
    """Show the webhooks, and how much waits for each."""
    with servers_for("webhook") as settings:
        place = namespace or settings.namespace
        listed = in_database(settings, lambda store: hooks.list_webhooks(store, place))
    print_list(listed, _line, as_json=as_json, none="engramq webhook: there are none")


@command.command("remove")
@webhook_argument
@common.NAMESPACE
def remove(webhook_id: UUID, namespace: str | None) -> None:
    """Remove a webhook: it is sent nothing any more, not even what waits."""
    with servers_for("webhook") as settings:
        place = namespace or settings.namespace
        removed = in_database(settings, lambda store: hooks.remove(store, place, webhook_id, settings.principal))
    if not removed:
        raise _unknown(webhook_id, place)
    click.echo(f"webhook {webhook_id}: removed")


@command.command("test")
@webhook_argument
@common.NAMESPACE
def test(webhook_id: UUID, namespace: str | None) -> None:
    """Send a webhook.test message now, and say what became of it."""
    with servers_for("webhook") as settings:
        place = namespace or settings.namespace
        known = in_database(settings, lambda store: hooks.list_webhooks(store, place))
        webhook = next((each for each in known if each.id == webhook_id), None)
        if webhook is None:
            raise _unknown(webhook_id, place)
        problem = run(hooks.test(settings, webhook))
    if problem is not None:
        raise CommandFailed(f"The test was not taken: {problem}")
    click.echo(f"webhook {webhook_id}: the test was taken")


@command.command("dead")
@common.NAMESPACE
@common.JSON
def dead(namespace: str | None, *, as_json: bool) -> None:
    """Show the messages that were not taken in all their tries."""
    with servers_for("webhook") as settings:
        place = namespace or settings.namespace
        messages = in_database(settings, lambda store: hooks.list_dead(store, place))
    print_list(messages, _dead_line, as_json=as_json, none="engramq webhook: there are none")


@command.command("retry")
@click.argument("wanted", metavar="ID", type=identifier)
@common.NAMESPACE
def retry(wanted: UUID, namespace: str | None) -> None:
    """Send a dead message once more, or all of a webhook. ID is the message's or the webhook's."""
    with servers_for("webhook") as settings:
        place = namespace or settings.namespace
        count = in_database(settings, lambda store: hooks.retry(store, place, wanted))
    if not count:
        raise CommandFailed(
            f"No message that was given up has the id {wanted}, nor has a webhook; engramq webhook dead shows all."
        )
    click.echo(f"{count_of(count, 'message')} will be sent once more")


def _unknown(webhook_id: UUID, namespace: str) -> CommandFailed:
    return CommandFailed(f"There is no webhook {webhook_id} in {namespace}; engramq webhook list shows all.")


def _line(webhook: Webhook) -> str:
    return join_parts(
        str(webhook.id),
        webhook.url,
        ",".join(webhook.events),
        "with content" if webhook.with_content else "",
        f"{webhook.waiting} waiting" if webhook.waiting else "",
        f"{webhook.dead} dead" if webhook.dead else "",
    )


def _dead_line(message: DeadMessage) -> str:
    about = f"{message.event} of {format_time(message.at)} for webhook {message.webhook_id}: {message.problem}"
    return f"{message.id}  {about}"
