"""Write a file that is not there until it is whole: a partial name, readable by its owner alone, synced, renamed."""

import contextlib
import io
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Final

PARTIAL: Final = ".partial"  # after the name of a file that is being written
BUFFER_BYTES: Final = 2**20


class Unwritable(Exception):
    """The file cannot be written; the message says why. No OSError, which might mean a server that is away."""


@contextlib.contextmanager
def new_file(target: Path) -> Iterator[IO[bytes]]:
    """Open what is to become a file. It has its name once it is whole and on the disk; else nothing is left of it.

    Raises Unwritable where it is there already or cannot be written, from each write too; what else the block raises
    is passed on.
    """
    if target.exists():
        raise Unwritable(f"{str(target)!r} is there already: give another name, or remove it.")
    partial = target.with_name(f"{target.name}.{secrets.token_hex(4)}{PARTIAL}")  # of this writer alone
    with _unwritable(target):
        raw = _Raw(partial, "xb", opener=lambda path, flags: os.open(path, flags, 0o600))  # its owner's alone
    raw.target = target
    try:
        with raw:  # which drops what is still buffered when the block fails
            out = io.BufferedWriter(raw, BUFFER_BYTES)
            yield out
            out.flush()
            with _unwritable(target):
                os.fsync(raw.fileno())
        with _unwritable(target):
            partial.replace(target)
            sync_folder(target.absolute().parent)
    finally:
        partial.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Have the names in a folder survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class _Raw(io.FileIO):
    """A file whose writes tell what they are of."""

    target: Path

    def write(self, data: Any, /) -> int:
        with _unwritable(self.target):
            return super().write(data)


@contextlib.contextmanager
def _unwritable(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as problem:
        raise Unwritable(f"{str(target)!r} cannot be written: {problem.strerror or problem}.") from problem
