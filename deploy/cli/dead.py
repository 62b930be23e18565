"""`engramq dead`: list, show, retry and drop commands that were given up."""

from base64 import b64encode
from datetime import UTC, datetime
from typing import Any, Literal

import click
import msgspec

from engramq.deploy.cli import options as common
from engramq.deploy.cli.options import limit_option
from engramq.deploy.cli.output import join_parts, json_line, print_list
from engramq.deploy.local.servers_for import servers_for
from engramq.schemas.command_line import CommandFailed
from engramq.schemas.ids import format_time
from engramq.schemas.setting_values import name, one_of
from engramq.schemas.vocabulary import WorkerKind
from engramq.workers.admin import DeadLetter, change_letter, command_of, dead_letter, dead_letters

SHOWN = 100
SHOWN_MAX = 10_000

letter_argument = click.argument("letter_id", metavar="ID", type=name)
namespace_option = common.namespace_option("Only of this one. Default: any.")


@click.group("dead", subcommand_metavar="list|show|retry|drop", no_args_is_help=False)
def command() -> None:
    """List, show, retry and drop commands that were given up.

    A command that fails at all its tries, or that no worker can read, is set aside as a dead letter. Its caller has got
    that answer.
    """


@command.command("list")
@click.option(
    "--kind", metavar="WORD", type=one_of(WorkerKind), help=f"Only of one kind of workers: {', '.join(WorkerKind)}."
)
@namespace_option
@limit_option(SHOWN_MAX, SHOWN, "How many of each kind at most, the newest.")
@common.JSON
def list_(kind: WorkerKind | None, namespace: str | None, limit: int, *, as_json: bool) -> None:
    """List them, newest last, without what they hold. Each begins with its ID."""
    with servers_for("dead") as settings:
        letters = dead_letters(settings, [kind] if kind else list(WorkerKind), namespace, limit)
    none = "engramq dead: there are none"
    print_list(letters, _line, as_json=as_json, none=none, to_json=lambda letter: json_line(_fields(letter)))


@command.command("show")
@letter_argument
@namespace_option
@click.option("--content", is_flag=True, help="The command itself too, which may hold memories.")
def show(letter_id: str, namespace: str | None, *, content: bool) -> None:
    """Show one as JSON."""
    with servers_for("dead") as settings:
        letter = dead_letter(settings, letter_id, namespace)
    if letter is None:
        raise _none(letter_id)
    click.echo(msgspec.json.format(json_line(_fields(letter) | (_content(letter) if content else {}))))


def _change(way: Literal["retry", "drop"], status: str, text: str) -> None:
    """Add the command that does this with a letter."""

    @command.command(way, help=text)
    @letter_argument
    @namespace_option
    @common.REASON
    @common.JSON
    def change(letter_id: str, namespace: str | None, reason: str | None, *, as_json: bool) -> None:
        with servers_for("dead change") as settings:
            changed = change_letter(settings, letter_id, namespace, way, reason)
        if changed is None:
            raise _none(letter_id)
        if not changed:
            raise CommandFailed(f"{letter_id} stays: its mailbox is full, or it was just changed.")
        click.echo(json_line({"id": letter_id, "status": status}) if as_json else f"{letter_id}  {status}")


_change(
    "retry",
    "retried",
    "Put one back, for workers to try it again.\n\n"
    "It keeps its id, so that what it has done already is not done again.",
)
_change("drop", "dropped", "Remove one for good.")


def _none(letter_id: str) -> CommandFailed:
    return CommandFailed(f"There is no dead letter {letter_id!a}; engramq dead list shows all.")


def _fields(letter: DeadLetter) -> dict[str, Any]:
    """Return what is said of a letter without what it holds."""
    envelope = letter.envelope()
    return {
        "id": letter.id,
        "kind": letter.mailbox,
        "command": command_of(letter),
        "namespace": letter.namespace,
        "principal": None if envelope is None else envelope.principal.name,
        "issued_at": _time(letter.issued_at) if letter.issued_at else None,
        "died_at": _time(letter.died_at),
        "tries": letter.attempts,
        "error": letter.error,
        "message": letter.message,
        "bytes": len(letter.raw),
    }


def _content(letter: DeadLetter) -> dict[str, Any]:
    """Return what a letter holds: its command, or the bytes that are none."""
    envelope = letter.envelope()
    if envelope is None:
        return {"raw_base64": b64encode(letter.raw).decode()}
    return {"content": msgspec.to_builtins(envelope.command)}


def _line(letter: DeadLetter) -> str:
    fields = _fields(letter)
    return join_parts(
        ascii(letter.id).strip("'"),
        fields["died_at"],
        f"{letter.mailbox}: {fields['command'] or 'unreadable'}",
        f"{letter.attempts} tries",
        letter.error,
        "" if fields["namespace"] is None else f"by {fields['principal']!a} in {fields['namespace']!a}",
        ascii(letter.message)[1:-1],
    )


def _time(seconds: float) -> str:
    return format_time(datetime.fromtimestamp(seconds, UTC))
