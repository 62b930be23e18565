"""Where rejected rows are told of: a file, or the error stream."""

from contextlib import ExitStack
from pathlib import Path
from typing import IO

import click
import msgspec

from engramq.deploy.cli.output import printable
from engramq.deploy.importing.records import Rejection


class CannotReject(Exception):
    """The file that is to tell of rejected rows cannot be written."""


class RejectFile:
    """One JSON line for each rejected row, in a file that is made at the first of them; None: the error stream."""

    def __init__(self, path: Path | None, stack: ExitStack) -> None:
        self.path = path
        self._stack = stack
        self._file: IO[bytes] | None = None

    def write(self, rejection: Rejection) -> None:
        """Tell of one row; raises CannotReject."""
        if self.path is None:
            place = f"{rejection.file}, line {rejection.line}" if rejection.file else f"line {rejection.line}"
            click.echo(f"{printable(place)}: {rejection.field}: {rejection.reason}", err=True)
            return
        try:
            if self._file is None:
                self._file = self._stack.enter_context(self.path.open("wb"))
            self._file.write(msgspec.json.encode(rejection) + b"\n")
        except OSError as problem:
            raise self._problem(problem) from None

    def close(self) -> None:
        """All rows are through: write what is left, and remove what an earlier import rejected; raises CannotReject."""
        try:
            if self._file is not None:
                self._file.close()
            elif self.path is not None and self.path.is_file():  # never a device, as /dev/null is
                self.path.unlink()
        except OSError as problem:
            raise self._problem(problem) from None

    def _problem(self, problem: OSError) -> CannotReject:
        told = problem.strerror or problem
        return CannotReject(f"{self.path} cannot be written: {told}. Name another file with --rejects.")
