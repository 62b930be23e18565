"""Keep notes of a session between two events: how far it is captured, and what it has been shown.

A small file for each session below the home. It holds no text of anybody, so erasing need not know of it.
"""

import contextlib
import json
import os
import stat
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from engramq.deploy.local.home import PRIVATE, Home, replace_whole
from engramq.deploy.local.hooks.transcripts import CLIENTS, known_kinds

FOLDER: Final = "hooks"
_DAY_S: Final = 86_400
KEPT_S: Final = 30 * _DAY_S  # Claude Code clears transcripts away after as many days
QUIET_S: Final = 60.0  # without an event for so long, a session that is behind is caught up by another one
_SHOWN: Final = 500  # ids; about as many as a context window could hold
_LOST: Final = 8  # each is read by itself, while the client waits
_AWAY: Final = ".away"
_AWAY_S: Final = 60.0


class SessionNotes:
    """The notes of one session. Two hooks of it at once may both write: what is captured twice is kept once."""

    def __init__(self, home: Home, client: str, session: str) -> None:
        self._path = home.path / FOLDER / f"{client}.{session}.json"
        self.client = client
        self.session = session
        kept = _read(self._path)
        self.transcript = _of(kept, "transcript", "")
        self.namespace = _of(kept, "namespace", "")
        self.project = _of(kept, "project", "")
        self.offset = max(0, _of(kept, "offset", 0))
        # Somebody spoke since, as an event says; and so many bytes of what the client noted then are not understood.
        self.has_spoken = _of(kept, "has_spoken", False)
        self.not_understood = max(0, _of(kept, "not_understood", 0))
        # Lines of kinds that are not known, by name: the first of them ends after so many bytes, and to a version that
        # knows the kinds of this number they said nothing.
        self.unknown = {str(kind): count for kind, count in _of(kept, "unknown", {}).items() if type(count) is int}
        self.unknown_at = max(0, _of(kept, "unknown_at", 0))
        self.unknown_to = _of(kept, "unknown_to", 0)
        # What a session's start has to tell is not told yet: where the stack was away, a prompt makes up for it.
        self.owes_start = _of(kept, "owes_start", False)
        self.shown = _texts(kept, "shown")
        # The last of what was shown before the session was compacted, which its start tells again.
        self.lost = _texts(kept, "lost")
        # Files whose memories the session was shown, each as a number that stands for its project and path.
        self.files = _texts(kept, "files")

    def enter(self, namespace: str) -> None:
        """Put the session into a namespace. Memories shown from another one were shown to another person."""
        if self.namespace not in ("", namespace):
            self.project = ""
            self.shown, self.lost, self.files = [], [], []
        self.namespace = namespace

    def start_anew(self, *, compacted: bool) -> None:
        """Note that nothing of what was shown is in sight any more."""
        self.lost = [*self.lost, *self.shown][-_LOST:] if compacted else []
        self.shown, self.files = [], []

    def write(self) -> None:
        """Keep the notes. Raises OSError when the home cannot take them."""
        _make_folder(self._path.parent)
        notes = {name: value for name, value in vars(self).items() if name != "_path"}
        bounded = {"shown": self.shown[-_SHOWN:], "files": self.files[-_SHOWN:]}
        replace_whole(self._path, json.dumps(notes | bounded))

    def go_back(self, kinds: int) -> bool:
        """Go back to the first line of a kind that was not known, if another set of kinds is known by now."""
        if not self.unknown or self.unknown_to == kinds:
            return False
        self.offset = min(self.offset, self.unknown_at)
        self.unknown = {}
        return True

    @property
    def is_behind(self) -> bool:
        """Whether more was said than is captured, as far as the sizes tell."""
        try:
            return bool(self.transcript) and os.stat(self.transcript).st_size > self.offset  # noqa: PTH116 - faster
        except (OSError, ValueError):  # ValueError: the notes name what can be no path
            return False


def was_away(home: Home) -> bool:
    """Say whether a hook waited for the stack and got nothing a moment ago."""
    try:
        return time.time() - os.stat(home.path / FOLDER / _AWAY).st_mtime < _AWAY_S  # noqa: PTH116 - faster
    except OSError:
        return False


def note_away(home: Home, *, away: bool) -> None:
    """Note whether a hook waited for the stack and got nothing, so that not every file that is read waits too."""
    path = home.path / FOLDER / _AWAY
    with contextlib.suppress(OSError):
        if away:
            _make_folder(path.parent)
            path.touch(mode=0o600)
        else:
            path.unlink()


def quiet_sessions(home: Home) -> Iterator[SessionNotes]:
    """Give the sessions that are behind and have been quiet for a while; forgets those of long ago.

    Those that were not understood come last: only another release may do better.
    """
    now = time.time()
    later = []
    for path, changed in _notes(home):
        if now - changed > KEPT_S:
            path.unlink(missing_ok=True)
        elif now - changed > QUIET_S and (notes := _notes_in(home, path)) is not None and notes.is_behind:
            if notes.not_understood:
                later.append(notes)
            else:
                yield notes
    yield from later


def sessions_not_understood(home: Home) -> list[SessionNotes]:
    """Return the sessions whose clients write what no line is understood of."""
    return [notes for notes in _all_notes(home) if notes.not_understood and notes.is_behind]


def unknown_kinds(home: Home) -> Counter[tuple[str, str]]:
    """Count the lines of kinds that this version does not know, by client and kind."""
    counts = Counter[tuple[str, str]]()
    for notes in _all_notes(home):
        counts.update({(notes.client, kind): count for kind, count in notes.unknown.items()})
    return counts


def start_over(home: Home) -> None:
    """Have every session captured from its beginning: the store has become another. Words in it are kept once.

    Raises OSError when the home cannot take the notes.
    """
    for notes in _all_notes(home):
        notes.offset, notes.unknown = 0, {}
        notes.write()


def follow_renaming(home: Home, namespace: str, old: str, new: str) -> None:
    """Have the sessions of a project catch up under its new name. Raises OSError when the home takes no notes."""
    for notes in _all_notes(home):
        if (notes.namespace, notes.project) == (namespace, old):
            notes.project = new
            notes.write()


def _all_notes(home: Home) -> Iterator[SessionNotes]:
    return (notes for path, _ in _notes(home) if (notes := _notes_in(home, path)) is not None)


def _notes_in(home: Home, path: Path) -> SessionNotes | None:
    """Return the notes in a file; None for one that a hook is about to put in place."""
    if path.name.startswith("."):
        return None
    client, _, session = path.name.removesuffix(".json").partition(".")
    notes = SessionNotes(home, client, session)
    if client in CLIENTS:
        notes.go_back(known_kinds(CLIENTS[client]))
    return notes


def _notes(home: Home) -> list[tuple[Path, float]]:
    """Return the files of notes, and when each was changed; other hooks make and replace them meanwhile."""
    files = []
    with contextlib.suppress(OSError), os.scandir(home.path / FOLDER) as entries:
        for entry in entries:
            with contextlib.suppress(FileNotFoundError):
                files.append((Path(entry.path), entry.stat().st_mtime))
    return files


def _make_folder(folder: Path) -> None:
    """Make the folder of the notes. Its files are not looked at: other sessions come and go there."""
    folder.mkdir(mode=PRIVATE, exist_ok=True)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        raise PermissionError(f"{folder} is no folder of this user")


def _read(path: Path) -> dict[str, Any]:
    try:
        kept = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return kept if isinstance(kept, dict) else {}


def _texts(kept: dict[str, Any], name: str) -> list[str]:
    return [text for text in _of(kept, name, []) if isinstance(text, str)]


def _of(kept: dict[str, Any], name: str, default: Any) -> Any:
    value = kept.get(name)
    return value if type(value) is type(default) else default
