"""Follow-ups that may be gathered wait for others of their sort and become one command; none is lost by a stop."""

import asyncio
from itertools import count

import pytest

from engramq.schemas.commands import Activated, ClassifySectors, LinkActivated, SectorsClassified
from engramq.schemas.limits import MEMORIES_PER_FOLLOW_UP
from engramq.schemas.vocabulary import WorkerKind
from engramq.workers.queue.contract import Assignment, Completion, FollowUp, WorkerSpec
from tests.queue.stage import NAMESPACE, Stage, an_actor, echo, payload_of, ping

CALLERS = 20


def causing_with_numbers() -> WorkerSpec:
    """Return an actor each of whose answers has a memory classified, with a number for its id."""
    numbers = count()

    async def causing(assignment: Assignment) -> Completion:
        follow_up = FollowUp(NAMESPACE, ClassifySectors(memory_ids=(str(next(numbers)),)))
        return Completion((await echo(assignment)).reply, follow_ups=(follow_up,))

    return an_actor(causing)


async def test_follow_ups_of_many_calls_become_few_commands_that_name_all_memories(stage: Stage) -> None:
    seen: list[tuple[str, ...]] = []

    async def classify(assignment: Assignment) -> Completion:
        assert isinstance(assignment.envelope.command, ClassifySectors)
        seen.append(assignment.envelope.command.memory_ids)
        return Completion(SectorsClassified(classified=0))

    bus = await stage.bus()
    await stage.workers(causing_with_numbers(), WorkerSpec(WorkerKind.SECTORS, {ClassifySectors: classify}))
    await asyncio.gather(*(ping(bus) for _ in range(CALLERS)))
    await stage.until(lambda: sum(map(len, seen)) >= CALLERS)
    assert sorted(int(item) for ids in seen for item in ids) == list(range(CALLERS))
    assert len(seen) < CALLERS / 2


async def test_a_worker_that_stops_sends_what_it_has_gathered(stage: Stage) -> None:
    bus = await stage.bus()
    workers = await stage.workers(causing_with_numbers())
    payload_of(await ping(bus))
    await workers.stop()
    assert (await stage.depth(WorkerKind.SECTORS))[1] == 1


@pytest.mark.parametrize("first", [1, MEMORIES_PER_FOLLOW_UP - 1, MEMORIES_PER_FOLLOW_UP])
def test_commands_are_joined_up_to_the_most_memories_of_one(first: int) -> None:
    ids = tuple(str(number) for number in range(first))
    activated = tuple(Activated(memory_id=item) for item in ids)
    fits = first < MEMORIES_PER_FOLLOW_UP
    classify, link = ClassifySectors(memory_ids=("new",)), LinkActivated(memories=(Activated(memory_id="new"),))
    assert ClassifySectors(memory_ids=ids).joined(classify) == (
        ClassifySectors(memory_ids=(*ids, "new")) if fits else None
    )
    assert LinkActivated(memories=activated).joined(link) == (
        LinkActivated(memories=(*activated, *link.memories)) if fits else None
    )
