"""What `engramq status` says of the database: changes of the embedding model and of languages that are under way."""

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, Final

from engramq.schemas.command_line import CommandFailed
from engramq.schemas.faults import EngramqError
from engramq.schemas.settings import Pooler
from engramq.workers.cli.running import run
from engramq.workers.db.database import Store
from engramq.workers.db.figures import webhook_figures
from engramq.workers.db.queries import sql
from engramq.workers.db.reembedding import Progress, progress
from engramq.workers.db.transaction import Transaction

REBUILDING: Final = sql("rebuilding_namespaces")
CHANGED: Final = sql("changed_namespaces")
PENDING: Final = sql("count_pending")

COUNTED_MAX: Final = 100  # namespaces whose pending memories are counted, a millisecond each
SILENT_S: Final = 60.0  # after which nobody seems to be at it: between two looks at work that is left lie seconds


def under_way(database_url: str, pooler: Pooler = Pooler.AUTO) -> dict[str, Any]:
    """Return what is being done in the background, over one connection.

    `reembedding`: how far it is, None when none is under way; its `state` is `running`, `waiting` or `unknown`, and its
    `problem` says why it is not running. `rebuilding`: in how many namespaces words are made anew, since their language
    was changed. `unfinished`: what stores have left for upkeep, `namespaces` with something of it and `pending`
    memories there, which have no vector yet; None when nobody can say. `webhooks`: messages that are `waiting`, how
    many of them are `due`, how old the oldest is, and `dead` ones; None when nobody can say.
    """
    try:
        return run(_under_way(database_url, pooler))
    except (CommandFailed, EngramqError) as failure:
        return {
            "reembedding": {"state": "unknown", "problem": str(failure)},
            "rebuilding": 0,
            "unfinished": None,
            "webhooks": None,
        }


async def _under_way(database_url: str, pooler: Pooler) -> dict[str, Any]:
    async with await Store.open(database_url, pooler=pooler, pool_size=1) as store:
        change = await progress(store)
        rebuilding = await store.ask(REBUILDING)
        changed = [str(row["namespace"]) for row in await store.ask(CHANGED, kind="sweep")]
        pending = [await store.read(namespace, _pending) for namespace in changed[:COUNTED_MAX]]
        webhooks = await webhook_figures(store)
    return {
        "reembedding": None if change is None else _told(change),
        "rebuilding": len(rebuilding),
        "unfinished": {"namespaces": len(changed), "pending": sum(pending)},
        "webhooks": asdict(webhooks),
    }


async def _pending(tx: Transaction) -> int:
    row = await tx.row(PENDING)
    assert row is not None
    return int(row["pending"])


def _told(found: Progress) -> dict[str, Any]:
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
