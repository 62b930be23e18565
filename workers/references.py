"""What the references of a call stood for, as its reply or its refusal tells: ids, and how each content begins.

The ledger keeps the ids alone, as it keeps no contents: see answers.py. The beginnings are read whenever an answer is
given, so that nothing of an erased memory is left in one.
"""

from typing import TypeVar

import msgspec
from msgspec import UNSET

from engramq.schemas import limits
from engramq.schemas.commands import Command, GetMemory, Reply
from engramq.schemas.envelope import Envelope
from engramq.schemas.faults import Fault
from engramq.schemas.ids import parse_uuid
from engramq.schemas.records import MemoryPreview
from engramq.schemas.vocabulary import Partition, Scope
from engramq.workers.db.memory_previews import previews
from engramq.workers.db.transaction import Transaction

Told = TypeVar("Told", bound=Reply | Fault)


def named(told: Told, envelope: Envelope) -> Told:
    """Return a reply or a refusal that names what the call's references stood for, without previews."""
    if not envelope.references:
        return told
    known = {reference: MemoryPreview(id=one, preview=None) for reference, one in envelope.references.items()}
    return msgspec.structs.replace(told, resolved_references=known)


def without_previews(told: Told) -> Told:
    """Return what the ledger may keep of a reply or a refusal."""
    if told.resolved_references is UNSET:
        return told
    kept = {name: MemoryPreview(id=one.id, preview=None) for name, one in told.resolved_references.items()}
    return msgspec.structs.replace(told, resolved_references=kept)


async def previewed(tx: Transaction, told: Told, envelope: Envelope | None = None) -> Told:
    """Return a reply or a refusal with previews of what it names as references, in one statement; none costs nothing.

    None of what is gone, nor of an untrusted memory unless the command of the envelope asks for these, nor for who may
    not read.
    """
    known = told.resolved_references
    if known is UNSET or (envelope is not None and Scope.READ not in envelope.principal.scopes):
        return told
    ids = {one.id: parse_uuid(one.id) for one in known.values()}
    partitions = _partitions(None if envelope is None else envelope.command)
    read = await previews(tx, [one for one in ids.values() if one is not None], partitions, limits.REFERENCE_CHARS)
    by_id = {one.id: one.preview for one in read}
    with_previews = {name: MemoryPreview(id=one.id, preview=by_id.get(str(ids[one.id]))) for name, one in known.items()}
    return msgspec.structs.replace(told, resolved_references=with_previews)


def _partitions(command: Command | None) -> list[Partition]:
    """Return the partitions whose contents the caller wants to see."""
    wants_untrusted = isinstance(command, GetMemory) and command.include_untrusted
    return list(Partition) if wants_untrusted else [Partition.TRUSTED]
