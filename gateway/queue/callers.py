"""How many callers of a process wait, and how many bytes their commands have; bounded."""

from typing import Final

from engramq.gateway.queue.outcomes import overloaded

WAITING_MAX: Final = 16_384  # callers that may wait at once
WAITING_BYTES: Final = 128 * 1024 * 1024  # of their commands together


class Callers:
    """The callers that wait, in all lanes."""

    def __init__(self) -> None:
        self._count = 0
        self._bytes = 0

    def enter(self, size: int) -> None:
        """Count a caller whose command has so many bytes; raises EngramqError `overloaded`, and then counts nothing."""
        if self._count >= WAITING_MAX or self._bytes + size > WAITING_BYTES:
            raise overloaded()
        self._count += 1
        self._bytes += size

    def leave(self, size: int) -> None:
        """Count a caller no longer."""
        self._count -= 1
        self._bytes -= size
