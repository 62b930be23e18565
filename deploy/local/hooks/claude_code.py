"""Claude Code: a line of its transcript is a message of the user, of the model, or of a tool."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from engramq.deploy.local.hooks.turns import ASSISTANT, USER, ClientFormat, Turn, make_turn, text_in

_SPEAKERS: Final = {"user": USER, "assistant": ASSISTANT}
_NOT_SPOKEN: Final = ("isMeta", "isSidechain", "isCompactSummary", "isApiErrorMessage", "isVisibleInTranscriptOnly")


def _turn_of(line: Mapping[str, Any]) -> Turn | None:
    message = line.get("message")
    if not isinstance(message, dict) or any(line.get(name) for name in _NOT_SPOKEN):
        return None
    speaker = _SPEAKERS.get(str(line.get("type")))
    return make_turn(line.get("uuid"), speaker, text_in(message.get("content")), line.get("timestamp"))


CLAUDE_CODE: Final = ClientFormat("claude-code", _turn_of, spoken=(b'"user', b'"assistant'))
