"""`engramq recent`: show the newest memories, of every kind of trust."""

from __future__ import annotations

import click

from engramq.deploy.cli import options as common
from engramq.deploy.cli.door import door
from engramq.deploy.cli.output import find
from engramq.deploy.cli.tables import draw_list
from engramq.schemas.command_line import ExitCode
from engramq.schemas.setting_values import integer
from engramq.schemas.vocabulary import Partition


@click.command("recent")
@click.argument("count", type=integer(1, 100), default="10")
@common.options(common.PROJECT, common.NAMESPACE, common.JSON)
def command(count: int, project: str | None, namespace: str | None, *, as_json: bool) -> ExitCode:
    """Show the newest memories, of every kind of trust.

    COUNT is how many, 10 unless given."""
    asked = {"limit": count, "max_chars": common.WHOLE_REPLY, "partitions": list(Partition)}
    asked |= common.arguments({"project": project})
    with door(namespace) as gateway:
        return find(gateway, "list_recent_memories", asked, draw_list, as_json=as_json)
