"""Gemini CLI: it writes a message anew, with the same id, for each of its tools, and has its own names of events."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from engramq.deploy.local.hooks.turns import ASSISTANT, USER, ClientFormat, Turn, make_turn, text_in

_SPEAKERS: Final = {"user": USER, "gemini": ASSISTANT}
_EVENT_NAMES: Final = {"BeforeAgent": "UserPromptSubmit", "AfterAgent": "Stop", "PreCompress": "PreCompact"}


def _turn_of(line: Mapping[str, Any]) -> Turn | None:
    # What the user typed, where that is not what the model was given: files that were named, what hooks told.
    text = text_in(line.get("displayContent") or line.get("content"))
    return make_turn(line.get("id"), _SPEAKERS.get(str(line.get("type"))), text, line.get("timestamp"))


GEMINI: Final = ClientFormat("gemini", _turn_of, spoken=(b'"user', b'"gemini"'), event_names=_EVENT_NAMES)
