"""`engramq graph`: list deleted edges and nodes of the knowledge graph, and restore them."""

from __future__ import annotations

import sys

import click
import msgspec
from msgspec import UNSET

from engramq.deploy.cli import options as common
from engramq.deploy.cli.output import printable
from engramq.deploy.local.servers_for import servers_for
from engramq.gateway.operator import reply_to
from engramq.schemas.codec import reply_body
from engramq.schemas.command_line import ExitCode, count_of
from engramq.schemas.commands import DeletedList, GraphRestored, ListDeleted, RestoreGraph
from engramq.schemas.records import GraphDeletion, NotRestored
from engramq.schemas.setting_values import integer, note
from engramq.schemas.vocabulary import NotRestoredReason

SHOWN = 100
SHOWN_MAX = 1_000
ID_MAX = 10**18 - 1


@click.group("graph", subcommand_metavar="deleted|restore", no_args_is_help=False)
def command() -> None:
    """List deleted edges and nodes of the knowledge graph, and restore them.

    What an agent deletes, or purge with --archive, is kept for 30 days.
    """


@command.command("deleted")
@common.NAMESPACE
@common.limit_option(SHOWN_MAX, SHOWN, "The newest so many.")
@common.JSON
def deleted(namespace: str | None, limit: int, *, as_json: bool) -> None:
    """List deletions that can be undone, newest last.

    Each begins with the ID that restore takes.
    """
    with servers_for("graph") as settings:
        place = namespace or settings.namespace
        listed = reply_to(settings, place, ListDeleted(limit=limit), DeletedList)
    for deletion in reversed(listed.deletions):
        print(_json(place, deletion) if as_json else _line(deletion))
    if not listed.deletions:
        print(f"engramq graph: nothing that can be restored in namespace {place!r}", file=sys.stderr)
    if listed.truncated:
        print(f"engramq graph: the newest {limit}; --limit shows more, engramq audit all", file=sys.stderr)


@command.command("restore")
@click.argument("audit_id", metavar="ID", type=integer(1, ID_MAX))
@common.NAMESPACE
@click.option("--reason", metavar="TEXT", type=note, help="For the audit log.")
@common.JSON
def restore(audit_id: int, namespace: str | None, reason: str | None, *, as_json: bool) -> ExitCode:
    """Bring back an edge, or a node with its edges, as it was.

    ID is that of the deletion in the audit log.
    """
    wanted = RestoreGraph(audit_id=audit_id, reason=UNSET if reason is None else reason)
    with servers_for("graph") as settings:
        place = namespace or settings.namespace
        done = reply_to(settings, place, wanted, GraphRestored)
    code = ExitCode.DONE if done.status in {"restored", "already_restored"} else ExitCode.FAILED
    if as_json:
        print(msgspec.json.encode({"namespace": place, **reply_body(done)}).decode())
        return code
    if done.status == "restored":
        node = f"Restored node {done.node_id} with {count_of(done.edges_restored, 'edge')}"
        print(f"Restored edge {done.edge_id}" if done.node_id is UNSET else node)
    if done.edges_purged:
        count = count_of(done.edges_purged, "edge")
        print(f"engramq graph: a purge has erased {count} of it for good", file=sys.stderr)
    if done.error is not UNSET:
        print(f"engramq graph: {printable(done.error)}", file=sys.stderr)
    for left in done.not_restored:
        print(f"Not restored: {printable(_words(left))}", file=sys.stderr)
    if done.not_restored_count > len(done.not_restored):
        print(f"... and {done.not_restored_count - len(done.not_restored)} more", file=sys.stderr)
    if done.hint is not UNSET:
        print(f"engramq graph: {done.hint}", file=sys.stderr)
    return code


def _words(left: NotRestored) -> str:
    if left.why is NotRestoredReason.THERE_AGAIN:
        return f"{left.preview}, which is there again."
    first = ", ".join(f"engramq graph restore {deletion}" for deletion in left.restore_first)
    return f"{left.preview}: an end is missing" + (f"; first {first}, then this again." if first else ".")


def _line(deletion: GraphDeletion) -> str:
    parts = [
        f"{deletion.audit_id:>6}",
        deletion.deleted_at,
        f"by {printable(deletion.deleted_by)}",
        printable(deletion.what),
    ]
    parts += [] if deletion.reason is None else [f"because {printable(deletion.reason)}"]
    return "  ".join([*parts, f"until {deletion.restore_until}"])


def _json(namespace: str, deletion: GraphDeletion) -> str:
    return msgspec.json.encode({"namespace": namespace, **msgspec.structs.asdict(deletion)}).decode()
