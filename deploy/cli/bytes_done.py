"""How far a command is that reads or writes much: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator

import click

LINE_EVERY_S = 5.0
REDRAW_EVERY_S = 0.1


@contextlib.contextmanager
def bytes_done(word: str, *, hidden: bool) -> Iterator[Callable[[int, int], None]]:
    """Yield what is told the bytes that are done and about how many there are; `word` stands behind them."""
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
