"""Make vectors of other models anew after a change of the embedding model, in the background.

The rows say what is left, so a crash, a stop or a change back costs nothing. It goes through all namespaces in turn,
the newest memories first, a few at a time, and gives way to callers. Among several processes with different models only
the one whose model was chosen last works: two would do each other's work again for ever.
"""

import asyncio
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID, uuid4

from engramq.schemas.faults import EngramqError
from engramq.workers.db import reembedding
from engramq.workers.db.database import Store
from engramq.workers.db.reembedding import ReembeddingRight
from engramq.workers.db.statements import WatchedConnection
from engramq.workers.db.transaction import AT_LENGTH, Row, Transaction, ask, execute, settings_to_take
from engramq.workers.embedders.interface import EmbedderUnavailable
from engramq.workers.embedders.vectorizer import Vectorizer
from engramq.workers.memories.pending import Vectorized, embed_rows
from engramq.workers.queue.background import Activity
from engramq.workers.queue.contract import ResultUnknown

log = logging.getLogger(__name__)


LOOKED_AT: Final = 1_000  # memories of one look at a namespace: some milliseconds
EMBEDDED_AT_ONCE: Final = 64
WRITTEN_AT_ONCE: Final = 20  # rows of one transaction: each costs inserts into all indexes, 3 to 5 ms
GIVE_WAY_MAX_S: Final = 0.25  # how long each of these waits while somebody waits for this process
TELL_EVERY_S: Final = 1.0  # much less than SILENT_S
UNUSED_S: Final = 300.0  # without a writer before a model is retired: five times as long as writers keep silent
REST_S: Final = 30.0  # after a look that found nothing to do, or could do nothing; twice as long each time
REST_MAX_S: Final = 600.0
COUNT_MAX: Final = "10min"  # a look at all rows: 1 s for a million
_BEYOND: Final = UUID(int=2**128 - 1)


@dataclass(slots=True)
class _Change:
    """A change to a model that is under way, as one run sees it."""

    right: ReembeddingRight
    remaining: int
    done: int = 0
    began: float = field(default_factory=time.monotonic)
    taken_over: bool = False  # by another process

    @property
    def model_id(self) -> int:
        """The model that all vectors become."""
        return self.right.model_id

    @property
    def per_s(self) -> float | None:
        """Memories a second; None until some are done."""
        return round(self.done / max(time.monotonic() - self.began, 0.001), 1) if self.done else None


@dataclass(slots=True, kw_only=True)
class Reembedding:
    """One per process."""

    store: Store
    vectorizer: Vectorizer
    activity: Activity
    stopping: asyncio.Event
    unused_s: float = UNUSED_S
    _worker: UUID = field(default_factory=uuid4)
    _rest_s: float = 0.0
    _rest_until: float = 0.0
    _is_new: bool = True  # looks once, in case a worker wrote on with a model that was retired
    _is_told: bool = False  # that another model was chosen

    async def run(self) -> None:
        """Make all vectors of other models anew, unless the last look had nothing to do and it is too soon."""
        if time.monotonic() < self._rest_until:
            return
        try:
            worked = await self._run()
        except EmbedderUnavailable as problem:
            log.warning("Nothing embedded anew", extra={"reason": problem.reason})
            worked = False
        if worked:
            self._rest_s = 0.0
        else:
            self._rest_s = min(REST_MAX_S, max(REST_S, self._rest_s * 2))
        self._rest_until = time.monotonic() + self._rest_s

    async def _run(self) -> bool:
        """Return whether anything is being done."""
        spec = await self.vectorizer.spec_in_store()
        models = await self.store.ask("models_chosen")
        own = {model["id"] for model in models if (model["name"], model["sha256"]) == (spec.name, spec.sha256)}
        live = {model["id"] for model in models if not model["is_retired"]}
        if not self._is_new and live <= own and len(live) < 2:
            return False
        vectors = {row["model_id"]: row["vectors"] for row in await self._alone("vectors_by_model")}
        self._is_new = False
        if live | vectors.keys() <= own and len(live) < 2:
            return False
        model_id = await self.vectorizer.running_model_id()
        if not await self._is_chosen(model_id):
            return False
        if await reembedding.is_taken(self.store, self._worker):
            return True  # by another process; this one looks again soon, in case that one dies
        remaining = sum(count for one, count in vectors.items() if one != model_id)
        if not remaining:
            await self._finish()
            return False
        right = await reembedding.take(self.store, model_id, self._worker, remaining)
        if right is None:
            return False
        change = _Change(right, remaining)
        await self._work(change)
        return change.done > 0

    async def _is_chosen(self, model_id: int) -> bool:
        """Say whether this is the model that all vectors are to become; note it once if it is another."""
        chosen = (await self.store.ask("models_chosen"))[0]
        is_chosen = bool(chosen["id"] == model_id)
        if not (is_chosen or self._is_told):
            log.warning("Another embedder was chosen later", extra={"chosen": chosen["name"]})
        self._is_told = not is_chosen
        return is_chosen

    async def _finish(self) -> None:
        await reembedding.end(self.store)
        retired = sum(row["retired"] for row in await self._alone("retire_models", unused_s=self.unused_s))
        if retired:
            log.info("Embedding models retired", extra={"models": retired})

    async def _alone(self, query: str, **values: object) -> list[Row]:
        """Ask what may take long."""

        async def look(connection: WatchedConnection) -> list[Row]:
            if settings_to_take(connection) is None:
                await execute(connection, "build_settings", {"timeout": COUNT_MAX})
            return await ask(connection, query, values, {**AT_LENGTH, "statement_timeout": COUNT_MAX})

        return await self.store.alone(look)

    async def _work(self, change: _Change) -> None:
        log.info("Embedding anew", extra={"memories": change.remaining})
        places = dict.fromkeys(await self.store.namespaces(), _BEYOND)
        telling = asyncio.create_task(self._keep_telling(change))
        try:
            while places and self._goes_on(change):
                for namespace, place in list(places.items()):
                    last = await self.store.apart(
                        namespace, self._look_at(change, namespace, place), None, unless=EmbedderUnavailable
                    )
                    if last is None:
                        del places[namespace]
                    else:
                        places[namespace] = last
        except EmbedderUnavailable as problem:
            await self._tell(change, problem.reason, ended=True)
            raise
        finally:
            telling.cancel()
        await self._tell(change, self._obstacle(change), ended=True)
        log.info("Embedded anew", extra={"memories": change.done, "remaining": change.remaining})

    def _obstacle(self, change: _Change) -> str | None:
        """Return why some are left, None where none are, or where the next run goes on."""
        if not change.remaining or not self._goes_on(change):
            return None
        return None if change.done else "the model takes none of the texts that are left"

    def _goes_on(self, change: _Change) -> bool:
        return not (self.stopping.is_set() or change.taken_over)

    async def _look_at(self, change: _Change, namespace: str, before: UUID) -> UUID | None:
        """Embed what the next look finds; return where to go on, None at the end."""

        async def look(tx: Transaction) -> Row | None:
            return await tx.row("foreign_before", before=before, limit=LOOKED_AT, model_id=change.model_id)

        found = await self.store.read(namespace, look)
        assert found is not None
        ids, last = found["ids"], found["last"]
        for start in range(0, len(ids), EMBEDDED_AT_ONCE):
            await self.activity.pause(0.0, GIVE_WAY_MAX_S, self.stopping)
            if not self._goes_on(change):
                return None
            await self._embed(change, namespace, ids[start : start + EMBEDDED_AT_ONCE])
        return last  # type: ignore[no-any-return]  # a UUID or None

    async def _embed(self, change: _Change, namespace: str, ids: Sequence[UUID]) -> None:
        wanted = await self.store.read(
            namespace, lambda tx: tx.rows("foreign_contents", ids=list(ids), model_id=change.model_id)
        )
        vectors = await embed_rows(wanted, self.vectorizer)
        for start in range(0, len(vectors), WRITTEN_AT_ONCE):
            await self.activity.pause(0.0, GIVE_WAY_MAX_S, self.stopping)
            part = vectors[start : start + WRITTEN_AT_ONCE]
            written = await self.store.write(namespace, lambda tx, part=part: _write(tx, change, part))  # type: ignore[misc]
            change.done, change.remaining = change.done + written, max(0, change.remaining - written)

    async def _keep_telling(self, change: _Change) -> None:
        """Keep the right and say how far it is, until cancelled; a slow model may take long for one batch."""
        while True:
            await asyncio.sleep(TELL_EVERY_S)
            try:
                await self._tell(change)
            except (EngramqError, ResultUnknown):
                log.warning("No progress was reported: the database is away")

    async def _tell(self, change: _Change, problem: str | None = None, *, ended: bool = False) -> None:
        known = await reembedding.report_remaining(
            self.store, change.right, change.remaining, per_s=change.per_s, problem=problem, ended=ended
        )
        change.taken_over = not known


async def _write(tx: Transaction, change: _Change, vectors: Sequence[Vectorized]) -> int:
    """Give memories their new vectors; return how many got them. COMMIT does not wait for the disk."""
    await tx.send("commit_without_waiting")
    rows = await tx.rows(
        "embed_anew",
        ids=[vector.id for vector in vectors],
        contents=[vector.content for vector in vectors],
        embeddings=[vector.embedding.text for vector in vectors],
        model_id=change.model_id,
        began_at=change.right.began_at,
    )
    return len(rows)
