"""`engramq import` in this process, on a pipeline of the test's own."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from engramq.schemas.settings import Settings
from engramq.workers.db.database import Store
from tests.conftest import Database
from tests.scenarios.stage import Stage, stage_settings, staged
from tests.terminal import run_command


@pytest.fixture
def settings(database: Database, redis_url: str, key_prefix: str, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """The pipeline's settings; its Redis stands in the environment too, where the command looks."""
    settings = stage_settings(database, redis_url, key_prefix, test_sweep_interval_s="5")
    monkeypatch.setenv("ENGRAMQ_REDIS_URL", settings.redis_url)
    monkeypatch.setenv("ENGRAMQ_KEY_PREFIX", settings.key_prefix)
    return settings


@pytest.fixture
async def stage(shared_store: Store, settings: Settings) -> AsyncIterator[Stage]:
    async with staged(settings) as stage:
        yield stage


async def bring_in(*arguments: str | Path) -> int:
    return await run_command("import", *arguments)
