"""Judge age by one clock, that of Redis, and say whose own clock is wrong.

Every process says every few seconds that it is there. The answer has the time of Redis, so that the next time it can
say by how much its own clock is off; the overview of the queue reads it there.
"""

import time
from functools import partial
from typing import Final

from engramq.schemas.connection import pack_script
from engramq.schemas.keys import Keys
from engramq.schemas.scripts import REGISTER

CLOCK_S: Final = 2.0  # by which clocks may differ: the time that a refused caller is told to wait is as short

# Seconds that go on while the process is stopped and, where the system can tell, the machine asleep.
clock: Final = partial(time.clock_gettime, getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def ahead_s(server_s: float, asked_at: float, answered_at: float) -> float:
    """Return by how much a server's clock surely is ahead of ours, negative: behind.

    `server_s` is what it said when it was asked and answered at these times of ours.
    """
    return min(0.0, server_s - asked_at) or max(0.0, server_s - answered_at)


def clock_sentence(whose: str, ahead: float, of: str) -> str:
    """Return that a clock is ahead of another one, or behind it, as a sentence."""
    return f"The clock of {whose} is {abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'} {of}."


class Presence:
    """Says in one lane that a process is there; `name`: what people know it by.

    A process that has been silent for `forgotten_s` is forgotten; its report on its clock counts for `fresh_s`.
    """

    def __init__(self, keys: Keys, name: str, *, forgotten_s: float, fresh_s: float) -> None:
        self._keys = keys
        self._name = name
        self._times = (round(forgotten_s), round(fresh_s))
        self._ahead, self._asked_at = 0.0, 0.0

    def packed(self, members: str, member: str) -> bytes:
        """Return what says that `member` is there, in this zset of the lane. `answered` takes the answer."""
        self._asked_at = time.time()
        ahead = f"{self._ahead:.1f}" if abs(self._ahead) > CLOCK_S else "0"
        forgotten_s, fresh_s = self._times
        where = (members, self._keys.clocks, *self._keys.guard)
        return pack_script(REGISTER, where, (member, forgotten_s, self._name, ahead, fresh_s))

    def answered(self, server_ms: object) -> None:
        """Compare the time of Redis with our own."""
        if isinstance(server_ms, int):
            self._ahead = -ahead_s(server_ms / 1000, self._asked_at, time.time())
