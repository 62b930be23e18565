"""Answers as the ledger keeps them: without what memories contain, so that an erased memory leaves nothing there.

Queries are not kept either, since they may say the same; who repeats a command has them, get_command shows "".
"""

from collections.abc import Callable, Iterable
from typing import Any, Final
from uuid import UUID

import msgspec

from engramq.schemas.commands import (
    BatchConnected,
    Connected,
    Forgotten,
    MemoryChanged,
    Promoted,
    QueryConnected,
    Reply,
    Stored,
    Superseded,
    WriteReply,
)
from engramq.schemas.envelope import Answer, Envelope
from engramq.schemas.ids import parse_uuid
from engramq.schemas.records import Memory
from engramq.workers.db import json_values
from engramq.workers.db.queries import sql
from engramq.workers.db.transaction import Transaction
from engramq.workers.links.replies import with_notes, without_notes
from engramq.workers.previews import bare, read_previews
from engramq.workers.references import previewed, without_previews

CONTENTS: Final = sql("memory_contents")

Change = Callable[[Memory], Memory | None]

_encoder: Final = msgspec.json.Encoder()
_BARE: Final[dict[str, Any]] = {
    "content": "",
    "metadata": {},
    "tags": [],
    "project": None,
    "external_id": None,
    "speaker": None,
    "thread": None,
    "source_type": None,
}


def subject(reply: Reply) -> UUID | None:
    """Return the id of the memory that a reply is about, if it is about one."""
    match reply:
        case (
            Stored(stored=memory)
            | Superseded(new=memory)
            | MemoryChanged(memory=Memory() as memory)
            | Promoted(memory=memory)
        ):
            return parse_uuid(memory.id)
        case Forgotten(id=memory_id):
            return parse_uuid(memory_id)
        case _:
            return None


def encode_answer(answer: Answer) -> str:
    """Return what the ledger keeps of an answer."""
    match answer.reply:
        case Connected() | BatchConnected() as reply:
            kept: Reply | None = without_notes(reply)
        case QueryConnected() as reply:
            kept = without_notes(_with_contents(reply, lambda _: "", source_query="", target_query=""))
        case None:
            kept = None
        case reply:
            kept = _with_memories(bare(reply), _bare)
    reply = None if kept is None else without_previews(kept)
    fault = None if answer.fault is None else without_previews(answer.fault)
    return _encoder.encode(Answer(id=answer.id, reply=reply, fault=fault, replayed=answer.replayed)).decode()


def decode_answer(text: str) -> Answer:
    """Return an answer as the ledger has it; see `filled`."""
    return msgspec.convert(json_values.loads(text), Answer)


async def filled(tx: Transaction, answer: Answer, repeated: Envelope | None = None) -> Answer:
    """Return an answer with the contents of its memories read again; `repeated` is the request that it answers again.

    Similar memories that are gone are left out; when the memory that it is about was erased, the answer says so.
    """
    if answer.fault is not None:
        return msgspec.structs.replace(answer, fault=await previewed(tx, answer.fault, repeated))
    assert answer.reply is not None
    named = msgspec.structs.replace(answer, reply=await previewed(tx, answer.reply, repeated))
    return await _complete(tx, named, repeated)


async def _complete(tx: Transaction, answer: Answer, repeated: Envelope | None) -> Answer:
    assert answer.reply is not None
    reply = await with_notes(tx, answer.reply, answer.id, None if repeated is None else repeated.command)
    reply = await read_previews(tx, reply, repeated)
    wanted = _ids(reply)
    if not wanted:
        return msgspec.structs.replace(answer, reply=reply)
    rows = {str(row["id"]): row for row in await tx.rows(CONTENTS, ids=[UUID(one) for one in wanted])}
    for memory_id in _ids(reply, about_only=True):
        if memory_id not in rows and not _says_gone(reply):
            command_id = reply.command_id if isinstance(reply, WriteReply) else answer.id
            erased = Forgotten(
                status="erased", id=memory_id, command_id=command_id, resolved_references=reply.resolved_references
            )
            return msgspec.structs.replace(answer, reply=erased)

    if isinstance(reply, QueryConnected):
        reply = _with_contents(reply, lambda memory_id: rows[memory_id]["content"])
        return msgspec.structs.replace(answer, reply=reply)

    def fill(memory: Memory) -> Memory | None:
        row = rows.get(memory.id)
        if row is None:
            return None
        return msgspec.structs.replace(memory, **{name: row[name] for name in _BARE})

    return msgspec.structs.replace(answer, reply=_with_memories(reply, fill))


def _bare(memory: Memory) -> Memory:
    return msgspec.structs.replace(memory, **_BARE)


def _says_gone(reply: Reply) -> bool:
    return isinstance(reply, Forgotten | MemoryChanged) and reply.status in ("not_found", "erased")


def _ids(reply: Reply, *, about_only: bool = False) -> list[str]:
    match reply:
        case Stored(stored=memory, similar_memories=similar):
            return [memory.id, *(() if about_only else (one.id for one in similar))]
        case Superseded(old=old, new=new):
            return [old.id, new.id]
        case MemoryChanged(memory=Memory(id=memory_id)) | Promoted(memory=Memory(id=memory_id)):
            return [memory_id]
        case Forgotten(id=memory_id) if parse_uuid(memory_id):
            return [memory_id]
        case QueryConnected(source_id=source, target_id=target):
            return [one for one in (source, target) if one is not None]
        case _:
            return []


def _with_contents(reply: QueryConnected, content_of: Callable[[str], str], **changes: Any) -> QueryConnected:
    """Return the reply with other contents for the memories that it names."""
    source, target = reply.source_id, reply.target_id
    return msgspec.structs.replace(
        reply,
        source_content=None if source is None else content_of(source),
        target_content=None if target is None else content_of(target),
        **changes,
    )


def _with_memories(reply: Reply, change: Change) -> Reply:
    match reply:
        case Stored(stored=memory, similar_memories=similar):
            return msgspec.structs.replace(reply, stored=change(memory), similar_memories=_all(similar, change))
        case Superseded(old=old, new=new):
            return msgspec.structs.replace(reply, old=change(old), new=change(new))
        case MemoryChanged(memory=Memory() as memory) | Promoted(memory=memory):
            return msgspec.structs.replace(reply, memory=change(memory))
        case _:
            return reply


def _all(memories: Iterable[Memory], change: Change) -> list[Memory]:
    return [changed for memory in memories if (changed := change(memory)) is not None]
