"""Imports of namespaces take turns: one that has brought many keeps no other waiting (security finding 8)."""

import asyncio
from dataclasses import dataclass, field

import pytest

from engramq.schemas.commands import EmbedPending, ImportMemories, ImportRow, Pong
from engramq.schemas.envelope import Answer
from engramq.schemas.ids import uuid7
from engramq.schemas.keys import turn_mark
from engramq.schemas.vocabulary import WorkerKind
from engramq.workers.queue.contract import Actor, FollowUp, Job, Outcome
from tests.queue.stage import BOUND_S, Stage, put, send

pytestmark = pytest.mark.anyio

IMPORTS = WorkerKind.IMPORTS
IMPORT = ImportMemories(records=(ImportRow(content="Ada drinks tea"),))


@dataclass
class Importing:
    """Carries out imports one after another, each once it is let go, and notes whose they are."""

    begun: list[str] = field(default_factory=list)
    follow_ups: int = 0
    _go: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(0))
    _news: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def carry_out(self, job: Job) -> Outcome:
        namespace = job.envelope.namespace
        async with self._news:
            self.begun.append(namespace)
            self._news.notify_all()
        await self._go.acquire()
        is_import = isinstance(job.envelope.command, ImportMemories)
        follow_ups = [FollowUp(namespace, EmbedPending(memory_ids=(uuid7(),)))] * (self.follow_ups if is_import else 0)
        return Outcome(Pong(), follow_ups=tuple(follow_ups))

    async def wait_for(self, count: int) -> None:
        """Wait until so many have begun."""
        async with asyncio.timeout(BOUND_S), self._news:
            await self._news.wait_for(lambda: len(self.begun) >= count)

    async def go_on(self, count: int) -> None:
        """Let one after another go, until so many have begun."""
        while len(self.begun) < count:
            self._go.release()
            await self.wait_for(len(self.begun) + 1)

    def actor(self) -> Actor:
        return Actor(IMPORTS, dict.fromkeys((ImportMemories, EmbedPending), self.carry_out), concurrency=1)


@pytest.fixture
async def importing(stage: Stage) -> Importing:
    """Have an import of evil under way."""
    found = Importing()
    await stage.workers(found.actor(), grace_s=0.1)
    await put(stage, IMPORT, namespace="evil")
    await found.wait_for(1)
    return found


async def test_who_has_brought_one_import_waits_for_one_of_each_other(stage: Stage, importing: Importing) -> None:
    for namespace in ("evil", "evil", "evil", "zoe", "evil", "acme", "acme"):
        await put(stage, IMPORT, namespace=namespace)
    await importing.go_on(8)
    assert sorted(importing.begun[1:3]) == ["acme", "zoe"]
    assert importing.begun[3:5] == ["evil", "acme"]
    assert importing.begun[5:] == ["evil", "evil", "evil"], "who is alone has every turn"
    await importing.go_on(8)
    await put(stage, IMPORT, namespace="late")
    await importing.go_on(9)


async def test_what_follows_an_import_takes_turns_too(stage: Stage, importing: Importing) -> None:
    importing.follow_ups = 40  # more than a job of another mailbox has
    await importing.go_on(1)
    await put(stage, IMPORT, namespace="evil")
    await importing.go_on(3)
    await put(stage, IMPORT, namespace="acme")
    await importing.go_on(5)
    assert importing.begun.count("acme") == 1
    assert await stage.depth(IMPORTS) != (0, 0)


async def test_a_call_in_bulk_is_a_job_of_its_own(stage: Stage) -> None:
    bus = await stage.bus()
    calls = [asyncio.create_task(send(bus, IMPORT, namespace="acme")) for _ in range(20)]

    async def all_wait() -> bool:
        return await stage.depth(IMPORTS) == (20, 20)

    await stage.until(all_wait)
    jobs = await stage.redis.zrange(stage.keys.of[IMPORTS].mailbox, 0, -1)
    assert all(f".{turn_mark(IMPORTS, 'acme')}.1" in job.decode() for job in jobs)
    importing = Importing()
    await stage.workers(importing.actor())
    await importing.go_on(20)
    importing._go.release()
    for answer in await asyncio.gather(*calls):
        assert isinstance(answer, Answer)


async def test_what_is_tried_again_or_handed_back_keeps_its_turn(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    tries: list[str] = []
    release = asyncio.Event()

    async def fail_once(job: Job) -> Outcome:
        tries.append(job.envelope.namespace)
        if len(tries) == 1:
            raise ValueError
        await release.wait()
        return Outcome(Pong())

    monkeypatch.setattr("engramq.workers.queue.job.RETRY_FIRST_S", 0.01)
    workers = await stage.workers(Actor(IMPORTS, {ImportMemories: fail_once}, concurrency=1), grace_s=0.1)
    command = await put(stage, IMPORT, namespace="acme")
    await stage.reaches(lambda: len(tries), 2)
    await workers.stop()
    (job,) = await stage.redis.zrange(stage.keys.of[IMPORTS].mailbox, 0, -1)
    assert job.decode() == stage.keys.job_id(command, 1, turn_mark(IMPORTS, "acme"))
