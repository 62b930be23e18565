"""Rewrite the files of PostgreSQL and Redis without what was erased: `engramq purge --rewrite`."""

import sys
from typing import Any, Final

import msgspec

from engramq.schemas.command_line import CommandFailed, count_of, join_words
from engramq.schemas.settings import Settings
from engramq.workers import admin
from engramq.workers.migrating import require_database, run

_MB = 2**20
LONG: Final = 16 * _MB  # from which a table takes a second or more, so that its beginning is reported


def rewrite_files(settings: Settings, *, with_wal: bool, as_json: bool) -> None:
    """Write all tables and indexes anew, Redis's append-only file and, `with_wal`, the write-ahead log.

    Tells on standard error what it is about to do, what it is at and each table. Raises CommandFailed.
    """
    require_database(settings)
    tables: list[admin.Rewritten] = []

    def tell(told: admin.RewriteReport) -> None:
        if isinstance(told, admin.Rewritten):
            tables.append(told)
        if not as_json and (line := _line(told, with_wal=with_wal)):
            print(line, file=sys.stderr, flush=True)

    left = run(admin.rewrite_database(settings.database_url, with_wal=with_wal, tell=tell))
    tell(admin.RewriteBegun(step="the append-only file of Redis"))
    redis = admin.rewrite_redis(settings)
    if as_json:
        print(msgspec.json.encode(_told(tables, redis, left)).decode())
    else:
        print(_summary(tables, redis=redis, with_wal=with_wal and not left))
        if not redis:
            print("Redis has no append-only file.")
        if not with_wal:
            print("The write-ahead log and backups of a server of your own are yours to renew: docs/erasing.md.")
        elif not left:
            print("Backups from before hold what they held: make a new one, and remove them.")
    if left:
        segments = f"{count_of(left, 'segment')} of the write-ahead log from before"
        word, them = ("is", "it") if left == 1 else ("are", "them")
        raise CommandFailed(f"{segments} {word} left. A replication slot or an archive holds {them}.")


def _line(told: admin.RewriteReport, *, with_wal: bool) -> str:
    match told:
        case admin.RewritePlanned():
            log = ", the write-ahead log" if with_wal else ""
            tables = f"{count_of(told.tables, 'table')} with their indexes ({told.bytes / _MB:,.1f} MB)"
            return (
                f"Writing anew, for all namespaces: {tables}, the statistics{log} and the append-only file of "
                "Redis.\nCalls that need a table wait while it is written. Broken off, it begins anew."
            )
        case admin.RewriteBegun() if told.table:
            large = f"{told.number} of {told.of}: {told.table}, {told.bytes / _MB:,.1f} MB ..."
            return large if told.bytes >= LONG else ""
        case admin.RewriteBegun():
            return f"{told.step[0].upper()}{told.step[1:]} ..."
        case admin.Rewritten():
            took = f" in {told.taken_s:,.0f} s" if told.taken_s >= 1 else ""
            sizes = f"{told.before / _MB:,.1f} -> {told.after / _MB:,.1f} MB{took}"
            return f"{told.number} of {told.of}: {told.name}, {sizes}"


def _summary(tables: list[admin.Rewritten], *, redis: bool, with_wal: bool) -> str:
    before, after = sum(table.before for table in tables), sum(table.after for table in tables)
    sizes = f"{before / _MB:,.1f} -> {after / _MB:,.1f} MB"
    parts = [f"{count_of(len(tables), 'table')} with their indexes ({sizes})", "the statistics"]
    parts += ["the write-ahead log"] if with_wal else []
    parts += ["the append-only file of Redis"] if redis else []
    return f"Written anew: {join_words(parts)}."


def _told(tables: list[admin.Rewritten], redis: bool, left: int) -> dict[str, Any]:
    return {
        "tables": [{"name": table.name, "bytes_before": table.before, "bytes_after": table.after} for table in tables],
        "append_only_file": redis,
        "wal_segments_left": left,
    }
