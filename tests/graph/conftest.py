import pytest

from engramq.workers.db.database import Store
from tests.conftest import Database
from tests.graph.desk import Desk


@pytest.fixture
async def desk(store: Store, database: Database) -> Desk:
    return Desk.at(store, database)
