"""A pipeline of every kind, in one process."""

from collections.abc import AsyncIterator

import pytest

from tests.conftest import Database
from tests.scenarios.conftest import settings, stage
from tests.scenarios.stage import Stage, agent_of
from tests.workers.links.automatic.harness import Harness

__all__ = ["settings", "stage"]


@pytest.fixture
async def harness(stage: Stage, database: Database) -> AsyncIterator[Harness]:
    async with agent_of(await stage.gateway()) as agent:
        yield Harness(agent, database)
