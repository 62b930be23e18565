"""A promotion that is hit by a fault at any of its steps leaves the memory in exactly one partition."""

import asyncio
import os
import random
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import psycopg
import pytest

from engramq.gateway.queue.bus import Bus
from engramq.schemas.commands import Promoted, PromoteMemory
from engramq.schemas.envelope import Answer
from engramq.schemas.faults import EngramqError, FaultCode
from engramq.schemas.keys import Keys
from engramq.schemas.vocabulary import DEFAULT_NAMESPACE, Verification
from engramq.workers.db.statements import StatementExchange
from engramq.workers.db.transaction import Sent, Transaction
from tests.assignments import OWNER, assignment
from tests.conftest import Database
from tests.lanes import lanes_at
from tests.scenarios.stage import until
from tests.workers.conftest import World

pytestmark = pytest.mark.own_database

KILL_WORKERS = """
    select pg_terminate_backend(pid) from pg_stat_activity
    where datname = current_database() and starts_with(application_name, 'engramq-worker')
"""
Fault = Callable[[World], Awaitable[None]]


async def end_session(world: World) -> None:
    await asyncio.to_thread(world.rows, KILL_WORKERS)


async def fill_disk(_: World) -> None:
    raise psycopg.errors.DiskFull


async def no_fault(_: World) -> None:
    return


async def researched(world: World) -> str:
    stored = await world.keep("Geese fly south", source_type="research", verification=Verification.VERIFIED)
    return stored.stored.id


def places(world: World) -> list[tuple[str, str, bool]]:
    rows = world.rows(
        "select n.partition as node, m.tableoid::regclass::text as place, m.promoted_at is not null as stamped "
        "from memories m full join nodes n on n.id = m.node_id"
    )
    return [(row["node"], row["place"], row["stamped"]) for row in rows]


UNTRUSTED = [("untrusted", "memories_untrusted", False)]
TRUSTED = [("trusted", "memories_trusted", True)]


class Steps:
    """Counts the statements of transactions, and causes a fault once, before or after one of them."""

    def __init__(self, world: World, fault: Fault, at: int, *, before: bool) -> None:
        self._world, self._fault, self._at, self._before = world, fault, at, before
        self.seen = 0
        self.caused = 0

    def install(self, patch: pytest.MonkeyPatch) -> None:
        send = Transaction.send

        async def sending(tx: Transaction, query: bytes, **values: Any) -> Sent:
            step, self.seen = self.seen, self.seen + 1
            if step == self._at and self._before:
                await self._cause(tx)
            sent = await send(tx, query, **values)
            if step == self._at and not self._before:
                await self._cause(tx)
            return sent

        patch.setattr(Transaction, "send", sending)

    async def _cause(self, tx: Transaction) -> None:
        await tx.exchange.send(b"select").fetchall()  # what was sent so far is done by the server
        self.caused += 1
        await self._fault(self._world)
        assert places(self._world) == UNTRUSTED  # whatever the transaction did is not there


async def steps_of_a_promotion(world: World, patch: pytest.MonkeyPatch) -> int:
    memory_id = await researched(world)
    with patch.context() as during:
        steps = Steps(world, no_fault, -1, before=True)
        steps.install(during)
        await world.ask(Promoted, PromoteMemory(record_id=memory_id))
    world.rows("delete from nodes")
    world.rows("delete from audit_log")
    return steps.seen


@pytest.mark.promise("TP-17")
@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
async def test_a_session_that_ends_at_any_step_is_begun_again(
    world: World, monkeypatch: pytest.MonkeyPatch, before: bool
) -> None:
    count = await steps_of_a_promotion(world, monkeypatch)
    assert count >= 5  # ledger, lock, move, audit, read, ledger
    for at in range(count):
        memory_id = await researched(world)
        with monkeypatch.context() as during:
            steps = Steps(world, end_session, at, before=before)
            steps.install(during)
            reply = await world.ask(Promoted, PromoteMemory(record_id=memory_id))
        assert (steps.caused, reply.status) == (1, "promoted")
        assert places(world) == TRUSTED
        assert world.rows("select action from audit_log") == [{"action": "promote"}]
        world.rows("delete from nodes")
        world.rows("delete from audit_log")


@pytest.mark.promise("TP-17")
@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
async def test_a_database_that_refuses_at_any_step_leaves_the_memory_where_it_was(
    world: World, monkeypatch: pytest.MonkeyPatch, before: bool
) -> None:
    count = await steps_of_a_promotion(world, monkeypatch)
    memory_id = await researched(world)
    for at in range(count):
        with monkeypatch.context() as during:
            Steps(world, fill_disk, at, before=before).install(during)
            with pytest.raises(EngramqError) as caught:
                await world.complete(assignment(PromoteMemory(record_id=memory_id)))
        assert caught.value.fault.code is FaultCode.UNAVAILABLE
        assert places(world) == UNTRUSTED
    assert world.count("audit_log") == 0
    assert (await world.ask(Promoted, PromoteMemory(record_id=memory_id))).status == "promoted"
    assert places(world) == TRUSTED


@pytest.mark.promise("TP-17")
async def test_a_session_that_ends_at_commit_leaves_one_copy_and_one_entry(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory_id = await researched(world)
    run = StatementExchange.end
    lost = 0

    async def losing(self: StatementExchange) -> None:
        nonlocal lost
        await run(self)
        if not lost and places(world) == TRUSTED:
            lost += 1
            self.connection.pgconn.finish()
            raise psycopg.OperationalError("the connection is lost")

    monkeypatch.setattr(StatementExchange, "end", losing)
    reply = await world.ask(Promoted, PromoteMemory(record_id=memory_id))
    assert (lost, reply.status) == (1, "promoted")
    assert places(world) == TRUSTED
    assert world.count("audit_log") == 1


async def a_worker(database: Database, redis_url: str, key_prefix: str) -> asyncio.subprocess.Process:
    """Start a worker of the kind as operators do."""
    environment = {
        **os.environ,
        "ENGRAMQ_DATABASE_URL": database.url,
        "ENGRAMQ_REDIS_URL": redis_url,
        "ENGRAMQ_KEY_PREFIX": key_prefix,
        "ENGRAMQ_EMBEDDER": "hash",
    }
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "engramq", "worker", "promotion"), env=environment, stderr=asyncio.subprocess.DEVNULL
    )


@pytest.mark.long
@pytest.mark.promise("TP-17", "QP-3")
async def test_promotions_survive_workers_killed_at_random(
    world: World, database: Database, redis_url: str, key_prefix: str
) -> None:
    seed = random.randrange(2**32)
    rng = random.Random(seed)
    waiting = [await researched(world) for _ in range(60)]
    ids, done = set(waiting), 0

    async with Bus(lanes_at(redis_url, Keys(key_prefix)), mailbox_bound=1000, reply_timeout_s=40.0) as bus:

        async def caller() -> None:
            nonlocal done
            while waiting:
                command = PromoteMemory(record_id=waiting.pop())
                answer = await bus.ask(command, namespace=DEFAULT_NAMESPACE, principal=OWNER)
                assert isinstance(answer, Answer), (seed, answer)
                assert isinstance(answer.reply, Promoted), (seed, answer)
                assert answer.reply.status == "promoted", (seed, answer)
                done += 1

        async def reached(count: int) -> None:
            async def enough() -> bool:
                return done >= count

            await until(enough, 40.0)

        worker = await a_worker(database, redis_url, key_prefix)
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(8):
                    group.create_task(caller())
                await reached(rng.randrange(1, 50))
                worker.kill()
                await worker.wait()
                assert all(node == place.removeprefix("memories_") for node, place, _ in places(world)), seed
                worker = await a_worker(database, redis_url, key_prefix)
        finally:
            worker.kill()
            await worker.wait()
    assert places(world) == TRUSTED * len(ids), seed
    entries = world.rows("select target_id::text as id from audit_log where action = 'promote'")
    assert (len(entries), {entry["id"] for entry in entries}) == (len(ids), ids), seed
