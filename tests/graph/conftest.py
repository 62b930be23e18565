import pytest

from tests.conftest import Database
from tests.graph.desk import Desk
from workers.store.store import Store


@pytest.fixture
async def desk(store: Store, database: Database) -> Desk:
    return Desk.at(store, database)
