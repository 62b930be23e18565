"""The options of `engramq dead`."""

from __future__ import annotations

import click

from engramq.deploy.cli import options as common
from engramq.deploy.cli.options import limit_option
from engramq.deploy.servers_for import servers_for
from engramq.schemas.command_line import ExitCode
from engramq.schemas.setting_values import name, namespace, note, one_of
from engramq.schemas.vocabulary import WorkerKind

SHOWN = 100
SHOWN_MAX = 10_000

letter_argument = click.argument("letter_id", metavar="ID", type=name)
namespace_option = click.option("--namespace", metavar="NAME", type=namespace, help="Only of this one. Default: any.")
reason_option = click.option("--reason", metavar="TEXT", type=note, help="For the audit log.")


@click.group("dead", subcommand_metavar="list|show|retry|drop", no_args_is_help=False)
def command() -> None:
    """List, show, retry and drop commands that were given up.

    A command that fails at all its tries, or that no worker can read, is set aside as a dead letter. Its caller was
    told so.
    """


@command.command("list")
@click.option(
    "--kind", metavar="WORD", type=one_of(WorkerKind), help=f"Of one kind of workers: {', '.join(WorkerKind)}."
)
@namespace_option
@limit_option(SHOWN_MAX, SHOWN, "The newest so many of each kind.")
@common.JSON
def list_(kind: WorkerKind | None, namespace: str | None, limit: int, *, as_json: bool) -> None:
    """List them, newest last, without what they hold. Each begins with its ID."""
    with servers_for("dead") as settings:
        from engramq.workers.cli.dead_command import list_letters  # noqa: PLC0415 - psycopg, wasted on wrong options

        list_letters(settings, kind=kind, namespace=namespace, limit=limit, as_json=as_json)


@command.command("show")
@letter_argument
@namespace_option
@click.option("--content", is_flag=True, help="The command itself too, which may hold memories.")
def show(letter_id: str, namespace: str | None, *, content: bool) -> ExitCode:
    """Show one as JSON."""
    with servers_for("dead") as settings:
        from engramq.workers.cli.dead_command import show_letter  # noqa: PLC0415 - see list

        return show_letter(settings, letter_id, namespace=namespace, content=content)


@command.command("retry")
@letter_argument
@namespace_option
@reason_option
@common.JSON
def retry(letter_id: str, namespace: str | None, reason: str | None, *, as_json: bool) -> ExitCode:
    """Put one back, for workers to try it again.

    It keeps its id, so that what it has done already is not done again.
    """
    with servers_for("dead change") as settings:
        from engramq.workers.cli.dead_command import retry_letter  # noqa: PLC0415 - see list

        return retry_letter(settings, letter_id, namespace=namespace, reason=reason, as_json=as_json)


@command.command("drop")
@letter_argument
@namespace_option
@reason_option
@common.JSON
def drop(letter_id: str, namespace: str | None, reason: str | None, *, as_json: bool) -> ExitCode:
    """Remove one for good."""
    with servers_for("dead change") as settings:
        from engramq.workers.cli.dead_command import drop_letter  # noqa: PLC0415 - see list

        return drop_letter(settings, letter_id, namespace=namespace, reason=reason, as_json=as_json)
