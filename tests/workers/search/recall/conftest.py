"""Reads beside the writes that they show, over a real database, with the hash embedder."""

from dataclasses import dataclass
from datetime import UTC
from typing import Any

import pytest

from engramq.schemas.commands import ListRecentMemories, MemoryList, SearchMemories
from engramq.schemas.fields import or_none
from engramq.schemas.records import Memory
from engramq.workers.search.candidates import QuestionVectors, Source
from engramq.workers.search.question import Question
from engramq.workers.search.search import Search, filters_of, question_of
from tests.workers.conftest import World, world

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
        scores = [memory.score for memory in reply.memories]
        assert scores == sorted(scores, reverse=True)  # type: ignore[type-var]
        return reply

    async def recent(self, *, namespace: str = "default_user", **parameters: Any) -> MemoryList:
        return await self.world.ask(MemoryList, ListRecentMemories(**parameters), namespace=namespace)


@pytest.fixture
def scene(world: World) -> Scene:
    return Scene(world)


def ids(memories: list[Memory]) -> list[str]:
    return [memory.id for memory in memories]


def question_in(command: SearchMemories) -> Question:
    return question_of(command, filters_of(command, None), UTC)


async def search_in(
    source: Source, command: SearchMemories, vectors: QuestionVectors, project: str | None = None
) -> list[Memory]:
    filters = filters_of(command, project)
    question = question_of(command, filters, UTC)
    search = Search(
        command=command,
        question=question,
        filters=filters,
        source=source,
        vectors=vectors,
        min_relevance=or_none(command.min_relevance) or 0.0,
    )
    return (await search.run()).memories
