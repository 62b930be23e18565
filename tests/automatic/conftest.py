"""A pipeline of every kind, in one process."""

from collections.abc import AsyncIterator

import pytest

from tests.automatic.harness import Harness
from tests.conftest import Database
from tests.pipeline.conftest import settings, stage
from tests.pipeline.stage import Stage, agent_of

__all__ = ["settings", "stage"]


@pytest.fixture
async def harness(stage: Stage, database: Database) -> AsyncIterator[Harness]:
    async with agent_of(await stage.gateway()) as agent:
        yield Harness(agent, database)
