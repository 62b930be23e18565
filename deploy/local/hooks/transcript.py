"""The turns in the files in which clients keep what was said: JSON lines that are only ever added to.

Neither client promises that format; what is not understood is passed over.
"""

import json
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from engramq.deploy.local.hooks.marks import said
from engramq.deploy.local.hooks.words import storable

CLAUDE_CODE: Final = "claude-code"
CODEX: Final = "codex"
GEMINI: Final = "gemini"
# A longer line is the output of a tool, which is not captured.
_LONGEST_LINE: Final = 4 * 1024 * 1024
USER: Final = "user"
ASSISTANT: Final = "assistant"
_KINDS: Final = {USER: USER, ASSISTANT: ASSISTANT}
_CODEX_KINDS: Final = {"user_message": USER, "agent_message": ASSISTANT}
_GEMINI_KINDS: Final = {"user": USER, "gemini": ASSISTANT}
# Of another one memories know no time; the turn is kept without it.
_MOMENT: Final = (
    r"(?a)(?!0000)\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,9})?"
    r"(?:Z|[+-]\d\d:\d\d)?"
)
_SPOKEN: Final = (b'"user', b'"assistant', b'"agent_message', b'"gemini"')
_NOT_SAID: Final = ("isMeta", "isSidechain", "isCompactSummary", "isApiErrorMessage", "isVisibleInTranscriptOnly")


class Turn(NamedTuple):
    """What somebody said once. `key` is the same each time that it is read; `moment` is as the client wrote it."""

    key: str
    speaker: str
    text: str
    moment: str = ""


def turns_after(path: str, offset: int, client: str) -> Iterator[tuple[int, Turn | None]]:
    """Give where each whole line after an offset ends, with the turn in it if it has one.

    A file that is shorter than that was written anew, and is read from its beginning. Raises OSError when it cannot be
    read.
    """
    turn_of = _TURN_OF[client]
    # A pipe would be waited for.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(f"{path} is no file")
        file.seek(offset if offset <= found.st_size else 0)
        at = file.tell()
        while line := file.readline(_LONGEST_LINE):
            length, is_whole = len(line), line.endswith(b"\n")
            while not is_whole and (more := file.readline(_LONGEST_LINE)):
                length, is_whole, line = length + len(more), more.endswith(b"\n"), b""
            if not is_whole:
                return
            at += length
            yield at, turn_of(_object(line))


def _object(line: bytes) -> Mapping[str, Any]:
    # Most lines are of tools: parsing them would take the most time.
    if not any(word in line for word in _SPOKEN):
        return {}
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _claude_code(line: Mapping[str, Any]) -> Turn | None:
    speaker = _KINDS.get(str(line.get("type")))
    message = line.get("message")
    if speaker is None or not isinstance(message, dict) or any(line.get(name) for name in _NOT_SAID):
        return None
    key, moment = line.get("uuid"), line.get("timestamp")
    text = said(_text_in(message.get("content")))
    if not text or not isinstance(key, str) or not key:
        return None
    return Turn(storable(key), speaker, text, moment_of(moment))


def _codex(line: Mapping[str, Any]) -> Turn | None:
    payload = line.get("payload")
    if line.get("type") != "event_msg" or not isinstance(payload, dict):
        return None
    speaker, moment = _CODEX_KINDS.get(str(payload.get("type"))), line.get("timestamp")
    text = payload.get("message")
    if speaker is None or not isinstance(text, str) or not isinstance(moment, str) or not (text := said(text)):
        return None
    return Turn(storable(f"{moment}:{speaker}"), speaker, text, moment_of(moment))


def _gemini(line: Mapping[str, Any]) -> Turn | None:
    """Return a turn of Gemini CLI, which writes a message anew, with the same id, for each of its tools."""
    speaker, key = _GEMINI_KINDS.get(str(line.get("type"))), line.get("id")
    # What the user typed, where that is not what the model was given: files that were named, what hooks told.
    text = said(_text_in(line.get("displayContent") or line.get("content")))
    if speaker is None or not isinstance(key, str) or not key or not text:
        return None
    return Turn(storable(key), speaker, text, moment_of(line.get("timestamp")))


_TURN_OF: Final[Mapping[str, Callable[[Mapping[str, Any]], Turn | None]]] = {
    CLAUDE_CODE: _claude_code,
    CODEX: _codex,
    GEMINI: _gemini,
}


def moment_of(given: object) -> str:
    """Return a time as memories know it, "" for what is none."""
    return given if isinstance(given, str) and re.fullmatch(_MOMENT, given) else ""


def _text_in(content: object) -> str:
    """Return the text of a message: not what tools were given and gave, nor pictures, nor thoughts."""
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else [content]
    texts = [block.get("text") if isinstance(block, dict) and _is_text(block) else block for block in blocks]
    return "\n\n".join(text for text in texts if isinstance(text, str))


def _is_text(block: Mapping[str, Any]) -> bool:
    """Say whether a block is spoken: Gemini CLI gives it no type, and marks thoughts."""
    return block.get("type", "text") == "text" and not block.get("thought")
