"""`engramq purge --rewrite`: the files of PostgreSQL and Redis, written anew without what was erased."""

import sys
from typing import Any

import msgspec

from engramq.schemas.command_line import CommandFailed
from engramq.schemas.keys import Keys
from engramq.schemas.settings import Settings
from engramq.workers.cli.running import require_database, run
from engramq.workers.db.rewriting import Rewritten, rewrite_database
from engramq.workers.queue.append_only import NotRewritten
from engramq.workers.queue.contract import OutcomeUnknown
from engramq.workers.queue.inspection import Inspection

_MB = 2**20


def rewrite_files(settings: Settings, *, with_wal: bool, as_json: bool) -> None:
    """Write all tables and indexes anew, Redis's append-only file and, `with_wal`, the write-ahead log.

    Tells of each table on standard error. Raises CommandFailed.
    """
    require_database(settings)
    tables: list[Rewritten] = []

    def tell(table: Rewritten) -> None:
        tables.append(table)
        if not as_json:
            sizes = f"{table.before / _MB:.1f} -> {table.after / _MB:.1f} MB"
            print(f"{table.number} of {table.of}: {table.name}, {sizes}", file=sys.stderr)

    left = run(rewrite_database(settings.database_url, with_wal=with_wal, tell=tell))
    redis = run(_rewrite_redis(settings))
    if as_json:
        print(msgspec.json.encode(_told(tables, redis, left)).decode())
    else:
        print(f"Written anew: {len(tables)} tables with their indexes{', the append-only file of Redis' * redis}.")
        if not with_wal:
            print("The write-ahead log and backups of a server of your own are yours to renew: docs/erasing.md.")
    if left:
        raise CommandFailed(
            f"{left} segments of the write-ahead log from before are left. A replication slot or an archive holds them."
        )


async def _rewrite_redis(settings: Settings) -> bool:
    async with Inspection(settings.redis_url, Keys(settings.key_prefix)) as view:
        try:
            return await view.rewrite_log(at_once=True)
        except (NotRewritten, OutcomeUnknown) as problem:
            raise CommandFailed(f"The tables are written anew, Redis's file is not. {problem}.") from None


def _told(tables: list[Rewritten], redis: bool, left: int) -> dict[str, Any]:
    return {
        "tables": [{"name": one.name, "bytes_before": one.before, "bytes_after": one.after} for one in tables],
        "append_only_file": redis,
        "wal_segments_left": left,
    }
