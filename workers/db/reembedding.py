"""Record how far a change of the embedding model is: how many vectors are still to be made anew."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from engramq.workers.db.database import Store

SILENT_S: Final = 10.0  # without a word from a process before another one takes its place


@dataclass(frozen=True, slots=True, kw_only=True)
class ReembeddingProgress:
    """A change to the model `name`: `remaining` of `total` memories have vectors of others, in all namespaces.

    `per_s`: memories a second, None while nobody knows; `problem`: why it waits, None while it goes on.
    """

    name: str
    dimensions: int
    total: int
    remaining: int
    per_s: float | None
    problem: str | None
    began_at: datetime
    silent_s: float  # since the last word of the process that is at it


@dataclass(frozen=True, slots=True)
class ReembeddingRight:
    """The right of one process to do the work, for as long as it tells how far it is. `began_at`: of the change."""

    model_id: int
    worker: UUID
    began_at: datetime


async def is_taken(store: Store, worker: UUID) -> bool:
    """Say whether another process than this one is at it. Raises EngramqError (`unavailable`)."""
    return bool(await store.ask("reembedding_elsewhere", worker=worker, silent_s=SILENT_S))


async def take(store: Store, model_id: int, worker: UUID, remaining: int) -> ReembeddingRight | None:
    """Say that a change to this model is under way; None while another process does it.

    Raises EngramqError (`unavailable`).
    """
    await store.ask("end_other_reembeddings", model_id=model_id)
    rows = await store.ask(
        "begin_reembedding", model_id=model_id, worker=worker, remaining=remaining, silent_s=SILENT_S
    )
    return ReembeddingRight(model_id, worker, rows[0]["began_at"]) if rows else None


async def report_remaining(
    store: Store,
    right: ReembeddingRight,
    remaining: int,
    *,
    per_s: float | None = None,
    problem: str | None = None,
    ended: bool = False,
) -> bool:
    """Say how far it is, and whether this process stops here; False when another one has taken over.

    Raises EngramqError (`unavailable`).
    """
    rows = await store.ask(
        "tell_reembedding",
        model_id=right.model_id,
        worker=right.worker,
        remaining=remaining,
        per_s=per_s,
        problem=problem,
        ended=ended,
    )
    return bool(rows)


async def end(store: Store) -> None:
    """Say that no change is under way. Raises EngramqError (`unavailable`)."""
    await store.ask("end_reembedding")


async def progress(store: Store) -> ReembeddingProgress | None:
    """Return the change that is under way, None when there is none. Raises EngramqError (`unavailable`)."""
    rows = await store.ask("reembedding_progress")
    return ReembeddingProgress(**rows[0]) if rows else None
