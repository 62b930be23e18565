"""Read the sessions of Qwen Code: lines like Claude Code's, with messages of Gemini's form.

What a person says stands in prompts (those that were typed while the model worked too) and in answers to its questions.
Behind a prompt that names files or images stands what is in them. The forms are those of 0.24.4, which was run in a
terminal for all of them; a fork keeps the ids of what it copies.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from engramq.deploy.importing.fields import list_at
from engramq.deploy.local.hooks.transcripts import CLAUDE_CODE
from engramq.deploy.local.hooks.turns import (
    ASSISTANT,
    SUBAGENT,
    SUMMARY,
    USER,
    ClientFormat,
    LineReader,
    Turn,
    join_answers,
    make_turn,
    object_in,
    text_at,
    text_in,
)

_ANSWERED: Final = "tool_result"
_SPEAKERS: Final = {"user": USER, "assistant": ASSISTANT, _ANSWERED: USER}
_SILENT: Final = ("system",)
_FILES: Final = "--- Content from referenced files ---"
_SPOKEN: Final = ("", "real_user", "assistant_output", _ANSWERED)  # of whom a line is; older versions do not say it


def is_of_qwen(line: Mapping[str, Any]) -> bool:
    """Say whether a line is of Qwen Code, and none of Claude Code's, which are like it."""
    return "provenance" in line or "systemPayload" in line or "parts" in object_in(line.get("message"))


def _unspoken(line: Mapping[str, Any]) -> str:
    if line.get("provenance") == SUBAGENT or line.get("isSidechain") is True:
        return SUBAGENT
    return SUMMARY if line.get("subtype") == "chat_compression" else ""


def _turn(line: Mapping[str, Any]) -> Turn | None:
    kind = text_at(line, "type")
    if text_at(line, "provenance") not in _SPOKEN or _unspoken(line):
        return None
    if kind == _ANSWERED:
        given = map(object_in, list_at(line, "toolCallResult.resultDisplay.answers"))
        words = join_answers((each.get("question"), each.get("answer")) for each in given)
    else:
        several = list(map(object_in, list_at(line, "message.parts")))
        files = next((at for at, part in enumerate(several) if text_at(part, "text").strip() == _FILES), None)
        words = text_in(several[:files])
    return make_turn(line.get("uuid"), _SPEAKERS.get(kind), words, line.get("timestamp"))


QWEN: Final = ClientFormat(
    "qwen",
    partial(LineReader, _turn),
    spoken=(b'"user"', b'"assistant"', b'"answers"'),
    silent=(b'"system"', b'"tool_result"'),
    kinds=frozenset({*_SPEAKERS, *_SILENT}),
    is_ours=is_of_qwen,
    facts_of=CLAUDE_CODE.facts_of,
    variable="QWEN_HOME",
    folder=".qwen",
    parts=CLAUDE_CODE.parts,
    file_names=r"[0-9a-f-]{36}\.jsonl",
    unspoken=_unspoken,
)
