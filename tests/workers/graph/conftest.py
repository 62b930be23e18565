import pytest

from engramq.workers.db.database import Store
from tests.conftest import Database
from tests.workers.graph.harness import Harness


@pytest.fixture
async def harness(store: Store, database: Database) -> Harness:
    return Harness.at(store, database)
