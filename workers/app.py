"""Run a worker process: the handlers of each worker kind, and what they share."""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from engramq.schemas.connection import lanes_of
from engramq.schemas.limits import COLLECTED_AT
from engramq.schemas.settings import Settings, SettingsError
from engramq.schemas.vocabulary import WorkerKind
from engramq.telemetry.listener import telling_watchdog
from engramq.telemetry.pages import giving_back_pages
from engramq.telemetry.spans import configure_logging
from engramq.workers import commands, receipts
from engramq.workers.auth import handlers as auth
from engramq.workers.checks import WorkerChecks
from engramq.workers.db.database import Store
from engramq.workers.db.memory_rows import forget_erased
from engramq.workers.db.migrate import migrate
from engramq.workers.db.readiness import NotReady, Reason
from engramq.workers.db.vectors import Sizes
from engramq.workers.db.viewers import EVERYTHING
from engramq.workers.embedders.batching import BatchingEmbedder, BatchObserver
from engramq.workers.embedders.confidence import ConfidenceCurve
from engramq.workers.embedders.factory import EmbedderFile, create_embedder
from engramq.workers.embedders.interface import Embedder, EmbedderUnavailable
from engramq.workers.embedders.minilm import MiniLmEmbedder
from engramq.workers.embedders.other_models import ForeignVectors, FormerModels
from engramq.workers.embedders.vectorizer import Vectorizer
from engramq.workers.graph import consent, deletions, edges, nodes, proposals, reads, walks
from engramq.workers.health import WorkerHealth
from engramq.workers.links import connect, disconnect, lookup, outcomes, similarity
from engramq.workers.links.co_retrieval import CoRetrievals
from engramq.workers.links.rules import LinkRules
from engramq.workers.memories import (
    change,
    contradictions,
    duplicates,
    grounds,
    importing,
    pending,
    projects,
    purge,
    reading,
    review,
    sharing,
    supersession,
    why,
)
from engramq.workers.memories import store as storing
from engramq.workers.memories.import_rows import BulkLoads
from engramq.workers.memories.quotas import ProcessQuotas
from engramq.workers.migrating import require_database
from engramq.workers.migrating import run as run_in_loop
from engramq.workers.queue.background import Activity
from engramq.workers.queue.contract import ObserveTry, Periodic, WorkerSpec
from engramq.workers.queue.inspection import REWRITE_EVERY_S, Inspection
from engramq.workers.queue.process import Polling, serve
from engramq.workers.runner import CommandHandler, CommandRunner, Services
from engramq.workers.search import handlers as search
from engramq.workers.search import survey
from engramq.workers.search.copies import Copies
from engramq.workers.search.handlers import UsageCounts
from engramq.workers.search.relevance import MinRelevance
from engramq.workers.sectors import handlers as sectors
from engramq.workers.sectors.handlers import Classifier
from engramq.workers.tenants import export as tenant_export
from engramq.workers.tenants import handlers as tenants
from engramq.workers.tenants.export import Exporting
from engramq.workers.upkeep.active_hours import SessionClock
from engramq.workers.upkeep.pieces import Pieces
from engramq.workers.upkeep.rebuilding import Rebuilding
from engramq.workers.upkeep.reembedding import Reembedding
from engramq.workers.upkeep.schedule import Upkeep, periodic
from engramq.workers.upkeep.unfinished import Unfinished
from engramq.workers.webhooks.delivery import Delivery

if TYPE_CHECKING:
    from engramq.workers.metrics import WorkerMetrics

log = logging.getLogger(__name__)

FIRST_PAUSE_S: Final = 0.05  # a home's worker loads while its PostgreSQL is still being made
LONGEST_PAUSE_S: Final = 0.5
SAY_AGAIN_S: Final = 60.0
LOADS_AFTER_S: Final = 0.1  # a database that answers later is being made, or is away

# The modules that have handlers.
_SLICES: Final = (
    *(auth, change, commands, connect, consent, contradictions, deletions, disconnect, duplicates),
    *(edges, grounds, importing, lookup, nodes, outcomes, pending, projects, proposals, purge),
    *(reading, reads, receipts, review, search, sectors, sharing, similarity, storing, supersession),
    *(survey, tenants, tenant_export, walks, why),
)


def _handlers(kind: WorkerKind) -> tuple[CommandHandler[..., Any], ...]:
    """Return the handlers of the commands that go to the mailbox of this kind."""
    found = [value for module in _SLICES for value in vars(module).values() if isinstance(value, CommandHandler)]
    return tuple(handler for handler in found if handler.command.mailbox is kind)


HANDLERS: Final[Mapping[WorkerKind, tuple[CommandHandler[..., Any], ...]]] = {
    kind: _handlers(kind) for kind in WorkerKind
}
LOOKS_APART: Final = 6  # as long between two looks at all tenants where each asks all shards of a cluster
USUAL_CONCURRENCY: Final = 32  # commands that one process carries out at a time
CONCURRENCY: Final[Mapping[WorkerKind, int]] = {
    WorkerKind.SECTORS: 64,  # most of them only wait for others to come
    WorkerKind.IMPORTS: 2,  # one batch is embedded while the other is written
}


def build_services(
    store: Store, embedder: BatchingEmbedder, settings: Settings, *, stopping: asyncio.Event | None = None
) -> Services:
    """Return what the handlers of one process share; once `stopping` is set nobody waits for others to come."""
    stopping, activity = stopping or asyncio.Event(), Activity()
    whole = store.seen_by(EVERYTHING)
    rules = LinkRules(cap=settings.degree_cap, delta=settings.reinforce_delta)
    vectorizer, sizes = Vectorizer(embedder, store, activity.is_single), Sizes()
    return Services(
        activity,
        rules,
        vectorizer,
        sizes,
        Copies(store, sizes),
        ConfidenceCurve(vectorizer),
        MinRelevance.of(settings),
        ForeignVectors(store, FormerModels(settings.home)),
        WorkerChecks(store, vectorizer, embedder),
        Classifier(store=whole, activity=activity, stopping=stopping),
        BulkLoads(sizes),
        Exporting(),
        ProcessQuotas(settings, whole),
        UsageCounts(whole, activity, stopping=stopping),
        CoRetrievals(whole, rules, activity, stopping=stopping),
        similarity.SimilarityLinker(
            store=whole,
            sizes=sizes,
            rules=rules,
            threshold=settings.link_threshold,
            stopping=stopping,
            activity=activity,
        ),
    )


def build_specs(
    kinds: Sequence[WorkerKind],
    *,
    store: Store,
    inspection: Inspection,
    settings: Settings,
    services: Services,
    stopping: asyncio.Event,
    observe: ObserveTry | None = None,
) -> list[WorkerSpec]:
    """Return the specs of these worker kinds, each once.

    One clock gets from all of them which sessions are in use, the activity of `services` whom somebody waits for, and
    `observe` each command.
    """
    activity, clock = services[Activity], SessionClock(store, stopping=stopping)
    kept_up = (
        *_schedule(store.seen_by(EVERYTHING), settings, services[Vectorizer], stopping, activity),
        Periodic("rewrite_log", REWRITE_EVERY_S, inspection.rewrite_log),
    )

    def spec(kind: WorkerKind) -> WorkerSpec:
        handlers = HANDLERS[kind]
        runner = CommandRunner(handlers, store=store, inspection=inspection, settings=settings, services=services)
        return WorkerSpec(
            kind,
            dict.fromkeys((handler.command for handler in handlers), runner.run),
            schedule=kept_up if kind is WorkerKind.UPKEEP else (),
            concurrency=CONCURRENCY.get(kind, USUAL_CONCURRENCY),
            sessions_used=clock.tell,
            activity=activity,
            observe=observe,
        )

    return [spec(kind) for kind in dict.fromkeys(kinds)]


def _schedule(
    store: Store, settings: Settings, vectorizer: Vectorizer, stopping: asyncio.Event, activity: Activity
) -> tuple[Periodic, ...]:
    """Return the periodic work of upkeep."""
    looks_s = settings.sweep_interval_s * (LOOKS_APART if store.sharded else 1)
    upkeep = Upkeep(
        store=store,
        unfinished=Unfinished(store=store, activity=activity),
        interval_s=looks_s,
        retention=settings.retention,
    )
    reembedding = Reembedding(store=store, vectorizer=vectorizer, activity=activity, stopping=stopping)
    rebuilding = Rebuilding(store=store, activity=activity, stopping=stopping)
    pieces = Pieces(store=store, vectorizer=vectorizer, activity=activity, stopping=stopping)
    return (
        *upkeep.schedule(),
        periodic("reembed", settings.sweep_interval_s, reembedding.run),
        periodic("rebuild_lexemes", looks_s, rebuilding.run),
        periodic("embed_pieces", looks_s, pieces.run),
        periodic("chain_audit", receipts.EXTEND_EVERY_S, receipts.Chaining(store=store).run),
        periodic("tell_webhooks", settings.sweep_interval_s, Delivery(store=store, settings=settings).run),
    )


async def run(
    kinds: Sequence[WorkerKind],
    settings: Settings,
    *,
    stop: asyncio.Event | None = None,
    ready: asyncio.Event | None = None,
    handle_signals: bool = True,
    embedder_file: Path | None = None,
    ends_refused: bool = False,
) -> None:
    """Serve these kinds until SIGTERM, SIGINT or `stop`. Waits for PostgreSQL and Redis when they are away.

    `embedder_file`: where a home keeps which embedder makes its vectors. `ends_refused`: see `open_store`.

    Raises NotReady when the database is one that waiting does not mend, SettingsError for an embedder that is none,
    UnsupportedServer when Redis is too old.
    """
    try:
        model = create_embedder(settings.embedder, settings.embedder_url, key=settings.embedder_key, home=settings.home)
    except ValueError as problem:
        raise SettingsError(str(problem)) from None
    stop, ready, polling = stop or asyncio.Event(), ready or asyncio.Event(), Polling()
    health = WorkerHealth(stop, polling.is_under_way)
    async with AsyncExitStack() as owned:
        # Before the database, which may let it wait.
        await owned.enter_async_context(telling_watchdog(ready=ready))
        await owned.enter_async_context(giving_back_pages())
        await owned.enter_async_context(health.served(settings))
        if settings.otel_endpoint:
            from engramq.telemetry.otlp import recording  # noqa: PLC0415 - 0.3 s of imports, for those who trace

            owned.enter_context(recording(settings.otel_endpoint, "engramq-worker"))
        store = await owned.enter_async_context(await _open_while_loading(settings, model, ends_refused=ends_refused))
        metrics = _metrics(kinds, settings)
        observers: list[BatchObserver] = [] if metrics is None else [metrics.embedded]
        if embedder_file is not None:
            kept = EmbedderFile(embedder_file, settings)
            await owned.enter_async_context(kept.kept())
            observers.append(kept.seen)
        embedder = BatchingEmbedder(model, observers=observers)
        await owned.enter_async_context(embedder)
        if metrics is not None:
            await owned.enter_async_context(metrics.served(settings, store, embedder))
        lanes = lanes_of(settings)
        inspection = await owned.enter_async_context(Inspection(lanes))
        services = build_services(store, embedder, settings, stopping=stop)
        health.know(store, services[WorkerChecks])
        specs = build_specs(
            kinds,
            store=store,
            inspection=inspection,
            settings=settings,
            services=services,
            stopping=stop,
            observe=None if metrics is None else metrics.observe,
        )
        await serve(
            specs,
            settings,
            lanes=lanes,
            stop=stop,
            ready=ready,
            polling=polling,
            handle_signals=handle_signals,
            forget=partial(_forget_erased, services[Copies]),
        )


async def _forget_erased(copies: Copies) -> None:
    forget_erased()
    await copies.drop_erased()


async def _open_while_loading(settings: Settings, model: Embedder, *, ends_refused: bool) -> Store:
    """Open the store; where the database is still being made, load a model of our own meanwhile.

    Which model a store goes on with is not known before, so that one which is there costs no second model.
    """
    opening = asyncio.create_task(open_store(settings, ends_refused=ends_refused))
    try:
        await asyncio.wait([opening], timeout=LOADS_AFTER_S)
        if not opening.done() and isinstance(model, MiniLmEmbedder):
            with suppress(EmbedderUnavailable):  # its first user is told
                await model.warm()
        return await opening
    finally:
        opening.cancel()


def _metrics(kinds: Sequence[WorkerKind], settings: Settings) -> WorkerMetrics | None:
    """Return the figures of this process, where they are wanted."""
    if settings.metrics_port is None:
        return None
    from engramq.workers.metrics import WorkerMetrics  # noqa: PLC0415 - 0.1 s of imports, for who scrapes

    return WorkerMetrics(kinds, settings)


async def open_store(settings: Settings, *, ends_refused: bool = False) -> Store:
    """Open the store as soon as the database can be worked with, migrating it if it is behind and the role may.

    Says once a minute what it waits for. Raises NotReady for what waiting does not mend. Where a migration is refused
    somebody may mend that meanwhile, or it `ends_refused`: in a home, whose supervisor says why and tries again.
    """
    owner_url = settings.migrate_database_url or settings.database_url
    said_at, said = 0.0, ""
    may_migrate = True
    pause_s = FIRST_PAUSE_S
    while True:
        try:
            return await Store.open(settings.database_url, language=settings.language, primary=True)
        except NotReady as problem:
            found = problem
        # A cluster that no migration has met lacks the workers' role, and so seems to let nobody in.
        if found.reason in {Reason.BEHIND, Reason.UNREACHABLE} and may_migrate:
            try:
                applied = await migrate(owner_url)
            except NotReady as problem:
                is_refused = problem.reason is not Reason.UNREACHABLE
                if is_refused and ends_refused:
                    raise
                if is_refused and found.reason is Reason.UNREACHABLE:
                    found = problem  # names the statement that is missing, which somebody may run meanwhile
                else:
                    may_migrate = not is_refused
            else:
                may_migrate = bool(applied)  # else a migration does not mend it
                log.info("Database migrated", extra={"applied": applied})
                continue
        elif found.reason not in {Reason.UNREACHABLE, Reason.BEHIND, Reason.STANDBY}:
            raise found
        if str(found) != said or time.monotonic() > said_at + SAY_AGAIN_S:
            log.warning("Waiting for the database", extra={"problem": found.message, "recovery": found.recovery})
            said_at, said = time.monotonic(), str(found)
        await asyncio.sleep(pause_s)
        pause_s = min(pause_s * 1.05, LONGEST_PAUSE_S)  # .1 s after a second: a new home's PostgreSQL takes that


# How long a thread of the model waits for the interpreter while a search is ranked. With Python's own 5 ms eight
# callers were served 7 to 30 % fewer searches a second.
SWITCH_S: Final = 0.0005


def serve_kinds(
    kinds: Sequence[WorkerKind], settings: Settings, embedder_file: Path | None = None, *, ends_refused: bool = False
) -> None:
    """Serve these kinds until SIGTERM or SIGINT. `embedder_file`: of the home whose worker this is.

    `ends_refused`: see `open_store`.

    Raises SettingsError, CommandFailed.
    """
    require_database(settings)
    if not settings.redis_url:
        raise SettingsError("ENGRAMQ_REDIS_URL: it is not set.")
    configure_logging(settings.log_level)
    sys.setswitchinterval(SWITCH_S)
    gc.set_threshold(COLLECTED_AT)
    run_in_loop(run(kinds, settings, embedder_file=embedder_file, ends_refused=ends_refused), _loop_factory())


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    if sys.platform == "win32":
        return None
    import uvloop  # noqa: PLC0415 - there is none on Windows

    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory
