"""A pipeline of its own for each test that asks for one; its sweeps are rare, since they visit every namespace."""

from collections.abc import Iterator

import pytest

from engramq.schemas.settings import Settings
from tests.conftest import Database, TestServers, new_database
from tests.scenarios.conftest import stage
from tests.scenarios.stage import stage_settings

__all__ = ["settings", "stage"]


@pytest.fixture
def settings(database: Database, redis_url: str, key_prefix: str) -> Settings:
    return stage_settings(database, redis_url, key_prefix, test_sweep_interval_s="5")


@pytest.fixture
def second(servers: TestServers, template: str) -> Iterator[Database]:
    """A further database, to which namespaces are moved."""
    with new_database(servers, template) as database:
        yield database
