"""`engramq forget`: hide a memory from searches and lists, or erase it for good."""

from __future__ import annotations

import sys

import click

from engramq.deploy.cli import options as common
from engramq.deploy.cli.door import Reply, door, write
from engramq.deploy.cli.memory_ids import memory_id
from engramq.deploy.cli.output import printable, tell
from engramq.schemas.command_line import ExitCode


@click.command("forget")
@click.argument("identifier", metavar="ID")
@common.REASON
@click.option("--erase", is_flag=True, help="Remove it for good, links and all: nothing brings it back.")
@click.option("--yes", is_flag=True, help="With --erase: do not ask.")
@common.options(common.NAMESPACE, common.JSON)
def command(
    identifier: str,
    reason: str | None,
    namespace: str | None,
    *,
    erase: bool,
    yes: bool,
    as_json: bool,
) -> ExitCode:
    """Hide a memory from searches and lists, or erase it for good.

    What is hidden engramq restore ID brings back.

    ID may be its beginning, of 8 characters or more, if no other has that.
    """
    with door(namespace) as gateway:
        meant = memory_id(gateway, identifier)
        if erase and not yes:
            if sys.stdin is None or not sys.stdin.isatty():
                raise click.UsageError("--erase takes --yes where nobody can be asked.")
            click.confirm(f"Erase {meant} for good?", abort=True, err=True)
        asked = {"memory_id": meant, **common.arguments({"reason": reason, "erase": erase})}
        return tell(write(gateway, "forget_memory", asked), _draw, as_json=as_json)


def _draw(reply: Reply) -> None:
    if reply["status"] == "not_found":
        click.echo("There is no such memory.", err=True)
        return
    click.echo(reply["status"])
    for one in reply.get("still_hidden") or ():
        told = printable(one.get("preview"))
        click.echo(f"Still hidden, since it had replaced it: {one['id']}  {told}. engramq restore shows it.", err=True)
