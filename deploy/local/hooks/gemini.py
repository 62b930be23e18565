"""Gemini CLI: it writes a message anew, with the same id, for each of its tools, and has its own names of events."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from engramq.deploy.local.hooks.turns import (
    ASSISTANT,
    SUBAGENT,
    USER,
    ClientFormat,
    SessionFacts,
    Turn,
    make_turn,
    text_at,
    text_in,
)

_SPEAKERS: Final = {"user": USER, "gemini": ASSISTANT}
_EVENT_NAMES: Final = {
    "BeforeAgent": "UserPromptSubmit",
    "AfterTool": "PreToolUse",  # before a tool nothing can be told; what is told after it stands beside the file's text
    "AfterAgent": "Stop",
    "PreCompress": "PreCompact",
}
_FILE_TOOLS: Final = dict.fromkeys(("read_file", "write_file", "replace"), "file_path")


def _turn_of(line: Mapping[str, Any]) -> Turn | None:
    # What the user typed, where that is not what the model was given: files that were named, what hooks told.
    text = text_in(line.get("displayContent") or line.get("content"))
    return make_turn(line.get("id"), _SPEAKERS.get(str(line.get("type"))), text, line.get("timestamp"))


def _is_ours(line: Mapping[str, Any]) -> bool:
    return "projectHash" in line or "$set" in line or (isinstance(line.get("type"), str) and "timestamp" in line)


def _facts_of(line: Mapping[str, Any]) -> SessionFacts:
    if "projectHash" not in line:
        return SessionFacts()
    return SessionFacts(text_at(line, "sessionId"), "", line.get("kind") == SUBAGENT)


GEMINI: Final = ClientFormat(
    "gemini",
    _turn_of,
    spoken=(b'"user', b'"gemini"'),
    is_ours=_is_ours,
    facts_of=_facts_of,
    variable="GEMINI_CLI_HOME",
    folder=".gemini",
    parts=("tmp",),
    file_names=r"session-.+\.jsonl?",  # others lie in the folder of the session that has begun them
    event_names=_EVENT_NAMES,
    file_tools=_FILE_TOOLS,
    restarts=False,
)
