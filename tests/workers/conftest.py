"""The handlers of the writing kinds over a real database and a real Redis, with the hash embedder."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pytest

from engramq.schemas.commands import Command, GetMemory, MemoryFound, Reply, Shared, ShareMemory, Stored, StoreMemory
from engramq.schemas.digests import digest_of
from engramq.schemas.envelope import Principal
from engramq.schemas.keys import Keys
from engramq.schemas.settings import Settings, read_settings
from engramq.schemas.vocabulary import DEFAULT_NAMESPACE
from engramq.workers.app import build_services
from engramq.workers.db.database import Store
from engramq.workers.db.queries import Query
from engramq.workers.db.transaction import Sent, Transaction
from engramq.workers.embedders.batching import BatchingEmbedder
from engramq.workers.embedders.hashing import HashEmbedder
from engramq.workers.embedders.interface import EmbedderSpec, EmbedderUnavailable, Vectors
from engramq.workers.queue.contract import Assignment, Completion
from engramq.workers.queue.inspection import Inspection
from engramq.workers.runner import CommandRunner, Services
from engramq.workers.upkeep.schedule import Upkeep
from engramq.workers.upkeep.unfinished import Unfinished
from tests.assignments import OWNER, assignment
from tests.conftest import Database
from tests.lanes import lanes_at
from tests.running import runner

T = TypeVar("T", bound=Reply)


class SwitchedEmbedder(HashEmbedder):
    """The hash embedder, which is down while `down` is set and counts the texts that it embedded."""

    spec = EmbedderSpec(name="hash", dimensions=384, max_tokens=1_000_000)

    def __init__(self) -> None:
        super().__init__()
        self.down = False
        self.embedded = 0

    async def embed(self, texts: Sequence[str], *, questions: bool = False) -> Vectors:
        if self.down:
            raise EmbedderUnavailable("switched off")
        self.embedded += len(texts)
        return await super().embed(texts, questions=questions)


@dataclass
class World:
    """All handlers, and what a test wants to see of the database."""

    database: Database
    store: Store
    model: SwitchedEmbedder
    embedder: BatchingEmbedder
    upkeep: Upkeep
    inspection: Inspection
    settings: Settings
    services: Services = field(init=False)
    runner: CommandRunner = field(init=False)

    def __post_init__(self) -> None:
        self.use(settings=self.settings)

    def use(self, *services: object, settings: Settings | None = None) -> None:
        """Carry commands out with other settings, or with these services in the place of the usual ones."""
        self.settings = settings or self.settings
        self.services = build_services(self.store, self.embedder, self.settings)
        if services:
            replaced = {type(service) for service in services}
            kept = [item for kind, item in self.services.items() if kind not in replaced]
            self.services = Services(*kept, *services)
        self.runner = runner(self.store, inspection=self.inspection, settings=self.settings, services=self.services)

    async def complete(self, given: Assignment) -> Completion:
        return await self.runner.run(given)

    async def ask(self, expected: type[T], command: Command, **envelope: Any) -> T:
        """Carry a command out and return its reply, which must be of the expected type."""
        reply = (await self.complete(assignment(command, **envelope))).reply
        assert isinstance(reply, expected)
        return reply

    async def keep(
        self, content: str, *, namespace: str = DEFAULT_NAMESPACE, principal: Principal = OWNER, **fields: Any
    ) -> Stored:
        """Store a memory."""
        return await self.ask(Stored, StoreMemory(content=content, **fields), namespace=namespace, principal=principal)

    async def share(self, memory_id: str, principal: Principal, **fields: Any) -> Shared:
        """Share a memory as it is now."""
        look = GetMemory(memory_id=memory_id, include_untrusted=True)
        shown = (await self.ask(MemoryFound, look, principal=principal)).memory
        assert shown is not None
        share = ShareMemory(memory_id=memory_id, seen=digest_of(shown), **fields)
        return await self.ask(Shared, share, principal=principal)

    def rows(self, query: str, *values: Any) -> list[dict[str, Any]]:
        """Ask the database as its owner, past everything that the workers' role may not see."""
        return self.database.rows(query, *values)

    def count(self, table: str) -> int:
        return int(self.rows(f"select count(*) as n from {table}")[0]["n"])


@pytest.fixture
async def world(database: Database, store: Store, redis_url: str, key_prefix: str) -> AsyncIterator[World]:
    model = SwitchedEmbedder()
    async with BatchingEmbedder(model) as embedder, Inspection(lanes_at(redis_url, Keys(key_prefix))) as inspection:
        # Nobody classifies here unless a test does; a sweep that looked for it would find every memory.
        never = Unfinished(store=store, older_than_s=3600.0)
        upkeep = Upkeep(store=store, unfinished=never, interval_s=5.0, pending_s=0.0)
        settings = read_settings({"ENGRAMQ_MIN_RELEVANCE": "0", "ENGRAMQ_WEBHOOKS_KEY": "k" * 32})
        yield World(database, store, model, embedder, upkeep, inspection, settings)


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[Query]:
    """Return the queries that transactions send from now on."""
    queries: list[Query] = []
    send = Transaction.send

    async def note(self: Transaction, query: Query, **values: Any) -> Sent:
        queries.append(query)
        return await send(self, query, **values)

    monkeypatch.setattr(Transaction, "send", note)
    return queries
