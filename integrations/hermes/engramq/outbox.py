"""Turns that the server has not taken yet: a small folder, one file a turn, sent later under the same key."""

import json
import logging
import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

FILES_MAX: Final = 500
_ENDING: Final = ".json"

logger = logging.getLogger(__name__)


class Outbox:
    """A folder that only its owner may read. What is one too many pushes the oldest out, and the log names it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, key: str, turn: Mapping[str, Any]) -> None:
        """Keep a turn under its key; it stands in the order in which turns came."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        names = self._names()
        for name in names[: len(names) + 1 - FILES_MAX]:
            logger.warning("engramq: the outbox is full, so the oldest turn in it is lost: %s", name)
            (self._folder / name).unlink(missing_ok=True)
        number = int(names[-1].partition("-")[0]) + 1 if names else 1
        handle, made = tempfile.mkstemp(dir=self._folder, prefix=".")  # for its owner alone
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump({"key": key, "turn": turn}, file)
            file.flush()
            os.fsync(file.fileno())
        Path(made).replace(self._folder / f"{number:012d}-{key[:32]}{_ENDING}")

    def deliver(self, send: Callable[[str, Mapping[str, Any]], bool]) -> bool:
        """Send what waits, the oldest first, until `send` says that one is not taken; return whether all went."""
        for name in self._names():
            path = self._folder / name
            try:
                kept = json.loads(path.read_text(encoding="utf-8"))
                key, turn = str(kept["key"]), dict(kept["turn"])
            except FileNotFoundError:
                continue  # another process has sent it
            except (OSError, ValueError, KeyError, TypeError) as problem:
                logger.warning("engramq: a turn in the outbox cannot be read, and is put aside: %s: %s", name, problem)
                path.rename(path.with_suffix(".unreadable"))
                continue
            if not send(key, turn):
                return False
            path.unlink(missing_ok=True)
        return True

    def _names(self) -> list[str]:
        """Return the names of what waits, the oldest first: one listing of the folder."""
        try:
            names = [path.name for path in self._folder.iterdir()]
        except FileNotFoundError:
            return []
        return sorted(name for name in names if name.endswith(_ENDING) and name.partition("-")[0].isdecimal())
