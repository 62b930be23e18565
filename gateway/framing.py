"""Lines of bounded length from a stream of bytes.

anyio's buffered stream finds them; what it lacks is the way on after a line that is too long, which we let pass in
steps, keeping its size and both ends: its sender is told the size, and finds its request by the id at either end.
"""

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Final

import anyio
from anyio.abc import ByteReceiveStream
from anyio.streams.buffered import BufferedByteReceiveStream

STEP_BYTES: Final = 65_536
END_BYTES: Final = 300  # of a line that is too long, at either end
ENDED: Final = (anyio.IncompleteRead, anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError)


@dataclass(frozen=True, slots=True)
class Line:
    """One line without its end. `head` is all of it, unless it is longer than the bound; `size` is its true length."""

    head: bytes
    size: int
    tail: bytes


class LineReader:
    """Reads lines, keeping about `bound` bytes of each; of a longer one the beginning and the end."""

    def __init__(self, stream: ByteReceiveStream, bound: int) -> None:
        self._stream = BufferedByteReceiveStream(stream)
        self._bound = bound
        self._has_ended = False

    async def lines(self) -> AsyncGenerator[Line]:
        """Yield each line that is not blank until the stream ends; what follows the last line end is a line too."""
        while not self._has_ended:
            try:
                text = await self._until_line_end(self._bound + 1)
                line = Line(text[: self._bound], len(text), text[-END_BYTES:])
            except anyio.DelimiterNotFound:
                line = await self._let_pass()
            if line.head.strip():
                yield line

    async def _until_line_end(self, bound: int) -> bytes:
        """Return the rest of a line; raises DelimiterNotFound, all left in the buffer, if it does not end so soon."""
        try:
            return await self._stream.receive_until(b"\n", bound)
        except ENDED:
            self._has_ended = True
            return self._stream.buffer

    async def _let_pass(self) -> Line:
        """Return the line that the buffer begins with and that is too long."""
        head, size, tail = self._stream.buffer[:END_BYTES], 0, b""
        while True:
            try:
                rest = await self._until_line_end(STEP_BYTES)
            except anyio.DelimiterNotFound:
                passed = await self._stream.receive(STEP_BYTES)
                size, tail = size + len(passed), passed[-END_BYTES:]
            else:
                return Line(head, size + len(rest), (tail + rest)[-END_BYTES:])
