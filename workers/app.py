"""A worker process: the table of worker kinds, and from settings to what their handlers share."""

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any, Final

from engramq.schemas.keys import Keys
from engramq.schemas.settings import Settings, SettingsError
from engramq.schemas.vocabulary import DEFAULT_LANGUAGE, WorkerKind
from engramq.workers import commands
from engramq.workers.auth import handlers as auth
from engramq.workers.db.database import Store
from engramq.workers.db.migrate import migrate
from engramq.workers.db.readiness import NotReady, Reason
from engramq.workers.db.vectors import Sizes
from engramq.workers.embedders.batching import BatchingEmbedder
from engramq.workers.embedders.confidence import Confidence
from engramq.workers.embedders.factory import create_embedder
from engramq.workers.embedders.foreign import ForeignVectors
from engramq.workers.embedders.former import FormerModels
from engramq.workers.embedders.vectorizer import Vectorizer
from engramq.workers.graph import handlers as graph
from engramq.workers.handling import CommandHandler, CommandRunner, Services
from engramq.workers.links import handlers as links
from engramq.workers.links.co_retrieval import CoRetrievals
from engramq.workers.links.rules import LinkRules
from engramq.workers.links.similarity import SimilarityLinker
from engramq.workers.memories import accepting
from engramq.workers.memories import duplicate_handlers as duplicates
from engramq.workers.memories import handlers as memories
from engramq.workers.memories.bulk_loads import BulkLoads
from engramq.workers.memories.quotas import Quotas
from engramq.workers.queue.activity import Activity
from engramq.workers.queue.append_only import REWRITE_EVERY_S
from engramq.workers.queue.contract import Actor, MailboxView, Periodic
from engramq.workers.queue.inspection import Inspection
from engramq.workers.queue.process import serve
from engramq.workers.search import handlers as search
from engramq.workers.search.copies import Copies
from engramq.workers.search.usage import Usage
from engramq.workers.sectors import handlers as sectors
from engramq.workers.sectors.classifier import Classifier
from engramq.workers.tenants import handlers as tenants
from engramq.workers.upkeep.active_hours import SessionClock
from engramq.workers.upkeep.rebuilding import Rebuilding
from engramq.workers.upkeep.reembedding import Reembedding
from engramq.workers.upkeep.schedule import Upkeep
from engramq.workers.upkeep.unfinished import Unfinished

log = logging.getLogger(__name__)

TRY_AGAIN_S: Final = 0.5
SAY_AGAIN_S: Final = 60.0

# What each worker kind carries out; a command's `mailbox` names the same kind.
HANDLERS: Final[Mapping[WorkerKind, tuple[CommandHandler[..., Any], ...]]] = {
    WorkerKind.EMBEDDING: (memories.store_memory,),
    WorkerKind.SECTORS: (sectors.classify_sectors,),
    WorkerKind.EDGES: (
        links.connect,
        links.connect_all,
        links.disconnect_memories,
        links.connect_by_query,
        links.record_outcome,
        links.link_activated,
        graph.add_node,
        graph.add_edge,
        graph.delete_edge,
        graph.delete_node,
        graph.restore_graph,
        graph.reclassify_sector,
        graph.propose,
        graph.decide,
    ),
    WorkerKind.PROMOTION: (
        memories.supersede_memory,
        memories.update_memory,
        memories.forget_memory,
        memories.restore_memory,
        memories.verify_memory,
        memories.promote_memory,
        memories.purge_memories,
        tenants.delete_tenant,
    ),
    WorkerKind.RECALL: (
        search.search_memories,
        memories.list_recent,
        memories.get_memory,
        memories.memory_stats,
        graph.get_node,
        graph.get_edge,
        graph.list_edges,
        graph.query_neighbors,
        graph.find_path,
        graph.list_proposals,
        graph.list_deleted,
        commands.get_command,
        commands.list_audit,
        commands.ping,
        auth.authenticate,
        tenants.describe_tenant,
    ),
    WorkerKind.IMPORTS: (
        memories.import_batch,
        memories.embed_pending,
        accepting.import_memories,
        duplicates.find_duplicates,
        duplicates.group_duplicates,
        duplicates.merge_duplicates,
    ),
    WorkerKind.UPKEEP: (),
}
USUAL_CONCURRENCY: Final = 32  # commands that one process carries out at a time
CONCURRENCY: Final[Mapping[WorkerKind, int]] = {
    WorkerKind.SECTORS: 64,  # most of them only wait for others to come
    WorkerKind.IMPORTS: 2,  # one batch is embedded while the other is written
}


def build_services(
    store: Store,
    embedder: BatchingEmbedder,
    settings: Settings,
    *,
    stopping: asyncio.Event | None = None,
    activity: Activity | None = None,
) -> Services:
    """Return what the handlers of one process share; once `stopping` is set nobody waits for others to come."""
    stopping, activity = stopping or asyncio.Event(), activity or Activity()
    rules = LinkRules(cap=settings.degree_cap, delta=settings.reinforce_delta)
    vectorizer, sizes = Vectorizer(embedder, store), Sizes()
    return Services(
        activity,
        rules,
        vectorizer,
        sizes,
        Copies(store, sizes),
        Confidence(vectorizer),
        ForeignVectors(store, FormerModels(settings.home)),
        Classifier(store=store, activity=activity, stopping=stopping),
        BulkLoads(sizes),
        Quotas(settings, store),
        Usage(store, stopping=stopping),
        CoRetrievals(store, rules, stopping=stopping),
        SimilarityLinker(
            store=store,
            sizes=sizes,
            rules=rules,
            threshold=settings.link_threshold,
            stopping=stopping,
            activity=activity,
        ),
    )


def build_actors(
    kinds: Sequence[WorkerKind],
    *,
    store: Store,
    mailboxes: MailboxView,
    settings: Settings,
    services: Services,
    stopping: asyncio.Event | None = None,
    activity: Activity | None = None,
) -> list[Actor]:
    """Return the actors of these kinds, each once; all of them tell one clock which sessions are in use.

    They tell `activity` whom somebody waits for.
    """
    activity = activity or Activity()
    clock = SessionClock(store, stopping=stopping)
    stopping = stopping or asyncio.Event()
    rewriting = Periodic("rewrite_log", REWRITE_EVERY_S, mailboxes.rewrite_log)
    kept_up = (*_schedule(store, settings, services[Vectorizer], stopping, activity), rewriting)
    actors = []
    for kind in dict.fromkeys(kinds):
        runner = CommandRunner(HANDLERS[kind], store=store, mailboxes=mailboxes, settings=settings, services=services)
        actors.append(
            Actor(
                kind,
                dict.fromkeys(runner.handlers, runner.run),
                schedule=kept_up if kind is WorkerKind.UPKEEP else (),
                concurrency=CONCURRENCY.get(kind, USUAL_CONCURRENCY),
                sessions_used=clock.tell,
                activity=activity,
            )
        )
    return actors


def _schedule(
    store: Store, settings: Settings, vectorizer: Vectorizer, stopping: asyncio.Event, activity: Activity
) -> tuple[Periodic, ...]:
    """Return the periodic work of upkeep."""
    upkeep = Upkeep(
        store=store,
        unfinished=Unfinished(store=store, activity=activity),
        interval_s=settings.sweep_interval_s,
        retention=settings.retention,
    )
    reembedding = Reembedding(store=store, vectorizer=vectorizer, activity=activity, stopping=stopping)
    rebuilding = Rebuilding(store=store, activity=activity, stopping=stopping)
    return (
        *upkeep.schedule(),
        Periodic("reembed", settings.sweep_interval_s, reembedding.run),
        Periodic("rebuild_lexemes", settings.sweep_interval_s, rebuilding.run),
    )


async def run(
    kinds: Sequence[WorkerKind],
    settings: Settings,
    *,
    stop: asyncio.Event | None = None,
    ready: asyncio.Event | None = None,
    handle_signals: bool = True,
) -> None:
    """Serve these kinds until SIGTERM, SIGINT or `stop`. Waits for PostgreSQL and Redis when they are away.

    Raises NotReady when the database is one that waiting does not mend, SettingsError for an embedder that is none,
    UnsupportedServer when Redis is too old.
    """
    try:
        model = create_embedder(settings.embedder, settings.embedder_url, key=settings.embedder_key, home=settings.home)
    except ValueError as problem:
        raise SettingsError(str(problem)) from None
    stop = stop or asyncio.Event()
    async with AsyncExitStack() as owned:
        store = await owned.enter_async_context(await open_store(settings.database_url, settings.language))
        embedder = await owned.enter_async_context(BatchingEmbedder(model))
        mailboxes = await owned.enter_async_context(Inspection(settings.redis_url, Keys(settings.key_prefix)))
        activity = Activity()
        services = build_services(store, embedder, settings, stopping=stop, activity=activity)
        actors = build_actors(
            kinds,
            store=store,
            mailboxes=mailboxes,
            settings=settings,
            services=services,
            stopping=stop,
            activity=activity,
        )
        await serve(actors, settings, stop=stop, ready=ready, handle_signals=handle_signals)


async def open_store(database_url: str, language: str = DEFAULT_LANGUAGE) -> Store:
    """Open the store as soon as the database can be worked with, migrating it if it is behind and the role may.

    `language`: of namespaces that are new. Says once a minute what it waits for. Raises NotReady for what waiting does
    not mend.
    """
    said_at, said = 0.0, ""
    may_migrate = True
    while True:
        try:
            return await Store.open(database_url, language=language)
        except NotReady as problem:
            found = problem
        # A cluster that no migration has met lacks the workers' role, and so seems to let nobody in.
        if found.reason in {Reason.BEHIND, Reason.UNREACHABLE} and may_migrate:
            try:
                applied = await migrate(database_url)
            except NotReady as problem:
                is_refused = problem.reason is not Reason.UNREACHABLE
                if is_refused and found.reason is Reason.UNREACHABLE:
                    found = problem  # names the statement that is missing, which somebody may run meanwhile
                else:
                    may_migrate = not is_refused
            else:
                may_migrate = bool(applied)  # else a migration does not mend it
                log.info("Database migrated", extra={"applied": applied})
                continue
        elif found.reason not in {Reason.UNREACHABLE, Reason.BEHIND}:
            raise found
        if str(found) != said or time.monotonic() > said_at + SAY_AGAIN_S:
            log.warning("Waiting for the database", extra={"problem": found.message, "recovery": found.recovery})
            said_at, said = time.monotonic(), str(found)
        await asyncio.sleep(TRY_AGAIN_S)
