"""Captures what was said since the last time, each turn once, as memories that nobody has vouched for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from engramq.deploy.local.hooks.memory import Away, Memory, Refused
from engramq.deploy.local.hooks.progress import Progress
from engramq.deploy.local.hooks.refusals import note_refusals
from engramq.deploy.local.hooks.transcript import Turn, turns_after
from engramq.deploy.local.hooks.words import UNTRUSTED

TAG: Final = "captured"
SOURCE_TYPE: Final = "conversation"
# A call carries no more, so that a slow machine gets on: what is not acknowledged within a hook's time is sent anew by
# the next. With 64 turns of 8 KB, two cores under a load of 10 acknowledged nothing to eight hooks in a row.
_TURNS: Final = 16
_CALL_CHARS: Final = 128 * 1024
_CONTENT_CHARS: Final = (
    30_000  # of the 32,768 that a memory may have; marks in the place of secrets are longer than some
)
_GAPS: Final = ("\n\n", "\n", " ")


def capture(memory: Memory, progress: Progress) -> None:
    """Store the turns that the session's transcript has beyond its progress, and note how far it is now.

    Raises Away when that was not acknowledged, and OSError when the transcript cannot be read: the next event of the
    session goes on from where the notes say.
    """
    waiting: list[Turn] = []
    chars = 0
    end = progress.offset
    for end, turn in turns_after(progress.transcript, progress.offset, progress.client):
        if turn is not None:
            waiting.append(turn)
            chars += len(turn.text)
        if len(waiting) >= _TURNS or chars >= _CALL_CHARS:
            store(memory, waiting, progress.client, progress.session)
            waiting, chars = [], 0
            progress.offset = end
            progress.write()
    if waiting:
        store(memory, waiting, progress.client, progress.session)
    if end != progress.offset:
        progress.offset = end
        progress.write()


def store(memory: Memory, turns: Iterable[Turn], client: str, session: str) -> None:
    """Store turns of a session; raises Away when that was not acknowledged.

    A turn that is refused for good is noted and left out: it must not keep the others from being kept.
    """
    records = [record for turn in turns for record in _records(turn, client, session)]
    refused: list[str] = []
    for start in range(0, len(records), _TURNS):
        refused += _send(memory, records[start : start + _TURNS])
    note_refusals(memory.home, client, session, refused)


def _send(memory: Memory, records: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return why records were refused, an error each."""
    try:
        reply = memory.call("import_memories", {"records": records})
    except Refused as problem:
        if len(records) == 1:
            return [str(problem)]
        return [error for record in records for error in _send(memory, [record])]
    if reply.get("status") != "accepted":
        raise Away(f"not acknowledged: {reply.get('status')}")
    return [f"get_command has the receipts of {reply['command_id']}"] * (len(records) - reply["accepted"])


def _records(turn: Turn, client: str, session: str) -> list[Mapping[str, Any]]:
    """Return the memories that a turn is: one, unless it is very long."""
    return [
        {
            "content": piece,
            "external_id": f"{client}:{turn.key}" + (f":{number}" if number else ""),
            "partition": UNTRUSTED,
            "source_type": SOURCE_TYPE,
            "speaker": turn.speaker,
            "thread": session,
            "tags": [TAG, client],
            **({"occurred_at": turn.moment} if turn.moment else {}),
        }
        for number, piece in enumerate(_pieces(turn.text))
        if piece.strip()
    ]


def _pieces(text: str) -> Iterator[str]:
    """Give a text in pieces that memories can hold, cut where paragraphs end, else lines, else words.

    A key or token that was cut in two would be known as one in neither half, and be kept.
    """
    at = 0
    while len(text) - at > _CONTENT_CHARS:
        half, most = at + _CONTENT_CHARS // 2, at + _CONTENT_CHARS
        ends = (found + len(gap) for gap in _GAPS if (found := text.rfind(gap, half, most)) >= 0)
        end = next(ends, most)
        yield text[at:end]
        at = end
    yield text[at:]
