"""`engramq list`: list memories, newest first, all that the options name."""

from __future__ import annotations

from typing import Any

import click

from engramq.deploy.cli import options as common
from engramq.deploy.cli.door import door
from engramq.deploy.cli.options import limit_option
from engramq.deploy.cli.output import find
from engramq.deploy.cli.tables import draw_page
from engramq.schemas.command_line import ExitCode


@click.command("list")
@limit_option(100, 20, "The newest so many.")
@common.options(common.TAG, common.PROJECT, common.PARTITION, common.SECTOR, common.STATE, common.VERIFICATION)
@common.options(common.THREAD)
@click.option("--source-type", metavar="WORD", help="Where it came from, as its author said.")
@click.option("--created-by", metavar="PRINCIPAL", help="Whose it is.")
@click.option("--external-id", metavar="ID", help="The one with this id of somebody else.")
@common.options(common.AS_OF, common.SUPERSEDED)
@click.option("--cursor", metavar="TEXT", help="Where the last list ended.")
@common.options(common.NAMESPACE, common.JSON)
def command(limit: int, namespace: str | None, *, as_json: bool, **filters: Any) -> ExitCode:
    """List memories, newest first, all that the options name.

    What waits for review: --partition untrusted --verification unverified.
    """
    asked = {"limit": limit, "max_chars": common.WHOLE_REPLY, **common.arguments(filters)}
    with door(namespace) as gateway:
        return find(gateway, "list_recent_memories", asked, draw_page, as_json=as_json)
