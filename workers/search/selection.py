"""What of a ranked list is shown: once each. Pure."""

from typing import Final

from engramq.schemas.records import Memory
from engramq.schemas.vocabulary import Partition

_TRUSTED: Final = Partition.TRUSTED


class Twins:
    """Remembers contents, to leave out those that say the same but for white space and case.

    The first of twins stays. An untrusted memory never hides a trusted one, whichever comes first.
    """

    def __init__(self) -> None:
        self._seen: dict[str, set[Partition]] = {}

    def is_repeated(self, memory: Memory) -> bool:
        """Say whether a twin that may stand for it was seen before, and remember it."""
        seen = self._seen.setdefault(" ".join(memory.content.casefold().split()), set())
        repeated = _TRUSTED in seen or memory.partition in seen
        seen.add(memory.partition)
        return repeated
