"""`engramq search`: find memories by meaning and words, best first."""

from __future__ import annotations

from typing import Any

import click

from engramq.deploy.cli import options as common
from engramq.deploy.cli.door import door
from engramq.deploy.cli.options import limit_option
from engramq.deploy.cli.output import find
from engramq.deploy.cli.tables import draw_list
from engramq.schemas.command_line import ExitCode


@click.command("search")
@click.argument("query", nargs=-1, required=True)
@limit_option(50, 10, "The best so many.")
@common.options(common.TAG, common.PROJECT, common.PARTITION, common.SECTOR, common.THREAD)
@click.option("--since", metavar="TIME", help="What happened then or later: a date, or a time.")
@click.option("--until", metavar="TIME", help="What happened then or before.")
@common.options(common.AS_OF, common.SUPERSEDED, common.NAMESPACE, common.JSON)
def command(
    query: tuple[str, ...],
    limit: int,
    namespace: str | None,
    *,
    as_json: bool,
    **filters: Any,
) -> ExitCode:
    """Find memories by meaning and words, best first.

    The words of QUERY need no quotation marks. Elsewhere than on a terminal each memory is one line, with tabs between
    id, time, marks and content.
    """
    asked = {"query": " ".join(query), "limit": limit, "max_chars": common.WHOLE_REPLY, **common.arguments(filters)}
    with door(namespace) as gateway:
        return find(gateway, "search_memories", asked, draw_list, as_json=as_json)
