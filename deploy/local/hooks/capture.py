"""Capture what was said since the last time, each turn once, as memories that nobody has vouched for.

Clients keep what was said in files of JSON lines that are only ever added to. None of them promises its format: a line
that is not understood is passed over, but where somebody spoke and no line is understood, all of them are kept for a
release that does.
"""

import contextlib
import json
import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from engramq.deploy.local.home import Home
from engramq.deploy.local.hooks.connection import Away, HookCallRefused, HookConnection
from engramq.deploy.local.hooks.notes import SessionNotes
from engramq.deploy.local.hooks.transcripts import CLIENTS, opened, turn_in, whole_lines
from engramq.deploy.local.hooks.turns import UNTRUSTED, ClientFormat, Turn, split

TAG: Final = "captured"
SOURCE_TYPE: Final = "conversation"
LOG: Final = "hooks.log"
# A call carries no more, so that a slow machine gets on: what is not acknowledged within a hook's time is sent anew by
# the next. With 64 turns of 8 KB, two cores under a load of 10 acknowledged nothing to eight hooks in a row.
_TURNS: Final = 16
_CALL_CHARS: Final = 128 * 1024
# A memory may have 32,768: marks in the place of secrets are longer than some of these.
_CONTENT_CHARS: Final = 30_000
_LOG_BYTES: Final = 256 * 1024  # some thousand refusals; then it is begun anew, and the one before is kept
_ERROR_CHARS: Final = 300


def capture(memory: HookConnection, notes: SessionNotes) -> None:
    """Store the turns that the session's transcript has beyond its notes, and note how far it is now.

    Raises Away when that was not acknowledged, and OSError when the transcript cannot be read: the next event of the
    session goes on from where the notes say.
    """
    waiting: list[Turn] = []
    chars = 0
    is_understood = False
    begin = end = notes.offset
    for end, turn in _turns_after(notes.transcript, notes.offset, CLIENTS[notes.client]):
        if turn is not None:
            is_understood = True
            waiting.append(turn)
            chars += len(turn.text)
        if len(waiting) >= _TURNS or chars >= _CALL_CHARS:
            store(memory, waiting, notes.client, notes.session)
            waiting, chars = [], 0
            _note_end(notes, end)
    if waiting:
        store(memory, waiting, notes.client, notes.session)
    if is_understood or end <= begin or not notes.has_spoken:
        _note_end(notes, end)
    elif end - begin > notes.not_understood:
        _note_unknown_form(memory.home, notes, end - begin)


def _note_end(notes: SessionNotes, end: int) -> None:
    """Note that the transcript is captured up to here."""
    if (end, False, 0) != (notes.offset, notes.has_spoken, notes.not_understood):
        notes.offset, notes.has_spoken, notes.not_understood = end, False, 0
        notes.write()


def _note_unknown_form(home: Home, notes: SessionNotes, size: int) -> None:
    """Note that no line of so many bytes is understood; say so once a session."""
    if not notes.not_understood:
        error = (
            f"no line of its transcript is understood, so nothing of it is kept: {notes.client} may write a new form"
        )
        _log(home, notes.client, notes.session, not_understood=size, error=error)
    notes.not_understood = size
    notes.write()


def _turns_after(path: str, offset: int, client: ClientFormat) -> Iterator[tuple[int, Turn | None]]:
    """Give where each whole line after an offset ends, with the turn in it if it has one.

    A file that is shorter than that was written anew, and is read from its beginning. Raises OSError when it cannot be
    read.
    """
    with opened(path) as file:
        file.seek(offset if offset <= os.fstat(file.fileno()).st_size else 0)
        at = file.tell()
        for length, line in whole_lines(file):
            if line is None:
                return
            at += length
            yield at, turn_in(line, client)


def store(memory: HookConnection, turns: Iterable[Turn], client: str, session: str) -> None:
    """Store turns of a session; raises Away when that was not acknowledged.

    A turn that is refused for good is noted and left out: it must not keep the others from being kept.
    """
    records = [record for turn in turns for record in records_of(turn, client, session)]
    refused: list[str] = []
    for start in range(0, len(records), _TURNS):
        refused += _send(memory, records[start : start + _TURNS])
    _note_refusals(memory.home, client, session, refused)


def _send(memory: HookConnection, records: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return why records were refused, an error each."""
    try:
        reply = memory.call("import_memories", {"records": records})
    except HookCallRefused as problem:
        if len(records) == 1:
            return [str(problem)]
        return [error for record in records for error in _send(memory, [record])]
    if reply.get("status") != "accepted":
        raise Away(f"not acknowledged: {reply.get('status')}")
    return [f"get_command has the receipts of {reply['command_id']}"] * (len(records) - reply["accepted"])


def records_of(turn: Turn, client: str, session: str) -> list[Mapping[str, Any]]:
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
        for number, piece in enumerate(split(turn.text, _CONTENT_CHARS))
    ]


def _note_refusals(home: Home, client: str, session: str, errors: Sequence[str]) -> None:
    """Say on standard error and in the home's log how many turns were refused, and why; never what they said.

    Nobody sees what a hook says, and no refusal may go unsaid.
    """
    if errors:
        reason = errors[0][:_ERROR_CHARS]
        sys.stderr.write(f"engramq hook: {len(errors)} of this session's turns were refused and not kept: {reason}\n")
        _log(home, client, session, refused=len(errors), error=reason)


def _log(home: Home, client: str, session: str, **more: Any) -> None:
    moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    line = {"time": moment, "client": client, "session": session, **more}
    path = home.logs / LOG
    with contextlib.suppress(OSError):  # a disk that is full must not end the hook
        if path.exists() and path.stat().st_size > _LOG_BYTES:
            path.replace(path.with_name(f"{LOG}.old"))
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "a", encoding="utf-8") as log:
            log.write(json.dumps(line) + "\n")
