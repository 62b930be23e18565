"""What `engramq status` says of the database: changes of the embedding model and of languages that are under way."""

from datetime import UTC, datetime
from typing import Any, Final

from engramq.schemas.command_line import CommandFailed
from engramq.schemas.faults import EngramqError
from engramq.workers.cli.running import run
from engramq.workers.db.database import Store
from engramq.workers.db.pool import Row
from engramq.workers.db.queries import sql
from engramq.workers.db.reembedding import Progress, progress

REBUILDING: Final = sql("rebuilding_namespaces")

SILENT_S: Final = 60.0  # after which nobody seems to be at it: between two looks at work that is left lie seconds


def reembedding(database_url: str) -> dict[str, Any] | None:
    """Return how far it is, None when none is under way.

    `state` is `running`, `waiting` or `unknown`; `problem` says why it is not running.
    """
    try:
        found = run(_progress(database_url))
    except (CommandFailed, EngramqError) as failure:
        return {"state": "unknown", "problem": str(failure)}
    if found is None:
        return None
    silent = (datetime.now(UTC) - found.told_at).total_seconds() > SILENT_S
    problem = found.problem or ("no upkeep worker is at it" if silent else None)
    return {
        "state": "waiting" if problem else "running",
        "model": found.name,
        "done": found.total - found.remaining,
        "total": found.total,
        "per_s": found.per_s,
        "problem": problem,
    }


def rebuilding(database_url: str) -> int:
    """Return in how many namespaces words are made anew, since their language was changed; 0 when nobody can say."""
    try:
        return len(run(_rebuilding(database_url)))
    except (CommandFailed, EngramqError):
        return 0  # `reembedding` says why


async def _rebuilding(database_url: str) -> list[Row]:
    async with await Store.open(database_url, pool_size=1) as store:
        return await store.ask(REBUILDING)


async def _progress(database_url: str) -> Progress | None:
    async with await Store.open(database_url, pool_size=1) as store:
        return await progress(store)
