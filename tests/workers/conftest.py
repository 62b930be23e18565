"""The handlers of the writing kinds over a real database and a real Redis, with the hash embedder."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pytest

from engramq.schemas.commands import Command, Reply, Stored, StoreMemory
from engramq.schemas.envelope import Principal
from engramq.schemas.keys import Keys
from engramq.schemas.vocabulary import DEFAULT_NAMESPACE
from engramq.workers.db.database import Store
from engramq.workers.db.ledger import Ledger
from engramq.workers.db.vectors import Sizes
from engramq.workers.embedders.batching import BatchingEmbedder
from engramq.workers.embedders.hashing import HashEmbedder
from engramq.workers.embedders.interface import EmbedderSpec, EmbedderUnavailable, EmbeddingFailure, Vectors
from engramq.workers.embedders.vectorizer import Vectorizer
from engramq.workers.links.rules import LinkRules
from engramq.workers.memories.embedding import Embedder
from engramq.workers.memories.embedding import actor as embedding_actor
from engramq.workers.memories.handlers import Keeper
from engramq.workers.memories.handlers import actor as promotion_actor
from engramq.workers.memories.import_handlers import Importer
from engramq.workers.memories.import_handlers import actor as imports_actor
from engramq.workers.queue.contract import Actor, Handler, Job, Outcome
from engramq.workers.queue.inspection import Inspection
from engramq.workers.sectors.handlers import Classifier
from engramq.workers.sectors.handlers import actor as sectors_actor
from engramq.workers.upkeep.handlers import Caretaker
from engramq.workers.upkeep.handlers import actor as upkeep_actor
from engramq.workers.upkeep.unfinished import Unfinished
from tests.conftest import Database
from tests.jobs import OWNER, job

T = TypeVar("T", bound=Reply)
LINK_RULES = LinkRules(cap=10, delta=0.1)


class SwitchedEmbedder(HashEmbedder):
    """The hash embedder, which is down while `down` is set and counts the texts that it embedded."""

    spec = EmbedderSpec(name="hash", dimensions=384, max_tokens=1_000_000)

    def __init__(self) -> None:
        super().__init__()
        self.down = False
        self.embedded = 0

    async def embed(self, texts: Sequence[str]) -> Vectors:
        if self.down:
            raise EmbedderUnavailable(EmbeddingFailure(reason="switched off"))
        self.embedded += len(texts)
        return await super().embed(texts)


@dataclass
class World:
    """All handlers, and what a test wants to see of the database."""

    database: Database
    store: Store
    ledger: Ledger
    model: SwitchedEmbedder
    caretaker: Caretaker
    mailboxes: Inspection
    handlers: dict[type[Command], Handler] = field(default_factory=dict)

    def serve(self, actor: Actor) -> None:
        self.handlers.update(actor.handlers)

    async def outcome(self, given: Job) -> Outcome:
        return await self.handlers[type(given.envelope.command)](given)

    async def ask(self, expected: type[T], command: Command, **envelope: Any) -> T:
        """Carry a command out and return its reply, which must be of the expected type."""
        reply = (await self.outcome(job(command, **envelope))).reply
        assert isinstance(reply, expected)
        return reply

    async def keep(
        self, content: str, *, namespace: str = DEFAULT_NAMESPACE, principal: Principal = OWNER, **fields: Any
    ) -> Stored:
        """Store a memory."""
        return await self.ask(Stored, StoreMemory(content=content, **fields), namespace=namespace, principal=principal)

    def rows(self, query: str, *values: Any) -> list[dict[str, Any]]:
        """Ask the database as its owner, past everything that the workers' role may not see."""
        return self.database.rows(query, *values)

    def count(self, table: str) -> int:
        return int(self.rows(f"select count(*) as n from {table}")[0]["n"])


@pytest.fixture
async def world(database: Database, store: Store, redis_url: str, key_prefix: str) -> AsyncIterator[World]:
    model = SwitchedEmbedder()
    async with BatchingEmbedder(model) as embedder, Inspection(redis_url, Keys(key_prefix)) as mailboxes:
        vectorizer, ledger = Vectorizer(embedder, store), Ledger(store)
        # Nobody classifies here unless a test does; a sweep that looked for it would find every memory.
        never = Unfinished(store=store, older_than_s=3600.0)
        caretaker = Caretaker(store=store, unfinished=never, interval_s=5.0, pending_s=0.0)
        made = World(database, store, ledger, model, caretaker, mailboxes)
        made.serve(
            embedding_actor(
                Embedder(
                    store=store,
                    ledger=ledger,
                    vectorizer=vectorizer,
                    sizes=Sizes(),
                    similar_threshold=0.5,
                    link_threshold=0.6,
                )
            )
        )
        made.serve(promotion_actor(Keeper(store=store, ledger=ledger, mailboxes=mailboxes, rules=LINK_RULES)))
        made.serve(imports_actor(Importer(store=store, ledger=ledger, vectorizer=vectorizer)))
        made.serve(sectors_actor(Classifier(store=store)))
        made.serve(upkeep_actor(caretaker))
        yield made
