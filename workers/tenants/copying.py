"""Rows of a tenant made the same in two databases: what differs is written, what is too much removed, all is compared.

Whatever the target has already, a pass ends with the same rows there, so a copy that was broken off is begun again.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from engramq.workers.db.owner import Owner
from engramq.workers.db.pool import Row
from engramq.workers.db.queries import sql

STATEMENTS: Final = sql("moving_statements")
OLDEST: Final = sql("oldest_under_way")
MODELS: Final = sql("models_of_tenant")
MODEL_KNOWN: Final = sql("model_known")
REGISTER: Final = sql("register_model")
CHOOSE_LAST: Final = sql("choose_model_last")

# In an order in which no row refers to one that is not there yet.
COPIED: Final = (
    "nodes", "memories", "memory_usage", "edges", "link_tombstones", "deferred_links", "co_retrievals", "proposals",
    "approvals", "imported_rows", "deleted_graph", "lexeme_rebuilds", "audit_log", "ledger", "tokens", "webhooks",
    "webhook_outbox",
)  # fmt: skip
# Tenants' tables that are not copied, and why.
NOT_COPIED: Final[Mapping[str, str]] = {
    "namespaces": "the directory: its row is made and received by steps of their own",
    "lexeme_counts": "upkeep counts the words of large namespaces anew",
    "loads": "what arrives is put into the vector index row by row",
    "changes": "the tenant is noted as changed when it is received",
}

ROWS_AT_ONCE: Final = 500
PURGED_AT_ONCE: Final = 2_000
PART_ROWS: Final = 100_000  # keys and digests that are held in memory at a time, for each side, 200 bytes each


class Unlike(Exception):
    """A row is not the same after it was copied; the message names it."""


@dataclass(frozen=True, slots=True)
class _Table:
    """The statements of one table, for each side."""

    name: str
    ours: Row
    theirs: Row


@dataclass(slots=True)
class _Difference:
    """What of one table is to be done: keys of rows to be written with their digests, and of rows to be removed."""

    table: _Table
    written: dict[str, bytes] = field(default_factory=dict)
    removed: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Pass:
    """What a pass has done: rows written and removed, in how many seconds; `oldest`: what the next one asks by for what
    changed since."""

    written: int
    removed: int
    oldest: int
    took_s: float


@dataclass(frozen=True, slots=True)
class Copier:
    """Makes the rows of a tenant, by its number in each database, the same in `target` as they are in `source`."""

    source: Owner
    target: Owner
    ours: int
    theirs: int

    async def run(self, since: int | None = None) -> Pass:
        """Make one pass: over all rows, or over those that changed since a former pass; raises Unlike.

        All is read from one moment. What is written is committed a few rows at a time.
        """
        began = time.monotonic()
        async with self.source.transaction(looking=True):
            row = await self.source.row(OLDEST)
            assert row is not None
            tables = await self._tables()
            found = await (self._compared(tables) if since is None else self._changed(tables, since))
            for one in reversed(found):
                await self._remove(one)
            for one in found:
                await self._write(one)
            await self._require_counts(tables)
        written, removed = sum(len(one.written) for one in found), sum(len(one.removed) for one in found)
        return Pass(written, removed, row["oldest"], time.monotonic() - began)

    async def purge(self, side: Owner, tenant: int) -> None:
        """Remove all rows of a tenant in one of the databases, those that are not copied too."""
        names = [*COPIED, *(name for name in NOT_COPIED if name != "namespaces")]
        for one in reversed(await side.rows(STATEMENTS, tables=names, models=None, prefix=None)):
            gone = PURGED_AT_ONCE
            while gone == PURGED_AT_ONCE:
                ((counted),) = await side.run(one["purge"], [tenant, PURGED_AT_ONCE])
                gone = counted["rows"]

    async def _tables(self) -> list[_Table]:
        models = {str(one["id"]): await self._model(one) for one in await self.source.rows(MODELS, tenant=self.ours)}
        ours = await self.source.rows(STATEMENTS, tables=list(COPIED), models=models, prefix=f"{self.theirs:x}:")
        theirs = await self.target.rows(STATEMENTS, tables=list(COPIED), models=None, prefix=None)
        return [_Table(one["table"], one, other) for one, other in zip(ours, theirs, strict=True)]

    async def _model(self, model: Row) -> int:
        """Return the number of a model in the target, which gets it where it has it not, but goes on with its own."""
        about = {name: model[name] for name in ("name", "sha256", "dimensions")}
        known = await self.target.row(MODEL_KNOWN, **about)
        if known is None:
            async with self.target.transaction():
                known = await self.target.row(REGISTER, **about)
                assert known is not None
                await self.target.rows(CHOOSE_LAST, id=known["id"])
        return int(known["id"])

    async def _compared(self, tables: Sequence[_Table]) -> list[_Difference]:
        """Compare all rows, part by part."""
        ours, theirs = await self._counts(tables)
        return [
            await self._compare(table, max(here, there))
            for table, here, there in zip(tables, ours, theirs, strict=True)
        ]

    async def _compare(self, table: _Table, rows: int) -> _Difference:
        found = _Difference(table)
        parts = 1
        while parts * PART_ROWS < rows:
            parts *= 2
        for part in range(parts):
            here = _digests(await self.source.run(table.ours["digests"], [self.ours, part, parts]))
            there = _digests(await self.target.run(table.theirs["digests"], [self.theirs, part, parts]))
            found.written |= {key: digest for key, digest in here.items() if there.get(key) != digest}
            found.removed += there.keys() - here.keys()
        return found

    async def _changed(self, tables: Sequence[_Table], since: int) -> list[_Difference]:
        """Compare the rows that changed since, and all keys of a table where some rows are too much."""
        ours, theirs = await self._counts(tables)
        changed = await self.source.run_all([(one.ours["changed_digests"], [self.ours, since]) for one in tables])
        here = [_digests(rows) for rows in changed]
        asked = [(one.theirs["digests_of"], [self.theirs, list(keys)]) for one, keys in zip(tables, here, strict=True)]
        there = [_digests(rows) for rows in await self.target.run_all(asked)]
        found = []
        for place, table in enumerate(tables):
            told, known = here[place], there[place]
            difference = _Difference(table, {key: digest for key, digest in told.items() if known.get(key) != digest})
            if theirs[place] + len(told.keys() - known.keys()) != ours[place]:
                difference.removed = await self._too_much(table)
            found.append(difference)
        return found

    async def _too_much(self, table: _Table) -> list[str]:
        here = {row["key"] for row in await self.source.run(table.ours["keys"], [self.ours, 0, 1])}
        there = {row["key"] for row in await self.target.run(table.theirs["keys"], [self.theirs, 0, 1])}
        return list(there - here)

    async def _remove(self, found: _Difference) -> None:
        for keys in _pages(found.removed):
            await self.target.run(found.table.theirs["remove"], [self.theirs, keys])

    async def _write(self, found: _Difference) -> None:
        """Write rows and compare them once they are there."""
        table = found.table
        for keys in _pages(list(found.written)):
            lines = [row["row"] for row in await self.source.run(table.ours["rows"], [self.ours, keys])]
            written, asked = (
                (table.theirs["write"], [self.theirs, lines]),
                (table.theirs["digests_of"], [self.theirs, keys]),
            )
            async with self.target.transaction():
                _, rows = await self.target.run_all([written, asked])
            there = _digests(rows)
            wrong = [key for key in keys if there.get(key) != found.written[key]]
            if wrong:
                raise Unlike(f"the row {wrong[0]} of {table.name} is not the same after it was copied")

    async def _require_counts(self, tables: Sequence[_Table]) -> None:
        for table, here, there in zip(tables, *await self._counts(tables), strict=True):
            if here != there:
                raise Unlike(f"{table.name} has {here} rows here and {there} there after it was copied")

    async def _counts(self, tables: Sequence[_Table]) -> tuple[list[int], list[int]]:
        """Return how many rows there are in each table, here and there."""
        ours = await self.source.run_all([(one.ours["count"], [self.ours]) for one in tables])
        theirs = await self.target.run_all([(one.theirs["count"], [self.theirs]) for one in tables])
        return [rows[0]["rows"] for rows in ours], [rows[0]["rows"] for rows in theirs]


def _digests(rows: Sequence[Mapping[str, Any]]) -> dict[str, bytes]:
    return {row["key"]: bytes(row["digest"]) for row in rows}


def _pages(keys: Sequence[str]) -> Iterator[list[str]]:
    for start in range(0, len(keys), ROWS_AT_ONCE):
        yield list(keys[start : start + ROWS_AT_ONCE])
