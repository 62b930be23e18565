"""Blank the contents of a reply before the ledger keeps it, and add them again for its reader.

An erased memory must leave nothing in the ledger, so that keeps ids and no contents: neither of memories, nor notes,
queries and previews, which may say the same. Blanked contents are read again whenever an answer is given.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import chain
from typing import Any, Final, NamedTuple, TypeVar
from uuid import UUID

import msgspec
from msgspec import UNSET

from engramq.schemas import limits
from engramq.schemas.commands import (
    FORMER_TOOLS,
    BatchConnected,
    ChangeNeedsConsent,
    Command,
    Connect,
    ConnectByQuery,
    Connected,
    Connects,
    DeletionNeedsConsent,
    Forgotten,
    MemoryChanged,
    Promoted,
    QueryConnected,
    Reclassified,
    Reply,
    Shared,
    Stored,
    Superseded,
    WriteReply,
)
from engramq.schemas.commands.links import BatchLinked
from engramq.schemas.contents import change_contents, contents_of
from engramq.schemas.envelope import Answer, Envelope
from engramq.schemas.faults import Fault, FaultCode, refuse
from engramq.schemas.ids import Pair, pair_of, parse_uuid
from engramq.schemas.records import GraphPreview, Memory, MemoryPreview, ReferencedMemory
from engramq.schemas.vocabulary import LinkAction, Partition, ReclassifyStatus, Scope, Visibility, WebhookEvent
from engramq.workers.db.ledger import Announcement, LedgerEntry
from engramq.workers.db.memory_rows import edge_previews, node_previews, previews
from engramq.workers.db.transaction import Transaction, loads

Preview = MemoryPreview | GraphPreview
PreviewReader = Callable[[Transaction, Sequence[UUID]], Awaitable[Sequence[Preview]]]
R = TypeVar("R", bound=Reply | Fault)
W = TypeVar("W", bound=Reply)

_LEFT_OUT: Final = ""  # stands for a text in the ledger; no note, query or content is ever blank
_encoder: Final = msgspec.json.Encoder()


def subject(reply: Reply) -> UUID | None:
    """Return the id of the memory that a reply is about, if it is about one; of a supersession the new one."""
    about = [] if isinstance(reply, QueryConnected) else _about(reply)
    return parse_uuid(about[-1]) if about else None


def announcement(reply: Reply) -> Announcement | None:
    """Return the event that a reply is for webhooks, None for no event.

    An event has ids and words of the vocabulary, nothing that anybody wrote, and nothing about a private memory.
    """
    match reply:
        case Stored(stored=memory) | Superseded(new=memory) | Promoted(memory=memory) if (
            memory.visibility is Visibility.PRIVATE
        ):
            return None
        case Stored(stored=memory):
            return Announcement(WebhookEvent.STORED, _announce(memory), parse_uuid(memory.id))
        case Superseded(old=old, new=new):
            told = {**_announce(old), "superseded_by": new.id}
            return Announcement(WebhookEvent.SUPERSEDED, told, parse_uuid(new.id))
        case Promoted(status="promoted", memory=memory):
            return Announcement(WebhookEvent.PROMOTED, _announce(memory), parse_uuid(memory.id))
        case (
            ChangeNeedsConsent()
            | DeletionNeedsConsent()
            | Reclassified(status=ReclassifyStatus.CONSENT_REQUIRED)
            | Shared(status="consent_required")
        ):
            if len(reply.approved_by or ()) >= limits.CONSENT_PRINCIPALS:
                return None  # the next call does it
            told = {"proposal_id": reply.proposal_id, "expires_at": reply.expires_at}
            return Announcement(WebhookEvent.CONSENT_WANTED, told)
        case _:
            return None


def _announce(memory: Memory) -> dict[str, Any]:
    return {
        "memory_id": memory.id,
        "partition": memory.partition.value,
        "verification": memory.verification.value,
        "state": memory.state.value,
    }


def blank_for_ledger(answer: Answer) -> str:
    """Return what the ledger may keep of an answer."""
    reply, fault = change_contents(answer.reply, _blank), change_contents(answer.fault, _blank)
    return _encoder.encode(Answer(id=answer.id, reply=reply, fault=fault, replayed=answer.replayed)).decode()


def _blank(node: msgspec.Struct) -> msgspec.Struct:
    """Return a part of a reply without what somebody wrote; properties of the graph stay, which no erasure reaches."""
    if isinstance(node, MemoryPreview | GraphPreview):
        return msgspec.structs.replace(node, preview=None)
    blanks: dict[str, Any] = {}
    for name in contents_of(type(node)):
        match getattr(node, name):
            case str():
                blanks[name] = _LEFT_OUT
            case list():
                blanks[name] = []
            case dict() if isinstance(node, Memory):
                blanks[name] = {}
    if isinstance(node, QueryConnected) and node.connect_result is not None and node.connect_result.get("note"):
        blanks["connect_result"] = {**node.connect_result, "note": _LEFT_OUT}
    return msgspec.structs.replace(node, **blanks)


def add_references(reply: R, envelope: Envelope) -> R:
    """Return a write's reply or refusal that names what its references stood for, so that a replay says the same."""
    named = {name: ReferencedMemory(id=memory_id) for name, memory_id in envelope.references.items()}
    return msgspec.structs.replace(reply, resolved_references=named)


async def add_previews(tx: Transaction, reply: W, envelope: Envelope | None) -> W:
    """Return the reply to a write with previews of all that it names; nothing is read where it names nothing.

    There is no preview of what is gone, and none for a caller that may not read. `envelope`: the request that is
    answered, None where that is not known.
    """
    if not isinstance(reply, WriteReply) or (envelope is not None and Scope.READ not in envelope.principal.scopes):
        return reply
    more: dict[str, Any] = {}
    for name, read in _PREVIEWS.items():
        if named := getattr(reply, name, None):
            ids = [memory_id for preview in named if (memory_id := parse_uuid(preview.id)) is not None]
            more[name] = list(await read(tx, ids))
    return msgspec.structs.replace(reply, **more) if more else reply


def _of_memories(*partitions: Partition) -> PreviewReader:
    return lambda tx, ids: previews(tx, ids, partitions)


# How the previews of each field are read; of memories, those of the partitions that are shown there.
_PREVIEWS: Final[Mapping[str, PreviewReader]] = {
    "still_hidden": _of_memories(Partition.TRUSTED),
    "still_resting_on": _of_memories(Partition.TRUSTED),
    "memory_previews": _of_memories(*Partition),
    "node_previews": node_previews,
    "edge_previews": edge_previews,
    "link_previews": edge_previews,
    "kept_node_previews": node_previews,
    "changed_edge_previews": edge_previews,
    "changed_node_previews": node_previews,
    "changed_memory_previews": _of_memories(*Partition),
}


async def restore_answer(tx: Transaction, entry: LedgerEntry, repeated: Envelope | None = None) -> Answer:
    """Return the answer of a ledger row, with what `blank_for_ledger` left out.

    `repeated` is the request that it answers again. Similar memories that are gone are left out; when the memory that
    it is about was erased, the answer says so. An answer that an earlier version wrote in another form is a refusal.
    """
    try:
        answer = msgspec.convert(loads(entry.answer), Answer)
    except msgspec.ValidationError:
        return Answer(id=str(entry.command_id), fault=_unreadable(entry))
    if (fault := answer.fault) is not None:
        if fault.now is not UNSET:
            fault = msgspec.structs.replace(fault, now=None)
        return msgspec.structs.replace(answer, fault=fault)
    assert answer.reply is not None
    reply = await _add_notes(tx, answer.reply, answer.id, None if repeated is None else repeated.command)
    reply = await _add_contents(tx, await add_previews(tx, reply, repeated), answer.id)
    return msgspec.structs.replace(answer, reply=reply)


def _unreadable(entry: LedgerEntry) -> Fault:
    """Return the refusal to give an answer again that an earlier version wrote, with what to call instead."""
    instead = FORMER_TOOLS.get(entry.command)
    code = FaultCode.INTERNAL if instead is None else FaultCode.INVALID_PARAMETER
    error = f"{entry.command} ended under an earlier version, whose answer to it is not read any more."
    recovery = f"Its effect stands. {instead or 'Look at what it was about, and call again only if that is missing.'}"
    return msgspec.structs.replace(refuse(code, error, recovery=recovery).fault, command_id=str(entry.command_id))


def _about(reply: Reply) -> list[str]:
    """Return the ids of the memories that a reply is about."""
    match reply:
        case Forgotten(id=memory_id):
            return [memory_id] if parse_uuid(memory_id) else []
        case QueryConnected(source_id=source, target_id=target):
            return [memory_id for memory_id in (source, target) if memory_id is not None]
        case _:
            parts = (getattr(reply, name) for name in reply.__struct_fields__)
            return [part.id for part in parts if isinstance(part, Memory)]


async def _add_contents(tx: Transaction, reply: Reply, command_id: str) -> Reply:
    """Return a reply with the contents of its memories, or one that says that the memory it is about was erased."""
    about = _about(reply)
    lists = (part for name in reply.__struct_fields__ if isinstance(part := getattr(reply, name), list))
    others = [memory.id for memory in chain.from_iterable(lists) if isinstance(memory, Memory)]
    if not about and not others:
        return reply
    rows = {
        str(row["id"]): row
        for row in await tx.rows("memory_contents", ids=[UUID(known) for known in (*about, *others)])
    }
    says_gone = isinstance(reply, Forgotten | MemoryChanged) and reply.status in ("not_found", "erased")
    gone = next((known for known in about if known not in rows), None)
    if gone is not None and not says_gone:
        return Forgotten(
            status="erased",
            id=gone,
            command_id=reply.command_id if isinstance(reply, WriteReply) else command_id,
            resolved_references=reply.resolved_references,
        )

    def with_contents(node: msgspec.Struct) -> msgspec.Struct | None:
        if isinstance(node, QueryConnected):
            source, target = (None if end is None else rows[end]["content"] for end in (node.source_id, node.target_id))
            return msgspec.structs.replace(node, source_content=source, target_content=target)
        if not isinstance(node, Memory):
            return node
        row = rows.get(node.id)
        if row is None:
            return None
        return msgspec.structs.replace(node, **{name: row[name] for name in contents_of(Memory)})

    return change_contents(reply, with_contents)


class _LinkNote(NamedTuple):
    """The note of one link in a reply; `item` is its index in a batch."""

    action: str
    source_id: str
    target_id: str
    note: str | None
    item: int = 0

    @property
    def pair(self) -> Pair:
        return pair_of(UUID(self.source_id), UUID(self.target_id))


async def _add_notes(tx: Transaction, reply: Reply, command_id: str, asked: Command | None) -> Reply:
    """Return a reply with its notes: a request that is repeated gave its note, any other is read from the link by now.

    `asked`: the request, if it is repeated. The note of a link that is gone is null.
    """
    links = [link for link in _link_notes(reply) if link.note == _LEFT_OUT]
    if not links:
        return reply
    given = {link: None if link.action == LinkAction.SKIPPED else _note_given(asked, link.item) for link in links}
    pairs = {link.pair for link, note in given.items() if note is None}
    lows, highs = [low for low, _ in pairs], [high for _, high in pairs]
    rows = await tx.rows("link_notes", command_id=UUID(command_id), lows=lows, highs=highs) if pairs else []
    now = {(row["low"], row["high"]): row["note"] for row in rows}
    notes = {link.item: now.get(link.pair) if note is None else note for link, note in given.items()}
    match reply:
        case BatchConnected(results=results):
            noted = [msgspec.structs.replace(link, note=notes.get(link.index, link.note)) for link in results]
            return msgspec.structs.replace(reply, results=noted)
        case QueryConnected(connect_result=dict(result)):
            return msgspec.structs.replace(reply, connect_result={**result, "note": notes[0]})
        case _:
            return msgspec.structs.replace(reply, note=notes[0])


def _link_notes(reply: Reply) -> list[_LinkNote]:
    """Return the notes in a reply."""
    match reply:
        case Connected():
            return [_link_note(reply)]
        case BatchConnected(results=results):
            return [_link_note(link, link.index) for link in results]
        case QueryConnected(connect_result=dict(result)) if "note" in result:
            return [_LinkNote(*(result[name] for name in _LinkNote._fields[:-1]))]
        case _:
            return []


def _link_note(link: Connected | BatchLinked, item: int = 0) -> _LinkNote:
    return _LinkNote(link.action, link.source_id, link.target_id, link.note, item)


def _note_given(asked: Command | None, item: int) -> str | None:
    match asked:
        case Connect(note=str(note)) | ConnectByQuery(note=str(note)):
            return note
        case Connects(edges=edges):
            return edges[item].note or None
        case _:
            return None
