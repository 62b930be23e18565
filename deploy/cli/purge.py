"""The options of `engramq purge`."""

from __future__ import annotations

import os
from typing import Any

import click

from engramq.deploy import settings
from engramq.deploy.cli.options import end_time
from engramq.deploy.servers_for import servers_for
from engramq.schemas.ids import parse_time
from engramq.schemas.setting_values import name, namespace
from engramq.schemas.vocabulary import Partition


def _rewrite(supervisor: tuple[str, ...], *, as_json: bool) -> None:
    own_database = bool(os.environ.get(settings.DATABASE_URL))
    with servers_for("purge --rewrite", supervisor) as chosen:
        from engramq.workers.cli.rewrite_command import rewrite_files  # noqa: PLC0415 - psycopg, wasted on wrong options

        rewrite_files(chosen, with_wal=not own_database, as_json=as_json)


@click.command("purge")
@click.option("--created-by", metavar="NAME", type=name, help="The principal who stored them.")
@click.option("--source-type", metavar="NAME", type=name, help="As it was given when they were stored.")
@click.option("--thread", metavar="NAME", type=name, help="Their conversation or document.")
@click.option("--project", metavar="NAME", type=name, help="What they are put into; those of none are not meant.")
@click.option("--partition", type=click.Choice([str(word) for word in Partition]), help="Where they are.")
@click.option("--since", metavar="TIME", type=parse_time, help="Stored from this date, or time with a zone, on.")
@click.option("--until", metavar="TIME", type=end_time, help="Stored up to this date or time; included.")
@click.option("--namespace", metavar="NAME", type=namespace, help="Default: ENGRAMQ_NAMESPACE.")
@click.option("--reason", metavar="TEXT", help="For the audit log.")
@click.option("--yes", is_flag=True, help="Do it. Without it everything is only listed.")
@click.option("--archive", "unarchived", is_flag=True, help="Archive memories, and delete nodes and edges, instead.")
@click.option(
    "--restore-replaced",
    is_flag=True,
    help="With --yes: bring back what they had replaced and nothing else replaces, and what others' facts were.",
)
@click.option(
    "--rewrite", is_flag=True, help="Alone, after erasing: write the files anew, so that they hold nothing erased."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def command(
    supervisor: tuple[str, ...], /, namespace: str | None, *, yes: bool, rewrite: bool, as_json: bool, **given: Any
) -> None:
    """List, then erase for good, what a principal wrote, or memories of a source, thread, project or time.

    All that is given has to hold; at least one of the first seven options is needed. With --yes memories are erased:
    rows, links, session state, stored replies and what is still queued. --created-by, alone or with --since and
    --until, takes the principal's knowledge nodes, edges, links and proposals too, and what of the graph was deleted in
    the last 30 days.

    What --archive takes can come back: memories with restore_memory, nodes and edges for 30 days with engramq graph
    restore. Links and proposals stay.

    What was erased is in no table then, but its bytes stay in the servers' files until these are written over, or anew
    by --rewrite: all tables with their indexes, one after the other, and whoever needs one of them waits meanwhile.
    """
    if rewrite:
        if yes or namespace or any(given.values()):
            raise click.UsageError("--rewrite goes alone: give it after the purge, for all namespaces at once.")
        _rewrite(supervisor, as_json=as_json)
        return
    from engramq.gateway.operator import checked_command  # noqa: PLC0415 - help does without
    from engramq.schemas.commands import PurgeMemories  # noqa: PLC0415 - see above

    wanted = {field: value for field, value in given.items() if value is not None and value is not False}
    listing = checked_command(wanted, PurgeMemories)
    with servers_for("purge", supervisor) as chosen:
        from engramq.deploy.cli.purge_command import purge_memories  # noqa: PLC0415 - 1 s of imports, see gateway

        purge_memories(listing, chosen, namespace=namespace or chosen.namespace, yes=yes, as_json=as_json)
