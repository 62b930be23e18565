"""Homes on faulty disks, and with servers that hang: each command says how it is, and nobody has to help."""

import contextlib
import os
import re
import signal

import pytest

from engramq.deploy.local.embedded import process
from engramq.deploy.local.home import DeployError, Home
from engramq.deploy.local.ownership import read_ownership
from engramq.deploy.local.stack_hold import ask_status
from engramq.deploy.local.supervisor.state import shut_down
from tests.deploy.conftest import Hold
from tests.deploy.helpers import await_true, needs_root, status_of
from tests.deploy.local.conftest import Command, processes_of
from tests.faults.disk import filled, made_read_only, small_disk

pytestmark = [pytest.mark.timeout(120), pytest.mark.long]


def runs_again(home: Home, former: int) -> bool:
    with contextlib.suppress(DeployError):
        status = ask_status(home) or {}
        services = status.get("services")
        ready = isinstance(services, list) and {each["state"] for each in services} == {"ready", "done"}
        return bool(ready and status["pid"] != former and status["leases"])
    return False


@pytest.mark.promise("OP-3")
def test_a_stack_whose_supervisor_was_killed_while_postgresql_hangs_is_back_by_itself(home: Home, run: Command) -> None:
    assert run("up", "--detach", FAKE_SERVICES="servers").returncode == 0
    before = status_of(home)
    hanging = process.working_in(home.postgres / "data", "postgres")
    for each in hanging:
        os.kill(each.pid, signal.SIGSTOP)
    os.kill(before["pid"], signal.SIGKILL)
    assert process.wait_until(lambda: runs_again(home, before["pid"]), 30.0)
    assert not any(process.is_alive(each) for each in hanging)


@pytest.mark.promise("OP-3")
def test_what_a_killed_supervisor_left_hanging_is_named_and_brought_down(home: Home, hold: Hold, run: Command) -> None:
    """Without anybody who starts it again."""
    hold("command", "servers")
    before = status_of(home)
    hanging = process.working_in(home.postgres / "data", "postgres")
    for each in hanging:
        os.kill(each.pid, signal.SIGSTOP)
    os.kill(before["pid"], signal.SIGKILL)
    await_true(lambda: not read_ownership(home).is_held)
    postgres = next(each["pid"] for each in before["services"] if each["name"] == "postgres")
    shown = run("status")
    assert f"postgres (pid {postgres}) runs without its supervisor." in shown.stdout
    assert run("down").stdout == f"Stopped engramq in {home.path}.\n"
    assert not any(process.is_alive(each) for each in hanging)
    assert run("down").stdout == f"engramq is not running in {home.path}.\n"


@pytest.mark.promise("OP-3")
@needs_root
def test_a_detached_stack_that_cannot_start_again_goes_on_trying_until_down(home: Home, run: Command) -> None:
    assert run("up", "--detach").returncode == 0
    before = status_of(home)
    holder = before["leases"][0]["pid"]
    with made_read_only(home.path):
        os.kill(before["pid"], signal.SIGKILL)
        await_true(lambda: not read_ownership(home).is_held)
        shown = run("status")
        assert f"engramq up --detach (pid {holder}) tries to start the stack again" in shown.stdout
        assert (shown.returncode, "read-only" in run("doctor").stdout) == (3, True)
    assert process.wait_until(lambda: runs_again(home, before["pid"]), 30.0)
    with made_read_only(home.path):
        os.kill(status_of(home)["pid"], signal.SIGKILL)
        await_true(lambda: not read_ownership(home).is_held)
        assert run("down").stdout == f"Stopped engramq in {home.path}.\n"
        assert process.identify(holder) is None


@needs_root
@pytest.mark.parametrize("ran", [True, False], ids=["that_ran", "that_is_new"])
def test_a_home_on_a_read_only_disk_is_named(home: Home, hold: Hold, run: Command, ran: bool) -> None:
    if ran:
        hold().close()
        shut_down(home)
    with made_read_only(home.path):
        done = {command: run(*command.split()) for command in ("down", "status", "doctor --fix", "up")}
    idle = f"engramq is not running in {home.path}."
    assert (done["down"].returncode, done["down"].stdout) == (0, f"{idle}\n")
    assert (done["status"].returncode, done["status"].stdout.startswith(idle)) == (3, True)
    for command in ("doctor --fix", "up"):
        assert done[command].returncode == 1
        assert "is read-only" in done[command].stdout + done[command].stderr


@needs_root
def test_a_home_on_a_full_disk_is_named_and_starts_once_there_is_room(home: Home, run: Command) -> None:
    with small_disk(home.path):
        home.path.chmod(0o700)
        with filled(home.path):
            refused = run("up", "--detach")
            assert refused.returncode == 1
            # The checks name it, or where they take too long on a busy machine what could not be written does.
            assert re.search("has 0 MB left|No space left on device|not full", refused.stderr), refused.stderr
            assert "Errno" not in refused.stderr
            assert run("status").returncode == 3
        assert run("up", "--detach").returncode == 0
        with filled(home.path):
            assert run("down").stdout == f"Stopped engramq in {home.path}.\n"
            assert run("up", "--detach").returncode == 1
        assert run("up", "--detach").returncode == 0
        assert run("down").returncode == 0


@needs_root
def test_a_stack_on_a_disk_that_became_read_only_is_brought_down(home: Home, run: Command) -> None:
    assert run("up", "--detach").returncode == 0
    before = processes_of(home)
    with made_read_only(home.path):
        assert run("down").stdout == f"Stopped engramq in {home.path}.\n"
        assert not any(process.is_alive(each) for each in before)
