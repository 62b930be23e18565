"""How far an import is: a bar on a terminal, plain lines elsewhere."""

import time
from collections.abc import Iterator
from types import TracebackType
from typing import IO, Final, Self, TextIO

from engramq.schemas import limits

BAR_CHARS: Final = 30
BAR_EVERY_S: Final = 0.2
LINE_EVERY_S: Final = 5.0


class Progress:
    """Counts bytes read against the file's size; without a size (a pipe) it shows rows and rate only."""

    def __init__(self, out: TextIO, source: IO[bytes], total_bytes: int | None) -> None:
        self._out = out
        self._source = source
        self._total = total_bytes
        self._bar = out.isatty()
        self._read = 0
        self._rows = 0
        self._started = time.monotonic()
        self._shown = self._started

    def lines(self) -> Iterator[bytes]:
        """Yield the lines of the source, counting them; of one that is too long only its (too long) beginning."""
        while line := self._source.readline(limits.BODY_BYTES + 1):
            self._read += len(line)
            rest = line
            while len(rest) > limits.BODY_BYTES and not rest.endswith(b"\n"):
                rest = self._source.readline(limits.BODY_BYTES + 1)
                self._read += len(rest)
            yield line

    def show(self, rows: int) -> None:
        """Say that so many rows are in, if it is time to say something."""
        self._rows = rows
        now = time.monotonic()
        if now - self._shown >= (BAR_EVERY_S if self._bar else LINE_EVERY_S):
            self._shown = now
            self._write(now)

    def _write(self, now: float) -> None:
        elapsed = max(now - self._started, 1e-6)
        parts = [f"{self._rows} rows", f"{self._rows / elapsed:.0f}/s"]
        if self._total:
            share = min(self._read / self._total, 1.0)
            left = elapsed * (1 - share) / share if share else 0.0
            parts += [f"{share:.0%}", f"{_clock(left)} left"]
            if self._bar:
                filled = int(share * BAR_CHARS)
                parts.insert(0, f"[{'#' * filled}{'.' * (BAR_CHARS - filled)}]")
        text = "  ".join(parts)
        self._out.write(f"\r{text}\x1b[K" if self._bar else f"{text}\n")
        self._out.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._rows:
            self._write(time.monotonic())
            if self._bar:
                self._out.write("\n")


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
