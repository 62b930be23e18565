"""Read the transcripts of clients that write such, line by line, for hooks and for imports.

Lines are only ever added to a transcript, so its last one may be half written.
"""

import json
import os
import stat
from collections.abc import Iterator, Mapping
from typing import IO, Any, Final, Protocol

from engramq.deploy.local.hooks.turns import (
    ASSISTANT,
    SUBAGENT,
    SUMMARY,
    USER,
    ClientFormat,
    SessionFacts,
    Turn,
    make_turn,
    text_at,
    text_in,
)

# Claude Code writes a line for each message of the user, of the model, or of a tool.
_CLAUDE_SPEAKERS: Final = {"user": USER, "assistant": ASSISTANT}
_NOT_SPOKEN: Final = ("isMeta", "isSidechain", "isCompactSummary", "isApiErrorMessage", "isVisibleInTranscriptOnly")
_CLAUDE_FILE_TOOLS: Final = {
    **dict.fromkeys(("Read", "Edit", "MultiEdit", "Write"), "file_path"),
    "NotebookEdit": "notebook_path",
}


def _claude_turn(line: Mapping[str, Any]) -> Turn | None:
    message = line.get("message")
    if not isinstance(message, dict) or any(line.get(name) for name in _NOT_SPOKEN):
        return None
    speaker = _CLAUDE_SPEAKERS.get(str(line.get("type")))
    return make_turn(line.get("uuid"), speaker, text_in(message.get("content")), line.get("timestamp"))


def _is_claude_line(line: Mapping[str, Any]) -> bool:
    # The title of a session, with which older ones begin, names no session.
    return isinstance(line.get("type"), str) and ("sessionId" in line or "leafUuid" in line)


def _claude_facts(line: Mapping[str, Any]) -> SessionFacts:
    return SessionFacts(text_at(line, "sessionId"), text_at(line, "cwd"))


def _unspoken(line: Mapping[str, Any]) -> str:
    return SUBAGENT if line.get("isSidechain") else SUMMARY if line.get("isCompactSummary") else ""


CLAUDE_CODE: Final = ClientFormat(
    "claude-code",
    _claude_turn,
    spoken=(b'"user', b'"assistant'),
    is_ours=_is_claude_line,
    facts_of=_claude_facts,
    variable="CLAUDE_CONFIG_DIR",
    folder=".claude",
    parts=("projects",),
    file_names=r"(?!agent-).+\.jsonl",  # those of subagents
    unspoken=_unspoken,
    file_tools=_CLAUDE_FILE_TOOLS,
)

# Codex writes events, in two forms: until 0.144, and from 0.148 on, where one completes an item.
# {"type": "event_msg", "payload": {"type": "user_message", "message": "Hello."}}
# {"type": "event_msg", "payload": {"type": "item_completed", "item": {"type": "UserMessage", "id": "...",
#     "content": [{"type": "text", "text": "Hello."}]}}}
_CODEX_SPEAKERS: Final = {
    "user_message": USER,
    "agent_message": ASSISTANT,
    "UserMessage": USER,
    "AgentMessage": ASSISTANT,
}
_COMPLETED: Final = "item_completed"
_META: Final = "session_meta"


def _codex_turn(line: Mapping[str, Any]) -> Turn | None:
    payload, moment = line.get("payload"), line.get("timestamp")
    if line.get("type") != "event_msg" or not isinstance(payload, dict) or not isinstance(moment, str):
        return None
    if payload.get("type") == _COMPLETED:
        item = payload.get("item")
        if not isinstance(item, dict):
            return None
        # The id of an agent's message is the model server's, and may come again.
        speaker = _CODEX_SPEAKERS.get(str(item.get("type")))
        return make_turn(f"{moment}:{item.get('id')}", speaker, text_in(item.get("content")), moment)
    speaker, text = _CODEX_SPEAKERS.get(str(payload.get("type"))), payload.get("message")
    return make_turn(f"{moment}:{speaker}", speaker, text if isinstance(text, str) else "", moment)


def _is_codex_line(line: Mapping[str, Any]) -> bool:
    return isinstance(line.get("type"), str) and "timestamp" in line and isinstance(line.get("payload"), dict)


def _codex_facts(line: Mapping[str, Any]) -> SessionFacts:
    payload = line.get("payload")
    if line.get("type") != _META or not isinstance(payload, dict):
        return SessionFacts()
    # {"subagent": ...} where another session has begun it, else "cli", "exec" or "vscode".
    is_subagent = isinstance(payload.get("source"), dict) and "subagent" in payload["source"]
    return SessionFacts(text_at(payload, "id"), text_at(payload, "cwd"), is_subagent)


CODEX: Final = ClientFormat(
    "codex",
    _codex_turn,
    spoken=(b'"user_message', b'"agent_message', b'Message"'),
    is_ours=_is_codex_line,
    facts_of=_codex_facts,
    variable="CODEX_HOME",
    folder=".codex",
    parts=("sessions", "archived_sessions"),
    file_names=r"rollout-.+\.jsonl(\.zst)?",  # old ones are packed
    file_tools={"apply_patch": "command"},  # what its shell reads cannot be told from what it runs
)

# Gemini CLI writes a message anew, with the same id, for each of its tools, and has its own names of events.
_GEMINI_SPEAKERS: Final = {"user": USER, "gemini": ASSISTANT}
_GEMINI_EVENTS: Final = {
    "BeforeAgent": "UserPromptSubmit",
    "AfterTool": "PreToolUse",  # before a tool nothing can be told; what is told after it stands beside the file's text
    "AfterAgent": "Stop",
    "PreCompress": "PreCompact",
}
_GEMINI_FILE_TOOLS: Final = dict.fromkeys(("read_file", "write_file", "replace"), "file_path")


def _gemini_turn(line: Mapping[str, Any]) -> Turn | None:
    # What the user typed, where that is not what the model was given: files that were named, what hooks told.
    text = text_in(line.get("displayContent") or line.get("content"))
    return make_turn(line.get("id"), _GEMINI_SPEAKERS.get(str(line.get("type"))), text, line.get("timestamp"))


def _is_gemini_line(line: Mapping[str, Any]) -> bool:
    return "projectHash" in line or "$set" in line or (isinstance(line.get("type"), str) and "timestamp" in line)


def _gemini_facts(line: Mapping[str, Any]) -> SessionFacts:
    if "projectHash" not in line:
        return SessionFacts()
    return SessionFacts(text_at(line, "sessionId"), "", line.get("kind") == SUBAGENT)


GEMINI: Final = ClientFormat(
    "gemini",
    _gemini_turn,
    spoken=(b'"user', b'"gemini"'),
    is_ours=_is_gemini_line,
    facts_of=_gemini_facts,
    variable="GEMINI_CLI_HOME",
    folder=".gemini",
    parts=("tmp",),
    file_names=r"session-.+\.jsonl?",  # others lie in the folder of the session that has begun them
    event_names=_GEMINI_EVENTS,
    file_tools=_GEMINI_FILE_TOOLS,
    restarts=False,
)

CLIENTS: Final = {client.name: client for client in (CLAUDE_CODE, CODEX, GEMINI)}
# A longer line is the output of a tool, which is not kept.
LONGEST_LINE: Final = 4 * 1024 * 1024


def opened(path: str) -> IO[bytes]:
    """Open a transcript to be read; raises OSError for what is no file."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # a pipe would be waited for
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(f"{path} is no file")
    return os.fdopen(descriptor, "rb")


class Lines(Protocol):
    """What gives lines."""

    def readline(self, size: int, /) -> bytes:
        """Return the next line, or that much of it."""
        ...


def whole_lines(file: Lines) -> Iterator[tuple[int, bytes | None]]:
    """Give how many bytes each line takes, and the line: b"" for one that is too long, None for one that is not ended.

    What is not ended comes last.
    """
    while line := file.readline(LONGEST_LINE):
        length, is_whole = len(line), line.endswith(b"\n")
        while not is_whole and (rest := file.readline(LONGEST_LINE)):
            length, is_whole, line = length + len(rest), rest.endswith(b"\n"), b""
        yield length, line if is_whole else None


def may_speak(line: bytes, client: ClientFormat) -> bool:
    """Say whether somebody may speak in a line: most are of tools, and parsing them would take the most time."""
    return any(word in line for word in client.spoken)


def parsed(line: bytes) -> Mapping[str, Any] | None:
    """Return the object that a line is, None where it is none."""
    try:
        content = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def turn_in(line: bytes, client: ClientFormat) -> Turn | None:
    """Return the turn in a line, None for a line without one."""
    content = parsed(line) if may_speak(line, client) else None
    return None if content is None else client.turn_of(content)
