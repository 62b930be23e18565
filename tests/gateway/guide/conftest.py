"""A running pipeline with rare sweeps, since they visit every namespace, and a gateway without one."""

from collections.abc import AsyncIterator

import pytest

from engramq.gateway.service import Service
from engramq.schemas.settings import Settings
from tests.conftest import Database
from tests.scenarios.conftest import stage
from tests.scenarios.stage import Agent, agent_of, stage_settings

__all__ = ["guided", "settings", "stage"]


@pytest.fixture
def settings(database: Database, redis_url: str, key_prefix: str) -> Settings:
    return stage_settings(database, redis_url, key_prefix, test_sweep_interval_s="5")


class Nobody:
    """A queue and a Redis that must not be asked."""

    def __getattr__(self, name: str) -> object:
        raise AssertionError(f"the guide asked for {name}")


@pytest.fixture
async def guided() -> AsyncIterator[Agent]:
    """A client of a gateway that can reach nothing."""
    nobody = Nobody()
    async with agent_of(Service(nobody, nobody, nobody)) as agent:  # type: ignore[arg-type]
        yield agent
