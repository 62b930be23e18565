"""JSON values compare as they do in PostgreSQL."""

import itertools
from typing import Any

import psycopg
import pytest

from engramq.workers.db.transaction import Jsonb, loads, same
from tests.conftest import Database

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
