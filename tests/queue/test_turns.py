"""Imports of namespaces take turns: one that has brought many keeps no other waiting (security finding 8)."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest

from engramq.schemas.commands import EmbedPending, ImportMemories, ImportRow, Pong
from engramq.schemas.envelope import Answer
from engramq.schemas.faults import EngramqError, FaultCode
from engramq.schemas.ids import uuid7
from engramq.schemas.keys import JOB_KEY, LEASE_KEY, TRIES_KEY, turn_mark
from engramq.schemas.scripts import CLAIM
from engramq.schemas.vocabulary import WorkerKind
from engramq.workers.queue.contract import Assignment, Completion, FollowUp, WorkerSpec
from tests.queue.stage import BOUND_S, Stage, put, send

IMPORTS = WorkerKind.IMPORTS
IMPORT = ImportMemories(records=(ImportRow(content="Ada drinks tea"),))
# Goes before a script: counts what it calls, and how many elements the answers have.
COUNTING = """
local server, calls, elements = redis, 0, 0
local redis = {call = function(...)
  local answer = server.call(...)
  calls, elements = calls + 1, elements + (type(answer) == 'table' and #answer or 1)
  server.call('SET', '%s', calls .. ' ' .. elements)
  return answer
end}
"""


@dataclass
class Importing:
    """Carries out imports one after another, each once it is let go, and notes whose they are."""

    begun: list[str] = field(default_factory=list)
    follow_ups: int = 0
    _go: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(0))
    _news: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def carry_out(self, assignment: Assignment) -> Completion:
        namespace = assignment.envelope.namespace
        async with self._news:
            self.begun.append(namespace)
            self._news.notify_all()
        await self._go.acquire()
        is_import = isinstance(assignment.envelope.command, ImportMemories)
        follow_ups = [FollowUp(namespace, EmbedPending(memory_ids=(uuid7(),)))] * (self.follow_ups if is_import else 0)
        return Completion(Pong(), follow_ups=tuple(follow_ups))

    async def wait_for(self, count: int) -> None:
        """Wait until so many have begun."""
        async with asyncio.timeout(BOUND_S), self._news:
            await self._news.wait_for(lambda: len(self.begun) >= count)

    async def go_on(self, count: int) -> None:
        """Let one after another go, until so many have begun."""
        while len(self.begun) < count:
            self._go.release()
            await self.wait_for(len(self.begun) + 1)

    def actor(self) -> WorkerSpec:
        return WorkerSpec(IMPORTS, dict.fromkeys((ImportMemories, EmbedPending), self.carry_out), concurrency=1)


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


async def fill(stage: Stage, namespace: str, count: int, *, due_s_ago: float = 0) -> list[str]:
    """Put so many jobs of a namespace into the mailbox, the first of them due so long ago; return their ids."""
    of = stage.keys.of[IMPORTS]
    jobs = [stage.keys.job_id(uuid7(), 1, IMPORTS, namespace) for _ in range(count)]
    await stage.redis.mset({JOB_KEY + job: b"" for job in jobs})
    seconds, micros = await stage.redis.time()
    at = seconds * 1000 + micros // 1000 - due_s_ago * 1000
    await stage.redis.zadd(of.mailbox, {job: at + place / 10 for place, job in enumerate(jobs)})
    return jobs


async def claim(stage: Stage, wanted: int = 1) -> tuple[list[str], bool, tuple[int, int]]:
    """Claim; return the jobs, whether there is more, and how many calls and elements that took."""
    of, counter = stage.keys.of[IMPORTS], f"{stage.keys.prefix}:test:counted"
    where = (of.mailbox, of.wakeups, of.depth)
    arguments = ("me", 60_000, wanted, wanted + 32, JOB_KEY, LEASE_KEY, TRIES_KEY, 0, of.waiting, of.turns)
    first, rest = CLAIM.text.split("\n", 1)
    text = f"{first}\n{COUNTING % counter}{rest}"
    more, _, _, _, *found = await stage.redis.eval(text, len(where), *where, *arguments)
    calls, elements = map(int, (await stage.redis.get(counter)).split())
    return [job.decode() for job in found[0::3]], bool(more), (calls, elements)


async def claim_some(stage: Stage, wanted: int = 1) -> list[str]:
    """Claim as a worker does: again at once while there is more and nothing was given."""
    for _ in range(100):
        jobs, more, _ = await claim(stage, wanted)
        if jobs or not more:
            return jobs
    raise AssertionError("a hundred claims gave nothing")


@pytest.mark.parametrize("ahead", [5_000, 12_000])
async def test_who_comes_behind_any_number_of_jobs_of_another_is_next(stage: Stage, ahead: int) -> None:
    evil = await fill(stage, "evil", ahead, due_s_ago=60)
    zoe = await fill(stage, "zoe", 2, due_s_ago=1)
    first = [job for _ in range(4) for job in await claim_some(stage)]
    assert sorted(first) == sorted([*evil[:2], *zoe])
    await fill(stage, "acme", 1)
    assert f".{turn_mark('acme')}." in (await claim_some(stage))[0]


async def test_a_claim_at_a_full_mailbox_does_little_and_never_much(stage: Stage) -> None:
    await fill(stage, "evil", 10_000, due_s_ago=60)
    spent = []
    for _ in range(60):
        await fill(stage, "zoe", 1)
        spent.append((await claim(stage))[2])
    assert max(calls for calls, _ in spent) < 6_000, "a claim that finds thousands new gives turns to some of them"
    assert max(elements for _, elements in spent) < 9_000
    assert max(calls for calls, _ in spent[20:]) < 50
    assert max(elements for _, elements in spent[20:]) < 150


async def test_jobs_that_came_in_one_millisecond_all_get_their_turn(stage: Stage) -> None:
    jobs = await fill(stage, "evil", 2_500)
    await stage.redis.zadd(stage.keys.of[IMPORTS].mailbox, dict.fromkeys(jobs, 1))
    await fill(stage, "zoe", 1)
    marks = {job.split(".")[-2] for _ in range(2) for job in await claim_some(stage)}
    assert marks == {turn_mark("evil"), turn_mark("zoe")}


@pytest.mark.parametrize("lost", ["waiting", "turns", ""])
async def test_turns_that_disagree_with_the_mailbox_are_made_anew(stage: Stage, lost: str) -> None:
    of: Any = stage.keys.of[IMPORTS]
    jobs = await fill(stage, "evil", 5, due_s_ago=60)
    gone, first = jobs[1], await claim_some(stage)
    await stage.redis.zrem(of.mailbox, gone)
    if lost:
        await stage.redis.zadd(of.waiting, {"nobody.0123abcd.1": 1})
        await stage.redis.delete(getattr(of, lost))
    late = await fill(stage, "zoe", 1, due_s_ago=90)  # before all that has had its turn
    claimed = [*first, *[job for _ in range(8) for job in await claim_some(stage)]]
    assert sorted(claimed) == sorted({*jobs, *late} - {gone})
    assert await stage.redis.zcard(of.waiting) == 0
    assert await stage.redis.zcard(of.mailbox) == 5


async def test_full_shares_of_two_namespaces_leave_room_for_a_third(stage: Stage) -> None:
    bus = await stage.bus(bound=10)
    for namespace, share in (("evil", 5), ("worse", 3)):
        for _ in range(share):
            await put(stage, IMPORT, namespace=namespace, bound=10)
        with pytest.raises(EngramqError, match="half of the places"):
            await send(bus, IMPORT, namespace=namespace)
    await put(stage, IMPORT, namespace="zoe", bound=10)


async def test_a_namespace_fills_half_of_the_mailbox_and_hears_why_it_may_not_more(stage: Stage) -> None:
    bus = await stage.bus(bound=10)
    for _ in range(5):
        await put(stage, IMPORT, namespace="evil", bound=10)
    with pytest.raises(EngramqError) as refusal:
        await send(bus, IMPORT, namespace="evil")
    assert refusal.value.fault.code is FaultCode.OVERLOADED
    assert "half of the places" in refusal.value.fault.error
    await put(stage, IMPORT, namespace="zoe", bound=10)
    importing = Importing()
    await stage.workers(importing.actor())
    await importing.go_on(6)
    importing._go.release()
    await stage.until(lambda: stage.empty(IMPORTS))
    assert not await stage.redis.exists(f"{stage.keys.of[IMPORTS].depth}:of"), "what has ended counts no longer"
    for _ in range(5):
        await put(stage, IMPORT, namespace="evil", bound=10)
    importing._go.release()


async def test_a_call_in_bulk_is_a_job_of_its_own(stage: Stage) -> None:
    bus = await stage.bus()
    calls = [asyncio.create_task(send(bus, IMPORT, namespace="acme")) for _ in range(20)]
    await stage.until(lambda: stage.depth(IMPORTS), lambda depth: depth == (20, 20))
    jobs = await stage.redis.zrange(stage.keys.of[IMPORTS].mailbox, 0, -1)
    assert all(f".{turn_mark('acme')}.1" in job.decode() for job in jobs)
    importing = Importing()
    await stage.workers(importing.actor())
    await importing.go_on(20)
    importing._go.release()
    for answer in await asyncio.gather(*calls):
        assert isinstance(answer, Answer)


async def test_what_is_tried_again_or_handed_back_keeps_its_turn(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    tries: list[str] = []
    release = asyncio.Event()

    async def fail_once(assignment: Assignment) -> Completion:
        tries.append(assignment.envelope.namespace)
        if len(tries) == 1:
            raise ValueError
        await release.wait()
        return Completion(Pong())

    monkeypatch.setattr("engramq.workers.queue.job.RETRY_FIRST_S", 0.01)
    workers = await stage.workers(WorkerSpec(IMPORTS, {ImportMemories: fail_once}, concurrency=1), grace_s=0.1)
    command = await put(stage, IMPORT, namespace="acme")
    await stage.reaches(lambda: len(tries), 2)
    await workers.stop()
    (job,) = await stage.redis.zrange(stage.keys.of[IMPORTS].mailbox, 0, -1)
    assert job.decode() == stage.keys.job_id(command, 1, IMPORTS, "acme")
