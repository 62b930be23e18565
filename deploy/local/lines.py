"""Cuts what comes on a connection into lines. Imported by the stdio relay and by hooks: it loads nothing."""

from __future__ import annotations

# A line beyond this is neither a legal request (1,000 records of 32,768 characters fit) nor worth the memory.
LONGEST_LINE = 128 * 1024 * 1024


class LineBuffer:
    """Cuts a stream of bytes into lines, within LONGEST_LINE."""

    def __init__(self, longest: int = LONGEST_LINE) -> None:
        self._longest = longest
        self._partial = bytearray()
        self._skipping = False

    def feed(self, data: bytes) -> list[bytes | None]:
        """The lines that are now complete, each with its newline; None stands for one that was too long."""
        *complete, rest = data.split(b"\n")
        lines: list[bytes | None] = []
        for piece in complete:
            too_long = self._skipping or len(self._partial) + len(piece) > self._longest
            lines.append(None if too_long else bytes(self._partial) + piece + b"\n")
            self._partial.clear()
            self._skipping = False
        if self._skipping or len(self._partial) + len(rest) > self._longest:
            self._partial.clear()
            self._skipping = True
        else:
            self._partial += rest
        return lines

    def finish(self) -> list[bytes | None]:
        """The last line, when the stream has ended without a newline."""
        return self.feed(b"\n") if self._partial or self._skipping else []
