"""A pipeline of every kind, in one process."""

from collections.abc import AsyncIterator

import pytest

from tests.automatic.desk import Desk
from tests.conftest import Database
from tests.pipeline.conftest import settings, stage
from tests.pipeline.stage import Stage, agent_of

__all__ = ["settings", "stage"]


@pytest.fixture
async def desk(stage: Stage, database: Database) -> AsyncIterator[Desk]:
    async with agent_of(await stage.gateway()) as agent:
        yield Desk(agent, database)
