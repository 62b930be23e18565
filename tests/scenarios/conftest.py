"""A pipeline of its own for each test that asks for one."""

from collections.abc import AsyncIterator

import pytest

from engramq.schemas.settings import Settings
from engramq.workers.db.database import Store
from tests.conftest import Database
from tests.scenarios.stage import Agent, Stage, agent_of, stage_settings, staged


@pytest.fixture
def settings(request: pytest.FixtureRequest, database: Database, redis_url: str, key_prefix: str) -> Settings:
    """Settings with rare sweeps: they look at every namespace, and take a quarter of a test's CPU at 0.2 s."""
    changes = getattr(request, "param", {"test_sweep_interval_s": "5"})  # see with_settings
    return stage_settings(database, redis_url, key_prefix, **changes)


@pytest.fixture(autouse=True)
def shared_sessions(request: pytest.FixtureRequest) -> None:
    """Open the module's store, with which all workers work that tests of the module run."""
    if "database" in request.fixturenames:
        request.getfixturevalue("shared_store")


@pytest.fixture
async def stage(shared_store: Store, settings: Settings) -> AsyncIterator[Stage]:
    async with staged(settings) as running:
        yield running


@pytest.fixture
async def agent(stage: Stage) -> AsyncIterator[Agent]:
    """A client in the default namespace."""
    async with agent_of(await stage.gateway()) as connected:
        yield connected
