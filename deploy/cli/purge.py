"""`engramq purge`: list, then erase for good, what a principal wrote, or memories of a source, project or time."""

import contextlib
import os
import shlex
import sys
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import click
import msgspec
from msgspec import UnsetType

from engramq.deploy.cli import options as common
from engramq.deploy.cli.operating import Target, operating
from engramq.deploy.cli.options import end_time
from engramq.deploy.cli.output import json_line, printable, refusal_text
from engramq.deploy.cli.tool_client import ToolClient
from engramq.deploy.local import settings
from engramq.deploy.local.servers_for import servers_for
from engramq.gateway.operator import checked_command
from engramq.schemas.codec import reply_body
from engramq.schemas.command_line import CommandFailed, ExitCode, count_of, join_words, memories
from engramq.schemas.commands import Purged, PurgeMemories
from engramq.schemas.faults import EngramqError, FaultCode
from engramq.schemas.ids import parse_time
from engramq.schemas.records import GraphPreview, MemoryPreview
from engramq.schemas.setting_values import name
from engramq.schemas.vocabulary import Partition


@click.command("purge")
@click.option("--created-by", metavar="NAME", type=name, help="The principal who stored them.")
@click.option("--source-type", metavar="NAME", type=name, help="As it was given when they were stored.")
@click.option("--thread", metavar="NAME", type=name, help="Their conversation or document.")
@click.option(
    "--project", metavar="NAME", type=name, help="Their project; memories that are in no project are not meant."
)
@click.option("--partition", type=click.Choice([str(word) for word in Partition]), help="Where they are.")
@click.option("--since", metavar="TIME", type=parse_time, help="Stored from this date, or time with a zone, on.")
@click.option("--until", metavar="TIME", type=end_time, help="Stored up to this date or time; included.")
@click.option("--private", is_flag=True, help="None but private ones, as of a principal that has left.")
@common.NAMESPACE
@common.REASON
@click.option("--yes", is_flag=True, help="Do it, and do not ask. Without it and a terminal everything is only listed.")
@click.option("--archive", "unarchived", is_flag=True, help="Archive memories, and delete nodes and edges, instead.")
@click.option(
    "--restore-replaced",
    is_flag=True,
    help="With --yes: bring back what they had replaced and nothing else replaces, and what others' facts were.",
)
@click.option("--with-resting", is_flag=True, help="Also what cites one of them as its ground, and what cites that.")
@click.option(
    "--rewrite", is_flag=True, help="Alone, after erasing: write the files anew, so that they hold nothing erased."
)
@common.JSON
def command(namespace: str | None, *, yes: bool, rewrite: bool, as_json: bool, **given: Any) -> None:
    """List, then erase for good, what a principal wrote, or memories of a source, thread, project or time.

    All that is given has to hold; at least one of the first seven options is needed. On a terminal it asks, with how
    many of each project are meant; elsewhere it takes --yes. Then memories are erased:
    rows, links, session state, stored replies and what is still queued. --created-by, alone or with --since and
    --until, takes the principal's knowledge nodes, edges, links and proposals too, and what of the graph was deleted in
    the last 30 days.

    A trusted and an untrusted principal may have one name: its trust tells which is meant, and --partition takes one
    kind alone. Memories that cite one of these as their ground are named; --with-resting takes them too.

    Things that --archive takes can come back: memories with engramq restore, nodes and edges for 30 days with engramq
    graph restore. Links and proposals stay.

    Erased rows are in no table then, but their bytes stay in the servers' files until these are written over. --rewrite
    writes all tables with their indexes anew, one after the other, and calls that need one of them wait meanwhile.
    """
    if rewrite:
        if yes or namespace or any(given.values()):
            raise click.UsageError("--rewrite goes alone: give it after the purge, for all namespaces at once.")
        own_database = bool(os.environ.get(settings.DATABASE_URL))
        with servers_for("purge --rewrite") as chosen:
            from engramq.deploy.cli.rewriting import rewrite_files  # noqa: PLC0415 - psycopg, of --rewrite alone

            rewrite_files(chosen, with_wal=not own_database, as_json=as_json)
        return
    wanted = {field: value for field, value in given.items() if value is not None and value is not False}
    listing = checked_command(wanted, PurgeMemories)
    try:
        with operating("purge", namespace) as place:
            found, done = _purge(place, listing, yes=yes, as_json=as_json)
            while done is None and not (yes or as_json) and _total(found) and common.can_ask():
                _print_result(listing, found, None, place, yes=True)
                word = "Archive" if listing.unarchived else "Erase for good"
                click.confirm(f"{word}: {_describe_found(found)}?", abort=True, err=True)
                found, done = _purge(place, listing, yes=True, as_json=False, agreed=found)
    except EngramqError as refusal:
        code = ExitCode.MISUSED if refusal.fault.code is FaultCode.INVALID_PARAMETER else ExitCode.MIDWAY
        raise CommandFailed(refusal_text(refusal.fault.error, refusal.fault.recovery), code) from None
    if as_json:
        click.echo(json_line(reply_body(done or found), **place.fields))
    else:
        _print_result(listing, found, done, place, yes=yes)


_DELETED: Final = ("deleted node or edge that was kept", "deleted nodes and edges that were kept")


def _print_result(listing: PurgeMemories, found: Purged, done: Purged | None, place: Target, *, yes: bool) -> None:
    if done is not None:
        word = "Archived" if listing.unarchived else "Erased"
        print(f"{word} {format_counts(done)} of {place.name}. {word} ids:")
        print(f"engramq audit{place.option} --command {done.command_id}")
        if listing.unarchived:
            print("engramq restore brings a memory back.")
            if done.node_count or done.edge_count:
                print("Nodes and edges can be restored, for 30 days and nodes first. This lists them with their ids:")
                print(f"engramq graph deleted{place.option}")
        _tell_kept(done, archived=listing.unarchived)
        _tell_changed(done, listing, place)
        _tell_hidden(done)
        _tell_resting(done, "Still there, though it rests on what was taken")
    else:
        word = "archived" if listing.unarchived else "erased"
        _list(found)
        _tell_kept(found, archived=listing.unarchived)
        _tell_changed(found, listing, place)
        rests = "Taken too, since it rests" if listing.with_resting else "Stays without --with-resting, though it rests"
        _tell_resting(found, f"{rests} on them")
        rest = f"Nothing is {word}: --yes does it." if not yes else "" if _total(found) else "There is nothing to do."
        print(f"{format_counts(found)} of {place.name}{_of_projects(found)}. {rest}".rstrip(), file=sys.stderr)
    if notice := (done or found).notice:
        print(notice, file=sys.stderr)


def format_counts(reply: Purged) -> str:
    """Return how much a purge takes, of memories and of the graph; of the graph only what there is."""
    marked = f" ({reply.constitutive_count} of them constitutive)" if reply.constitutive_count else ""
    of_graph = (
        (reply.node_count, count_of(reply.node_count, "node")),
        (reply.edge_count, f"{count_of(reply.edge_count, 'edge')}{marked}"),
        (reply.link_count, count_of(reply.link_count, "link")),
        (reply.deleted_count, count_of(reply.deleted_count, *_DELETED)),
        (reply.proposal_count, count_of(reply.proposal_count, "proposal")),
        (reply.emptied_count, f"properties of {count_of(reply.emptied_count, 'node')}"),
    )
    both = reply.trusted_count and reply.untrusted_count
    of_each = f" ({reply.trusted_count} trusted, {reply.untrusted_count} untrusted)" if both else ""
    return ", ".join([memories(reply.matched) + of_each, *(words for number, words in of_graph if number)])


def _of_projects(found: Purged) -> str:
    """Return how many of the memories each project has, "" where there are none."""
    named = [
        f"{count} of {f'project {printable(project)}' if project else 'no project'}"
        for project, count in found.by_project.items()
    ]
    return f" ({join_words(named)})" if named else ""


def _list(found: Purged) -> None:
    """Show what a purge takes by ids and beginnings."""
    _print_some(_lines(found.memory_previews), found.matched)
    for word, previews, count in (
        ("nodes", found.node_previews, found.node_count),
        ("edges", found.edge_previews, found.edge_count),
        ("links", found.link_previews, found.link_count),
    ):
        if count:
            print(f"{word}:")
            _print_some(_lines(previews), count)


def _tell_kept(reply: Purged, *, archived: bool) -> None:
    if reply.kept_node_count:
        nodes = count_of(reply.kept_node_count, "node")
        stay = "as they are" if archived else "without the properties that they have from it"
        print(f"Edges of others hang on {nodes} of this principal. So these stay, {stay}:")
        _print_some(_lines(reply.kept_node_previews), reply.kept_node_count)


def _tell_changed(reply: Purged, listing: PurgeMemories, place: Target) -> None:
    """Name what of others the principal changed; what was taken back is counted."""
    if reply.taken_back_count:
        back = count_of(reply.taken_back_count, "node or edge", "nodes and edges")
        print(f"Set {back} of others back to what they were before this principal changed them.")
    kinds = (
        ("edge", "edges", reply.changed_edge_count, reply.changed_edge_previews),
        ("node", "nodes", reply.changed_node_count, reply.changed_node_previews),
        ("memory", "memories", reply.changed_memory_count, reply.changed_memory_previews),
    )
    changed = [count_of(count, kind, several) for kind, several, count, _ in kinds if count]
    if not changed:
        return
    print(f"This principal changed {join_words(changed)} of others, which stay:")
    for _, several, count, previews in kinds:
        if count:
            print(f"{several}:")
            _print_some(_lines(previews), count)
    print("The values before (--action update_edge, update_node, reclassify or update):")
    print(f"engramq audit{place.option} --actor {shlex.quote(str(listing.created_by))}")
    if not listing.restore_replaced:
        print("--restore-replaced sets edges and nodes back where they still are as it left them.")


def _tell_hidden(done: Purged) -> None:
    """Name what the erased ones had replaced: what is back, and what still hides though nothing replaces it."""
    if done.restored_count:
        print(f"Restored {memories(done.restored_count)} that they had replaced:")
        _print_some(list(map(str, done.restored or ())), done.restored_count)
    if done.still_hidden_count:
        print(f"Still hidden, though nothing replaces it any more: {memories(done.still_hidden_count)}")
        _print_some(_lines(done.still_hidden), done.still_hidden_count)
        print("engramq restore brings one back; purge does it with --restore-replaced.")


def _tell_resting(reply: Purged, words: str) -> None:
    """Name what rests on memories that a purge takes."""
    if reply.still_resting_count:
        print(f"{words}: {memories(reply.still_resting_count)}")
        _print_some(_lines(reply.still_resting_on), reply.still_resting_count)


def _print_some(lines: Sequence[str], count: int) -> None:
    for line in lines:
        print(line.rstrip())
    if count > len(lines):
        print(f"... and {count - len(lines)} more")


def _lines(named: Sequence[MemoryPreview | GraphPreview] | UnsetType) -> list[str]:
    return [f"{preview.id}  {printable(preview.preview)}" for preview in named or ()]


def _purge(
    place: Target, listing: PurgeMemories, *, yes: bool, as_json: bool, agreed: Purged | None = None
) -> tuple[Purged, Purged | None]:
    """Return what was found, and what was done if it was to be and is no more or less than was `agreed`."""
    found = place.client.reply_to(listing, Purged)
    if agreed is not None and _describe_found(found) != _describe_found(agreed):
        return found, None
    of = _total(found)
    to_take_back = found.changed_edge_count + found.changed_node_count if listing.restore_replaced else 0
    if not yes or not of + to_take_back:
        return found, None
    purge = {"archive": True} if listing.unarchived else {"erase": True}
    command = msgspec.structs.replace(listing, **purge)
    progress = None if as_json else partial(_tell_progress, place.client, listing, of)
    return found, place.client.reply_to(command, Purged, progress=progress)


def _tell_progress(client: ToolClient, listing: PurgeMemories, of: int) -> None:
    with contextlib.suppress(EngramqError):
        left = _total(client.reply_to(listing, Purged))
        click.echo(f"{max(0, of - left)} of {of} done", err=True)


def _describe_found(found: Purged) -> str:
    return format_counts(found) + _of_projects(found)


def _total(found: Purged) -> int:
    graph = found.node_count + found.edge_count + found.link_count
    return found.matched + graph + found.deleted_count + found.proposal_count + found.emptied_count
