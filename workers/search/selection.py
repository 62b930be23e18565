"""What of a ranked list is shown: once each, within a budget of characters. Pure."""

from collections.abc import Iterable
from typing import Final

import msgspec

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


def within_budget(memories: Iterable[Memory], characters: int) -> list[Memory]:
    """Return the first memories whose contents have at most so many characters together.

    The first that does not fit is cut to what is left and marked `truncated`; those after it are left out, even if they
    would fit: a list with gaps would look complete.
    """
    shown: list[Memory] = []
    for memory in memories:
        if characters <= 0:
            break
        if len(memory.content) > characters:
            memory = msgspec.structs.replace(memory, content=memory.content[:characters], truncated=True)  # noqa: PLW2901
        characters -= len(memory.content)
        shown.append(memory)
    return shown
