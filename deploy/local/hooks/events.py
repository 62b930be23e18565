"""Read an event as a client writes it on a hook's standard input, into one form for all clients."""

import json
import os
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from engramq.deploy.local.hooks.turns import ClientFormat, member, spoken_text, storable, text_at

SESSION_START: Final = "SessionStart"
PROMPT: Final = "UserPromptSubmit"
FILE: Final = "PreToolUse"
STOP: Final = "Stop"
PRE_COMPACT: Final = "PreCompact"
SESSION_END: Final = "SessionEnd"
# Why a session starts: what it was told before is in sight where it resumes or goes on from a copy of another one, and
# lost where it was compacted.
_RESUMED: Final = ("resume", "fork")
_COMPACTED: Final = "compact"
_BY_HAND: Final = "manual"
# Older ones of Gemini CLI are one object that is written anew each time. Whatever is read goes on where it was left.
_NO_LINES: Final = ".json"
# A prompt with a large paste fits. The rest of a longer event is read and dropped, so that its writer gets no error.
LONGEST: Final = 4 * 1024 * 1024
_CHUNK: Final = 65_536
_NAME: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789")
_WITHIN_NAME: Final = _NAME | frozenset("._-")
_SESSION_CHARS: Final = 100
# "*** Update File: src/app.py" is a line of a patch, as Codex writes it.
_PATCH_BEGUN: Final = "*** Begin Patch"
_PATCHED: Final = ("*** Update File: ", "*** Add File: ", "*** Delete File: ")


class BadEvent(ValueError):
    """The input is no event of a client; the message says why."""


class Event(NamedTuple):  # a dataclass takes 7 ms to import, and annotations kept as text one more
    """An event of a session. Empty texts are not given; `transcript` is the file that keeps what was said.

    `told_as`: the client's own name of the event. `moment`: when it happened, as the client wrote it. `files`: what a
    tool reads or changes. `starts_anew`: the model sees nothing of earlier hooks from now on; `was_compacted`: because
    the session goes on with a summary of itself.
    """

    name: str
    session: str
    told_as: str
    folder: str = ""
    transcript: str = ""
    prompt: str = ""
    last_words: str = ""
    turn: str = ""
    moment: str = ""
    in_subagent: bool = False
    files: tuple[str, ...] = ()
    starts_anew: bool = False
    was_compacted: bool = False


def receive(descriptor: int) -> bytes:
    """Return everything that comes on a descriptor; raises BadEvent when it is too long for an event."""
    pieces: list[bytes] = []
    size = 0
    while data := os.read(descriptor, _CHUNK):
        size += len(data)
        if size <= LONGEST:
            pieces.append(data)
    if size > LONGEST:
        raise BadEvent(f"the event has {size} bytes, more than {LONGEST}")
    return b"".join(pieces)


def read_event(data: bytes, client: ClientFormat) -> Event:
    """Return the event that a client has written; raises BadEvent."""
    try:
        event = json.loads(data)
    except (ValueError, RecursionError):
        raise BadEvent("the event is no JSON") from None
    if not isinstance(event, dict):
        raise BadEvent("the event is no JSON object")
    told_as, session = text_at(event, "hook_event_name"), text_at(event, "session_id")
    if not told_as:
        raise BadEvent("the event has no hook_event_name")
    if not _is_session(session):
        raise BadEvent("the event has no usable session_id")
    name = client.event_names.get(told_as, told_as)
    was_compacted = _was_compacted(event, name, client)
    return Event(
        name=name,
        session=session,
        told_as=told_as,
        folder=text_at(event, "cwd"),
        transcript="" if (path := text_at(event, "transcript_path")).endswith(_NO_LINES) else path,
        prompt=spoken_text(text_at(event, "prompt")),  # Gemini CLI puts into it what hooks told before
        last_words=text_at(event, "last_assistant_message") or text_at(event, "prompt_response"),
        turn=text_at(event, "turn_id"),
        moment=text_at(event, "timestamp"),
        in_subagent=bool(event.get("agent_id")),
        files=tuple(dict.fromkeys(_files(event, client))) if name == FILE else (),
        starts_anew=was_compacted or (name == SESSION_START and text_at(event, "source") not in _RESUMED),
        was_compacted=was_compacted,
    )


def _was_compacted(event: dict[str, Any], name: str, client: ClientFormat) -> bool:
    """Say whether the session goes on with a summary of itself from now on.

    Clients that do not restart a session report every turn before they look whether to compact: only a compaction that
    somebody asked for is known to happen.
    """
    if name == SESSION_START:
        return text_at(event, "source") == _COMPACTED
    return name == PRE_COMPACT and not client.restarts and text_at(event, "trigger") == _BY_HAND


def _files(event: dict[str, Any], client: ClientFormat) -> Iterator[str]:
    """Give the paths that a tool's call names: its parameter is one, or a patch of several."""
    parameter = client.file_tools.get(text_at(event, "tool_name"))
    named = member(event, "tool_input").get(parameter) if parameter else None
    if not isinstance(named, str):
        return
    if _PATCH_BEGUN not in named:
        yield storable(named)
        return
    for line in named.splitlines():
        for mark in _PATCHED:
            if line.startswith(mark):
                yield storable(line.removeprefix(mark).strip())


def _is_session(text: str) -> bool:
    """Say whether a text can be a session's id; it becomes part of a file's name."""
    return 0 < len(text) <= _SESSION_CHARS and text[0] in _NAME and _WITHIN_NAME.issuperset(text)
