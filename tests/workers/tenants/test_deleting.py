"""Deleting a whole tenant: everything of it goes, nothing of another does, and a kill does not stop it."""

import time
from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest
from redis.asyncio import Redis

from engramq.schemas.codec import encode, encode_job
from engramq.schemas.commands import DeleteTenant, DescribeTenant, StoreMemory, TenantDeleted, TenantDescribed
from engramq.schemas.envelope import Principal, PrincipalId
from engramq.schemas.faults import FaultCode
from engramq.schemas.keys import JOB_KEY, Keys
from engramq.schemas.vocabulary import ALL_SCOPES, Scope, WorkerKind
from engramq.workers.queue.contract import Assignment, LeaseLost
from engramq.workers.tenants import deletion
from tests.assignments import assignment, repeated
from tests.refusals import refused
from tests.workers.conftest import World, world
from tests.workers.tenants.tables import Tenant, furnish, snapshot, tenant_tables

__all__ = ["world"]

Connection = psycopg.Connection[Any]
STAYS = {
    "audit_log",
    "audit_chain",
    "namespaces",
    "loads",
    "ledger",
    "changes",
}  # the ledger: the deletion's own row; changes and rebuilds: for upkeep, which lets them go


@pytest.fixture
def owner(world: World) -> Any:
    with psycopg.connect(world.database.owner_url, autocommit=True) as connection:
        yield connection


@pytest.fixture
def acme(owner: Connection) -> Tenant:
    furnish(owner, "other")
    return furnish(owner, "acme")


def deleting(**more: Any) -> Assignment:
    return assignment(DeleteTenant(**more), namespace="acme")


async def test_everything_of_a_tenant_goes_and_nothing_of_another(
    world: World, owner: Connection, acme: Tenant
) -> None:
    before = snapshot(owner, "other")
    described = await world.ask(TenantDescribed, DescribeTenant(), namespace="acme")
    assert (described.memory_count, described.node_count, described.edge_count) == (4, 2, 1)
    assert (described.link_count, described.token_count, described.status) == (1, 1, "success")
    audited = len(snapshot(owner, "acme")["audit_log"])
    command = deleting(reason="contract ended")

    reply = (await world.complete(command)).reply

    assert isinstance(reply, TenantDeleted)
    counts = (reply.memory_count, reply.node_count, reply.edge_count, reply.link_count, reply.token_count)
    assert counts == (4, 2, 1, 1, 1)
    left = snapshot(owner, "acme")
    assert set(left) == set(tenant_tables(owner))
    assert {table for table, rows in left.items() if rows} == STAYS, "a table of tenants that a deletion forgets"
    assert len(left["ledger"]) == 1
    assert snapshot(owner, "other") == before
    entries = world.rows("select * from audit_log where command_id = %s order by id", command.envelope.id)
    assert {entry["action"] for entry in entries} == {"delete_tenant"}
    assert {entry["reason"] for entry in entries} == {"contract ended"}
    assert len(left["audit_log"]) == audited + len(entries)
    assert (await world.complete(repeated(command, attempt=2))).reply == reply
    assert acme.namespace == "acme"


async def test_a_deletion_that_was_broken_off_is_finished_and_tells_the_whole(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deletion, "MEMORIES_AT_ONCE", 2)
    for number in range(7):
        await world.keep(f"memory {number}", namespace="acme")
    command, steps = deleting(), 0
    run = deletion.TenantDeletion.run

    async def losing(self: deletion.TenantDeletion) -> AsyncIterator[int]:
        nonlocal steps
        async for rows in run(self):
            steps += 1
            if steps == 2:
                command.lease.lost = True
            yield rows

    monkeypatch.setattr(deletion.TenantDeletion, "run", losing)
    with pytest.raises(LeaseLost):
        await world.complete(command)
    assert world.count("memories") == 3
    await world.keep("written since", namespace="acme")
    reply = (await world.complete(repeated(command, attempt=2))).reply
    assert isinstance(reply, TenantDeleted)
    assert reply.memory_count == 7
    assert [row["content"] for row in world.rows("select content from memories")] == ["written since"]


async def test_what_waits_in_redis_for_the_tenant_goes_too(world: World, redis_url: str, key_prefix: str) -> None:
    await world.keep("memory", namespace="acme")
    keys = Keys(key_prefix)
    mine = keys.session("acme", PrincipalId("ada", untrusted=False), "s")
    others = keys.session("other", PrincipalId("ada", untrusted=False), "s")
    async with Redis.from_url(redis_url) as redis:
        for session in (mine, others):
            await redis.hset(session.state, "stored", "x")
            await redis.zadd(session.touched, {"x": 1})
            await redis.zadd(session.sessions, {session.name: 1e15})
            await redis.zadd(session.principals, {session.sessions: 1e15})
        waiting = [
            assignment(StoreMemory(content="The safe opens with 1234"), namespace="acme"),
            assignment(StoreMemory(content="The safe opens with 1234"), namespace="other"),
            deleting(),
        ]
        for item in waiting:
            name = f"{item.envelope.id}.1"
            await redis.set(JOB_KEY + name, encode_job([encode(item.envelope)], time.time_ns() // 1_000_000))
            await redis.zadd(keys.of[WorkerKind.EMBEDDING].mailbox, {name: time.time() * 1000})
        await world.complete(deleting())
        jobs = [await redis.get(JOB_KEY + f"{item.envelope.id}.1") or b"" for item in waiting]
        assert [b"acme" in item or b"other" in item for item in jobs] == [False, True, True]
        assert await redis.exists(*mine[:4]) == 0
        assert await redis.exists(*others[:4]) == 4


async def test_a_tenant_may_begin_again(world: World) -> None:
    await world.keep("before", namespace="acme")
    await world.complete(deleting())
    await world.keep("after", namespace="acme")
    assert [row["content"] for row in world.rows("select content from memories")] == ["after"]
    described = await world.ask(TenantDescribed, DescribeTenant(), namespace="acme")
    assert (described.memory_count, described.content_bytes) == (1, 5)


async def test_only_admins_may_and_a_namespace_that_is_none_is_not_made(world: World) -> None:
    await world.keep("stays", namespace="acme")
    for principal in (
        Principal(name="writer", scopes=(Scope.READ, Scope.WRITE, Scope.VERIFY)),
        Principal(name="stranger", scopes=ALL_SCOPES, untrusted=True),
    ):
        for command in (DescribeTenant(), DeleteTenant()):
            with refused(FaultCode.FORBIDDEN):
                await world.complete(assignment(command, namespace="acme", principal=principal))
    assert world.count("memories") == 1
    assert (await world.ask(TenantDescribed, DescribeTenant(), namespace="nobody's")).status == "not_found"
    assert world.rows("select count(*) as n from namespaces")[0]["n"] == 1
