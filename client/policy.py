"""How long a call may take, and when it is repeated."""

import random
from dataclasses import dataclass, field
from typing import Final

# The server could not, or a proxy could not reach it: nothing was applied, or a key keeps it from being applied twice.
REPEATED: Final = frozenset({408, 429, 502, 503, 504})


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Bounds in seconds. `call_s` is of a call with all its repetitions, `request_s` of one request, `pending_s` of the
    wait for a write that the server answered as pending. Waits double from `first_wait_s` up to `longest_wait_s`, each
    a random part of that, so that many clients do not come back at once; never less than the server asked for.
    """

    call_s: float = 30.0
    request_s: float = 15.0
    connect_s: float = 5.0
    pending_s: float = 30.0
    first_wait_s: float = 0.1
    longest_wait_s: float = 5.0
    chance: random.Random = field(default_factory=random.Random, repr=False, compare=False)

    def wait_s(self, attempt: int, asked_s: float) -> float:
        """Return the wait after this attempt, from 0, at least what the server asked for."""
        most = min(self.longest_wait_s, self.first_wait_s * 2.0 ** min(attempt, 30))
        return asked_s + self.chance.uniform(most / 2, most)
