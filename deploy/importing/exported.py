"""The files of an export, as it was downloaded: a file, a zip archive, or the folder that one was unpacked into."""

import contextlib
import re
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final

from engramq.schemas.packed_lines import UnusableFile

_DAMAGES: Final = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError)


def is_archive(path: Path) -> bool:
    """Say whether a file is a zip archive; a damaged one is one too."""
    with path.open("rb") as raw:
        return raw.read(4) == b"PK\x03\x04"


def members(path: Path, name: re.Pattern[str]) -> list[str]:
    """Return the files of an archive or folder whose own name is such a one, in order; [""] for a file by itself.

    Symbolic links of a folder are passed over. Raises UnusableFile.
    """
    if path.is_dir():
        return sorted(one.name for one in path.iterdir() if name.fullmatch(one.name) and _is_plain(one))
    if not is_archive(path):
        return [""]
    with _told(), zipfile.ZipFile(path) as archive:
        return sorted(one for one in archive.namelist() if name.fullmatch(one.rpartition("/")[2]))


@contextlib.contextmanager
def opened(path: Path, member: str) -> Iterator[IO[bytes]]:
    """Open one of the `members`; damages that show while it is read are raised as UnusableFile, too."""
    with _told():
        if member and not path.is_dir():
            with zipfile.ZipFile(path) as archive, archive.open(member) as stream:
                yield stream
        else:
            with (path / member if member else path).open("rb") as file:
                yield file


def opened_all(path: Path, name: re.Pattern[str], wanted: str) -> Iterator[tuple[str, IO[bytes]]]:
    """Yield each of the `members`, opened, with its name; raises UnusableFile when there is none.

    `wanted`: what is looked for, as it is told then.
    """
    found = members(path, name)
    if not found:
        raise UnusableFile(f"There is no {wanted} in it.")
    for member in found:
        with opened(path, member) as stream:
            yield member, stream


def _is_plain(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


@contextlib.contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except _DAMAGES as problem:
        raise UnusableFile(f"The archive is damaged, cut off or locked: {problem}.") from None
    except OSError as problem:
        raise UnusableFile(f"The file cannot be read: {problem.strerror or problem}.") from None
