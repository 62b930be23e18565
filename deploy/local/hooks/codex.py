"""Codex: a line of its transcript is an event. Two forms: until 0.144, and from 0.148 on, where it completes an item.

{"type": "event_msg", "payload": {"type": "user_message", "message": "Hello."}}
{"type": "event_msg", "payload": {"type": "item_completed", "item": {"type": "UserMessage", "id": "...",
    "content": [{"type": "text", "text": "Hello."}]}}}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from engramq.deploy.local.hooks.turns import ASSISTANT, USER, ClientFormat, SessionFacts, Turn, make_turn, text_at

_SPEAKERS: Final = {"user_message": USER, "agent_message": ASSISTANT, "UserMessage": USER, "AgentMessage": ASSISTANT}
_COMPLETED: Final = "item_completed"
_META: Final = "session_meta"
_TEXT: Final = "text"  # of an agent's message written as "Text"


def _turn_of(line: Mapping[str, Any]) -> Turn | None:
    payload, moment = line.get("payload"), line.get("timestamp")
    if line.get("type") != "event_msg" or not isinstance(payload, dict) or not isinstance(moment, str):
        return None
    if payload.get("type") == _COMPLETED:
        item = payload.get("item")
        if not isinstance(item, dict):
            return None
        # The id of an agent's message is the model server's, and may come again.
        return make_turn(f"{moment}:{item.get('id')}", _SPEAKERS.get(str(item.get("type"))), _text_of(item), moment)
    speaker, text = _SPEAKERS.get(str(payload.get("type"))), payload.get("message")
    return make_turn(f"{moment}:{speaker}", speaker, text if isinstance(text, str) else "", moment)


def _text_of(item: Mapping[str, Any]) -> str:
    content = item.get("content")
    texts = [
        block.get("text")
        for block in (content if isinstance(content, list) else ())
        if isinstance(block, dict) and str(block.get("type")).lower() == _TEXT
    ]
    return "\n\n".join(text for text in texts if isinstance(text, str))


def _is_ours(line: Mapping[str, Any]) -> bool:
    return isinstance(line.get("type"), str) and "timestamp" in line and isinstance(line.get("payload"), dict)


def _facts_of(line: Mapping[str, Any]) -> SessionFacts:
    payload = line.get("payload")
    if line.get("type") != _META or not isinstance(payload, dict):
        return SessionFacts()
    # {"subagent": ...} where another session has begun it, else "cli", "exec" or "vscode".
    is_subagent = isinstance(payload.get("source"), dict) and "subagent" in payload["source"]
    return SessionFacts(text_at(payload, "id"), text_at(payload, "cwd"), is_subagent)


CODEX: Final = ClientFormat(
    "codex",
    _turn_of,
    spoken=(b'"user_message', b'"agent_message', b'Message"'),
    is_ours=_is_ours,
    facts_of=_facts_of,
    variable="CODEX_HOME",
    folder=".codex",
    parts=("sessions", "archived_sessions"),
    file_names=r"rollout-.+\.jsonl(\.zst)?",  # old ones are packed
    file_tools={"apply_patch": "command"},  # what its shell reads cannot be told from what it runs
)
