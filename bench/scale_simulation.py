"""The queue at a multiple of the measured rates: a simulation of events, the same for the same seed.

Calls come at random (Poisson), are served first come, first served by so many worker cores, and take a random time
around the measured one (exponential: harder on the queue than what was measured). Who would have to expect a longer
wait than LONGEST_WAIT_S is refused, as by the script that takes commands in (`schemas/lua/enqueue.lua`), and does
not come back: a client that tries again later is another call.
"""

import heapq
import math
import random
from collections import deque
from dataclasses import dataclass, field
from typing import Final

from engramq.schemas.jobs import FEWEST_WAITING, LONGEST_WAIT_S

SECONDS: Final = 60.0
SEED: Final = 18


@dataclass(slots=True)
class Outcome:
    """What came of the calls: how long each of those that were served waited before it was begun, in seconds."""

    waits_s: list[float] = field(default_factory=list)
    refused: int = 0

    @property
    def calls(self) -> int:
        return len(self.waits_s) + self.refused

    def wait_ms(self, share: float) -> float:
        """Return the wait that this share of the served calls did not exceed."""
        ordered = sorted(self.waits_s)
        return 1000 * ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


@dataclass(slots=True)
class _Queue:
    """Who waits, and the cores that serve: each is free again at a moment of `busy`."""

    cores: int
    service_ms: float
    chance: random.Random
    outcome: Outcome = field(default_factory=Outcome)
    waiting: deque[float] = field(default_factory=deque)  # when each came that is not begun yet
    busy: list[float] = field(default_factory=list)

    @property
    def depth(self) -> int:
        return len(self.waiting) + len(self.busy)

    def come(self, now: float) -> None:
        """Take a call in."""
        self.waiting.append(now)
        self.serve(now)

    def serve(self, until: float) -> None:
        """Begin what can be begun up to a moment."""
        while self.busy and self.busy[0] <= until:
            freed = heapq.heappop(self.busy)
            if self.waiting:
                self._begin(freed)
        while self.waiting and len(self.busy) < self.cores:
            self._begin(self.waiting[0])

    def _begin(self, moment: float) -> None:
        self.outcome.waits_s.append(moment - self.waiting.popleft())
        heapq.heappush(self.busy, moment + self.chance.expovariate(1000 / self.service_ms))


def simulate(
    per_s: float, service_ms: float, cores: int, *, seconds: float = SECONDS, seed: int = SEED, bound: int = 10_000
) -> Outcome:
    """Let calls come at this rate for a while; `bound` is ENGRAMQ_MAILBOX_BOUND."""
    queue = _Queue(cores, service_ms, random.Random(seed))
    rate = cores * 1000 / service_ms  # what the workers serve when they are all busy
    most = min(bound, max(FEWEST_WAITING, int(LONGEST_WAIT_S * rate)))
    now = 0.0
    while (now := now + queue.chance.expovariate(per_s)) < seconds:
        queue.serve(now)
        if queue.depth >= most:
            queue.outcome.refused += 1
        else:
            queue.come(now)
    queue.serve(math.inf)
    return queue.outcome


def cores_for(per_s: float, service_ms: float) -> list[int]:
    """Return numbers of worker cores about the least that could serve so many calls: too few, just enough, enough."""
    least = math.ceil(per_s * service_ms / 1000)
    return [cores for cores in (least - 1, least, least + 1, least + 2) if cores > 0]
