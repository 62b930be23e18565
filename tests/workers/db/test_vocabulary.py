"""The words of the schema are those of the one vocabulary, and JSON values compare as they do in PostgreSQL."""

import itertools
import re
from collections.abc import Iterable
from enum import StrEnum
from typing import Any

import psycopg
import pytest

from engramq.schemas import vocabulary as words
from engramq.workers.db.transaction import Jsonb, loads, same
from tests.conftest import Database


@pytest.mark.promise("TP-1")
@pytest.mark.parametrize(
    ("table", "column", "enum"),
    [
        ("nodes", "partition", words.Partition),
        ("lexeme_counts", "partition", words.Partition),
        ("memories", "verification", words.Verification),
        ("memories", "state", words.MemoryState),
        ("memories", "sector", words.Sector),
        ("memories", "sector_source", words.SectorSource),
        ("memories", "source", words.MemorySource),
        ("edges", "layer", words.Layer),
        ("edges", "origin", words.Origin),
        ("edges", "memory_sector", words.Sector),
        ("proposals", "action", words.ProposalAction),
        ("proposals", "new_sector", words.Sector),
        ("edges", "sector_source", [words.SectorSource.AUTO, words.SectorSource.MANUAL]),
    ],
)
def test_a_column_takes_exactly_the_words_of_the_vocabulary(
    database: Database, table: str, column: str, enum: Iterable[StrEnum]
) -> None:
    with psycopg.connect(database.owner_url) as connection:
        checks = connection.execute(
            "select pg_get_constraintdef(oid) from pg_constraint where conrelid = %s::regclass and contype = 'c'",
            [table],
        ).fetchall()
    (check,) = [text for (text,) in checks if f"({column} = ANY" in text]
    assert set(re.findall(r"'(\w+)'::text", check)) == set(enum)


@pytest.mark.promise("TP-1", "TP-2")
def test_memories_are_divided_by_the_words_for_partitions(database: Database) -> None:
    with psycopg.connect(database.owner_url) as connection:
        parts = connection.execute(
            "select c.relname, pg_get_expr(c.relpartbound, c.oid) "
            "from pg_inherits i join pg_class c on c.oid = i.inhrelid where i.inhparent = 'memories'::regclass"
        ).fetchall()
    assert sorted(parts) == sorted((f"memories_{word}", f"FOR VALUES IN ('{word}')") for word in words.Partition)


VALUES: list[Any] = [
    None, True, False, 0, 1, -0.0, 1.0, 1.5, 0.1, 1e300, 1e23, 1.2345678901234568e18, 1234567890123456768, 2**63,
    float(2**63), 5e-324, "", "1", "true", "é", [], [1], [True], [1, 2], [2, 1], {}, {"a": 1}, {"a": 1.0}, {"a": True},
    {"a": None}, {"a": {"b": [0]}}, {"a": {"b": [False]}}, {"a": 1, "b": 2}, {"b": 2.0, "a": 1},
]  # fmt: skip


@pytest.mark.promise("OV-4")
def test_values_are_the_same_where_jsonb_says_so(database: Database) -> None:
    pairs = list(itertools.product(VALUES, repeat=2))
    with psycopg.connect(database.owner_url) as connection:
        rows = connection.execute(
            "select one = other, one::text from unnest(%s::jsonb[], %s::jsonb[]) as pair (one, other)",
            [[Jsonb(pair) for pair, _ in pairs], [Jsonb(other) for _, other in pairs]],
        ).fetchall()
    for (item, other), (equal, text) in zip(pairs, rows, strict=True):
        assert same(item, other) == equal, (item, other)
        assert same(loads(text), other) == equal, (text, other)  # as it comes back
