"""Read the sessions of Qwen Code: lines like Claude Code's, with messages of Gemini's form.

A person's words stand in prompts (those that were typed while the model worked too) and in answers to its questions.
Behind a prompt that names files or images stands what is in them. The forms are those of 0.24.4, which was run in a
terminal for all of them; a fork keeps the ids of what it copies.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from engramq.deploy.importing.fields import list_at
from engramq.deploy.local.hooks import turns
from engramq.deploy.local.hooks.transcripts import CLAUDE_CODE

_ANSWERED: Final = "tool_result"
_SPEAKERS: Final = {"user": turns.USER, "assistant": turns.ASSISTANT, _ANSWERED: turns.USER}
_SILENT: Final = ("system",)
_FILES: Final = "--- Content from referenced files ---"
_SPOKEN: Final = ("", "real_user", "assistant_output", _ANSWERED)  # of whom a line is; older versions do not say it


def is_of_qwen(line: Mapping[str, Any]) -> bool:
    """Say whether a line is of Qwen Code, and none of Claude Code's, which are like it."""
    return "provenance" in line or "systemPayload" in line or "parts" in turns.object_in(line.get("message"))


def _name_unspoken(line: Mapping[str, Any]) -> str:
    if line.get("provenance") == turns.SUBAGENT or line.get("isSidechain") is True:
        return turns.SUBAGENT
    return turns.SUMMARY if line.get("subtype") == "chat_compression" else ""


def _turn(line: Mapping[str, Any]) -> turns.Turn | None:
    kind = turns.text_at(line, "type")
    if turns.text_at(line, "provenance") not in _SPOKEN or _name_unspoken(line):
        return None
    if kind == _ANSWERED:
        given = map(turns.object_in, list_at(line, "toolCallResult.resultDisplay.answers"))
        words = turns.join_answers((each.get("question"), each.get("answer")) for each in given)
    else:
        several = list(map(turns.object_in, list_at(line, "message.parts")))
        files = next((at for at, part in enumerate(several) if turns.text_at(part, "text").strip() == _FILES), None)
        words = turns.text_in(several[:files])
    return turns.make_turn(line.get("uuid"), _SPEAKERS.get(kind), words, line.get("timestamp"))


QWEN: Final = turns.ClientFormat(
    "qwen",
    partial(turns.LineReader, _turn),
    spoken=(b'"user"', b'"assistant"', b'"answers"'),
    silent=(b'"system"', b'"tool_result"'),
    kinds=frozenset({*_SPEAKERS, *_SILENT}),
    is_ours=is_of_qwen,
    facts_of=CLAUDE_CODE.facts_of,
    variable="QWEN_HOME",
    folder=".qwen",
    parts=CLAUDE_CODE.parts,
    file_names=r"[0-9a-f-]{36}\.jsonl",
    unspoken=_name_unspoken,
)
