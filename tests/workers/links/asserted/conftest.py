"""A pipeline without upkeep, whose sweeps would do what tests want to see undone, and with a cap of three links."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from engramq.schemas.settings import Settings
from engramq.schemas.vocabulary import WorkerKind
from engramq.workers.app import run
from engramq.workers.links.rules import LinkRules
from tests.conftest import Database
from tests.scenarios.stage import READY_S, Stage, agent_of, stage_settings, staged
from tests.workers.links.asserted.harness import Harness

CAP = 3
RULES = LinkRules(cap=CAP, delta=0.1)
KINDS = (WorkerKind.EMBEDDING, WorkerKind.EDGES, WorkerKind.PROMOTION, WorkerKind.RECALL)


@pytest.fixture
def settings(database: Database, redis_url: str, key_prefix: str) -> Settings:
    return stage_settings(database, redis_url, key_prefix, degree_cap=str(CAP), link_threshold="1")


@asynccontextmanager
async def _workers(settings: Settings) -> AsyncIterator[None]:
    stop, ready = asyncio.Event(), asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(run(KINDS, settings, stop=stop, ready=ready, handle_signals=False))
        try:
            await asyncio.wait_for(ready.wait(), READY_S)
            yield
        finally:
            stop.set()


@pytest.fixture
async def stage(settings: Settings) -> AsyncIterator[Stage]:
    async with _workers(settings), staged(settings, workers=False) as running:
        yield running


@pytest.fixture
async def harness(stage: Stage, database: Database) -> AsyncIterator[Harness]:
    async with agent_of(await stage.gateway()) as agent:
        yield Harness(agent, database)
