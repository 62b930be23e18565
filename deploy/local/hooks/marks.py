"""The marks around what hooks give to a model, by which it is known again and never captured."""

from __future__ import annotations

import re
from typing import Final

from engramq.deploy.local.hooks.words import storable

RECALLED: Final = "engramq-recalled"
CAPTURED: Final = "engramq-captured"

# What clients put into turns themselves: reminders, and how commands and their output are noted.
_CLIENT_MARKS: Final = (
    "system-reminder|command-name|command-message|command-args|command-contents|local-command-stdout"
    "|local-command-stderr|local-command-caveat|bash-input|bash-stdout|bash-stderr|user-prompt-submit-hook"
    "|user_instructions|environment_context|task-notification|hook_context|session_context"
)
# Not compiled here: that takes a millisecond, and most events need none of them.
# Gemini CLI puts what hooks tell into marks of its own, with ours written in full.
_MARKED: Final = rf"(?s)(?:<|&lt;)({RECALLED}|{CAPTURED})(?:>|&gt;).*?(?:(?:<|&lt;)/\1(?:>|&gt;)|\Z)"
_CLIENTS_OWN: Final = rf"(?s)<({_CLIENT_MARKS})>.*?(?:</\1>|\Z)"
_MARK_BEGUN: Final = rf"(?i)<(?=\s*/?\s*(?:{RECALLED}|{CAPTURED}|{_CLIENT_MARKS}))"
_INTERRUPTED: Final = "[Request interrupted by user"


def said(text: str) -> str:
    """Return what somebody said in a turn, as a memory can hold it: without what hooks and clients put in."""
    whole = storable(text)
    own = (re.sub(_CLIENTS_OWN, "", re.sub(_MARKED, "", whole)) if "<" in whole or "&lt;" in whole else whole).strip()
    return "" if own.startswith(_INTERRUPTED) else own


def within(mark: str, text: str) -> str:
    """Return a text between a mark and its end; it cannot end it earlier."""
    return f"<{mark}>\n{text}\n</{mark}>"


def harmless(text: str) -> str:
    """Return a text on one line in which no mark can begin or end: ours, or a client's, within which it puts ours."""
    line = " ".join(text.split())
    return re.sub(_MARK_BEGUN, "&lt;", line) if "<" in line else line
