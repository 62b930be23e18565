"""A tenant is moved between two databases while it is used: nothing acknowledged is lost, nothing is doubled."""

import asyncio
import os
import sys
import time
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from engramq.schemas.settings import Settings
from engramq.workers.tenants.moving import Step
from tests.conftest import Database, TestServers, new_database
from tests.pipeline.stage import Agent, Stage, agent_of, stage_settings, staged
from tests.tenancy.moving import THERE, killed_at

pytestmark = [pytest.mark.anyio, pytest.mark.own_database]

NAMESPACE, OTHER = "moved", "stays"
CALLERS = 6
BEFORE = 15  # stores of each caller before the move begins
AFTER_S = 1.0
HELD_MAX_S = 5.0  # what is promised; measured are some tenths


@dataclass
class Caller:
    """Stores, searches and links one call after another, and keeps what was acknowledged."""

    agent: Agent
    name: str
    stored: dict[str, str] = field(default_factory=dict)  # ids by idempotency key
    linked: set[tuple[str, str]] = field(default_factory=set)
    slowest_s: float = 0.0
    slow_reads_s: float = 0.0

    def content(self, key: str) -> str:
        return f"Pump {key} of {self.name} was looked at"

    async def turn(self) -> None:
        """Store a memory, find it again, and link it to the one before."""
        key = f"{self.name}-{len(self.stored)}"
        began = time.monotonic()
        body = await self.agent.call("store_memory", content=self.content(key), idempotency_key=key)
        assert body["status"] == "stored", body
        self.stored[key] = body["stored"]["id"]
        self.slowest_s = max(self.slowest_s, time.monotonic() - began)
        began = time.monotonic()
        assert self.content(key) in await self.agent.found(self.content(key)), "a search after one's own store missed"
        self.slow_reads_s = max(self.slow_reads_s, time.monotonic() - began)
        ids = list(self.stored.values())[-2:]
        if len(ids) == 2:
            body = await self.agent.call("connect", source=ids[0], target=ids[1], idempotency_key=f"link {key}")
            assert body["status"] == "success", body
            self.linked.add((min(ids), max(ids)))

    async def repeat(self) -> None:
        """Store everything once more, by the keys of before."""
        for key, memory_id in self.stored.items():
            body = await self.agent.call("store_memory", content=self.content(key), idempotency_key=key)
            assert body["status"] == "stored", body
            assert body["stored"]["id"] == memory_id


@pytest.fixture
def second(servers: TestServers, template: str) -> Iterator[Database]:
    with new_database(servers, template) as database:
        database.rows("select make_tenant('somebody')")  # so that the tenant has another number there
        yield database


@pytest.fixture
def settings(database: Database, second: Database, redis_url: str, key_prefix: str) -> Settings:
    return stage_settings(database, redis_url, key_prefix, databases=f"{THERE}={second.url}")


@pytest.fixture
async def stage(settings: Settings) -> AsyncIterator[Stage]:
    async with staged(settings) as running:
        yield running


def held(database: Database, namespace: str) -> tuple[list[str], set[tuple[str, str]]]:
    """Return the ids of a tenant's memories with their contents, and its links."""
    rows = database.rows(
        "select node_id::text as id, content from memories where tenant = tenant_of(%s) order by 1", namespace
    )
    links = database.rows(
        "select source_id::text as low, target_id::text as high from edges "
        "where tenant = tenant_of(%s) and layer = 'association'", namespace,
    )  # fmt: skip
    return [f"{row['id']} {row['content']}" for row in rows], {(row["low"], row["high"]) for row in links}


def assert_whole(database: Database, callers: list[Caller]) -> None:
    """What was acknowledged is there, once."""
    found, links = held(database, NAMESPACE)
    acknowledged = {f"{one.stored[key]} {one.content(key)}" for one in callers for key in one.stored}
    assert set(found) == acknowledged, "lost or made up"
    assert len(found) == len(acknowledged), "doubled"
    assert set().union(*(one.linked for one in callers)) <= links


async def moved_to(place: str, database: Database, second: Database, *given: str) -> dict[str, Any]:
    """Run `engramq move`, as the operator does: with the owners' URLs, in a process of its own."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", "import sys; from engramq.deploy.cli import main; sys.exit(main())"),
        *("move", NAMESPACE, "--to", place, "--json", *given),
        env={
            **os.environ,
            "ENGRAMQ_DATABASE_URL": database.owner_url,
            "ENGRAMQ_DATABASES": f"{THERE}={second.owner_url}",
        },
        stdout=PIPE,
        stderr=PIPE,
    )
    out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    made: dict[str, Any] = msgspec.json.decode(out)
    assert made["status"] == ("aborted" if "--abort" in given else "moved")
    return made


async def working(callers: list[Caller], doing: Any) -> Any:
    """Let all callers work for as long as something is done, and a little longer; return what came of it."""
    over = asyncio.Event()

    async def work(caller: Caller) -> None:
        while not over.is_set():
            await caller.turn()

    async with asyncio.TaskGroup() as group:
        for one in callers:
            group.create_task(work(one))
        made = await doing
        await asyncio.sleep(AFTER_S)
        over.set()
    return made


@pytest.mark.promise("SC-6")
async def test_a_tenant_moves_under_load_and_back(
    stage: Stage, database: Database, second: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    gateways = [await stage.gateway(), await stage.gateway()]
    async with asyncio.timeout(200):
        agents = [agent_of(gateways[one % 2], NAMESPACE, f"caller {one}", session=f"s{one}") for one in range(CALLERS)]
        callers = [Caller(await stage.resources.enter_async_context(one), f"c{n}") for n, one in enumerate(agents)]
        other = Caller(await stage.resources.enter_async_context(agent_of(gateways[0], OTHER)), "other")
        for _ in range(BEFORE):
            await asyncio.gather(*(one.turn() for one in callers))
        there = await working([*callers, other], moved_to(THERE, database, second))
        assert_whole(second, callers)
        assert held(database, NAMESPACE) == ([], set())
        for one in callers:
            await one.repeat()
        assert_whole(second, callers)
        slowest = {"there": _slowest(callers)}
        back = await working([*callers, other], moved_to("primary", database, second))
        slowest["back"] = _slowest(callers)
        assert_whole(database, callers)
        assert held(second, NAMESPACE) == ([], set())
        assert len(held(database, OTHER)[0]) == len(other.stored)
    with capsys.disabled():
        for name, made in (("there", there), ("back", back)):
            store_s, search_s = slowest[name]
            sys.stdout.write(
                f"\nmoved {name}: {made['rows']} rows in {made['passes']} passes, writes held for {made['held_s']} s; "
                f"the slowest store took {store_s:.3f} s, the slowest search {search_s:.3f} s\n"
            )
    assert max(there["held_s"], back["held_s"]) < HELD_MAX_S


def _slowest(callers: list[Caller]) -> tuple[float, float]:
    found = max(one.slowest_s for one in callers), max(one.slow_reads_s for one in callers)
    for one in callers:
        one.slowest_s = one.slow_reads_s = 0.0
    return found


@pytest.mark.promise("SC-6")
@pytest.mark.parametrize("step", [step for step in Step if step is not Step.DONE])
async def test_a_move_that_is_killed_under_load_loses_nothing(
    stage: Stage, database: Database, second: Database, step: Step
) -> None:
    """Writes wait where it died in a hold, until the next move; nobody is refused."""
    async with asyncio.timeout(120):
        callers = await _at_work(stage)

        async def twice() -> dict[str, Any]:
            await killed_at(step, NAMESPACE, database.owner_url, second.owner_url)
            return await moved_to(THERE, database, second)

        await working(callers, twice())
        assert_whole(second, callers)
        assert held(database, NAMESPACE) == ([], set())


@pytest.mark.promise("SC-6")
@pytest.mark.parametrize("step", [Step.BEGUN, Step.COPYING, Step.COPIED, Step.HELD, Step.LEFT, Step.COMPARED])
async def test_a_move_that_is_taken_back_under_load_loses_nothing(
    stage: Stage, database: Database, second: Database, step: Step
) -> None:
    """Workers have heard by then that the tenant left, and serve it here again without a start."""
    async with asyncio.timeout(120):
        callers = await _at_work(stage)

        async def there_and_back() -> dict[str, Any]:
            await killed_at(step, NAMESPACE, database.owner_url, second.owner_url)
            return await moved_to(THERE, database, second, "--abort")

        await working(callers, there_and_back())
        before = len(held(database, NAMESPACE)[0])
        for one in callers:
            await one.turn()
            await one.repeat()
        assert len(held(database, NAMESPACE)[0]) == before + len(callers)
        assert_whole(database, callers)
        assert second.rows("select 1 from namespaces where namespace = %s", NAMESPACE) == []
        assert second.rows("select 1 from memories") == []


async def _at_work(stage: Stage) -> list[Caller]:
    gateway = await stage.gateway()
    agents = [agent_of(gateway, NAMESPACE, f"caller {one}", session=f"s{one}") for one in range(CALLERS)]
    callers = [Caller(await stage.resources.enter_async_context(one), f"c{n}") for n, one in enumerate(agents)]
    for _ in range(5):
        await asyncio.gather(*(one.turn() for one in callers))
    return callers
