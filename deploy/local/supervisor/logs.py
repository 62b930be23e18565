"""The children's log files: kept within a size, and their ends for people who ask why something died."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path

# Two generations of this for each of six programs: 60 MB at most, plus what is written between two looks.
LARGEST_BYTES = 5 * 1024 * 1024
_TAIL_BYTES = 8 * 1024


def rotate(folder: Path, largest_bytes: int = LARGEST_BYTES) -> None:
    """Move what is in a too large log to NAME.log.1 and empty the log.

    Copied and truncated rather than renamed, because the children hold it open, for appending.
    """
    for log in folder.glob("*.log"):
        with contextlib.suppress(OSError):
            if log.stat().st_size > largest_bytes:
                older = log.with_name(log.name + ".1")
                shutil.copyfile(log, older)
                older.chmod(0o600)
                with log.open("r+b") as emptied:
                    emptied.truncate(0)


def size(log: Path) -> int:
    """The bytes of a log; 0 when there is none."""
    try:
        return log.stat().st_size
    except OSError:
        return 0


def last_lines(log: Path, count: int = 8, *, since: int = 0) -> list[str]:
    """The last lines of a log, after so many bytes, that are not blank; none when it cannot be read."""
    try:
        with log.open("rb") as source:
            whole = log.stat().st_size
            # It was emptied meanwhile when it is shorter.
            source.seek(max(since if since <= whole else 0, whole - _TAIL_BYTES))
            text = source.read(_TAIL_BYTES).decode(errors="replace")
    except OSError:
        return []
    return [line for line in text.splitlines() if line.strip()][-count:]
