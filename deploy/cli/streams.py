"""Standard output and error that remember why they could not be written: other files and sockets fail of the same.

To flush them again tells nothing: what is not buffered (much at once, or PYTHONUNBUFFERED) is gone by then.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO


class _Remembering(io.FileIO):
    """A descriptor of the process, which it leaves open."""

    def __init__(self, descriptor: int, failures: list[OSError]) -> None:
        super().__init__(descriptor, "wb", closefd=False)
        self._failures = failures

    def write(self, data: Any, /) -> int:
        """Write as a file does."""
        try:
            return super().write(data)
        except OSError as problem:
            self._failures.append(problem)
            raise


@contextmanager
def remembering() -> Iterator[list[OSError]]:
    """Gather what standard output and error fail of while the block lasts; what has been put in their place stays.

    What is left of the output then, and cannot be written, goes nowhere.
    """
    failures: list[OSError] = []
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (_remembered(stream, failures) for stream in before)
    mine = sys.stdout, sys.stderr
    try:
        yield failures
    finally:
        sys.stdout, sys.stderr = before
        for stream, given in zip(mine, before, strict=True):
            if stream is not given:
                _end(stream)


def _remembered(stream: TextIO, failures: list[OSError]) -> TextIO:
    """Return a stream to the same place; the same one where it was closed, or is a test's."""
    if not isinstance(stream, io.TextIOWrapper) or stream not in (sys.__stdout__, sys.__stderr__):
        return stream
    raw = _Remembering(stream.fileno(), failures)
    return io.TextIOWrapper(
        raw if stream.write_through and isinstance(stream.buffer, io.RawIOBase) else io.BufferedWriter(raw),
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )  # fmt: skip


def _end(stream: TextIO) -> None:
    try:
        stream.flush()
    except OSError:  # at its end the interpreter would try again, and say so
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
