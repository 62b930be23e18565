"""By what a row of an import is known again: what it says, for good."""

import hashlib
from array import array
from collections.abc import MutableSequence
from typing import Any, Final

import msgspec
from msgspec import UNSET

from engramq.schemas import limits
from engramq.schemas.commands import ImportRecord, NewMemory

_DEFAULTS: Final[dict[str, Any]] = {
    field.name: field.default for field in msgspec.structs.fields(NewMemory) if not field.required
}
_FIRST_SLOTS: Final = 1 << 12
_HASH_BYTES: Final = 8


class Identities:
    """Tells the rows of one file apart: equal ones by how many of them stand before."""

    def __init__(self) -> None:
        self._said = Occurrences()

    def of(self, namespace: str, record: ImportRecord) -> bytes:
        """Return the identity of the next row.

        An external id is one by itself. Else it is the digest of namespace and record, whatever the order of its keys
        and whether it writes defaults out, and for a record that was there before of its number too.
        """
        if record.external_id is not UNSET:
            return digest_of("external_id", namespace, record.external_id)
        said = digest_of("record", namespace, canonical(record))
        number = self._said.count(said)
        return said if number == 0 else digest_of("again", said.hex(), str(number))


def canonical(record: ImportRecord) -> str:
    """Return what a record says, in one form for all that say the same."""
    said = {
        name: value for name, value in record.given.items() if value != _DEFAULTS.get(name) and value not in ((), {})
    }
    return msgspec.json.encode(said, order="deterministic").decode()


def digest_of(*texts: str) -> bytes:
    """Return a digest of texts, which differs wherever one of them does."""
    return hashlib.blake2b(msgspec.json.encode(texts), digest_size=limits.IDENTITY_BYTES).digest()


class Occurrences:
    """How often digests have come: an open hash table of 12 bytes a slot, so a million of them take about 25 MB.

    Digests are told apart by their first 8 bytes: that two of a million are mixed up has a chance of 1 to 10^7, and
    then the later one counts as a repetition, which is known again as well.
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
