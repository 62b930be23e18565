"""Vectors by content: a least-recently-used cache bounded by entries and by bytes.

Knows: hashes of texts and rows. Refuses to know: who embeds, and the texts themselves (only their digests are kept).
"""

import hashlib
from collections import OrderedDict

from engramq.workers.embedders.interface import Vectors

# What Python keeps beside the numbers of one entry: array object, key, node of the ordering. Measured on CPython 3.11.
ENTRY_OVERHEAD_BYTES = 300


def content_key(text: str, *, question: bool = False) -> bytes:
    """Return what a text's vector is kept under; that of a question may be another one."""
    person = b"question" if question else b""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16, person=person).digest()


class VectorCache:
    """Keep float32 rows [dimensions] by content key. Not thread-safe: it belongs to the event loop."""

    def __init__(self, *, entries: int, size_bytes: int) -> None:
        self._entries = entries
        self._size_bytes = size_bytes
        self._rows: OrderedDict[bytes, Vectors] = OrderedDict()
        self._used_bytes = 0

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, key: bytes) -> bool:
        return key in self._rows

    @property
    def used_bytes(self) -> int:
        return self._used_bytes

    def get(self, key: bytes) -> Vectors | None:
        row = self._rows.get(key)
        if row is not None:
            self._rows.move_to_end(key)
        return row

    def put(self, key: bytes, row: Vectors, *, displace: bool = True) -> None:
        """Keep a copy of `row`; with `displace=False` only where there is room without dropping another."""
        cost = row.nbytes + ENTRY_OVERHEAD_BYTES
        if key in self._rows or cost > self._size_bytes:
            return
        if not displace and (len(self._rows) >= self._entries or self._used_bytes + cost > self._size_bytes):
            return
        kept = row.copy()  # a view would keep its whole batch alive
        kept.flags.writeable = False
        self._rows[key] = kept
        self._used_bytes += cost
        while len(self._rows) > self._entries or self._used_bytes > self._size_bytes:
            _, dropped = self._rows.popitem(last=False)
            self._used_bytes -= dropped.nbytes + ENTRY_OVERHEAD_BYTES

    def clear(self) -> None:
        """Forget everything."""
        self._rows.clear()
        self._used_bytes = 0
