"""Workers and gateways on machines of their own: each finds servers by settings alone, and clocks may be hours off."""

import asyncio
import json
import os
import signal
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import uuid4

import pytest

from engramq.schemas.vocabulary import WorkerKind
from tests.conftest import Database
from tests.faults.callers import HttpCaller
from tests.faults.clocks import an_hour_off
from tests.faults.world import ENGRAMQ, free_port, is_ready, until

pytestmark = pytest.mark.timeout(180)


BOUND_S = 30.0
NO_HOME = "/proc/self/fdinfo/home"  # where nobody can make anything, root neither


@asynccontextmanager
async def processes(*commands: tuple[dict[str, str], tuple[str, ...]]) -> AsyncIterator[list[subprocess.Popen[bytes]]]:
    """Run `engramq` commands, each with these variables alone, in a folder that cannot be written to."""
    bare = {"PATH": os.environ["PATH"], "HOME": NO_HOME}
    started = [
        subprocess.Popen([ENGRAMQ, *arguments], env=bare | given, cwd="/proc", stderr=subprocess.PIPE)
        for given, arguments in commands
    ]
    try:
        yield started
    finally:
        for item in started:
            item.send_signal(signal.SIGTERM)
        said = await asyncio.gather(*(asyncio.to_thread(item.communicate, timeout=BOUND_S) for item in started))
        # What a process that failed has said is more than that its callers were not answered.
        assert [item.returncode for item in started] == [0] * len(started), [told[1][-2000:] for told in said]


async def test_every_kind_on_its_own_finds_all_by_settings_and_keeps_no_file(
    database: Database, redis_url: str, key_prefix: str
) -> None:
    port = free_port()
    shared = {"ENGRAMQ_REDIS_URL": redis_url, "ENGRAMQ_KEY_PREFIX": key_prefix}
    worker = shared | {
        "ENGRAMQ_DATABASE_URL": database.url,
        "ENGRAMQ_QUOTAS": "memories=5",  # a limit that workers know
        "ENGRAMQ_TEST_SWEEP_INTERVAL_S": "0.5",
        "ENGRAMQ_WEBHOOKS_KEY": uuid4().hex,
    }
    kinds = [(worker, ("worker", str(kind))) for kind in WorkerKind]
    async with processes(*kinds, (shared | {"ENGRAMQ_PORT": str(port)}, ("gateway",))) as started:
        await until(lambda: is_ready(port))
        caller = HttpCaller(lambda: [port], 0)
        stored = [await caller.call("store_memory", content=f"The ferry number {n} sails at dawn") for n in range(5)]
        assert {item["status"] for item in stored} == {"stored"}, stored
        refused = await caller.call("store_memory", content="The sixth ferry stays in harbour")
        assert refused["code"] == "quota_exceeded", refused
        found = await caller.call("search_memories", query="When do the boats leave?", min_relevance=0)  # by the model
        assert len(found["memories"]) == 5

        async def finished() -> bool:
            (row,) = database.rows("select count(*) as n from memories where sector_source is null")
            return bool(row["n"] == 0)

        await until(finished)
        assert [item.poll() for item in started] == [None] * len(started)
        await caller.aclose()


@pytest.mark.promise("QP-20")
@pytest.mark.parametrize("sign", ["+", "-"])
@pytest.mark.parametrize("wrong", ["worker", "gateway"])
async def test_calls_go_on_with_a_clock_an_hour_off_and_doctor_names_whose(
    database: Database, redis_url: str, key_prefix: str, wrong: str, sign: str
) -> None:
    port = free_port()
    shared = {"ENGRAMQ_REDIS_URL": redis_url, "ENGRAMQ_KEY_PREFIX": key_prefix, "ENGRAMQ_PORT": str(port)}
    shared |= {"ENGRAMQ_DATABASE_URL": database.url}
    clocks = {wrong: an_hour_off(sign)}
    commands = [(shared | clocks.get(name, {}), (name, *more)) for name, *more in (["worker", "--all"], ["gateway"])]
    async with processes(*commands):
        await until(lambda: is_ready(port))
        caller = HttpCaller(lambda: [port], 0)
        for number in range(3):
            assert (await caller.call("store_memory", content=f"Ferry {number} sails at dawn"))["status"] == "stored"
            found = await caller.call("search_memories", query="When do the ferries sail?")
            assert found["status"] == "success", found
        await caller.aclose()

        async def named() -> bool:
            return f"The clock of the {wrong} on " in clock_of(shared)

        await until(named)
        assert f"3600 s {'ahead of' if sign == '+' else 'behind'} that of Redis" in clock_of(shared)


def clock_of(settings: dict[str, str]) -> str:
    """Return what doctor says of clocks."""
    found = subprocess.run(
        [ENGRAMQ, "doctor", "--json"], env=os.environ | settings, capture_output=True, check=False, timeout=60
    )
    assert found.stdout, found.stderr.decode()
    (check,) = [check for check in json.loads(found.stdout)["checks"] if check["name"] == "clock"]
    return str(check.get("told", ""))
