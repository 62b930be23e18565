"""Codex: a line of its transcript is an event, which has no id but its time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from engramq.deploy.local.hooks.turns import ASSISTANT, USER, ClientFormat, Turn, make_turn

_SPEAKERS: Final = {"user_message": USER, "agent_message": ASSISTANT}


def _turn_of(line: Mapping[str, Any]) -> Turn | None:
    payload, moment = line.get("payload"), line.get("timestamp")
    if line.get("type") != "event_msg" or not isinstance(payload, dict) or not isinstance(moment, str):
        return None
    speaker, text = _SPEAKERS.get(str(payload.get("type"))), payload.get("message")
    return make_turn(f"{moment}:{speaker}", speaker, text if isinstance(text, str) else "", moment)


CODEX: Final = ClientFormat("codex", _turn_of, spoken=(b'"user', b'"agent_message'))
