"""How far an import is: click's bar on a terminal, its words as plain lines now and then elsewhere."""

import sys
import time
from collections.abc import Iterator
from types import TracebackType
from typing import Final, Protocol, Self

import click

LINE_EVERY_S: Final = 5.0


class Readable(Protocol):
    """What is read: `position` of its bytes by now."""

    position: int


class Progress:
    """Sets bytes read against the file's size; without a size (a pipe) there is no time left to tell."""

    def __init__(self, source: Readable, total_bytes: int | None) -> None:
        self._source = source
        self._rows = self._rows_shown = 0
        self._is_terminal = sys.stderr.isatty()
        self._bar = click.progressbar(
            _nothing(),
            length=total_bytes or None,
            file=sys.stderr,
            hidden=not self._is_terminal,
            update_min_steps=0,  # rows come in when all is read, too
            bar_template="[%(bar)s]  %(info)s" if self._is_terminal else "%(info)s",
            item_show_func=lambda _: self._rows_and_rate(),
        )
        self._started = self._shown = time.monotonic()

    def show(self, rows: int) -> None:
        """Say that so many rows are in: at once on a terminal, elsewhere if it is time to say something."""
        self._rows = rows
        self._bar.update(self._source.position - self._bar.pos)
        if not self._is_terminal and time.monotonic() - self._shown >= LINE_EVERY_S:
            self._write_line()

    def _write_line(self) -> None:
        self._shown, self._rows_shown = time.monotonic(), self._rows
        click.echo(self._bar.format_progress_line().strip(), err=True)

    def _rows_and_rate(self) -> str:
        elapsed_s = max(time.monotonic() - self._started, 1e-6)
        left = "left  " if self._bar.eta_known and not self._bar.finished else ""  # the bar's time stands before
        return f"{left}{self._rows} rows  {self._rows / elapsed_s:.0f}/s"

    def __enter__(self) -> Self:
        self._bar.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.__exit__(kind, error, trace)
        if not self._is_terminal and self._rows > self._rows_shown:
            self._write_line()


def _nothing() -> Iterator[None]:
    """Yield nothing: the bar is moved by hand, and an iterator that knew its length would be its size."""
    yield from ()
