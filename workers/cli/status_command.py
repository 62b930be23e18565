"""What `engramq status` says of the database: a change of the embedding model that is under way."""

from datetime import UTC, datetime
from typing import Any, Final

from engramq.schemas.command_line import CommandFailed
from engramq.schemas.faults import EngramqError
from engramq.workers.cli.running import run
from engramq.workers.db.database import Store
from engramq.workers.db.reembedding import Progress, progress

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


async def _progress(database_url: str) -> Progress | None:
    async with await Store.open(database_url, pool_size=1) as store:
        return await progress(store)
