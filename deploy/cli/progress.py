"""Show how far a long command is: a bar on a terminal, a line every 5 s elsewhere."""

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final, Protocol, Self

import click

from engramq.schemas.command_line import count_of

LINE_EVERY_S: Final = 5.0
REDRAW_EVERY_S: Final = 0.1  # where every record is reported


class Readable(Protocol):
    """A readable source; `position`: how many bytes are read so far."""

    position: int


class ProgressBar:
    """Sets what is done against the whole, such as bytes of a file; without a whole (a pipe) it shows no time left."""

    def __init__(self, source: Readable, total: int | None, unit: str = "row", what: str = "") -> None:
        """`total`: which `position` of the source is the end; `unit`: what `show` counts, and `what` was done to it."""
        self._source = source
        self._unit, self._what = unit, f" {what}" if what else ""
        self._rows = self._rows_shown = 0
        self._is_terminal = sys.stderr.isatty()
        self._bar = click.progressbar(
            _nothing(),
            length=total or None,
            file=sys.stderr,
            hidden=not self._is_terminal,
            update_min_steps=0,  # rows come in when all is read, too
            bar_template="[%(bar)s]  %(info)s" if self._is_terminal else "%(info)s",
            item_show_func=lambda _: self._rows_and_rate(),
        )
        self._started = self._shown = time.monotonic()

    def show(self, rows: int, read: int = 0) -> None:
        """Say that so many rows are in: at once on a terminal, elsewhere if it is time to say something.

        `read`: how many rows the source's `position` stands for, where more are read than are in.
        """
        self._rows = rows
        position = self._source.position * rows // max(read, rows, 1)
        self._bar.update(max(position - self._bar.pos, 0))
        if not self._is_terminal and time.monotonic() - self._shown >= LINE_EVERY_S:
            self._write_line()

    def say(self, text: str) -> None:
        """Write a line beside the bar."""
        say_between(text)

    def _write_line(self) -> None:
        self._shown, self._rows_shown = time.monotonic(), self._rows
        click.echo(self._bar.format_progress_line().strip(), err=True)

    def _rows_and_rate(self) -> str:
        elapsed_s = max(time.monotonic() - self._started, 1e-6)
        left = "left  " if self._bar.eta_known and not self._bar.finished else ""  # the bar's time stands before
        return f"{left}{count_of(self._rows, self._unit)}{self._what}  {self._rows / elapsed_s:.0f}/s"

    def __enter__(self) -> Self:
        self._bar.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.__exit__(kind, error, trace)
        if not self._is_terminal and self._rows > self._rows_shown:
            self._write_line()


@dataclass(slots=True)
class PhaseBars:
    """Shows phases one after the other that count records: each its own bar, drawn every tenth of a second."""

    _open: ExitStack = field(default_factory=ExitStack)
    _phase: str | None = None
    _bar: ProgressBar | None = None
    position: int = 0
    _drawn_at: float = 0.0

    def show(self, phase: str, done: int, of: int | None) -> None:
        """Show that a phase is done with so many records; `of`: how many there are, None while nobody knows."""
        if phase != self._phase:
            self._end()
            self._phase, self.position = phase, 0
            self._bar = self._open.enter_context(ProgressBar(self, of, "record", phase))
        self.position = done
        if time.monotonic() - self._drawn_at >= REDRAW_EVERY_S:
            self._draw()

    def _draw(self) -> None:
        self._drawn_at = time.monotonic()
        if self._bar is not None:
            self._bar.show(self.position)

    def _end(self) -> None:
        self._draw()
        self._open.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()


def say_between(text: str) -> None:
    """Write a line on standard error, in the place of a bar that is drawn there; the bar's next state stands below."""
    click.echo(f"\r\x1b[K{text}" if sys.stderr.isatty() else text, err=True)


def _nothing() -> Iterator[None]:
    """Yield nothing: the bar is moved by hand, and an iterator that knew its length would be its size."""
    yield from ()


@contextlib.contextmanager
def bytes_done(word: str, *, hidden: bool) -> Iterator[Callable[[int, int], None]]:
    """Yield a callback for the bytes that are done and about how many there are; `word` stands behind them."""
    is_terminal = sys.stderr.isatty()
    shown_at = time.monotonic()
    drawn = False

    def tell(done: int, of: int) -> None:
        nonlocal shown_at, drawn
        if hidden or time.monotonic() - shown_at < (REDRAW_EVERY_S if is_terminal else LINE_EVERY_S):
            return
        shown_at, drawn = time.monotonic(), True
        text = f"{done / 2**20:,.0f} of {max(of, done) / 2**20:,.0f} MB {word}"
        click.echo(f"\r{text:<50}" if is_terminal else text, err=True, nl=not is_terminal)

    try:
        yield tell
    finally:
        if drawn and is_terminal:
            click.echo("", err=True)
