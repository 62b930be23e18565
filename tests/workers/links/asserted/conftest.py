"""A pipeline without upkeep, whose sweeps would do what tests want to see undone, and with a cap of three links."""

from collections.abc import AsyncIterator

import pytest

from engramq.schemas.settings import Settings
from engramq.schemas.vocabulary import WorkerKind
from engramq.workers.db.database import Store
from engramq.workers.links.rules import LinkRules
from tests.conftest import Database
from tests.scenarios.stage import Stage, agent_of, running_workers, stage_settings, staged
from tests.workers.links.asserted.harness import Harness

CAP = 3
RULES = LinkRules(cap=CAP, delta=0.1)
KINDS = (WorkerKind.EMBEDDING, WorkerKind.EDGES, WorkerKind.PROMOTION, WorkerKind.RECALL)


@pytest.fixture
def settings(database: Database, redis_url: str, key_prefix: str) -> Settings:
    return stage_settings(database, redis_url, key_prefix, degree_cap=str(CAP), link_threshold="1")


@pytest.fixture
async def stage(shared_store: Store, settings: Settings) -> AsyncIterator[Stage]:
    async with running_workers(settings, *KINDS), staged(settings, workers=False) as running:
        yield running


@pytest.fixture
async def harness(stage: Stage, database: Database) -> AsyncIterator[Harness]:
    async with agent_of(await stage.gateway()) as agent:
        yield Harness(agent, database)
