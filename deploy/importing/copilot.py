"""Read the events of GitHub Copilot's command line: one in each line of `session-state/ID/events.jsonl`.

What a person says stands in prompts (those that were typed while the model worked too), in answers to its questions,
and in words that came with a refused tool. The forms are those of 1.0.102, which was run in a terminal for all of them.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from engramq.deploy.importing.fields import value_at
from engramq.deploy.local.hooks.turns import (
    ASSISTANT,
    SUBAGENT,
    USER,
    ClientFormat,
    LineReader,
    SessionFacts,
    Turn,
    make_turn,
    text_at,
)

_MESSAGES: Final = {"user.message": USER, "assistant.message": ASSISTANT}
_ANSWERED: Final = "human_response.recorded"
_DECIDED: Final = "permission.completed"
_STARTED: Final = "session.start"
# Families of events that hold no turn: "tool" of tool.execution_start.
_SILENT: Final = (
    "session", "assistant", "tool", "system", "permission", "hook", "skill", "subagent", "model", "mcp", "abort",
    "user_input", "external_tool", "pending_messages", "elicitation", "exit_plan_mode", "command", "capabilities",
)  # fmt: skip


def _kind_of(line: Mapping[str, Any]) -> str:
    kind = text_at(line, "type")
    family = kind.partition(".")[0]
    return family if family in _SILENT else kind


def _facts_of(line: Mapping[str, Any]) -> SessionFacts:
    if line.get("type") != _STARTED:
        return SessionFacts()
    folder = value_at(line, "data.context.cwd")
    return SessionFacts(str(value_at(line, "data.sessionId") or ""), folder if isinstance(folder, str) else "")


def _of_subagent(line: Mapping[str, Any]) -> str:
    return SUBAGENT if line.get("agentId") or value_at(line, "data.parentToolCallId") else ""


def _turn(line: Mapping[str, Any]) -> Turn | None:
    kind, speaker = line.get("type"), USER
    words: Any = ""
    if _of_subagent(line) or value_at(line, "data.source") not in (None, USER):  # as a skill puts in
        return None
    if kind == _ANSWERED:
        words = _answer(value_at(line, "data.response"))
    elif kind == _DECIDED:
        words = value_at(line, "data.result.feedback")
    elif isinstance(kind, str) and kind in _MESSAGES:
        speaker, words = _MESSAGES[kind], value_at(line, "data.content")
    return make_turn(line.get("id"), speaker, words if isinstance(words, str) else "", line.get("timestamp"))


def _answer(response: object) -> str:
    """Return a question and what was answered; a form has several values."""
    content = value_at(response, "content")
    several = list(content.values()) if isinstance(content, dict) else [content]
    given = [text for each in several if (text := str(each if isinstance(each, str | int) else "").strip())]
    return "\n".join([str(value_at(response, "message") or ""), *given]).strip() if given else ""


COPILOT: Final = ClientFormat(
    "copilot",
    partial(LineReader, _turn),
    spoken=(b'.message"', b'"human_response', b'"permission'),
    silent=(),
    kind_of=_kind_of,
    kinds=frozenset({*_MESSAGES, _ANSWERED, *_SILENT}),
    is_ours=lambda line: isinstance(line.get("type"), str) and "data" in line and "parentId" in line,
    facts_of=_facts_of,
    variable="COPILOT_HOME",
    folder=".copilot",
    parts=("session-state",),
    file_names=r"events\.jsonl",
    unspoken=_of_subagent,
)
