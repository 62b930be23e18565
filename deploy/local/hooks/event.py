"""An event as a client writes it to a hook's standard input: one JSON object.

Named as Claude Code names it, which Codex does too; Gemini CLI has other names for some.
"""

import json
import os
from pathlib import Path
from typing import Any, Final, NamedTuple

from engramq.deploy.local.hooks.words import storable

SESSION_START: Final = "SessionStart"
PROMPT: Final = "UserPromptSubmit"
STOP: Final = "Stop"
PRE_COMPACT: Final = "PreCompact"
SESSION_END: Final = "SessionEnd"
_GEMINI_NAMES: Final = {"BeforeAgent": PROMPT, "AfterAgent": STOP, "PreCompress": PRE_COMPACT}
# Older ones of Gemini CLI are one object that is written anew each time. Whatever is read goes on where it was left.
_NO_LINES: Final = ".json"
# A prompt with a large paste fits. The rest of a longer event is read and dropped, so that its writer gets no error.
LONGEST: Final = 4 * 1024 * 1024
_CHUNK: Final = 65_536
_NAME: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789")
_WITHIN_NAME: Final = _NAME | frozenset("._-")
_SESSION_CHARS: Final = 100
_PROJECT_CHARS: Final = 255
_EVERY_PROJECT: Final = "*"


class BadEvent(ValueError):
    """What came is no event of a client; the message says why."""


class Event(NamedTuple):  # a dataclass takes 7 ms to import, and annotations kept as text one more
    """What happened in which session. Empty texts are not given; `transcript` is the file that keeps what was said.

    `told_as`: the client's own name of the event. `moment`: when it happened, as the client wrote it.
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

    @property
    def project(self) -> str:
        """The name of the repository that the folder is in, else of the folder."""
        return project_of(self.folder)


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


def read_event(data: bytes) -> Event:
    """Return the event that a client has written; raises BadEvent."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        raise BadEvent("the event is no JSON") from None
    if not isinstance(found, dict):
        raise BadEvent("the event is no JSON object")
    name, session = _text(found, "hook_event_name"), _text(found, "session_id")
    if not name:
        raise BadEvent("the event has no hook_event_name")
    if not _is_session(session):
        raise BadEvent("the event has no usable session_id")
    return Event(
        name=_GEMINI_NAMES.get(name, name),
        session=session,
        told_as=name,
        folder=_text(found, "cwd"),
        transcript="" if (path := _text(found, "transcript_path")).endswith(_NO_LINES) else path,
        prompt=_text(found, "prompt"),
        last_words=_text(found, "last_assistant_message") or _text(found, "prompt_response"),
        turn=_text(found, "turn_id"),
        moment=_text(found, "timestamp"),
        in_subagent=bool(found.get("agent_id")),
    )


def project_of(folder: str) -> str:
    """Return the name of the repository that a folder is in, else of the folder; "" for the root and for none."""
    if not folder or "\0" in folder:
        return ""
    here = Path(folder)
    for place in (here, *here.parents):
        if (place / ".git").exists():
            here = place
            break
    name = here.name.encode("utf-8", "replace").decode()[:_PROJECT_CHARS].strip()
    return "" if name == _EVERY_PROJECT else name


def _is_session(text: str) -> bool:
    """Say whether a text can be a session's id; it becomes part of a file's name."""
    return 0 < len(text) <= _SESSION_CHARS and text[0] in _NAME and _WITHIN_NAME.issuperset(text)


def _text(found: dict[str, Any], name: str) -> str:
    value = found.get(name)
    return storable(value) if isinstance(value, str) else ""
