"""Lines of bounded length from a stream of bytes."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Final

import anyio
from anyio.abc import ByteReceiveStream

CHUNK_BYTES: Final = 65_536
TAIL_BYTES: Final = 300


@dataclass(frozen=True, slots=True)
class Line:
    """One line without its end. `head` is all of it, unless it is longer than the bound; `size` is its true length."""

    head: bytes
    size: int
    tail: bytes


class LineReader:
    """Reads lines, keeping at most `bound` bytes of each; of a longer one the beginning and the end."""

    def __init__(self, stream: ByteReceiveStream, bound: int) -> None:
        self._stream = stream
        self._bound = bound
        self._buffer = bytearray()
        self._searched = 0  # how much of the buffer is known to hold no line end
        self._dropped = 0  # bytes of an over-long line that are no longer in the buffer
        self._head = b""

    async def lines(self) -> AsyncGenerator[Line]:
        """Yield each line that is not blank until the stream ends; what follows the last line end is a line too."""
        while True:
            end = self._buffer.find(b"\n", self._searched)
            if end >= 0:
                line = self._take(end)
                del self._buffer[: end + 1]
                self._searched = 0
                if line.head.strip():
                    yield line
                continue
            self._searched = len(self._buffer)
            self._shorten()
            try:
                self._buffer += await self._stream.receive(CHUNK_BYTES)
            except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
                break
        last = self._take(len(self._buffer))
        if last.head.strip():
            yield last

    def _take(self, end: int) -> Line:
        """Return the line that ends at `end` in the buffer."""
        size = self._dropped + end
        rest = bytes(self._buffer[max(0, end - TAIL_BYTES) : end])
        head = self._head or bytes(self._buffer[: min(end, self._bound)])
        self._head, self._dropped = b"", 0
        return Line(head, size, rest)

    def _shorten(self) -> None:
        """Let go of the middle of an over-long line, of which only both ends matter."""
        if len(self._buffer) <= self._bound + TAIL_BYTES:
            return
        if not self._head:
            self._head = bytes(self._buffer[:TAIL_BYTES])
        surplus = len(self._buffer) - TAIL_BYTES
        del self._buffer[:surplus]
        self._dropped += surplus
        self._searched = len(self._buffer)
