"""How sweeps hand on less, and less often, while nothing of what they handed on is done."""

from dataclasses import dataclass
from typing import Final

FIRST_S: Final = 5.0
MAX_S: Final = 120.0


@dataclass(slots=True)
class BackOff:
    """The pause between two looks, twice as long each time. Times in monotonic seconds."""

    pause_s: float = 0.0
    not_before: float = 0.0

    def note(self, now: float, *, stuck: bool) -> None:
        """Note a look. `stuck`: none of what was handed on is done; nobody does such work, or it is far behind."""
        self.pause_s = min(MAX_S, max(FIRST_S, self.pause_s * 2)) if stuck else 0.0
        self.not_before = now + self.pause_s
