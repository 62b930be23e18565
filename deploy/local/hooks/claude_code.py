"""Claude Code: a line of its transcript is a message of the user, of the model, or of a tool."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

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

_SPEAKERS: Final = {"user": USER, "assistant": ASSISTANT}
_NOT_SPOKEN: Final = ("isMeta", "isSidechain", "isCompactSummary", "isApiErrorMessage", "isVisibleInTranscriptOnly")
_FILE_TOOLS: Final = {
    **dict.fromkeys(("Read", "Edit", "MultiEdit", "Write"), "file_path"),
    "NotebookEdit": "notebook_path",
}


def _turn_of(line: Mapping[str, Any]) -> Turn | None:
    message = line.get("message")
    if not isinstance(message, dict) or any(line.get(name) for name in _NOT_SPOKEN):
        return None
    speaker = _SPEAKERS.get(str(line.get("type")))
    return make_turn(line.get("uuid"), speaker, text_in(message.get("content")), line.get("timestamp"))


def _is_ours(line: Mapping[str, Any]) -> bool:
    # The title of a session, with which older ones begin, names no session.
    return isinstance(line.get("type"), str) and ("sessionId" in line or "leafUuid" in line)


def _facts_of(line: Mapping[str, Any]) -> SessionFacts:
    return SessionFacts(text_at(line, "sessionId"), text_at(line, "cwd"))


def _unspoken(line: Mapping[str, Any]) -> str:
    return SUBAGENT if line.get("isSidechain") else SUMMARY if line.get("isCompactSummary") else ""


CLAUDE_CODE: Final = ClientFormat(
    "claude-code",
    _turn_of,
    spoken=(b'"user', b'"assistant'),
    is_ours=_is_ours,
    facts_of=_facts_of,
    variable="CLAUDE_CONFIG_DIR",
    folder=".claude",
    parts=("projects",),
    file_names=r"(?!agent-).+\.jsonl",  # those of subagents
    unspoken=_unspoken,
    file_tools=_FILE_TOOLS,
)
