"""The clients that write transcripts, in one table, and how such a file is read: for hooks and for imports.

Lines are only ever added to a transcript, so its last one may be half written.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator, Mapping
from typing import IO, Any, Final

from engramq.deploy.local.hooks.claude_code import CLAUDE_CODE
from engramq.deploy.local.hooks.codex import CODEX
from engramq.deploy.local.hooks.gemini import GEMINI
from engramq.deploy.local.hooks.turns import ClientFormat, Turn

CLIENTS: Final = {client.name: client for client in (CLAUDE_CODE, CODEX, GEMINI)}
# A longer line is the output of a tool, which is not kept.
LONGEST_LINE: Final = 4 * 1024 * 1024


def opened(path: str) -> IO[bytes]:
    """Open a transcript to be read; raises OSError for what is no file."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # a pipe would be waited for
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(f"{path} is no file")
    return os.fdopen(descriptor, "rb")


def whole_lines(file: IO[bytes]) -> Iterator[tuple[int, bytes | None]]:
    """Give how many bytes each line takes, and the line: b"" for one that is too long, None for one that is not ended.

    What is not ended comes last.
    """
    while line := file.readline(LONGEST_LINE):
        length, is_whole = len(line), line.endswith(b"\n")
        while not is_whole and (rest := file.readline(LONGEST_LINE)):
            length, is_whole, line = length + len(rest), rest.endswith(b"\n"), b""
        yield length, line if is_whole else None


def may_speak(line: bytes, client: ClientFormat) -> bool:
    """Say whether somebody may speak in a line: most are of tools, and parsing them would take the most time."""
    return any(word in line for word in client.spoken)


def parsed(line: bytes) -> Mapping[str, Any] | None:
    """Return the object that a line is, None where it is none."""
    try:
        content = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def turn_in(line: bytes, client: ClientFormat) -> Turn | None:
    """Return the turn in a line, None for a line without one."""
    content = parsed(line) if may_speak(line, client) else None
    return None if content is None else client.turn_of(content)
