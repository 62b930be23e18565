"""Check schema, clock, model and vectors, which a worker alone can see; its answer to a ping has the checks.

Cheap enough for a probe every second: what it finds counts for KEPT_S, and what takes long (loading a model, counting
vectors) goes on by itself, unknown until it has ended.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Final

from engramq.schemas.checks import Check, CheckName, degraded, passed
from engramq.schemas.clocks import CLOCK_S, ahead_s, clock_sentence
from engramq.schemas.faults import EngramqError
from engramq.workers.db import reembedding
from engramq.workers.db.database import Store
from engramq.workers.db.readiness import APPLIED, packaged
from engramq.workers.db.reembedding import ReembeddingProgress
from engramq.workers.embedders.batching import BatchingEmbedder
from engramq.workers.embedders.interface import EmbedderUnavailable
from engramq.workers.embedders.vectorizer import PROBE, Vectorizer

log = logging.getLogger(__name__)


KEPT_S: Final = 5.0
COUNTED_S: Final = 60.0  # for the vectors: a count reads all rows, 1 s for a million
ENOUGH_S: Final = 0.5  # that a probe waits for what takes long
# After which nobody seems to embed anew: between two looks at work that is left lie seconds. A stack that has just been
# started gets as long to begin.
SILENT_S: Final = 60.0


class RecentCheck:
    """The result of the last look. One look at a time; it goes on when its caller has gone."""

    def __init__(self, look: Callable[[], Awaitable[Check]], kept_s: float) -> None:
        self._look = look
        self._kept_s = kept_s
        self._found: Check | None = None
        self._until = 0.0
        self._task: asyncio.Task[None] | None = None

    async def check(self) -> Check | None:
        """Return what was found of late, looking again where that is old; None while nobody knows."""
        if time.monotonic() >= self._until and self._task is None:
            self._task = asyncio.create_task(self._run())
        if self._task is not None:
            await asyncio.wait([self._task], timeout=ENOUGH_S)
        return self._found

    async def _run(self) -> None:
        try:
            self._found = await self._look()
            self._until = time.monotonic() + self._kept_s
        except EngramqError as problem:  # of the database, which has a check of its own
            log.info("A check was not made", extra={"error": problem.fault.error})
            self._found = None
        finally:
            self._task = None


class WorkerChecks:
    """One per process."""

    def __init__(self, store: Store, vectorizer: Vectorizer, embedder: BatchingEmbedder) -> None:
        self._store = store
        self._vectorizer = vectorizer
        self._embedder = embedder
        self._began = time.monotonic()
        self._counts: dict[int, int] = {}
        self._counts_until = 0.0
        self._kept_model = RecentCheck(self._model, KEPT_S)
        self._kept = [
            RecentCheck(self._schema, KEPT_S),
            RecentCheck(self._clock, KEPT_S),
            self._kept_model,
            RecentCheck(self._vectors, KEPT_S),
        ]

    async def look(self) -> list[Check]:
        """Return the checks, within about ENOUGH_S; those that are not known yet are left out."""
        found = await asyncio.gather(*(kept.check() for kept in self._kept))
        return [check for check in found if check is not None]

    async def model(self) -> Check | None:
        """Return how the model is, within about ENOUGH_S; None while it has not answered yet."""
        return await self._kept_model.check()

    async def _schema(self) -> Check:
        """See whether another version has migrated the database since this worker began."""
        rows = await self._store.ask(APPLIED)
        newest, known = max((int(row["version"]) for row in rows), default=0), packaged().version
        if newest == known:
            return passed(CheckName.SCHEMA)
        told = f"The database has schema {newest}; a worker here runs a version of engramq for {known}."
        return degraded(CheckName.SCHEMA, told, "Upgrade engramq on the workers and start them anew.")

    async def _clock(self) -> Check:
        asked_at = time.time()
        (row,) = await self._store.ask("server_time")
        ahead = ahead_s(row["seconds"], asked_at, time.time())
        if abs(ahead) <= CLOCK_S:
            return passed(CheckName.CLOCK)
        return degraded(CheckName.CLOCK, clock_sentence("PostgreSQL", ahead, "a worker's"))

    async def _model(self) -> Check:
        """Load or reach the model once; afterwards its vector is cached, and what callers met of late counts."""
        name = self._vectorizer.spec.name
        if trouble := self._embedder.trouble:
            return degraded(CheckName.MODEL, f"The model {name} makes no vectors: {trouble}.")
        try:
            await self._vectorizer.vectors([PROBE])
        except EmbedderUnavailable as problem:
            return degraded(CheckName.MODEL, f"The model {name} makes no vectors: {problem.reason}.")
        return passed(CheckName.MODEL)

    async def _vectors(self) -> Check:
        """Look for vectors of other models. While vectors are made anew, the check passes and shows the progress.

        They are counted only where nobody is at it.
        """
        spec = await self._vectorizer.spec_in_store()
        models = {row["id"]: row for row in await self._store.ask("models_chosen")}
        others = {
            key: row for key, row in models.items()
            if not row["is_retired"] and (row["name"], row["sha256"]) != (spec.name, spec.sha256)
        }  # fmt: skip
        if not others:
            return passed(CheckName.VECTORS)
        change = await reembedding.progress(self._store)
        if change is not None and not change.problem and change.silent_s <= SILENT_S:
            return passed(CheckName.VECTORS, _progress_sentence(change))
        counts = await self._count()
        foreign = {key: counts[key] for key in others if counts.get(key)}
        if not foreign:
            return passed(CheckName.VECTORS)
        names = " and ".join(sorted({others[key]["name"] for key in foreign}))
        number = sum(foreign.values())
        count = f"{number:,} {'vector is' if number == 1 else 'vectors are'} of {names}, while {spec.name} runs"
        if change is not None and change.problem:
            return degraded(CheckName.VECTORS, f"{count}: {change.problem}.")
        if time.monotonic() - self._began < SILENT_S:
            return passed(CheckName.VECTORS, f"{count}: they are about to be made anew.")
        return degraded(CheckName.VECTORS, f"{count}: nobody makes them anew.")

    async def _count(self) -> dict[int, int]:
        """Return how many vectors each model has, as of less than COUNTED_S ago."""
        if time.monotonic() >= self._counts_until:
            self._counts = {row["model_id"]: row["vectors"] for row in await self._store.ask("vectors_by_model")}
            self._counts_until = time.monotonic() + COUNTED_S
        return self._counts


def _progress_sentence(change: ReembeddingProgress) -> str:
    rate = "" if change.per_s is None else f", {change.per_s} a second"
    done = change.total - change.remaining
    return f"Vectors are being made anew by {change.name}: {done:,} of {change.total:,}{rate}."
