"""PostgreSQL, Redis, workers and gateways of one's own, killed one by one: doctor, status, /readyz and page name each.

That a page names its own gateway, when that is gone, is tested in a browser (tests/page).
"""

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from bench.servers import Servers
from engramq.deploy.local.embedded import process
from tests.deploy.local.doctor.conftest import Command, Environment, wrong

pytestmark = pytest.mark.timeout(300)

NAMED_S = 30.0  # in which a failure is named (OP-14)
START_S = 60.0
Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def start(environment: Environment, tmp_path: Path) -> Iterator[Start]:
    """Start `engramq ...` on the module's own servers; it is killed at the end."""
    with ExitStack() as running:

        def one(*arguments: str) -> "subprocess.Popen[bytes]":
            log = running.enter_context((tmp_path / f"{arguments[0]}.log").open("ab"))
            command = [sys.executable, "-P", "-m", "engramq", *arguments]
            child = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
            running.callback(kill, child)
            return child

        yield one


def kill(child: "subprocess.Popen[bytes]") -> None:
    child.send_signal(signal.SIGKILL)
    child.wait(10)


def within(bound_s: float, look: Callable[[], bool]) -> float:
    """Wait until a look finds what it looks for; return how long that took."""
    began = time.monotonic()
    assert process.wait_until(look, bound_s), f"not within {bound_s} s"
    return time.monotonic() - began


def readyz(environment: Environment) -> dict[str, Any]:
    url = f"http://127.0.0.1:{environment['ENGRAMQ_PORT']}/readyz"
    told: dict[str, Any] = httpx.get(url, timeout=20, verify=False).json()
    return told


def on_page(environment: Environment) -> set[str]:
    """Return the checks that the page at /ui shows as failed."""
    url = f"http://127.0.0.1:{environment['ENGRAMQ_PORT']}/ui/live"
    shown = httpx.get(url, timeout=20, verify=False)
    assert shown.status_code == 200
    return set(re.findall(r'<span class="state">failed</span> <strong>(\w+)</strong>', shown.text))


@pytest.mark.promise("OP-4")
@pytest.mark.promise("OP-10")
@pytest.mark.promise("OP-14")
def test_whatever_is_killed_is_named_by_doctor_status_readyz_and_page(
    own: Servers, environment: Environment, start: Start, doctor: Command, ask: Command
) -> None:
    def states(name: str) -> str:
        return str(doctor(environment)[1].get(name, {}).get("state", "ok"))

    subprocess.run(
        [sys.executable, "-P", "-m", "engramq", "migrate"],
        env=environment | {"ENGRAMQ_DATABASE_URL": own.database_url_owner}, check=True, timeout=START_S,
    )  # fmt: skip
    worker, gateway = start("worker", "--all"), start("gateway")
    within(START_S, lambda: doctor(environment)[0] == 0)
    assert ask(environment, "status")[0] == 0
    assert readyz(environment) == {"status": "ready"}

    kill(gateway)
    assert within(NAMED_S, lambda: states("gateway") == "failed") < NAMED_S
    gateway = start("gateway")
    within(START_S, lambda: doctor(environment)[0] == 0)

    worker.send_signal(signal.SIGSTOP)
    assert within(NAMED_S, lambda: states("worker") == "failed") < NAMED_S
    assert "it hangs, or ended just now" in wrong(doctor(environment)[1], "worker")
    kill(worker)
    assert (
        within(NAMED_S, lambda: "No worker of the kinds" in doctor(environment)[1]["worker"].get("told", "")) < NAMED_S
    )
    code, told = ask(environment, "status")
    assert (code, told["status"], readyz(environment)["missing"]) == (1, "unavailable", ["worker"])
    within(NAMED_S, lambda: on_page(environment) == {"worker"})
    start("worker", "--all")
    within(START_S, lambda: doctor(environment)[0] == 0)

    kill(own.redis_process)
    assert within(NAMED_S, lambda: states("redis") == "failed") < NAMED_S
    assert (ask(environment, "status")[0], readyz(environment)["missing"]) == (1, ["redis"])
    within(NAMED_S, lambda: on_page(environment) == {"redis"})
    own.redis.mend()
    own.redis_process = process.start(own.redis.launch(), own.home.logs / "redis.log")
    within(START_S, lambda: doctor(environment)[0] == 0)

    kill(own.postgres_process)
    assert within(NAMED_S, lambda: states("database") == "failed") < NAMED_S
    _, found = doctor(environment)
    assert "PostgreSQL cannot be reached" in wrong(found, "database")
    within(NAMED_S, lambda: readyz(environment)["missing"] == ["database"])
    within(NAMED_S, lambda: on_page(environment) == {"database"})
    code, told = ask(environment, "status")
    assert (code, told["health"]["status"]) == (1, "unavailable")
    own.postgres.mend()
    own.postgres_process = process.start(own.postgres.launch(), own.home.logs / "postgres.log")
    within(START_S, lambda: doctor(environment)[0] == 0)


def test_status_tells_mailboxes_of_own_servers_and_goes_on_looking(
    own: Servers, environment: Environment, ask: Command
) -> None:
    code, told = ask(environment, "status")
    assert (code, told["running"], told["status"]) == (1, True, "unavailable"), "no worker runs"
    assert [mailbox["kind"] for mailbox in told["health"]["mailboxes"]][:2] == ["embedding", "sectors"]
    command = [sys.executable, "-P", "-m", "engramq", "status", "--watch", "--json"]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as watching:
        assert watching.stdout is not None
        looks = [json.loads(watching.stdout.readline()) for _ in range(2)]
        watching.send_signal(signal.SIGINT)
        assert watching.wait(20) == 130
    assert [look["status"] for look in looks] == ["unavailable", "unavailable"]


def test_status_of_own_servers_as_text_has_a_line_for_each_mailbox(own: Servers, environment: Environment) -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-m", "engramq", "status"],
        env=environment, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 1
    assert "health              unavailable: no worker answers" in done.stdout
    assert "  recall " in done.stdout
    assert "worker: No worker of the kinds embedding" in done.stdout
