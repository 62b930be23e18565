"""Notes of links in answers. The ledger keeps none, since a note may say what an erased memory said.

A request that is repeated has the note that it gave; any other note is read from the link, as it is by then.
"""

from collections.abc import Callable
from typing import Final, NamedTuple
from uuid import UUID

import msgspec

from engramq.schemas.commands import (
    AnyReply,
    BatchConnected,
    BatchLinked,
    Command,
    Connect,
    ConnectByQuery,
    Connected,
    Connects,
    QueryConnected,
)
from engramq.schemas.vocabulary import LinkAction
from engramq.workers.db.queries import sql
from engramq.workers.db.transaction import Transaction
from engramq.workers.links.rules import Pair, pair_of
from engramq.workers.links.snapshot import columns_of

NOTES: Final = sql("link_notes")

_LEFT_OUT: Final = ""  # stands for a note in the ledger; no note is ever blank


class _Told(NamedTuple):
    """What an answer tells of one link; `item` is its index in a batch."""

    action: str
    source_id: str
    target_id: str
    note: str | None
    item: int = 0

    @property
    def pair(self) -> Pair:
        return pair_of(UUID(self.source_id), UUID(self.target_id))


def without_notes(reply: AnyReply) -> AnyReply:
    """Return an answer as the ledger keeps it."""
    return _changed(reply, lambda told: None if told.note is None else _LEFT_OUT)


async def with_notes(tx: Transaction, reply: AnyReply, command_id: str, asked: Command | None) -> AnyReply:
    """Return the answer of a command, from the ledger, with its notes again; `asked` is the request, if repeated.

    The note of a link that is gone is null.
    """
    notes: dict[_Told, str | None] = {}

    def collect(told: _Told) -> str | None:
        if told.note == _LEFT_OUT:
            notes[told] = None if asked is None or told.action == LinkAction.SKIPPED else _given(asked, told.item)
        return told.note

    _changed(reply, collect)
    pairs = {told.pair for told, note in notes.items() if note is None}
    if pairs:
        rows = await tx.rows(NOTES, command_id=UUID(command_id), **columns_of(pairs))
        now = {(row["low"], row["high"]): row["note"] for row in rows}
        notes = {told: note if note is not None else now.get(told.pair) for told, note in notes.items()}
    return _changed(reply, lambda told: notes.get(told, told.note))


def _given(asked: Command, item: int) -> str | None:
    match asked:
        case Connect(note=str(note)) | ConnectByQuery(note=str(note)):
            return note
        case Connects(edges=edges):
            return edges[item].note or None
        case _:
            return None


def _changed(reply: AnyReply, note_of: Callable[[_Told], str | None]) -> AnyReply:
    """Return an answer with other notes."""
    match reply:
        case Connected():
            return msgspec.structs.replace(reply, note=note_of(_told(reply)))
        case BatchConnected(results=results):
            noted = [msgspec.structs.replace(one, note=note_of(_told(one, one.index))) for one in results]
            return msgspec.structs.replace(reply, results=noted)
        case QueryConnected(connect_result=dict(result)) if "note" in result:
            told = _Told(*(result[name] for name in _Told._fields[:-1]))
            return msgspec.structs.replace(reply, connect_result={**result, "note": note_of(told)})
        case _:
            return reply


def _told(one: Connected | BatchLinked, item: int = 0) -> _Told:
    return _Told(one.action, one.source_id, one.target_id, one.note, item)
