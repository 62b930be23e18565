import numpy as np
import pytest

from engramq.workers.embedders.batching import ENTRY_OVERHEAD_BYTES, VectorCache, content_key
from engramq.workers.embedders.interface import Vectors

ROW_BYTES = 4 * 4 + ENTRY_OVERHEAD_BYTES


def row(value: float) -> Vectors:
    return np.full(4, value, dtype=np.float32)


def test_the_least_recently_used_entry_goes_first() -> None:
    cache = VectorCache(entries=2, size_bytes=10_000)
    cache.put(b"a", row(1))
    cache.put(b"b", row(2))
    assert cache.get(b"a") is not None
    cache.put(b"c", row(3))
    assert [key in cache for key in (b"a", b"b", b"c")] == [True, False, True]


def test_bytes_bound_the_cache_as_well_as_entries() -> None:
    cache = VectorCache(entries=100, size_bytes=3 * ROW_BYTES)
    for number in range(10):
        cache.put(bytes([number]), row(number))
    assert len(cache) == 3
    assert cache.used_bytes == 3 * ROW_BYTES


def test_a_row_larger_than_the_cache_is_not_kept() -> None:
    cache = VectorCache(entries=100, size_bytes=ROW_BYTES - 1)
    cache.put(b"a", row(1))
    assert len(cache) == 0
    assert cache.used_bytes == 0


def test_put_without_displacing_fills_room_and_drops_nothing() -> None:
    cache = VectorCache(entries=2, size_bytes=10_000)
    cache.put(b"a", row(1))
    cache.put(b"b", row(2), displace=False)
    cache.put(b"c", row(3), displace=False)
    assert [key in cache for key in (b"a", b"b", b"c")] == [True, True, False]


def test_what_is_kept_cannot_be_changed_from_outside() -> None:
    cache = VectorCache(entries=2, size_bytes=10_000)
    batch = np.ones((2, 4), dtype=np.float32)
    cache.put(b"a", batch[0])
    batch[:] = 7
    kept = cache.get(b"a")
    assert kept is not None
    assert kept.tolist() == [1, 1, 1, 1]
    assert kept.base is None
    with pytest.raises(ValueError, match="read-only"):
        kept[0] = 2


def test_keys_tell_texts_apart_and_accept_any_text() -> None:
    texts = ["", " ", "a", "A", "\ud800", "a" * 32_768]
    assert len({content_key(text) for text in texts}) == len(texts)
