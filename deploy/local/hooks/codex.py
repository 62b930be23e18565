"""Read the lines of Codex's transcripts: events in two forms, and the messages that came before there were events.

{"type": "event_msg", "payload": {"type": "user_message", "message": "Hello."}}                     until 0.144
{"type": "event_msg", "payload": {"type": "item_completed", "item": {"type": "UserMessage", "id": "...",
    "content": [{"type": "text", "text": "Hello."}]}}}                                              from 0.148 on
{"type": "response_item", "payload": {"type": "message", "role": "user", "content": [{"type": "input_text", ...}]}}
{"type": "message", "role": "user", "content": [...]}                                               until 2025-09
{"session": {"id": "...", "timestamp": "..."}, "items": [{"type": "message", ...}]}, one object      until 2025-06

Answers to the model's questions stand in the result of the tool that asks, a goal in a message to the model.
"""

import json
import re
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

from engramq.deploy.local.hooks import turns

_SPEAKERS: Final = {
    "user_message": turns.USER,
    "agent_message": turns.ASSISTANT,
    "UserMessage": turns.USER,
    "AgentMessage": turns.ASSISTANT,
}
_ROLES: Final = {"user": turns.USER, "assistant": turns.ASSISTANT}
_META: Final = "session_meta"
_EVENT: Final = "event_msg"
_ITEM: Final = "response_item"
_MESSAGE: Final = "message"
_COMPLETED: Final = "item_completed"
_ASKS: Final = "request_user_input"
_CALL: Final = "function_call"
_OUTPUT: Final = "function_call_output"
SPOKEN: Final = (
    *(b'"user_message', b'"agent_message', b'Message"', b'"message"', b'"session_meta"'),
    *(b'"request_user_input"', rb"\"answers\""),
)
# Kinds of lines that hold no turn, of 0.171: lines, events, items.
SILENT: Final = (
    "compacted", "turn_context", "world_state", "token_usage_record", "retained_context", "state",
    "token_count", "task_started", "task_complete", "turn_started", "turn_complete", "turn_aborted", "turn_diff",
    "exec_command_begin", "exec_command_end", "exec_command_output_delta", "mcp_tool_call_begin", "mcp_tool_call_end",
    "patch_apply_begin", "patch_apply_end", "web_search_begin", "web_search_end", "view_image_tool_call",
    "agent_reasoning", "agent_reasoning_raw_content", "agent_reasoning_section_break", "agent_message_delta",
    "entered_review_mode", "exited_review_mode", "context_compacted", "thread_rolled_back", "thread_name_updated",
    "thread_settings_applied", "thread_goal_updated", "plan_update", "background_event", "error", "warning",
    "stream_error", "session_configured", "item_started", "sub_agent_activity",
    "image_generation_end", "function_call", "function_call_output", "custom_tool_call", "custom_tool_call_output",
    "local_shell_call", "local_shell_call_output",
    "reasoning", "web_search_call", "ghost_snapshot", "compaction", "compaction_summary",
    "image_generation_call", "tool_search_call", "tool_search_output", "inter_agent_communication",
)  # fmt: skip
_ITEMS: Final = (
    "UserMessage", "AgentMessage", "Reasoning", "CommandExecution", "FileChange", "McpToolCall", "WebSearch", "Plan",
    "ImageView", "ImageGeneration", "ContextCompaction", "HookPrompt", "EnteredReviewMode", "ExitedReviewMode",
    "DynamicToolCall", "CollabAgentToolCall", "SubAgentActivity", "Sleep",
)  # fmt: skip
KINDS: Final = frozenset({_META, _MESSAGE, _COMPLETED, "user_message", "agent_message", *SILENT, *_ITEMS})
_WORDS: Final = ("message", "text", "content", "prompt")  # members of an event or item that may hold what was said
# What was typed follows a fork's history, which is written at once.
_BURST_S: Final = 1
_DAY_S: Final = 86_400
_TOLD: Final = (
    "# AGENTS.md instructions for ",
    "<codex_internal_context ",
    "<skill>\n<name>",
    "<subagent_notification>",
    "<user_action>",
)  # texts that it gives the model as a user's
# What an editor puts before the words that were typed there.
_IN_EDITOR: Final = (
    r"(?s)# (?:Context from my IDE setup|Files mentioned by the user):\n.*?\n## My request for Codex:\n(.+)"
)
_GOAL: Final = r'<codex_internal_context source="user_goal">\s*User set the goal: ("(?:[^"\\]|\\.)*")'
_NOTE: Final = "user_note: "
_CONTEXT: Final = "<environment_context>"
_FOLDER: Final = r"<cwd>([^<\n]+)</cwd>|Current working directory: ([^\n]+)"


def _payload(line: Mapping[str, Any]) -> Mapping[str, Any]:
    return turns.member(line, "payload")


def _item(line: Mapping[str, Any]) -> Mapping[str, Any]:
    return turns.member(_payload(line), "item")


def kind_of(line: Mapping[str, Any]) -> str:
    """Return the kind of a line: that of its event or item, where this may hold words of somebody."""
    kind, payload = turns.text_at(line, "type"), _payload(line)
    if kind not in (_EVENT, _ITEM):
        return kind or "state"
    inner = _item(line) if payload.get("type") == _COMPLETED else payload
    return turns.text_at(inner, "type") if any(name in inner for name in _WORDS) else "state"


def _begin_of(line: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return how a session begins: a line, or what an object of a whole session says of it."""
    return turns.object_in(line.get("session")) or line


def _is_first_line(line: Mapping[str, Any]) -> bool:
    """Say whether a session begins so that is older than lines with a type."""
    line = _begin_of(line)
    return "type" not in line and "id" in line and "timestamp" in line and ("instructions" in line or "git" in line)


def is_ours(line: Mapping[str, Any]) -> bool:
    """Say whether a line is as Codex writes it."""
    if isinstance(line.get("type"), str) and "timestamp" in line and isinstance(line.get("payload"), dict):
        return True
    return _is_first_line(line) or "record_type" in line


def facts_of(line: Mapping[str, Any]) -> turns.SessionFacts:
    """Return the facts of a line about its session; an old line has the folder in its first message to the model."""
    payload = _payload(line)
    if line.get("type") == _META:
        # {"subagent": ...} where another session has begun it, else "cli", "exec" or "vscode".
        is_subagent = "subagent" in turns.member(payload, "source")
        return turns.SessionFacts(turns.text_at(payload, "id"), turns.text_at(payload, "cwd"), is_subagent)
    if _is_first_line(line):
        begin = _begin_of(line)  # its turns have no time
        return turns.SessionFacts(turns.text_at(begin, "id"), began=turns.moment_of(begin.get("timestamp")))
    if line.get("type") == _MESSAGE and _CONTEXT in (text := turns.text_in(line.get("content"))):
        found = re.search(_FOLDER, text)
        return turns.SessionFacts(folder=(found[1] or found[2]).strip() if found else "")
    return turns.SessionFacts()


class CodexLines(turns.LineReader):
    """The state of reading a transcript's lines. Events are what was said; without any, messages are.

    A turn is known by its session, its words, and how often they were said there before. A fork writes the turns of its
    origin anew, at another time, and there they have the keys of the origin.
    """

    def __init__(self) -> None:
        self._session = ""
        self._origin = ""
        self._begun: int | None = None
        self._said = Counter[str]()
        self._asked: dict[str, Any] = {}  # questions by the ids of calls
        self._has_events = False
        self._messages: list[tuple[str, str, str, int]] = []

    def read(self, line: Mapping[str, Any], at: int) -> Iterator[turns.Spoken]:
        """Yield the turn that a line makes certain."""
        kind, payload, moment = line.get("type"), _payload(line), turns.moment_of(line.get("timestamp"))
        if not self._session and (session := facts_of(line).session):
            # From 0.171 on a fork names where it begins, and repeats nothing.
            is_copy = "forked_from_ordinal_exclusive" not in payload
            self._session, self._origin = session, turns.text_at(payload, "forked_from_id") if is_copy else ""
            self._begun = _seconds(moment)
        elif kind == _EVENT:
            inner = _item(line) if payload.get("type") == _COMPLETED else payload
            words = inner.get("content") if inner is not payload else payload.get("message")
            if speaker := _SPEAKERS.get(turns.text_at(inner, "type")):
                self._has_events = True
                self._messages.clear()
                yield from self._turn(speaker, turns.text_in(words), moment, at)
        elif kind in (_ITEM, _MESSAGE):
            message = payload if kind == _ITEM else line
            yield from self._turn(turns.USER, self._words_of_tool(message), moment, at)
            text, speaker = turns.text_in(message.get("content")), _ROLES.get(turns.text_at(message, "role"))
            if message.get("type") != _MESSAGE or speaker is None:
                return
            if goal := re.match(_GOAL, text) if speaker == turns.USER else None:
                yield from self._turn(turns.USER, f"/goal {json.loads(goal[1], strict=False)}", moment, at)
            elif not self._has_events and not text.startswith(_TOLD):
                self._messages.append((speaker, text, moment, at))

    def _words_of_tool(self, item: Mapping[str, Any]) -> str:
        """Return what a person has answered to the model's questions, with these; "" for another item."""
        kind, call = item.get("type"), turns.text_at(item, "call_id")
        if kind == _CALL and item.get("name") == _ASKS:
            self._asked[call] = turns.object_in(item.get("arguments")).get("questions")
        questions = self._asked.pop(call, None) if kind == _OUTPUT else None
        answers = turns.object_in(turns.object_in(item.get("output")).get("answers"))
        return turns.join_answers(
            (asked.get("question"), _texts_in(answers.get(turns.text_at(asked, "id"))))
            for asked in map(turns.object_in, questions if isinstance(questions, list) else ())
        )

    def rest(self, *, has_ended: bool) -> Iterator[turns.Spoken]:  # noqa: ARG002 - what has no event by now gets none
        """Yield what was said in a session without events."""
        for message in self._messages:
            yield from self._turn(*message)

    def _turn(self, speaker: str, text: str, moment: str, at: int) -> Iterator[turns.Spoken]:
        turn = turns.make_turn("-", speaker, text, moment)
        if turn is None:
            return
        session = self._origin if self._origin and self._is_history(moment) else self._session or moment
        key = f"{session}:{speaker}:{zlib.crc32(turn.text.encode()):08x}"
        self._said[key] += 1
        typed = re.match(_IN_EDITOR, turn.text) if speaker == turns.USER else None
        position = None if moment else self._said.total() - 1
        text = typed[1].strip() if typed else turn.text
        yield turns.Spoken(turn._replace(key=f"{key}:{self._said[key]}", text=text, position=position), at)

    def _is_history(self, moment: str) -> bool:
        now = _seconds(moment)
        return now is not None and self._begun is not None and (now - self._begun) % _DAY_S <= _BURST_S


def _texts_in(answer: object) -> list[str]:
    """Return what was chosen, and what was noted beside."""
    given = turns.object_in(answer).get("answers")
    several = given if isinstance(given, list) else []
    return [text.removeprefix(_NOTE) for text in several if isinstance(text, str)]


def _seconds(moment: str) -> int | None:
    """Return the second of the day of a moment, such as 2026-11-24T15:07:49.891Z."""
    return int(moment[11:13]) * 3600 + int(moment[14:16]) * 60 + int(moment[17:19]) if moment else None
