"""Codex: a line of its transcript is an event. Two forms: until 0.144, and from 0.148 on, where it completes an item.

{"type": "event_msg", "payload": {"type": "user_message", "message": "Hello."}}
{"type": "event_msg", "payload": {"type": "item_completed", "item": {"type": "UserMessage", "id": "...",
    "content": [{"type": "text", "text": "Hello."}]}}}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from engramq.deploy.local.hooks.turns import ASSISTANT, USER, ClientFormat, Turn, make_turn

_SPEAKERS: Final = {"user_message": USER, "agent_message": ASSISTANT, "UserMessage": USER, "AgentMessage": ASSISTANT}
_COMPLETED: Final = "item_completed"
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


CODEX: Final = ClientFormat("codex", _turn_of, spoken=(b'"user_message', b'"agent_message', b'Message"'))
