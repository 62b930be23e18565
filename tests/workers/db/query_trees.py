"""Statements as PostgreSQL itself has parsed them: with the functions that operators, casts and calls mean.

`debug_print_parse` sends the tree of a statement to whoever prepares it. So nothing is guessed from words, and no
parser of another version is asked. A node is a dict with its fields, and its kind under `kind`.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql

from engramq.workers.db.queries import native

Node = dict[str, Any]

SELECT, UPDATE, INSERT, DELETE = "1", "2", "3", "4"  # commandType
RELATION, SUBQUERY, FUNCTION, VALUES, CTE = "0", "1", "3", "5", "6"  # rtekind
TOKEN = re.compile(r'[{}()\[\]]|"(?:\\.|[^"\\])*"|(?:\\.|[^\s{}()\[\]"\\])+', re.DOTALL)
# What names the function that a node calls, and what the type of its value.
CALLED = {
    "FUNCEXPR": "funcid", "OPEXPR": "opfuncid", "DISTINCTEXPR": "opfuncid", "NULLIFEXPR": "opfuncid",
    "SCALARARRAYOPEXPR": "opfuncid", "AGGREF": "aggfnoid", "WINDOWFUNC": "winfnoid",
}  # fmt: skip
TYPED = (
    "vartype", "paramtype", "consttype", "funcresulttype", "opresulttype", "coalescetype", "casetype", "resulttype",
    "refrestype", "aggtype", "wintype", "minmaxtype", "array_typeid", "row_typeid",
    "typeId",
)  # fmt: skip
OPENING = frozenset("{([")


@dataclass(frozen=True)
class Catalogue:
    """What the database says of the functions and tables that trees name by number."""

    functions: Mapping[str, tuple[str, str]]  # name and volatility: i, s, v
    ours: Mapping[str, str]  # the text of each
    reading: frozenset[str]  # of ours: those that read a table of ours, by themselves or by another
    tables: Mapping[str, str]
    columns: Mapping[tuple[str, str], str]
    conversions: Mapping[str, tuple[str, str]]  # of a type: from and to its text
    references: Mapping[str, frozenset[str]]  # the other tables that the foreign keys of each lead to

    @classmethod
    def read(cls, connection: psycopg.Connection[Any]) -> "Catalogue":
        def rows(query: str) -> list[Any]:
            return connection.execute(query.encode()).fetchall()

        functions = {
            row[0]: (row[1], row[2]) for row in rows("select oid::text, proname, provolatile::text from pg_proc")
        }
        tables = rows("select oid::text, relname from pg_class where relnamespace = 'public'::regnamespace "
                      "and relkind in ('r', 'p', 'v')")  # fmt: skip
        bodies = rows(
            "select p.oid::text, proname, pg_get_functiondef(p.oid) from pg_proc p where prokind = 'f' and "
            "pronamespace = 'public'::regnamespace and not exists (select from pg_depend d where d.objid = p.oid "
            "and d.deptype = 'e')"
        )
        return cls(
            functions,
            {number: text for number, _, text in bodies},
            frozenset(_readers(bodies, [name for _, name in tables])),
            dict(tables),
            {(table, number): name for table, number, name in rows(
                "select attrelid::text, attnum::text, attname from pg_attribute where attnum > 0"
            )},
            {item: (from_text, to_text) for item, from_text, to_text in rows(
                "select oid::text, typinput::oid::text, typoutput::oid::text from pg_type"
            )},
            {table: frozenset(others) for table, others in rows(
                "select conrelid::regclass::text, array_agg(confrelid::regclass::text) from pg_constraint "
                "where contype = 'f' and conrelid <> confrelid group by 1"
            )},
        )  # fmt: skip

    def calls(self, node: Node) -> list[str]:
        """Return the functions that evaluating this node itself calls."""
        kind = node["kind"]
        if kind in CALLED:
            return [node[CALLED[kind]]]
        if kind == "COERCEVIAIO":
            return [self.conversions[type_of(node["arg"])][1], self.conversions[node["resulttype"]][0]]
        return []

    def volatility(self, node: Node) -> str:
        if node["kind"] == "NEXTVALUEEXPR":
            return "v"
        if node["kind"] == "SQLVALUEFUNCTION":
            return "s"
        return max((self.functions[call][1] for call in self.calls(node)), default="i")  # v > s > i

    def names(self, nodes: Iterator[Node], volatile: str) -> list[str]:
        """Return the names of functions at least this volatile."""
        return sorted({
            self.functions[call][0] if call in self.functions else node["kind"].lower()
            for node in nodes if self.volatility(node) >= volatile
            for call in (self.calls(node) or [""])
            if not call or self.functions[call][1] >= volatile
        })  # fmt: skip


def _readers(bodies: list[tuple[str, str, str]], tables: list[str]) -> set[str]:
    named = re.compile(rf"\b(?:from|join|into|update|using)\s+\(*(?:public\.)?(?:{'|'.join(tables)})\b", re.IGNORECASE)
    found = {number for number, _, text in bodies if named.search(text)}
    while True:
        calling = "|".join(name for number, name, _ in bodies if number in found)
        called = re.compile(rf"\b(?:{calling})\(")
        more = {
            number for number, name, text in bodies if called.search(text.replace(f"public.{name}(", "", 1))
        } - found
        if not more:
            return found
        found |= more


def parsed(connection: psycopg.Connection[Any], name: str, text: str) -> Node:
    """Return the tree of one statement with `%(parameters)s`."""
    prepared = sql.SQL("prepare {} as ").format(sql.Identifier(f"tree_of_{name}")).as_bytes(None)
    return _trees(connection, lambda: connection.execute(prepared + native(text.encode()).text))[-1]


def run_by(connection: psycopg.Connection[Any], call: str) -> list[Node]:
    """Return the trees of the statements that a call of a function in plpgsql runs, which must not have run before."""
    return _trees(connection, lambda: connection.execute(f"select {call}".encode()))


def body_of(connection: psycopg.Connection[Any], function: str) -> list[Node]:
    """Return the trees of the statements of a function whose body is SQL."""
    row = connection.execute("select prosqlbody::text from pg_proc where proname = %s", [function]).fetchone()
    assert row is not None
    found = _value_of(row[0])
    while isinstance(found[0], list):  # of statements between BEGIN ATOMIC and END
        found = [tree for trees in found for tree in trees]
    return list(found)


def _trees(connection: psycopg.Connection[Any], run: Callable[[], object]) -> list[Node]:
    heard: list[str] = []

    def hear(notice: psycopg.errors.Diagnostic) -> None:
        if notice.message_primary == "parse tree:":
            heard.append(notice.message_detail or "")

    connection.execute("set debug_pretty_print = off; set client_min_messages = log; set debug_print_parse = on")
    connection.add_notice_handler(hear)
    try:
        run()
    finally:
        connection.remove_notice_handler(hear)
        connection.execute("reset debug_print_parse; reset client_min_messages")
    trees = [_value_of(text) for text in heard if not text.startswith("{QUERY :commandType 6 ")]  # utilities
    assert all(tree["kind"] == "QUERY" for tree in trees)
    return trees


def _value_of(text: str) -> Any:
    tokens = iter(TOKEN.findall(text))
    return _value(next(tokens), tokens)


def _value(token: str, tokens: Iterator[str]) -> Any:
    if token == "{":
        node: Node = {"kind": next(tokens)}
        field = next(tokens)
        while field != "}":
            name, values = field.removeprefix(":"), []
            for token in tokens:
                if token.startswith(":") or token == "}":
                    field = token
                    break
                values.append(_value(token, tokens) if token in OPENING else token)
            node[name] = values[0] if len(values) == 1 else values
        return node
    if token in "([":
        closing, found = (")" if token == "(" else "]"), []
        while (token := next(tokens)) != closing:
            found.append(_value(token, tokens) if token in OPENING else token)
        return found
    return token


def within(found: Any, *, queries: bool = True, itself: bool = True) -> Iterator[Node]:
    """Return a node and all below; without `queries` none of those that are in a query below."""
    waiting = [found]  # a generator for each of millions of values would take most of the time
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            if itself or item is not found:
                if item["kind"] == "QUERY" and not queries:
                    continue
                yield item
            item = list(item.values())
        waiting.extend(below for below in reversed(item) if not isinstance(below, str))


def type_of(node: Node) -> str:
    """Return the number of the type of an expression's value."""
    for field in TYPED:
        if field in node:
            return str(node[field])
    assert node["kind"] == "SUBLINK", node["kind"]
    return type_of(node["subselect"]["targetList"][0]["expr"])
