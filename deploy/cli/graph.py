"""`engramq graph`: list deleted edges and nodes of the knowledge graph, and restore them."""

from functools import partial

import click
from msgspec import UNSET

from engramq.deploy.cli import options as common
from engramq.deploy.cli.operating import operating
from engramq.deploy.cli.output import join_parts, json_line, print_list, printable
from engramq.schemas.codec import reply_body
from engramq.schemas.command_line import ExitCode, count_of
from engramq.schemas.commands import DeletedList, GraphRestored, ListDeleted, RestoreGraph
from engramq.schemas.records import GraphDeletion, NotRestored
from engramq.schemas.setting_values import integer
from engramq.schemas.vocabulary import NotRestoredReason

SHOWN = 100
SHOWN_MAX = 1_000
ID_MAX = 10**18 - 1


@click.group("graph", subcommand_metavar="deleted|restore", no_args_is_help=False)
def command() -> None:
    """List deleted edges and nodes of the knowledge graph, and restore them.

    Parts that an agent or purge --archive deleted are kept for 30 days.
    """


@command.command("deleted")
@common.NAMESPACE
@common.limit_option(SHOWN_MAX, SHOWN, "How many at most, the newest.")
@common.JSON
def deleted(namespace: str | None, limit: int, *, as_json: bool) -> None:
    """List deletions that can be undone, newest last.

    Each begins with the ID that restore takes.
    """
    with operating("graph", namespace) as place:
        listed = place.client.reply_to(ListDeleted(limit=limit), DeletedList)
    none = f"engramq graph: nothing that can be restored in {place.name}"
    newest_last, to_json = listed.deletions[::-1], partial(json_line, **place.fields)
    print_list(newest_last, _line, as_json=as_json, none=none, to_json=to_json)
    if listed.truncated:
        click.echo(f"engramq graph: the newest {limit}; --limit shows more, engramq audit all", err=True)


@command.command("restore")
@click.argument("audit_id", metavar="ID", type=integer(1, ID_MAX))
@common.NAMESPACE
@common.REASON
@common.JSON
def restore(audit_id: int, namespace: str | None, reason: str | None, *, as_json: bool) -> ExitCode:
    """Bring back an edge, or a node with its edges, as it was.

    ID is that of the deletion in the audit log.
    """
    wanted = RestoreGraph(audit_id=audit_id, reason=UNSET if reason is None else reason)
    with operating("graph", namespace) as place:
        done = place.client.reply_to(wanted, GraphRestored)
    code = ExitCode.DONE if done.status in {"restored", "already_restored"} else ExitCode.FAILED
    if as_json:
        click.echo(json_line(reply_body(done), **place.fields))
        return code
    if done.status == "restored":
        node = f"Restored node {done.node_id} with {count_of(done.edges_restored, 'edge')}"
        click.echo(f"Restored edge {done.edge_id}" if done.node_id is UNSET else node)
    if done.edges_purged:
        click.echo(f"engramq graph: a purge has erased {count_of(done.edges_purged, 'edge')} of it for good", err=True)
    if done.error is not UNSET:
        click.echo(f"engramq graph: {printable(done.error)}", err=True)
    for left in done.not_restored:
        click.echo(f"Not restored: {printable(_why_not(left))}", err=True)
    if done.not_restored_count > len(done.not_restored):
        click.echo(f"... and {done.not_restored_count - len(done.not_restored)} more", err=True)
    if done.hint is not UNSET:
        click.echo(f"engramq graph: {done.hint}", err=True)
    return code


def _why_not(left: NotRestored) -> str:
    if left.why is NotRestoredReason.THERE_AGAIN:
        return f"{left.preview}, which is there again."
    first = ", ".join(f"engramq graph restore {deletion}" for deletion in left.restore_first)
    return f"{left.preview}: an end is missing" + (f"; first {first}, then this again." if first else ".")


def _line(deletion: GraphDeletion) -> str:
    reason = "" if deletion.reason is None else f"because {printable(deletion.reason)}"
    by, what = f"by {printable(deletion.deleted_by)}", printable(deletion.what)
    until = f"until {deletion.restore_until}"
    return join_parts(f"{deletion.audit_id:>6}", deletion.deleted_at, by, what, reason, until)
