"""A pipeline of every kind, in one process."""

from collections.abc import AsyncIterator

import pytest

from schemas.settings import Settings
from tests.automatic.desk import Desk
from tests.conftest import Database
from tests.pipeline.stage import Stage, agent_of, stage_settings, staged


@pytest.fixture
def settings(database: Database, redis_url: str, key_prefix: str) -> Settings:
    return stage_settings(database, redis_url, key_prefix)


@pytest.fixture
async def stage(settings: Settings) -> AsyncIterator[Stage]:
    async with staged(settings) as running:
        yield running


@pytest.fixture
async def desk(stage: Stage, database: Database) -> AsyncIterator[Desk]:
    async with agent_of(await stage.gateway()) as agent:
        yield Desk(agent, database)
