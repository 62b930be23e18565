"""Keeps account of turns that the stack refused for good. Nobody sees what a hook says, and none may go unsaid."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Sequence
from typing import Final

from engramq.deploy.local.home import Home

LOG: Final = "hooks.log"
_LOG_BYTES: Final = 256 * 1024  # some thousand refusals; then it is begun anew, and the one before is kept
_ERROR_CHARS: Final = 300


def note_refusals(home: Home, client: str, session: str, errors: Sequence[str]) -> None:
    """Say on standard error and in the home's log how many turns were refused, and why; never what they said."""
    if not errors:
        return
    reason = errors[0][:_ERROR_CHARS]
    sys.stderr.write(f"engramq hook: {len(errors)} of this session's turns were refused and not kept: {reason}\n")
    line = {
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "client": client,
        "session": session,
        "refused": len(errors),
        "error": reason,
    }
    path = home.logs / LOG
    with contextlib.suppress(OSError):  # it has been said above
        if path.exists() and path.stat().st_size > _LOG_BYTES:
            path.replace(path.with_name(f"{LOG}.old"))
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "a", encoding="utf-8") as log:
            log.write(json.dumps(line) + "\n")
