"""One poison job at a time in a process, whatever its mailbox.

A command that kills its process takes along what runs beside it, each time. A job that was begun a few times and
never ended is therefore run apart from other such jobs: the innocent ones end, and only the guilty one uses its tries
up.
"""

from collections.abc import Callable


class PoisonSlot:
    """The right to run a poison job. Holders ask before they claim, since claiming counts as a try."""

    def __init__(self) -> None:
        self._taken = False
        self._waiting: set[Callable[[], None]] = set()

    def take(self) -> bool:
        """Take the slot; False when it is taken."""
        taken, self._taken = self._taken, True
        return not taken

    def tell_when_free(self, wake: Callable[[], None]) -> None:
        """Call `wake` once, when the slot is given back (at once when it is free)."""
        if self._taken:
            self._waiting.add(wake)
        else:
            wake()

    def give_back(self) -> None:
        """Free the slot."""
        self._taken = False
        waiting, self._waiting = self._waiting, set()
        for wake in waiting:
            wake()
