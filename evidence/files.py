"""Read the files that memories cite, within one folder, hash them, and cite one as it is.

A hash is the SHA-256 of the file's bytes, of cited lines joined by line feeds without the last one's. In text a CR
before a LF counts for nothing: git writes it into some checkouts and not into others.
"""

# ruff: noqa: PTH114, PTH115, PTH117, PTH118, PTH120
# pathlib takes 10 ms to import, which a hook does without.

import hashlib
import os
import stat
import time
from typing import Final, NamedTuple

MOST_BYTES: Final = 64 * 1024 * 1024  # of a file; nobody waits for more
_PIECE: Final = 1024 * 1024
_PROBED: Final = 8_000  # bytes in which a NUL tells a binary file, as git has it
_MOVED_LINES: Final = 50_000  # of a file through which moved lines are looked for
_MOVED_BYTES: Final = 4 * 1024 * 1024  # that are hashed for it
BUDGET_S: Final = 5.0  # of git, when a file is cited


class NoFile(Exception):
    """The path is a folder, a pipe or a device."""


class TooLarge(Exception):
    """The file is larger than anybody reads."""


class Outside(Exception):
    """The path leads out of the working tree: by dots, by its beginning, by a symbolic link, or into `.git`."""


class FileText(NamedTuple):  # a dataclass takes 7 ms to import
    """The bytes of a file, with the ends of lines as they are compared."""

    data: bytes

    def digest(self, lines: str = "") -> str:
        """Return the hash of the whole or of these lines; "" where the file has fewer."""
        if not lines:
            return hashlib.sha256(self.data).hexdigest()
        first, last = _span(lines)
        rows = self._rows()
        return _of_rows(rows[first - 1 : last]) if last <= len(rows) else ""

    def place_of(self, lines: str, sha256: str) -> str:
        """Return where the lines with this hash are by now, as `12-15`; "" where they are not, or that takes long."""
        first, last = _span(lines)
        count, rows = last - first + 1, self._rows()
        if len(rows) > _MOVED_LINES or len(self.data) * count > _MOVED_BYTES:
            return ""
        # The nearest one first: the same few lines may stand in a file more than once.
        for at in sorted(range(len(rows) - count + 1), key=lambda row: abs(row - first + 1)):
            if _of_rows(rows[at : at + count]) == sha256:
                return str(at + 1) if count == 1 else f"{at + 1}-{at + count}"
        return ""

    def _rows(self) -> list[bytes]:
        rows = self.data.split(b"\n")
        return rows[:-1] if rows[-1] == b"" else rows


def _of_rows(rows: list[bytes]) -> str:
    return hashlib.sha256(b"\n".join(rows)).hexdigest()


def _span(lines: str) -> tuple[int, int]:
    first, _, last = lines.partition("-")
    return int(first), int(last or first)


def comparable(data: bytes) -> FileText:
    """Return bytes as they are compared."""
    return FileText(data if b"\r\n" not in data or b"\0" in data[:_PROBED] else data.replace(b"\r\n", b"\n"))


class Folder:
    """Files below one folder, whose real path is resolved once."""

    def __init__(self, root: str) -> None:
        self.root = os.path.realpath(root)
        self._real: dict[str, str] = {}  # the real paths of folders, since many files share one

    def read(self, path: str) -> FileText | None:
        """Return a file, None where there is none. Raises Outside, NoFile, TooLarge, OSError."""
        place = self._place(path)
        try:
            # A pipe that nobody writes to would be waited for.
            file = os.open(place, os.O_RDONLY | os.O_NONBLOCK)
        except (FileNotFoundError, NotADirectoryError):
            return None
        try:
            return comparable(_bytes_of(file))
        finally:
            os.close(file)

    def within(self, path: str) -> str:
        """Return the real path of a file, from the folder, as git lists it; raises Outside, OSError."""
        return os.path.relpath(self._place(path), self.root).replace(os.sep, "/")

    def has(self, path: str) -> bool:
        """Say whether anything is there; raises Outside."""
        return os.path.lexists(self._place(path))

    def tree_of(self, place: str) -> str:
        """Return the working tree below the folder that a file is in, as a submodule's; "" for the folder's own."""
        tree = root_of(os.path.dirname(os.path.join(self.root, place)))
        return "" if tree == self.root else os.path.relpath(tree, self.root).replace(os.sep, "/")

    def link(self, path: str) -> bytes | None:
        """Return where a symbolic link leads, as git keeps it; None for what is none."""
        try:
            return os.fsencode(os.readlink(os.path.join(self.root, path)))
        except OSError:
            return None

    def _place(self, path: str) -> str:
        """Return the real path of a file; raises Outside."""
        parts = path.replace("\\", "/").split("/") if os.sep == "\\" else path.split("/")
        if os.path.isabs(path) or ".." in parts or "\0" in path or not path.strip():
            raise Outside
        parent, _, name = path.rpartition("/")
        if parent not in self._real:
            self._real[parent] = os.path.realpath(os.path.join(self.root, parent))
        place = os.path.join(self._real[parent], name)
        if os.path.islink(place):
            place = os.path.realpath(place)
        top = self.root.rstrip(os.sep) + os.sep
        # What git keeps has tokens; some file systems find it by capitals too.
        if not place.startswith(top) or f"{os.sep}.git{os.sep}" in f"{os.sep}{place[len(top) :]}{os.sep}".lower():
            raise Outside
        return place


def _bytes_of(file: int) -> bytes:
    """Return what an open file holds; raises NoFile, TooLarge. Without Python's buffers it takes half as long."""
    status = os.fstat(file)
    if not stat.S_ISREG(status.st_mode):
        raise NoFile
    if status.st_size > MOST_BYTES:
        raise TooLarge
    pieces = [os.read(file, status.st_size + 1)]
    while pieces[-1] and sum(map(len, pieces)) <= MOST_BYTES:
        pieces.append(os.read(file, _PIECE))
    return b"".join(pieces)


def root_of(folder: str) -> str:
    """Return the top of the working tree that a folder is in, "" where it is in none."""
    place = os.path.realpath(folder)
    while not os.path.lexists(os.path.join(place, ".git")):
        above = os.path.dirname(place)
        if above == place:
            return ""
        place = above
    return place


class NotCitable(ValueError):
    """There is nothing that can be cited so; the message says why."""


def cite(path: str, lines: str = "", folder: str = ".") -> dict[str, str]:
    """Return the citation of a file, or of some of its lines (`3` or `3-9`); the path is seen from the folder.

    Raises NotCitable for what is not there, is in no repository, or lies outside of it.
    """
    from engramq.evidence.git import GitFailed, Repository  # noqa: PLC0415 - 15 ms of imports, for who cites alone

    root = root_of(folder)
    if not root:
        raise NotCitable(f"{os.path.realpath(folder)} is in no repository")
    place = os.path.join(os.path.realpath(folder), path)
    inside = os.path.relpath(os.path.normpath(place), root).replace(os.sep, "/")
    try:
        text = Folder(root).read(inside)
    except Outside:
        raise NotCitable(f"{path} lies outside the repository {root}") from None
    except NoFile:
        raise NotCitable(f"{path} is no file") from None
    except TooLarge:
        raise NotCitable(f"{path} is too large") from None
    except OSError as problem:
        raise NotCitable(f"{path}: {problem.strerror}") from None
    if text is None:
        raise NotCitable(f"{path} is not there")
    sha256 = text.digest(lines)
    if not sha256:
        raise NotCitable(f"{path} has no lines {lines}")
    try:
        commit = Repository(root, time.monotonic() + BUDGET_S).head()
    except GitFailed:
        commit = ""
    cited = {"path": inside, "lines": lines, "commit": commit, "sha256": sha256}
    return {name: value for name, value in cited.items() if value}
