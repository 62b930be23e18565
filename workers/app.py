"""A worker process: from settings to store, embedder and actors, and from those to the runtime."""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import Final

from engramq.schemas.keys import Keys
from engramq.schemas.settings import Settings, SettingsError
from engramq.schemas.vocabulary import WorkerKind
from engramq.workers.db.database import Store
from engramq.workers.db.ledger import Ledger
from engramq.workers.db.migrate import migrate
from engramq.workers.db.readiness import NotReady, Reason
from engramq.workers.db.vectors import Sizes
from engramq.workers.embedders.batching import BatchingEmbedder
from engramq.workers.embedders.confidence import Confidence
from engramq.workers.embedders.factory import create_embedder
from engramq.workers.embedders.vectorizer import Vectorizer
from engramq.workers.graph import handlers as edges
from engramq.workers.links import handlers as links
from engramq.workers.links import lookup as query_links
from engramq.workers.links import similarity as linking
from engramq.workers.links.co_retrieval import CoRetrievals
from engramq.workers.links.rules import LinkRules
from engramq.workers.memories import embedding
from engramq.workers.memories import handlers as promotion
from engramq.workers.memories import import_handlers as imports
from engramq.workers.queue.contract import Actor, MailboxView
from engramq.workers.queue.inspection import Inspection
from engramq.workers.queue.process import serve
from engramq.workers.search import handlers as recall
from engramq.workers.search.usage import Usage
from engramq.workers.sectors import handlers as sectors
from engramq.workers.upkeep import handlers as upkeep
from engramq.workers.upkeep.active_hours import SessionClock
from engramq.workers.upkeep.unfinished import Unfinished

log = logging.getLogger(__name__)

TRY_AGAIN_S: Final = 0.5
SAY_AGAIN_S: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What the actors of one process share."""

    settings: Settings
    store: Store
    ledger: Ledger
    vectorizer: Vectorizer
    sizes: Sizes
    mailboxes: MailboxView
    stopping: asyncio.Event  # set when the process is asked to stop: nobody gathers any longer then

    @property
    def link_rules(self) -> LinkRules:
        """What the settings say of links."""
        return LinkRules(cap=self.settings.degree_cap, delta=self.settings.reinforce_delta)


def build_actors(kinds: Sequence[WorkerKind], parts: Parts) -> list[Actor]:
    """Return the actors of these kinds, each once; all of them tell one clock which sessions are in use."""
    clock = SessionClock(parts.store, stopping=parts.stopping)
    actors = (_BUILDERS[kind](parts) for kind in dict.fromkeys(kinds))
    return [replace(actor, sessions_used=clock.tell) for actor in actors]


def _embedding(parts: Parts) -> Actor:
    return embedding.actor(
        embedding.Embedder(
            store=parts.store,
            ledger=parts.ledger,
            vectorizer=parts.vectorizer,
            sizes=parts.sizes,
            similar_threshold=parts.settings.similar_threshold,
            link_threshold=parts.settings.link_threshold,
        )
    )


def _sectors(parts: Parts) -> Actor:
    return sectors.actor(sectors.Classifier(store=parts.store))


def _edges(parts: Parts) -> Actor:
    linker = links.Linker(ledger=parts.ledger, rules=parts.link_rules)
    newcomers = linking.NewcomerLinker(
        store=parts.store,
        sizes=parts.sizes,
        rules=parts.link_rules,
        threshold=parts.settings.link_threshold,
        stopping=parts.stopping,
    )
    by_query = query_links.QueryLinker(
        store=parts.store,
        ledger=parts.ledger,
        vectorizer=parts.vectorizer,
        sizes=parts.sizes,
        confidence=Confidence(parts.vectorizer),
        rules=parts.link_rules,
    )
    return edges.actor(
        edges.Weaver(ledger=parts.ledger),
        links.handlers(linker),
        linking.handlers(newcomers),
        query_links.handlers(by_query),
    )


def _promotion(parts: Parts) -> Actor:
    return promotion.actor(
        promotion.Keeper(store=parts.store, ledger=parts.ledger, mailboxes=parts.mailboxes, rules=parts.link_rules)
    )


def _recall(parts: Parts) -> Actor:
    return recall.actor(
        recall.Reader(
            store=parts.store,
            vectorizer=parts.vectorizer,
            sizes=parts.sizes,
            usage=Usage(parts.store, stopping=parts.stopping),
            co_retrievals=CoRetrievals(parts.store, parts.link_rules, stopping=parts.stopping),
            mailboxes=parts.mailboxes,
        )
    )


def _imports(parts: Parts) -> Actor:
    return imports.actor(imports.Importer(store=parts.store, ledger=parts.ledger, vectorizer=parts.vectorizer))


def _upkeep(parts: Parts) -> Actor:
    return upkeep.actor(
        upkeep.Caretaker(
            store=parts.store,
            unfinished=Unfinished(store=parts.store),
            interval_s=parts.settings.sweep_interval_s,
        )
    )


_BUILDERS: Final[Mapping[WorkerKind, Callable[[Parts], Actor]]] = {
    WorkerKind.EMBEDDING: _embedding,
    WorkerKind.SECTORS: _sectors,
    WorkerKind.EDGES: _edges,
    WorkerKind.PROMOTION: _promotion,
    WorkerKind.RECALL: _recall,
    WorkerKind.IMPORTS: _imports,
    WorkerKind.UPKEEP: _upkeep,
}


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
        inner = create_embedder(settings.embedder, settings.embedder_url, key=settings.embedder_key)
    except ValueError as problem:
        raise SettingsError(str(problem)) from None
    stop = stop or asyncio.Event()
    async with AsyncExitStack() as owned:
        store = await owned.enter_async_context(await open_store(settings.database_url))
        embedder = await owned.enter_async_context(BatchingEmbedder(inner))
        mailboxes = await owned.enter_async_context(Inspection(settings.redis_url, Keys(settings.key_prefix)))
        parts = Parts(
            settings=settings,
            store=store,
            ledger=Ledger(store),
            vectorizer=Vectorizer(embedder, store),
            sizes=Sizes(),
            mailboxes=mailboxes,
            stopping=stop,
        )
        await serve(build_actors(kinds, parts), settings, stop=stop, ready=ready, handle_signals=handle_signals)


async def open_store(database_url: str) -> Store:
    """Open the store as soon as the database can be worked with, migrating it if it is behind and the role may.

    Says once a minute what it waits for. Raises NotReady for what waiting does not mend.
    """
    said_at, said = 0.0, ""
    may_migrate = True
    while True:
        try:
            return await Store.open(database_url)
        except NotReady as problem:
            found = problem
        if found.reason is Reason.BEHIND and may_migrate:
            try:
                log.info("Database migrated", extra={"applied": await migrate(database_url)})
                continue
            except NotReady as problem:
                may_migrate = problem.reason is Reason.UNREACHABLE
        elif found.reason not in {Reason.UNREACHABLE, Reason.BEHIND}:
            raise found
        if str(found) != said or time.monotonic() > said_at + SAY_AGAIN_S:
            log.warning("Waiting for the database", extra={"problem": found.message, "recovery": found.recovery})
            said_at, said = time.monotonic(), str(found)
        await asyncio.sleep(TRY_AGAIN_S)
