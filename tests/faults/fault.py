"""What a fault is: how it is caused and healed, how often, and what may be seen of it."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum, auto
from typing import Any


class Needs(StrEnum):
    """Which stack a fault is caused in."""

    OWN_SERVERS = auto()
    PROXIES = auto()  # between processes and servers
    HOME = auto()  # `engramq up` and clients over stdio


class NotHere(Exception):
    """A fault cannot be caused on this machine; the message says what it lacks."""


@dataclass(frozen=True, slots=True)
class Fault:
    """`cause` brings it about, and returns once what it broke is there again.

    `times` is how often in the long run. `back_s`: seconds after that within which a store has to be acknowledged.
    `unnoticed`: no call may fail; `reads_go_on`: no read may, from a second after it began. `dead_letters`: how many
    each makes. `keeps_pending`: whatever was told `pending` ends, and `get_command` knows how. `small_disk`: the files
    that it is about are on a small one.
    """

    name: str
    cause: Callable[[Any], Awaitable[None]]
    times: int
    back_s: float = 3.0
    needs: Needs = Needs.OWN_SERVERS
    unnoticed: bool = False
    reads_go_on: bool = False
    dead_letters: int = 0
    keeps_pending: bool = False
    small_disk: bool = False

    @property
    def about(self) -> str:
        """What happens, in a line."""
        return (self.cause.__doc__ or "").strip().splitlines()[0]
