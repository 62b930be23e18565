"""Machines whose clocks are an hour off, by libfaketime: calls go on, and doctor names the process."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.conftest import Database
from tests.faults.callers import HttpCaller
from tests.faults.world import ENGRAMQ, free_port, is_ready, until
from tests.scale.conftest import ENVIRONMENT
from tests.scale.test_workers_elsewhere import processes

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(180)]

LIBRARY = "usr/lib/*/faketime/libfaketime.so.1"


def an_hour_off(sign: str) -> dict[str, str]:
    """Return the variables by which a process gets another clock; the one that measures spans stays as it is."""
    library = next(found for root in (Path("/"), ENVIRONMENT / "root") for found in root.glob(LIBRARY))
    return {"LD_PRELOAD": str(library), "FAKETIME": f"{sign}3600s", "DONT_FAKE_MONOTONIC": "1"}


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
