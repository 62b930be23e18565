"""connect_by_query beside the stores that it finds, over a real database, with the hash embedder and no follow-ups."""

from dataclasses import dataclass
from typing import Any

import pytest

from engramq.schemas.commands import ConnectByQuery, QueryConnected
from engramq.schemas.settings import read_settings
from tests.workers.conftest import World, world

__all__ = ["Study", "study", "world"]

CAP = 2


@dataclass
class Study:
    """A world in which memories are linked by what they say."""

    world: World

    async def keep(self, content: str, **fields: Any) -> str:
        """Store a memory and return its id."""
        return (await self.world.keep(content, **fields)).stored.id

    async def connect(
        self, source: str, target: str, *, envelope: dict[str, Any] | None = None, **parameters: Any
    ) -> QueryConnected:
        command = ConnectByQuery(source_query=source, target_query=target, **parameters)
        return await self.world.ask(QueryConnected, command, **(envelope or {}))

    def everything(self) -> dict[str, list[str]]:
        """Return all rows of all tables, as text."""
        tables = [
            row["name"]
            for row in self.world.rows(
                "select relname as name from pg_class where relkind in ('r', 'p') and not relispartition "
                "and relnamespace = 'public'::regnamespace order by relname"
            )
        ]
        return {
            table: [row["row"] for row in self.world.rows(f"select t::text as row from {table} t order by 1")]
            for table in tables
        }


@pytest.fixture
def study(world: World) -> Study:
    world.use(settings=read_settings({"ENGRAMQ_DEGREE_CAP": str(CAP)}))
    return Study(world)
