"""`engramq graph`: list deleted edges and nodes of the knowledge graph, and bring them back."""

import sys
from functools import partial
from typing import TypeVar

import msgspec
from msgspec import UNSET

from engramq.gateway.operator import asking, run
from engramq.schemas.codec import reply_body
from engramq.schemas.command_line import CommandFailed, ExitCode
from engramq.schemas.commands import Command, DeletedList, GraphRestored, ListDeleted, Reply, RestoreGraph
from engramq.schemas.faults import EngramqError
from engramq.schemas.phrases import count_of
from engramq.schemas.records import GraphDeletion, NotRestored
from engramq.schemas.settings import Settings
from engramq.schemas.vocabulary import NotRestoredReason

R = TypeVar("R", bound=Reply)


def list_deleted(settings: Settings, *, namespace: str, limit: int, as_json: bool) -> None:
    """Print the deletions that can be undone, newest last; raises CommandFailed."""
    found = _ask(settings, namespace, ListDeleted(limit=limit), DeletedList)
    for one in reversed(found.deletions):
        print(_json(namespace, one) if as_json else _line(one))
    if not found.deletions:
        print(f"engramq graph: nothing that can be restored in namespace {namespace!r}", file=sys.stderr)
    if found.truncated:
        print(f"engramq graph: the newest {limit}; --limit shows more, engramq audit all", file=sys.stderr)


def restore_deleted(
    settings: Settings, *, namespace: str, audit_id: int, reason: str | None, as_json: bool
) -> ExitCode:
    """Undo a deletion and print what came back; the exit code says whether it is there now. Raises CommandFailed."""
    command = RestoreGraph(audit_id=audit_id, reason=UNSET if reason is None else reason)
    done = _ask(settings, namespace, command, GraphRestored)
    code = ExitCode.DONE if done.status in {"restored", "already_restored"} else ExitCode.FAILED
    if as_json:
        print(msgspec.json.encode({"namespace": namespace, **reply_body(done)}).decode())
        return code
    if done.status == "restored":
        node = f"Restored node {done.node_id} with {count_of(done.edges_restored, 'edge')}"
        print(f"Restored edge {done.edge_id}" if done.node_id is UNSET else node)
    if done.edges_purged:
        count = count_of(done.edges_purged, "edge")
        print(f"engramq graph: a purge has erased {count} of it for good", file=sys.stderr)
    if done.error is not UNSET:
        print(f"engramq graph: {_plain(done.error)}", file=sys.stderr)
    for left in done.not_restored:
        print(f"Not restored: {_plain(_words(left))}", file=sys.stderr)
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


def _line(one: GraphDeletion) -> str:
    parts = [f"{one.audit_id:>6}", one.deleted_at, f"by {_plain(one.deleted_by)}", _plain(one.what)]
    parts += [] if one.reason is None else [f"because {_plain(one.reason)}"]
    return "  ".join([*parts, f"until {one.restore_until}"])


def _json(namespace: str, one: GraphDeletion) -> str:
    return msgspec.json.encode({"namespace": namespace, **msgspec.structs.asdict(one)}).decode()


def _plain(text: str) -> str:
    """Return a text for a terminal: whoever chose the names may have put control characters into them."""
    return "".join(one if one.isprintable() else f"\\u{ord(one):04x}" for one in text)


def _ask(settings: Settings, namespace: str, command: Command, expected: type[R]) -> R:
    """Return the reply to a command; raises CommandFailed."""
    try:
        return run(partial(_reply, settings, namespace, command, expected))
    except EngramqError as refusal:
        raise CommandFailed(f"{refusal.fault.error} {refusal.fault.recovery}") from None


async def _reply(settings: Settings, namespace: str, command: Command, expected: type[R]) -> R:
    async with asking(settings, namespace) as asker:
        return await asker.run(command, expected)
