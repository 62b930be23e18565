"""Machines whose clocks are an hour off, by libfaketime: calls go on, and doctor names the process."""

import json
import os
import subprocess

import pytest

from tests.conftest import Database
from tests.faults.callers import HttpCaller
from tests.faults.clocks import an_hour_off
from tests.faults.world import ENGRAMQ, free_port, is_ready, until
from tests.scale.test_workers_elsewhere import processes

pytestmark = pytest.mark.timeout(180)


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
