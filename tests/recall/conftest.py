"""Reads beside the writes that they show, over a real database, with the hash embedder."""

from dataclasses import dataclass
from typing import Any

import pytest

from engramq.schemas.commands import ListRecentMemories, MemoryList, SearchMemories
from engramq.schemas.records import Memory
from engramq.workers.db.vectors import Sizes
from engramq.workers.embedders.vectorizer import Vectorizer
from engramq.workers.links.co_retrieval import CoRetrievals
from engramq.workers.search.handlers import Reader, actor
from engramq.workers.search.usage import Usage
from tests.workers.conftest import LINK_RULES, World, world

__all__ = ["Scene", "scene", "world"]


@dataclass
class Scene:
    """A world with readers in it."""

    world: World

    async def keep(self, content: str, **fields: Any) -> str:
        """Store a memory and return its id."""
        return (await self.world.keep(content, **fields)).stored.id

    async def found(self, query: str, *, namespace: str = "default_user", **parameters: Any) -> list[Memory]:
        return (await self.search(query, namespace=namespace, **parameters)).memories

    async def search(self, query: str, *, namespace: str = "default_user", **parameters: Any) -> MemoryList:
        command = SearchMemories(query=query, **parameters)
        reply = await self.world.ask(MemoryList, command, namespace=namespace)
        assert reply.count == len(reply.memories) <= command.limit
        scores = [one.score for one in reply.memories]
        assert scores == sorted(scores, reverse=True)  # type: ignore[type-var]
        return reply

    async def recent(self, *, namespace: str = "default_user", **parameters: Any) -> MemoryList:
        return await self.world.ask(MemoryList, ListRecentMemories(**parameters), namespace=namespace)


@pytest.fixture
def scene(world: World) -> Scene:
    embedding = world.handlers[next(one for one in world.handlers if one.__name__ == "StoreMemory")]
    vectorizer: Vectorizer = embedding.__self__.vectorizer  # type: ignore[attr-defined]
    usage = Usage(world.store)
    world.serve(
        actor(
            Reader(
                store=world.store,
                vectorizer=vectorizer,
                sizes=Sizes(),
                usage=usage,
                co_retrievals=CoRetrievals(world.store, LINK_RULES),
                mailboxes=world.mailboxes,
            )
        )
    )
    return Scene(world)


def ids(memories: list[Memory]) -> list[str]:
    return [one.id for one in memories]
