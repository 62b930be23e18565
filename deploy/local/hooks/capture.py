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
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from engramq.deploy.local.home import Home
from engramq.deploy.local.hooks.connection import Away, HookCallRefused, HookConnection
from engramq.deploy.local.hooks.notes import SessionNotes
from engramq.deploy.local.hooks.transcripts import CLIENTS, Transcript, known_kinds, open_transcript, whole_lines
from engramq.deploy.local.hooks.turns import UNTRUSTED, Turn, split

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


def capture(memory: HookConnection, notes: SessionNotes, *, has_ended: bool = False) -> None:
    """Store the turns that the session's transcript has beyond its notes, and note how far it is now.

    `has_ended`: the session has, so that no line settles what another one leaves open. Raises Away when that was not
    acknowledged, and OSError when the transcript cannot be read: the next event of the session goes on from where the
    notes say.
    """
    client = CLIENTS[notes.client]
    waiting: list[Turn] = []
    chars = 0
    is_understood = notes.go_back(known_kinds(client))
    begin = end = notes.offset
    transcript = Transcript(client)
    for end, turn in _turns_after(notes, transcript, has_ended=has_ended):
        if turn is not None:
            is_understood = True
            waiting.append(turn)
            chars += len(turn.text)
        if len(waiting) >= _TURNS or chars >= _CALL_CHARS:
            store(memory, waiting, notes.client, notes.session)
            waiting, chars = [], 0
            _note_end(notes, _settled(transcript, end))
    if waiting:
        store(memory, waiting, notes.client, notes.session)
    if is_understood or end <= begin or not notes.has_spoken:
        _note_unknown_kinds(memory.home, notes, transcript)
        _note_end(notes, end if has_ended else _settled(transcript, end))
    elif end - begin > notes.not_understood:
        _note_unknown_form(memory.home, notes, end - begin)


def _settled(transcript: Transcript, end: int) -> int:
    """Return how far nothing waits for a later line, so that what waits is read again with it."""
    return end if transcript.waits_at is None else min(end, transcript.waits_at)


def _note_end(notes: SessionNotes, end: int) -> None:
    """Note that the transcript is captured up to here."""
    if (end, False, 0) != (notes.offset, notes.has_spoken, notes.not_understood):
        notes.offset, notes.has_spoken, notes.not_understood = end, False, 0
        notes.write()


def _note_unknown_kinds(home: Home, notes: SessionNotes, transcript: Transcript) -> None:
    """Note which lines are of kinds that are not known; say so once a session for each kind."""
    if not transcript.unknown:
        return
    if transcript.unknown.keys() - notes.unknown.keys():
        several = ", ".join(f"{count} {kind}" for kind, count in transcript.unknown.items())
        error = f"lines of a kind that this version does not know, which a later one reads: {several}"
        _log(home, notes.client, notes.session, error=error)
    notes.unknown_at = min(notes.unknown_at, transcript.unknown_at) if notes.unknown else transcript.unknown_at
    notes.unknown = dict(Counter(notes.unknown) + transcript.unknown)
    notes.unknown_to = known_kinds(CLIENTS[notes.client])
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


def _turns_after(notes: SessionNotes, transcript: Transcript, *, has_ended: bool) -> Iterator[tuple[int, Turn | None]]:
    """Give where each whole line after the offset of the notes begins or ends, with the turns in it, if it has any.

    A file that is shorter than that was written anew, and is read from its beginning. Raises OSError when it cannot be
    read.
    """
    client = CLIENTS[notes.client]
    with open_transcript(notes.transcript) as file:
        offset = notes.offset if notes.offset <= os.fstat(file.fileno()).st_size else 0
        at = begin = 0 if client.from_start else offset
        file.seek(begin)
        for length, line in whole_lines(file):
            if line is None:
                break
            begin, at = at, at + length
            content = transcript.parse(line)
            if content is None:
                yield max(at, offset), None
                continue
            spoken = list(transcript.read(content, begin, counts=at > offset))
            for each in spoken if at > offset else ():
                yield at, each.turn
            if not spoken:
                yield max(at, offset), None
        for each in transcript.rest(has_ended=has_ended):
            if each.line >= offset:
                yield at, each.turn


def store(memory: HookConnection, turns: Iterable[Turn], client: str, session: str) -> None:
    """Store turns of a session; raises Away when that was not acknowledged.

    A turn that is refused for good is left out: it must not keep the others from being kept. How many were, and why, is
    said on standard error and in the home's log, never what they said: nobody sees what a hook says.
    """
    records = [record for turn in turns for record in records_of(turn, client, session)]
    refused: list[str] = []
    for start in range(0, len(records), _TURNS):
        refused += _send(memory, records[start : start + _TURNS])
    if refused:
        reason = refused[0][:_ERROR_CHARS]
        sys.stderr.write(f"engramq hook: {len(refused)} of this session's turns were refused and not kept: {reason}\n")
        _log(memory.home, client, session, refused=len(refused), error=reason)


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
            **({} if turn.position is None else {"position": turn.position}),
        }
        for number, piece in enumerate(split(turn.text, _CONTENT_CHARS))
    ]


def _log(home: Home, client: str, session: str, **more: Any) -> None:
    moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    line = {"time": moment, "client": client, "session": session, **more}
    path = home.logs / LOG
    with contextlib.suppress(OSError):  # a disk that is full must not end the hook
        if path.exists() and path.stat().st_size > _LOG_BYTES:
            path.replace(path.with_name(f"{LOG}.old"))
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "a", encoding="utf-8") as log:
            log.write(json.dumps(line) + "\n")
