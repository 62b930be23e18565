"""Serve /metrics of a worker: commands, connections, model and, if it hosts upkeep, the store."""

import logging
import shutil
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

from engramq.schemas.faults import EngramqError
from engramq.schemas.settings import Settings
from engramq.schemas.vocabulary import WorkerKind
from engramq.telemetry import catalog
from engramq.telemetry.catalog import CONTENT_TYPE, Figures
from engramq.telemetry.listener import PageAnswer, ServedPage, serving
from engramq.workers.db.database import Store
from engramq.workers.db.figures import StoreFigures, store_figures
from engramq.workers.embedders.batching import BatchingEmbedder
from engramq.workers.queue.contract import CommandTry, ResultUnknown

log = logging.getLogger(__name__)

STORE_KEPT_S: Final = 30.0  # how long what was seen of the whole store counts
READ_S: Final = 8.0  # for the figures; Prometheus waits for 10 s unless it is told otherwise
LATE: Final = PageAnswer(503, b"The figures took too long.\n")


class WorkerMetrics:
    """The figures of one worker process.

    The runner calls `observe` for each command, the vectorizer `embedded` for each batch of texts.
    """

    def __init__(self, kinds: Sequence[WorkerKind], settings: Settings) -> None:
        self._keeps_up = WorkerKind.UPKEEP in kinds
        self._home = settings.home
        self._figures = Figures((*catalog.WORKER, *(catalog.UPKEEP if self._keeps_up else ())))
        self._store_until = 0.0

    def observe(self, tried: CommandTry) -> None:
        """Count one try of a command."""
        kind, histograms = tried.kind.value, self._figures.histograms
        self._figures.counters[catalog.COMMANDS, kind, tried.command, tried.outcome].inc()
        histograms[catalog.QUEUED, kind].observe(tried.waited_s)
        histograms[catalog.HANDLED, kind, tried.command].observe(tried.taken_s)

    def embedded(self, texts: int, taken_s: float, made: bool) -> None:
        """Count one batch of texts; `made`: the model made their vectors."""
        if made:
            self._figures.counters[(catalog.TEXTS,)].inc(texts)
        else:
            self._figures.counters[(catalog.EMBEDDER_FAILED,)].inc()
        self._figures.histograms[(catalog.EMBEDDING,)].observe(taken_s)

    @asynccontextmanager
    async def served(self, settings: Settings, store: Store, embedder: BatchingEmbedder) -> AsyncIterator[None]:
        """Serve all figures over HTTP for as long as the block lasts. Raises SettingsError where that cannot be."""
        page = ServedPage(
            read=partial(self._page, store, embedder),
            bound_s=READ_S,
            late=LATE,
            token=settings.metrics_token,
            token_variable="ENGRAMQ_METRICS_TOKEN",  # noqa: S106 - its name
        )
        assert settings.metrics_port is not None  # else there are no figures
        host, port = settings.metrics_port
        async with serving(host, port, {"/metrics": page}, variable="ENGRAMQ_METRICS_PORT") as bound:
            log.info("Serving metrics", extra={"host": host, "port": bound})
            yield

    async def _page(self, store: Store, embedder: BatchingEmbedder) -> PageAnswer:
        return PageAnswer(200, await self.read(store, embedder), CONTENT_TYPE)

    async def read(self, store: Store, embedder: BatchingEmbedder) -> bytes:
        """Look at what is now and return all figures, within about 2 s while the database does not answer."""
        figures, pool = self._figures, store.connections
        figures.tell_all(catalog.CONNECTIONS, {("used",): pool.open - pool.idle, ("idle",): pool.idle})
        figures.tell(catalog.CONNECTIONS_MAX, pool.most)
        figures.tell(catalog.CONNECTIONS_WANTED, pool.waiting)
        interactive, bulk = embedder.waiting
        figures.tell_all(catalog.EMBEDDER_WAITING, {("interactive",): interactive, ("bulk",): bulk})
        self._tell_home()
        found = await store.health()
        figures.tell(catalog.DATABASE, float(found.reads))
        figures.tell(catalog.WRITABLE, float(found.reads and not found.refused))
        if self._keeps_up and found.reads:
            await self._tell_store(store)
        return figures.text()

    def _tell_home(self) -> None:
        try:
            usage = shutil.disk_usage(self._home)
        except OSError:  # servers of one's own need no home
            self._figures.forget((catalog.HOME_FREE, catalog.HOME_SIZE))
            return
        self._figures.tell(catalog.HOME_FREE, usage.free)
        self._figures.tell(catalog.HOME_SIZE, usage.total)

    async def _tell_store(self, store: Store) -> None:
        if time.monotonic() < self._store_until:
            return
        try:
            found = await store_figures(store)
        except (EngramqError, ResultUnknown):
            log.warning("Metrics tell nothing of the store: the database is away")
            self._figures.forget(catalog.UPKEEP)
            return
        self._store_until = time.monotonic() + STORE_KEPT_S
        self._say(found)

    def _say(self, found: StoreFigures) -> None:
        figures = self._figures
        figures.tell(catalog.MEMORIES, found.memories)
        figures.tell(catalog.BYTES, found.bytes)
        figures.tell(catalog.PENDING, found.pending)
        figures.tell(catalog.UNFINISHED, found.unfinished)
        figures.tell(catalog.REEMBEDDING, found.reembedding)
        figures.tell(catalog.WEBHOOKS_DUE, found.webhooks.due)
        figures.tell(catalog.WEBHOOKS_WAITING, found.webhooks.waiting)
        figures.tell(catalog.WEBHOOKS_OLDEST, found.webhooks.oldest_s)
        figures.tell(catalog.WEBHOOKS_DEAD, found.webhooks.dead)
