"""Open files and databases of a folder that may be anybody's, as an unpacked archive: every reader of sessions does.

No symbolic link is followed, so nothing elsewhere is read. No pipe or device is waited for. The size of each read is
bounded, and so is the time of each step of a database, whose views and virtual tables could compute for ever.
"""

import contextlib
import os
import re
import sqlite3
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Final, Self
from urllib.parse import quote

from engramq.deploy.local.hooks.transcripts import LONGEST_LINE
from engramq.deploy.local.named_sql import read_statements
from engramq.schemas.packed_lines import UnusableFile

FILE_BYTES: Final = 4 * 1024**3  # of a transcript, also of what a packed one unpacks to; the largest known has .3 GB
OBJECT_BYTES: Final = 64 * 1024**2  # of what is held as a whole: a session in one object, a value of a database
FOLDER_FILES: Final = 100_000  # files of one folder, and sessions of one database
STEP_S: Final = 20.0  # until a database gives the next row
_INSTRUCTIONS: Final = 100_000  # of SQLite's machine between two looks at the clock: some ms
_ROWS: Final = 2_000_000  # of one query
SQLITE: Final = b"SQLite format 3\0"
_BESIDE: Final = ("-wal", "-shm", "-journal")  # files that SQLite opens with a database
TOO_LONG: Final = "The file is longer than {} bytes, and is not read."
_QUERIES: Final = read_statements(Path(__file__).with_name("databases.sql"))
_TABLE: Final = re.compile(r"\b(?:from|join)\s+(\w+)")


def open_plain(path: str, most_bytes: int = FILE_BYTES) -> IO[bytes]:
    """Open a regular file of at most so many bytes, not by a link. Raises OSError, UnusableFile."""
    require_no_link(path)
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise UnusableFile("It is no regular file.")
        if status.st_size > most_bytes:
            raise UnusableFile(TOO_LONG.format(most_bytes))
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_plain(path: str, most_bytes: int) -> bytes:
    """Return all of a regular file. Raises OSError, UnusableFile, which a file that grows meanwhile is too."""
    with open_plain(path, most_bytes) as file:
        data = file.read(most_bytes + 1)
    if len(data) > most_bytes:
        raise UnusableFile(TOO_LONG.format(most_bytes))
    return data


def plain_files(folder: Path, *below: str, suffix: str) -> list[Path]:
    """Return the files of a folder below another one, in order; none where it is not there.

    A link on the way from the first one raises UnusableFile, as does a folder of too many; OSError.
    """
    return [Path(entry.path) for entry in _entries(folder, below) if entry.name.endswith(suffix)]


def plain_folders(folder: Path, *below: str) -> list[Path]:
    """Return the folders in a folder below another one, as `plain_files` does; links are passed over."""
    return [Path(entry.path) for entry in _entries(folder, below) if entry.is_dir(follow_symlinks=False)]


def _entries(folder: Path, below: tuple[str, ...]) -> list[os.DirEntry[str]]:
    for name in below:
        folder = folder / name
        require_no_link(str(folder))
    entries: list[os.DirEntry[str]] = []
    with contextlib.suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as listed:
        for entry in listed:
            entries.append(entry)
            if len(entries) > FOLDER_FILES:
                raise UnusableFile(f"It has more than {FOLDER_FILES} files, which are not read.")
    return sorted(entries, key=lambda entry: entry.name)


def require_no_link(path: str) -> None:
    """Raise UnusableFile for a symbolic link."""
    if os.path.islink(path):  # noqa: PTH114 - a text
        raise UnusableFile("It is a symbolic link, and none is followed.")


class BoundedStream:
    """A stream of which at most so many bytes are read: a small packed file may unpack to any length."""

    def __init__(self, file: IO[bytes], most_bytes: int = FILE_BYTES) -> None:
        self._file = file
        self._left = most_bytes

    def readline(self, size: int) -> bytes:
        """Return the next line, or that much of it; raises UnusableFile at the bound."""
        line = self._file.readline(size)
        self._left -= len(line)
        if self._left < 0:
            raise UnusableFile("It unpacks to more than is read.")
        return line


def is_database(path: Path) -> bool:
    """Say whether a file is a SQLite database; raises OSError, UnusableFile."""
    with open_plain(str(path.resolve()), most_bytes=2**63) as file:
        return file.read(len(SQLITE)) == SQLITE


def _connect(path: str) -> sqlite3.Connection:
    """Open a database to be read, which threads take turns in.

    One that was in WAL mode wants to make files beside it. On a read-only disk nobody changes it, so it is read as it
    stands, unless changes lie beside it that would be missing.
    """
    address = f"file:{quote(path)}?mode=ro"
    connection = sqlite3.connect(address, uri=True, check_same_thread=False)
    try:
        connection.execute("pragma schema_version")
    except sqlite3.OperationalError as error:
        log = Path(path + _BESIDE[0])
        if error.sqlite_errorcode == sqlite3.SQLITE_CANTOPEN and not (log.exists() and log.stat().st_size):
            connection.close()
            return sqlite3.connect(f"{address}&immutable=1", uri=True, check_same_thread=False)
    except sqlite3.DatabaseError:
        pass  # its reader says so
    return connection


class ForeignDatabase:
    """A database of somebody else, to be read; what is none, is damaged or has another form raises UnusableFile."""

    def __init__(self, path: str) -> None:
        self._until = time.monotonic() + STEP_S
        try:
            open_plain(path, most_bytes=2**63).close()
            for beside in _BESIDE:
                with contextlib.suppress(FileNotFoundError):
                    open_plain(path + beside, most_bytes=2**63).close()
            self._connection = _connect(path)
        except (sqlite3.Error, UnusableFile) as error:
            raise UnusableFile(f"The database cannot be read: {str(error).rstrip('.')}.") from None
        self._connection.text_factory = bytes  # its parser sees whether it is text
        self._connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, OBJECT_BYTES)
        self._connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        self._connection.set_progress_handler(lambda: time.monotonic() > self._until, _INSTRUCTIONS)
        self._connection.execute(_QUERIES["careful"])
        self._tables: set[str] = set()

    def rows(self, name: str, **values: Any) -> Iterator[Any]:
        """Yield the rows of a query of databases.sql; UnusableFile for a view, too many rows and what takes long."""
        self._require_tables(_QUERIES[name])
        yield from self._take_rows(self._execute(name, **values))

    def records(self, name: str, **values: Any) -> Iterator[dict[str, Any]]:
        """Yield the rows of a query by the names of their columns; bytes are texts.

        UnusableFile also for a table that computes columns: a few bytes of it may give any length.
        """
        self._require_tables(_QUERIES[name])
        for table in sorted({*_TABLE.findall(_QUERIES[name])}):
            if any(self._take_rows(self._execute("computed_columns", table=table))):
                raise UnusableFile(f"Its table {table} computes columns, which are not read.")
        found = self._execute(name, **values)
        names = [column for column, *_ in found.description]
        for row in self._take_rows(found):
            texts = (value.decode("utf-8", "replace") if isinstance(value, bytes) else value for value in row)
            yield dict(zip(names, texts, strict=True))

    def _execute(self, name: str, **values: Any) -> sqlite3.Cursor:
        self._until = time.monotonic() + STEP_S
        return self._connection.execute(_QUERIES[name], {"longest": LONGEST_LINE, "most": FOLDER_FILES, **values})

    def _take_rows(self, found: sqlite3.Cursor) -> Iterator[Any]:
        for _ in range(_ROWS):
            self._until = time.monotonic() + STEP_S
            row = found.fetchone()
            if row is None:
                return
            yield row
        raise UnusableFile(f"The database has more than {_ROWS} rows, which are not read.")

    def has(self, *tables: str) -> bool:
        """Say whether these are tables of it."""
        return not {*tables} - self._known_tables()

    def _known_tables(self) -> set[str]:
        if not self._tables:
            self._tables = {name.decode("utf-8", "replace") for (name,) in self._take_rows(self._execute("tables"))}
        return self._tables

    def _require_tables(self, query: str) -> None:
        """Refuse what is called as a table and is none."""
        missing = sorted({*_TABLE.findall(query)} - self._known_tables())
        if missing:
            raise UnusableFile(f"The database cannot be read, or has a new form: it has no table {missing[0]}.")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: object, error: object, __: object) -> None:
        self._connection.close()
        if isinstance(error, sqlite3.OperationalError) and str(error) == "interrupted":
            raise UnusableFile(f"The database gave nothing for {STEP_S:.0f} s.") from None
        if isinstance(error, sqlite3.Error):
            raise UnusableFile(f"The database cannot be read, or has a new form: {error}.") from None
