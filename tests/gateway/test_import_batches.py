"""A file becomes batches that are stored once, however often it is imported."""

import json
from collections.abc import Iterable

from engramq.gateway.cli.import_rows import Batch, make_batches, read_rows

NAMESPACE = "tenant"


def batches(rows: Iterable[dict[str, str]], size: int = 2) -> list[Batch]:
    lines = [json.dumps(row).encode() for row in rows]
    made = list(make_batches(read_rows(lines, NAMESPACE, one_namespace=False), size, chars=1_000))
    assert all(isinstance(one, Batch) for one in made)
    return [one for one in made if isinstance(one, Batch)]


def test_rows_without_external_ids_keep_their_keys_when_a_file_is_imported_again() -> None:
    rows = [{"content": text} for text in "abcde"]
    first, again = batches(rows), batches(rows)
    assert [one.key for one in first] == [one.key for one in again]
    assert len({one.key for one in first}) == 3
    assert not any(one.named for one in first)


def test_equal_batches_of_one_file_are_different_ones() -> None:
    rows = [{"content": "the same"}] * 6
    keys = [one.key for one in batches(rows)]
    assert len(set(keys)) == 3
    assert keys == [one.key for one in batches(rows)]


def test_equal_rows_of_two_namespaces_are_different_batches() -> None:
    here, there = batches([{"content": "x"}, {"content": "x", "namespace": "other"}])
    assert here.key != there.key


def test_rows_with_external_ids_are_sent_anew_and_apart_from_others() -> None:
    rows = [{"content": "a", "external_id": "1"}, {"content": "b"}, {"content": "c", "external_id": "2"}]
    first, again = batches(rows), batches(rows)
    assert [[row.line for row in one.rows] for one in first] == [[1, 3], [2]]
    assert [one.named for one in first] == [True, False]
    assert first[0].key != again[0].key, "an update, or what was erased since, is no repetition"
    assert first[1].key == again[1].key
