"""The right to carry a job out, for as long as it is surely this worker's."""

import time
from typing import Final

from engramq.workers.queue.contract import LeaseLost

LEASE_S: Final = 5.0  # after which another worker takes a dead one's job over
RENEW_S: Final = 1.5  # three renewals may fail before a lease runs out


def clock() -> float:
    """Return seconds that go on while the process is stopped and, where the system can tell, the machine asleep."""
    return time.clock_gettime(_CLOCK)


_CLOCK: Final[int] = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class HeldLease:
    """A lease as this worker knows it: it counts from when the claim or renewal was sent, not from its answer."""

    def __init__(self, token: str, sent_at: float) -> None:
        self.token = token
        self.until = sent_at + LEASE_S
        self.lost = False

    def renewed(self, sent_at: float) -> None:
        """Note that a renewal sent then was granted."""
        self.until = sent_at + LEASE_S

    def require(self, seconds: float = 0.0) -> None:
        """Return if the lease surely holds for that many more seconds, else raise LeaseLost."""
        if self.lost or clock() + seconds >= self.until:
            raise LeaseLost
