"""What Citus documents of statements on distributed tables, asked of a statement's tree (query_trees.py).

Of one whose rows are all one tenant's: it runs on one node. The rules, with Citus' own words where it has them:

- volatile: "functions used in UPDATE queries on distributed tables must not be VOLATILE", neither in its WHERE nor in
  that of a DELETE. In an INSERT they are called on the coordinator.
- stable: "STABLE functions used in UPDATE queries cannot be called with column references"; the others are called on
  the coordinator. Operators and casts are functions too: `timestamptz + interval` is a stable one.
- lazy: "non-IMMUTABLE functions are not allowed in CASE or COALESCE statements" of an UPDATE or of a DELETE's WHERE.
- returning: "non-IMMUTABLE functions are not allowed in the RETURNING clause".
- upsert: "functions used in the DO UPDATE SET clause of INSERTs on distributed tables must be marked IMMUTABLE", and so
  in its WHERE.
- subquery: "subqueries are not supported within INSERT queries"; one that selects its rows may have them in there.
- tenant: "modifying the partition value of rows is not allowed".
- nested: "cannot execute a distributed query from a query on a shard": a function that reads a table of ours, or runs a
  query that it is given, and is sent to a node. In a SELECT all are; elsewhere those are called on the coordinator that
  are given no column.
- session: a function that speaks of the session or of its transaction: on a node they are others. And advisory locks.
- sequence: "Sequences cannot be used in router queries".
- spread: a table without `tenant = …` of its own: it is not seen that all rows are on one node. A subquery that takes
  the tenant from the row around it does not count.
- correlated: "correlated subqueries are not supported when the FROM clause contains a reference table", if they read
  all tenants' rows.

What Citus 14.0.1 refused when engramq ran on it, beyond its documentation:

- copy: "COPY FROM not supported with row-level security": an INSERT … SELECT that goes by the coordinator is sent as a
  COPY unless it has RETURNING or ON CONFLICT.
- parameter: "could not determine data type of parameter": in ON CONFLICT or RETURNING of such an INSERT.
- lock: FOR KEY SHARE in a part of a WITH that reads another part which reads a table, ahead of an INSERT.
- columns: "a column definition list is required": a subquery in FROM that selects no column, or an EXISTS over the rows
  of all tenants that selects none.
- joined: an INSERT that takes the tenant from a table, not as a value, goes to all shards.
- refers: an INSERT in a WITH whose rows refer to those of a later part, which are not there yet.
- unread: a part of a WITH that changes a table which is whole on every node, and that nothing reads: it is left out.

And this, which means something else there:

- order: an INSERT in a WITH is carried out apart, before the rest, and so is each part of a WITH that stands before an
  INSERT. What reads the same table sees the new rows then, where PostgreSQL shows the old ones.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from tests.workers.db.query_trees import (
    CTE,
    DELETE,
    INSERT,
    RELATION,
    SELECT,
    SUBQUERY,
    UPDATE,
    Catalogue,
    Node,
    within,
)

SESSION = frozenset({
    "pg_backend_pid", "pg_current_xact_id", "pg_current_xact_id_if_assigned", "pg_current_snapshot", "txid_current",
    "pg_visible_in_snapshot", "pg_current_wal_lsn", "pg_current_wal_insert_lsn",
})  # fmt: skip
RUN_TEXT = frozenset({"ts_stat", "query_to_xml", "cursor_to_xml", "table_to_xml"})
TENANT = "tenant"
ALWAYS = "1"  # ctematerialized


@dataclass(frozen=True)
class Rules:
    """The rules, for these tables."""

    catalogue: Catalogue
    distributed: frozenset[str]  # and views of them
    reference: frozenset[str]

    def broken_by(self, tree: Node) -> set[str]:
        """Return what is refused or would mean something else, as `rule: function or table`."""
        if not self._tables(within(tree)) & (self.distributed | self.reference):
            return set()  # the coordinator's own
        found = {*self._order(tree), *self._references(tree), *self._unread(tree)}
        parts = {node["ctename"]: node for node in within(tree) if node["kind"] == "COMMONTABLEEXPR"}
        for query in within(tree):
            if query["kind"] == "QUERY":
                found |= (
                    set(self._modifying(query, parts)) if query["commandType"] != SELECT else set(self._sent(query))
                )
                found |= {f"spread: {name}" for name in self._spread(query)}
                found |= set(self._subqueries(query))
        if any(query["kind"] == "QUERY" and query["commandType"] == INSERT for query in within(tree)):
            found |= set(self._locks(parts))
        return found

    def _references(self, tree: Node) -> Iterator[str]:
        parts = [item["ctequery"] for item in _listed(tree["cteList"])]
        written = [self._target(part) for part in [*parts, tree] if part["commandType"] == INSERT]
        for place, table in enumerate(written):
            if self.catalogue.references.get(table, frozenset()) & {*written[place + 1 :]}:
                yield f"refers: {table}"

    def _unread(self, tree: Node) -> Iterator[str]:
        read = {node["ctename"] for node in within(tree) if node.get("rtekind") == CTE}
        for part in _listed(tree["cteList"]):
            query = part["ctequery"]
            if query["commandType"] != SELECT and part["ctename"] not in read and self._target(query) in self.reference:
                yield f"unread: {self._target(query)}"

    def _subqueries(self, query: Node) -> Iterator[str]:
        for link in within([query["jointree"], query["targetList"]], queries=False):
            if link["kind"] == "SUBLINK" and not _listed(link["subselect"]["targetList"]):
                yield from (f"columns: {name}" for name in self._spread(link["subselect"]))
        own = [table for table in _listed(query["rtable"]) if table["rtekind"] == RELATION]
        for table in _listed(query["rtable"]):
            if table["rtekind"] == SUBQUERY and not _listed(table["subquery"]["targetList"]):
                yield f"columns: {', '.join(sorted(self._tables(within(table))))}"
        if not own or any(self.catalogue.tables.get(table["relid"]) in self.distributed for table in own):
            return
        for link in within([query["jointree"], query["targetList"]], queries=False):
            if link["kind"] == "SUBLINK" and any(
                node["kind"] == "VAR" and node["varlevelsup"] == "1" for node in within(link["subselect"])
            ):
                yield from (f"correlated: {name}" for name in self._spread(link["subselect"]))

    def _locks(self, parts: dict[str, Node]) -> Iterator[str]:
        for name, part in parts.items():
            others = [node["ctename"] for node in within(part["ctequery"]) if node.get("rtekind") == CTE]
            locks = any(_listed(node["rowMarks"]) for node in within(part["ctequery"]) if node["kind"] == "QUERY")
            if locks and any(self._tables(within(parts[other]["ctequery"])) for other in others):
                yield f"lock: {name}"

    def _modifying(self, query: Node, parts: dict[str, Node]) -> Iterator[str]:
        command = query["commandType"]
        lazy = [*self._targets(query)] if command == UPDATE else []
        if command in (UPDATE, DELETE):
            lazy.append(query["jointree"]["quals"])
            yield from self._called("volatile", lazy, "v")
            yield from self._irreducible([_pulled_up(item, query, parts) for item in lazy])
        if command == UPDATE:
            yield from self._of_tenant(query, query["targetList"])
        yield from self._called("returning", [query["returningList"]], "s")
        if command == INSERT:
            yield from self._inserting(query)

    def _inserting(self, query: Node) -> Iterator[str]:
        selects = [item for item in query["rtable"] if item["rtekind"] == SUBQUERY]
        if selects and self._target(query) in self.distributed:
            yield from self._pulled(query, selects[0]["subquery"])
        beside = [query["returningList"], query["onConflict"], query["targetList"]]
        values = [] if selects else [query["rtable"]]
        if any(node["kind"] == "SUBLINK" for node in within([*beside, *values])):
            yield f"subquery: {self._target(query)}"
        upsert = query["onConflict"]
        if isinstance(upsert, dict):
            changed = [item["expr"] for item in _listed(upsert["onConflictSet"]) if item["expr"]["kind"] != "VAR"]
            yield from self._called("upsert", [*changed, upsert["arbiterWhere"], upsert["onConflictWhere"]], "s")
            yield from self._of_tenant(query, upsert["onConflictSet"])

    def _pulled(self, query: Node, select: Node) -> Iterator[str]:
        """What is wrong with an INSERT whose rows a SELECT finds."""
        beside = [query["returningList"], query["onConflict"]]
        if not any(_listed(found) or isinstance(found, dict) for found in beside):
            yield f"copy: {self._target(query)}"
        if any(node["kind"] == "PARAM" for node in within(beside)):
            yield f"parameter: {self._target(query)}"
        table = query["rtable"][int(query["resultRelation"]) - 1]["relid"]
        for target in _listed(query["targetList"]):
            if self.catalogue.columns[table, target["resno"]] != TENANT or target["expr"]["kind"] != "VAR":
                continue
            given = select["targetList"][int(target["expr"]["varattno"]) - 1]["expr"]
            source = select["rtable"][int(given["varno"]) - 1] if given["kind"] == "VAR" else {}
            if self.catalogue.tables.get(source.get("relid", "")) in self.distributed:
                yield f"joined: {self._target(query)}"

    def _irreducible(self, expressions: Iterable[Any]) -> Iterator[str]:
        for node in within(list(expressions), queries=False):
            if node["kind"] in ("COALESCEEXPR", "CASEEXPR"):
                yield from self._called("lazy", [node], "s")
            elif self.catalogue.volatility(node) == "s":
                below = [item for item in within(node, queries=False) if item is not node]
                if any(item["kind"] == "VAR" for item in below):
                    yield from self._called("stable", [node], "s")

    def _sent(self, query: Node) -> Iterator[str]:
        """What a node would be asked to call. A SELECT of no table is the coordinator's."""
        if not self._tables(within(query)) and not any(item.get("rtekind") == CTE for item in within(query)):
            return
        for node in within(query):
            for call in self.catalogue.calls(node):
                name = self.catalogue.functions[call][0]
                if call in self.catalogue.reading or name in RUN_TEXT:
                    yield f"nested: {name}"
                elif name in SESSION or "advisory" in name:
                    yield f"session: {name}"
                elif name == "nextval":
                    yield f"sequence: {name}"

    def _spread(self, query: Node) -> set[str]:
        """Return the tables whose tenant follows from no condition of this query."""
        tables = _listed(query["rtable"])
        known: set[tuple[str, str]] = set()  # (number of the table, of the column)
        pairs: list[tuple[Node, Node]] = [
            (clause["args"][0], clause["args"][1]) for clause in _conjuncts(query["jointree"])
            if self.catalogue.functions[clause["opfuncid"]][0] == "int4eq"
        ]  # fmt: skip
        if query["commandType"] == INSERT:
            known.add((query["resultRelation"], "*"))  # the row says whose it is, and so does the one in its way
            if isinstance(query["onConflict"], dict):
                known.add((query["onConflict"]["exclRelIndex"], "*"))
        grown = True
        while grown:
            before = len(known)
            for pair, other in pairs:
                for column, value in ((pair, other), (other, pair)):
                    own = column["kind"] == "VAR" and column["varlevelsup"] == "0"
                    if own and (value["kind"] in ("PARAM", "CONST") or _place(value) in known):
                        known.add(_place(column))
            grown = len(known) > before
        found = set()
        for number, table in enumerate(tables, start=1):
            name = self.catalogue.tables.get(table.get("relid", ""), "") if table["rtekind"] == RELATION else ""
            columns = {self.catalogue.columns.get((table.get("relid", ""), column), column)
                       for place, column in known if place == str(number)}  # fmt: skip
            if name in self.distributed and not columns & {TENANT, "*"}:
                found.add(name)
        return found

    def _order(self, tree: Node) -> Iterator[str]:
        parts = [item["ctequery"] for item in _listed(tree["cteList"])]
        apart = tree["commandType"] == INSERT or any(item["commandType"] == INSERT for item in parts)
        if not apart:
            return
        written: set[str] = set()
        for part in [*parts, {**tree, "cteList": []}]:
            for name in sorted(self._read(part) & written):
                yield f"order: {name}"
            if part["commandType"] != SELECT:
                written.add(self._target(part))
        if any(item["cterecursive"] == "true" for item in _listed(tree["cteList"])):
            yield "order: recursive"

    def _read(self, query: Node) -> set[str]:
        target = "" if query["commandType"] == SELECT else str(query["resultRelation"])
        conflict = query["onConflict"]
        rows = {target, conflict["exclRelIndex"]} if isinstance(conflict, dict) else {target}
        own = [item for number, item in enumerate(_listed(query["rtable"]), start=1)
               if str(number) not in rows or query["commandType"] != INSERT]  # fmt: skip
        return self._tables(within([*own, query["jointree"], query["targetList"], query["returningList"]]))

    def _target(self, query: Node) -> str:
        return self.catalogue.tables[query["rtable"][int(query["resultRelation"]) - 1]["relid"]]

    def _targets(self, query: Node) -> Iterator[Node]:
        yield from (item["expr"] for item in _listed(query["targetList"]) if item["resjunk"] == "false")

    def _of_tenant(self, query: Node, changed: Any) -> Iterator[str]:
        table = query["rtable"][int(query["resultRelation"]) - 1]["relid"]
        if any(self.catalogue.columns[table, item["resno"]] == TENANT for item in _listed(changed)):
            yield f"tenant: {self._target(query)}"

    def _tables(self, nodes: Iterator[Node]) -> set[str]:
        return {self.catalogue.tables[node["relid"]] for node in nodes
                if node["kind"] == "RANGETBLENTRY" and node.get("relid") in self.catalogue.tables}  # fmt: skip

    def _called(self, rule: str, expressions: Iterable[Any], volatile: str) -> Iterator[str]:
        yield from (f"{rule}: {name}" for name in self.catalogue.names(within(list(expressions)), volatile))


def _pulled_up(found: Any, query: Node, parts: dict[str, Node]) -> Any:
    """Return an expression as the planner sees it: with what a subquery of the FROM selects in place of its name.

    What is locked, limited or materialized stays by itself.
    """
    if isinstance(found, list):
        return [_pulled_up(item, query, parts) for item in found]
    if not isinstance(found, dict) or found["kind"] == "QUERY":
        return found
    if found["kind"] == "VAR" and found["varlevelsup"] == "0":
        table = query["rtable"][int(found["varno"]) - 1]
        below: Any = table.get("subquery") if table["rtekind"] == SUBQUERY else None
        if table["rtekind"] == CTE:
            named = parts[table["ctename"]]
            below = named["ctequery"] if named["ctematerialized"] != ALWAYS else None
        if below and below["commandType"] == SELECT and not (_listed(below["rowMarks"]) or below["limitCount"] != "<>"):
            return _pulled_up(below["targetList"][int(found["varattno"]) - 1]["expr"], below, parts)
        return found
    return {name: _pulled_up(item, query, parts) for name, item in found.items()}


def _listed(found: Any) -> list[Node]:
    return found if isinstance(found, list) else []


def _place(node: Node) -> tuple[str, str]:
    return (node["varno"], node["varattno"]) if node["kind"] == "VAR" and node["varlevelsup"] == "0" else ("", "")


def _conjuncts(found: Any) -> Iterator[Node]:
    """Return the conditions that hold together, of a FROM with its joins."""
    if isinstance(found, list):
        for item in found:
            yield from _conjuncts(item)
    elif isinstance(found, dict):
        if found["kind"] == "FROMEXPR":
            yield from _conjuncts([found["fromlist"], found["quals"]])
        elif found["kind"] == "JOINEXPR":
            yield from _conjuncts([found["larg"], found["rarg"], found["quals"]])
        elif found["kind"] == "BOOLEXPR" and found["boolop"] == "and":
            yield from _conjuncts(found["args"])
        elif found["kind"] == "OPEXPR":
            yield found
