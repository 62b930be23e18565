"""What a worker must hold to run a job: its lease, and for a poison job the process's only slot besides."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from engramq.workers.queue.contract import LeaseLost

LEASE_S: Final = 5.0  # after which another worker takes a dead one's job over
RENEW_S: Final = 1.5  # three renewals may fail before a lease runs out

# Seconds that go on while the process is stopped and, where the system can tell, the machine asleep.
clock: Final = partial(time.clock_gettime, getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


@dataclass(slots=True)
class HeldLease:
    """A lease as this worker knows it: it counts from when the claim or renewal was sent, not from its answer."""

    token: str
    sent_at: float
    lost: bool = False

    def renewed(self, sent_at: float) -> None:
        """Note that Redis granted the renewal that was sent then."""
        self.sent_at = sent_at

    def require(self, seconds: float = 0.0) -> None:
        """Return if the lease surely holds for that many more seconds, else raise LeaseLost."""
        if self.lost or clock() + seconds >= self.sent_at + LEASE_S:
            raise LeaseLost


class PoisonSlot:
    """The right to run a poison job: a process runs one at a time, whatever its mailbox.

    A command that kills its process takes along what runs beside it, each time. A job that was begun a few times and
    never ended is therefore run apart from other such jobs: the innocent ones end, and only the guilty one uses its
    tries up. A worker takes the slot before it claims such a job, since claiming counts as a try.
    """

    def __init__(self) -> None:
        self.taken = False
        self._waiting: set[Callable[[], None]] = set()

    def take(self) -> bool:
        """Take the slot; False when it is taken."""
        taken, self.taken = self.taken, True
        return not taken

    def call_when_free(self, wake: Callable[[], None]) -> None:
        """Call `wake` once, when the slot that is taken now is given back."""
        self._waiting.add(wake)

    def give_back(self) -> None:
        """Free the slot."""
        self.taken = False
        waiting, self._waiting = self._waiting, set()
        for wake in waiting:
            wake()
