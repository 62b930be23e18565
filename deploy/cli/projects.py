"""`engramq projects`: list projects with how many memories each has."""

from __future__ import annotations

import click

from engramq.deploy.cli import options as common
from engramq.deploy.cli.door import door
from engramq.deploy.cli.output import tell
from engramq.deploy.cli.tables import draw_projects
from engramq.schemas.command_line import ExitCode
from engramq.schemas.vocabulary import Partition


@click.command("projects")
@common.options(common.NAMESPACE, common.JSON)
def command(namespace: str | None, *, as_json: bool) -> ExitCode:
    """List projects with how many memories each has.

    These are of both partitions and any state; a dash is for memories of no project, and a star marks the project of
    the environment (ENGRAMQ_PROJECT). Elsewhere than on a terminal each is one line, with tabs between project,
    memories and how many of them are untrusted.
    """
    with door(namespace) as gateway:
        return tell(gateway.call("memory_stats", {"partitions": list(Partition)}), draw_projects, as_json=as_json)
