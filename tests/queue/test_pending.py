"""What becomes of a write whose caller was told `pending`: it is carried out, or its refusal is kept."""

import asyncio

import pytest

from engramq.gateway.queue.bus import Unanswered
from engramq.schemas.commands import Stored, StoreMemory
from engramq.schemas.envelope import Answer
from engramq.schemas.faults import FaultCode, refuse
from engramq.schemas.vocabulary import WorkerKind
from engramq.workers.queue.contract import Assignment, Completion, ResultUnknown, WorkerSpec
from engramq.workers.queue.inspection import Inspection
from tests.queue.stage import ADA_ID, NAMESPACE, Stage, send
from tests.queue.worker_process import a_memory

STORE = StoreMemory(content="Pumps leak")


class Database:
    """One that is away for the first tries of a command, and may hang before it says so."""

    def __init__(self, *problems: Exception) -> None:
        self.problems = list(problems)
        self.tries = 0
        self.hangs = asyncio.Event()
        self.hangs.set()

    async def store(self, assignment: Assignment) -> Completion:
        self.tries += 1
        await self.hangs.wait()
        if self.problems:
            raise self.problems.pop(0)
        return Completion(Stored(stored=a_memory("Pumps leak")))

    @property
    def actor(self) -> WorkerSpec:
        return WorkerSpec(WorkerKind.EMBEDDING, {StoreMemory: self.store})


@pytest.mark.promise("QP-21")
async def test_a_write_that_was_told_pending_is_tried_again_where_it_would_be_refused(stage: Stage) -> None:
    database = Database(refuse(FaultCode.UNAVAILABLE, "away"), refuse(FaultCode.UNAVAILABLE, "away"))
    database.hangs.clear()
    await stage.workers(database.actor)
    pending = await send(await stage.bus(), STORE, timeout_s=0.2)
    assert isinstance(pending, Unanswered)
    async with Inspection(stage.lanes) as inspection:
        assert await inspection.find(pending.command_id, NAMESPACE, ADA_ID) is True
        database.hangs.set()
        await stage.reaches(lambda: database.tries, 2)
        assert await inspection.find(pending.command_id, NAMESPACE, ADA_ID) is not None, "it is not forgotten meanwhile"
    await stage.reaches(lambda: database.tries, 3)
    await stage.until(lambda: stage.empty(WorkerKind.EMBEDDING))
    assert database.problems == []


async def test_a_write_whose_caller_waits_is_refused_at_once_and_never_tried_again(stage: Stage) -> None:
    database = Database(refuse(FaultCode.UNAVAILABLE, "away"))
    await stage.workers(database.actor)
    answer = await send(await stage.bus(), STORE)
    assert isinstance(answer, Answer)
    assert answer.fault is not None
    assert answer.fault.code is FaultCode.UNAVAILABLE
    assert (await stage.empty(WorkerKind.EMBEDDING), database.tries) == (True, 1)


@pytest.mark.promise("QP-21")
async def test_a_write_that_may_have_been_applied_is_not_refused_as_not_applied(stage: Stage) -> None:
    database = Database(ResultUnknown("cut in COMMIT"), refuse(FaultCode.UNAVAILABLE, "away"))
    await stage.workers(database.actor)
    answer = await send(await stage.bus(), STORE)
    assert isinstance(answer, Answer)
    assert isinstance(answer.reply, Stored)
    assert database.tries == 3
