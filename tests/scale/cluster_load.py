"""Agents that store without a pause while something is done to the servers, and what became of each store."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from uuid import uuid4

from engramq.gateway.service import Service
from engramq.schemas.keys import lane_of
from tests.conftest import Database
from tests.scenarios.stage import Agent, agent_of, until

CALLERS = 3  # in each namespace


@dataclass
class Load:
    """What was answered, by namespace and content. `stored` is promised to be kept, `refused` never to be done."""

    namespaces: Sequence[str]
    stored: set[tuple[str, str]] = field(default_factory=set)
    pending: set[tuple[str, str]] = field(default_factory=set)
    refused: set[tuple[str, str]] = field(default_factory=set)
    stop: asyncio.Event = field(default_factory=asyncio.Event)

    async def call(self, agent: Agent, namespace: str) -> None:
        """Store one memory after the other until the load is to stop."""
        while not self.stop.is_set():
            content = f"Something happened: {uuid4()}"
            body = await agent.call("store_memory", content=content)
            kinds = {"stored": self.stored, "pending": self.pending}
            kinds.get(body["status"], self.refused).add((namespace, content))

    def count(self, namespace: str) -> int:
        """How many stores were answered in a namespace."""
        return sum(item == namespace for item, _ in self.stored)

    async def goes_on(self, more: int = 5, bound_s: float = 60.0) -> None:
        """Wait until so many more stores are answered in each namespace."""
        since = {namespace: self.count(namespace) for namespace in self.namespaces}

        async def went_on() -> bool:
            return all(self.count(item) >= before + more for item, before in since.items())

        await until(went_on, bound_s)

    def check(self, database: Database) -> None:
        """Compare with what PostgreSQL has: nothing acknowledged is lost, nothing is there twice."""
        for namespace in self.namespaces:
            found = Counter(contents(database, namespace))
            twice = {content for content, count in found.items() if count > 1}
            assert not twice, f"{len(twice)} are there twice"
            lost = {content for item, content in self.stored if item == namespace} - set(found)
            assert not lost, f"{len(lost)} of {self.count(namespace)} acknowledged are lost"
            done = {content for item, content in self.refused if item == namespace} & set(found)
            assert not done, f"{len(done)} were refused and are there"


def one_of_each_lane(lanes: int) -> list[str]:
    """Return a namespace of each lane."""
    by_lane = {lane_of(f"tenant-{number}", lanes): f"tenant-{number}" for number in range(1_000)}
    return [by_lane[lane] for lane in range(lanes)]


def contents(database: Database, namespace: str) -> list[str]:
    """Return the contents of all memories of a namespace."""
    query = "select content from memories join namespaces using (tenant) where namespace = %s"
    return [row["content"] for row in database.rows(query, namespace)]


@asynccontextmanager
async def loaded(service: Service, namespaces: Sequence[str]) -> AsyncIterator[Load]:
    """Store in these namespaces for as long as the block lasts; all calls have ended when it ends."""
    load = Load(namespaces)
    async with AsyncExitStack() as clients, asyncio.TaskGroup() as group:
        for namespace in namespaces:
            agent = await clients.enter_async_context(agent_of(service, namespace))
            for _ in range(CALLERS):
                group.create_task(load.call(agent, namespace))
        try:
            await load.goes_on()
            yield load
        finally:
            load.stop.set()
