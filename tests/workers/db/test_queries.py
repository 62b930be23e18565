"""The SQL files: every query is one that the migrated schema understands, and one that somebody uses."""

import ast
import re
from collections.abc import Iterator

import psycopg
import pytest

from engramq.workers.db import queries
from engramq.workers.db.queries import native, sized_sql, sql
from tests.architecture.source import modules
from tests.conftest import Database

# What PostgreSQL prepares: these four kinds of statement.
PREPARABLE = re.compile(r"\s*(select|insert|update|delete|with)\b", re.IGNORECASE)
# Calls that take a query by its name.
ASKING = {"send", "rows", "row", "only_row", "ask", "execute", "Lookup", "native", "sql", "sized_sql"}


def test_every_query_is_understood_by_the_migrated_schema(database: Database) -> None:
    with psycopg.connect(database.url) as connection:
        texts = [sized_sql(name, 384).decode() for name in queries.names()]
        for text in texts:
            if text.lstrip().startswith("create temp"):
                connection.execute(text.encode())
        for number, text in enumerate(texts):
            if PREPARABLE.match(text):
                connection.execute(b"prepare query_%d as %b" % (number, native(text.encode()).text))


def test_every_query_is_used() -> None:
    source = "".join(module.source for module in modules("workers", "bench"))
    assert [name for name in queries.names() if f'"{name}"' not in source] == []


def test_every_query_that_is_asked_for_by_its_name_exists() -> None:
    asked = {name for module in modules("workers") for name in asked_for(module.tree)}
    assert len(asked) > 300
    assert asked - set(queries.names()) == set()


def asked_for(tree: ast.Module) -> Iterator[str]:
    """Give the names of queries in the calls that take one."""
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        called = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        if called.lstrip("_") in ASKING:
            yield from (part.value for part in call.args if isinstance(part, ast.Constant) and type(part.value) is str)


def test_a_query_that_does_not_exist_is_refused() -> None:
    for name in ("no_such_query", "nearest_exact"):
        with pytest.raises(KeyError):
            native(name)
    with pytest.raises(KeyError):
        sql("no_such_query")
    with pytest.raises(KeyError):
        sql("nearest_exact")


def test_parameters_are_numbered_by_their_names_and_percent_signs_are_halved() -> None:
    text, parameters = native(b"select %(b)s, %(a)s, %(b)s::text, 5 %% 2, 'a%%' like '%%(a)s', format('%%L', %(c)s)")
    assert text == b"select $1, $2, $1::text, 5 % 2, 'a%' like '%(a)s', format('%L', $3)"
    assert parameters == ("b", "a", "c")
    assert native(b"select 1") == (b"select 1", ())


def test_a_part_is_repeated_for_each_column_of_a_list() -> None:
    assert queries.with_columns("insert into x ({each tombstone: $name $type}, at)") == (
        "insert into x (low_id uuid, high_id uuid, created_at timestamptz, at)"
    )
    with pytest.raises(KeyError):
        queries.with_columns("{each unheard_of: $name}")


def test_every_detail_that_a_caller_may_give_and_change_is_kept_in_a_column_of_its_name() -> None:
    details = {column.name for column in queries.LISTS["detail"]}
    assert {"speaker", "occurred_at", "thread", "position", "project", "expires_at"} <= details
    for query in ("insert_memory", "insert_memories", "update_memory", "replace_memory", "write_exported_memories"):
        assert all(name in sql(query).decode() for name in details), query
