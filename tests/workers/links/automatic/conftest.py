"""A pipeline of every kind, in one process, whose sweeps come soon, since tests wait for them."""

from collections.abc import AsyncIterator

import pytest

from engramq.schemas.settings import Settings
from tests.conftest import Database
from tests.scenarios.conftest import stage
from tests.scenarios.stage import Stage, agent_of, stage_settings
from tests.workers.links.automatic.harness import Harness

__all__ = ["settings", "stage"]


@pytest.fixture
def settings(database: Database, redis_url: str, key_prefix: str) -> Settings:
    return stage_settings(database, redis_url, key_prefix)


@pytest.fixture
async def harness(stage: Stage, database: Database) -> AsyncIterator[Harness]:
    async with agent_of(await stage.gateway()) as agent:
        yield Harness(agent, database)
