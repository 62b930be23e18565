"""A pipeline of its own for each test that asks for one."""

from collections.abc import Iterator

import pytest

from tests.conftest import Database, TestServers, new_database
from tests.scenarios.conftest import settings, stage

__all__ = ["settings", "stage"]


@pytest.fixture
def second(servers: TestServers, template: str) -> Iterator[Database]:
    """A further database, to which namespaces are moved."""
    with new_database(servers, template) as database:
        yield database
