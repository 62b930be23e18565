"""Read the sessions of Cline's command line: one JSON object each, `sessions/ID/ID.messages.json`, their folder beside.

A person's words stand within a mark in prompts (those that were typed while the model worked too), and in answers to
its questions. The forms are those of 3.0.65, which was run in a terminal for all of them; a fork keeps the ids of what
it copies, and a compaction changes nothing but a file beside.
"""

from collections.abc import Mapping
from typing import Any, Final

from engramq.deploy.importing.exports import moment
from engramq.deploy.importing.fields import list_at, value_at
from engramq.deploy.local.hooks import turns

_SPEAKERS: Final = {"user": turns.USER, "assistant": turns.ASSISTANT}
_OF_PROGRAM: Final = ("system", "status", "error")  # how messages are shown that neither a person nor a model said
_LEAD: Final = "lead"  # as the agent of a session is called that no other one has begun
_QUESTION: Final = "ask_question"
_TYPED: Final = ("<user_input", "</user_input>")
_NOTICE: Final = ("<mode_notice>", "</mode_notice>")


class _MessageReader(turns.LineReader):
    """Reads messages: an answer hangs on the question before it."""

    def __init__(self) -> None:
        super().__init__(self._turn)
        self._asked: dict[object, object] = {}  # questions by the ids of their calls

    def _turn(self, message: Mapping[str, Any]) -> turns.Turn | None:
        answered: list[tuple[object, object]] = []
        for block in list_at(message, "content"):
            if value_at(block, "name") != _QUESTION:
                continue
            if question := value_at(block, "input.question"):
                self._asked[str(block.get("id"))] = question
            elif not block.get("is_error"):
                answered.append((self._asked.get(str(block.get("tool_use_id"))), block.get("content")))
        role, at = turns.text_at(message, "role"), message.get("ts")
        words = (
            ""
            if value_at(message, "metadata.displayRole") in _OF_PROGRAM
            else turns.join_answers(answered) or _cut_to_typed(turns.text_in(message.get("content")))
        )
        when = moment(at / 1000) if isinstance(at, int) else None
        return turns.make_turn(message.get("id"), _SPEAKERS.get(role), words, when)


def _cut_to_typed(text: str) -> str:
    """Return what was typed of a prompt; all of another text."""
    if not text.startswith(_TYPED[0]) or not text.endswith(_TYPED[1]):
        return text
    typed = text.partition(">")[2].removesuffix(_TYPED[1])
    return typed.partition(_NOTICE[1])[2] if typed.startswith(_NOTICE[0]) else typed


def _name_unspoken(message: Mapping[str, Any]) -> str:
    return turns.SUMMARY if value_at(message, "metadata.displayRole") == "system" else ""


CLINE: Final = turns.ClientFormat(
    "cline",
    _MessageReader,
    spoken=(),
    silent=(),
    kinds=frozenset(_SPEAKERS),
    kind_of=lambda line: turns.text_at(line, "role"),
    is_ours=lambda line: line.keys() >= {"sessionId", "agent", "origin"},
    facts_of=lambda line: turns.SessionFacts(
        turns.text_at(line, "sessionId") or turns.text_at(line, "session_id"),
        turns.text_at(line, "cwd"),
        turns.text_at(line, "agent") not in ("", _LEAD),
    ),
    variable="CLINE_DIR",
    folder=".cline",
    parts=("data/sessions", "sessions"),
    folder_file="{}.json",
    file_names=r".+\.messages\.json",
    unspoken=_name_unspoken,
)
