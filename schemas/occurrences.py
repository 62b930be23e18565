"""How often digests have come, in little memory."""

from array import array
from collections.abc import MutableSequence
from typing import Final

_FIRST_SLOTS: Final = 1 << 12
_HASH_BYTES: Final = 8


class Occurrences:
    """How often digests have come: an open hash table of 12 bytes a slot, so a million of them take about 25 MB.

    Digests are told apart by their first 8 bytes: that two of a million are mixed up has a chance of 1 to 10^7, and
    then the later one counts as a repetition.
    """

    def __init__(self) -> None:
        self._used = 0
        self._keys, self._counts = _slots(_FIRST_SLOTS)

    def count(self, digest: bytes) -> int:
        """Return how often the digest has come before."""
        if 3 * self._used >= 2 * len(self._keys):
            self._grow()
        key = int.from_bytes(digest[:_HASH_BYTES]) or 1  # 0 is an empty slot
        slot = self._slot(key)
        if not self._keys[slot]:
            self._keys[slot] = key
            self._used += 1
        before = self._counts[slot]
        self._counts[slot] = before + 1
        return before

    def _slot(self, key: int) -> int:
        """Return the key's slot, or the empty one that it gets."""
        keys, mask = self._keys, len(self._keys) - 1
        slot = key & mask
        while keys[slot] and keys[slot] != key:
            slot = (slot + 1) & mask
        return slot

    def _grow(self) -> None:
        keys, counts = self._keys, self._counts
        self._keys, self._counts = _slots(2 * len(keys))
        for key, count in zip(keys, counts, strict=True):
            if key:
                slot = self._slot(key)
                self._keys[slot], self._counts[slot] = key, count


def _slots(number: int) -> tuple[MutableSequence[int], MutableSequence[int]]:
    return array("Q", bytes(_HASH_BYTES * number)), array("I", bytes(array("I").itemsize * number))
