"""Read the events of GitHub Copilot's command line: one in each line of `session-state/ID/events.jsonl`.

A person's words stand in prompts (those that were typed while the model worked too), in answers to its questions, and
in words that came with a refused tool. The forms are those of 1.0.102, which was run in a terminal for all of them.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from engramq.deploy.importing.fields import value_at
from engramq.deploy.local.hooks import turns

_MESSAGES: Final = {"user.message": turns.USER, "assistant.message": turns.ASSISTANT}
_ANSWERED: Final = "human_response.recorded"
_DECIDED: Final = "permission.completed"
_STARTED: Final = "session.start"
# Families of events that hold no turn: "tool" of tool.execution_start.
_SILENT: Final = (
    "session", "assistant", "tool", "system", "permission", "hook", "skill", "subagent", "model", "mcp", "abort",
    "user_input", "external_tool", "pending_messages", "elicitation", "exit_plan_mode", "command", "capabilities",
)  # fmt: skip


def _kind_of(line: Mapping[str, Any]) -> str:
    kind = turns.text_at(line, "type")
    family = kind.partition(".")[0]
    return family if family in _SILENT else kind


def _facts_of(line: Mapping[str, Any]) -> turns.SessionFacts:
    if line.get("type") != _STARTED:
        return turns.SessionFacts()
    folder = value_at(line, "data.context.cwd")
    return turns.SessionFacts(str(value_at(line, "data.sessionId") or ""), folder if isinstance(folder, str) else "")


def _of_subagent(line: Mapping[str, Any]) -> str:
    return turns.SUBAGENT if line.get("agentId") or value_at(line, "data.parentToolCallId") else ""


def _turn(line: Mapping[str, Any]) -> turns.Turn | None:
    kind, speaker = line.get("type"), turns.USER
    words: Any = ""
    if _of_subagent(line) or value_at(line, "data.source") not in (None, turns.USER):  # as a skill puts in
        return None
    if kind == _ANSWERED:
        words = _answer(value_at(line, "data.response"))
    elif kind == _DECIDED:
        words = value_at(line, "data.result.feedback")
    elif isinstance(kind, str) and kind in _MESSAGES:
        speaker, words = _MESSAGES[kind], value_at(line, "data.content")
    return turns.make_turn(line.get("id"), speaker, words if isinstance(words, str) else "", line.get("timestamp"))


def _answer(response: object) -> str:
    """Return a question and what was answered; a form has several values."""
    content = value_at(response, "content")
    several = list(content.values()) if isinstance(content, dict) else [content]
    given = [text for each in several if (text := str(each if isinstance(each, str | int) else "").strip())]
    return "\n".join([str(value_at(response, "message") or ""), *given]).strip() if given else ""


COPILOT: Final = turns.ClientFormat(
    "copilot",
    partial(turns.LineReader, _turn),
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
