"""Homes that somebody copied, moved or emptied: each command says how it is, and nobody has to help."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from threading import Event, Thread

import pytest

from engramq.deploy.local import ownership
from engramq.deploy.local.embedded import process
from engramq.deploy.local.embedded.redis import Redis
from engramq.deploy.local.home import DeployError, Home
from engramq.deploy.local.ownership import Ownership, lock_home, read_ownership, who_holds
from engramq.deploy.local.stack_hold import hold_stack
from engramq.deploy.local.supervisor.state import shut_down
from tests.deploy.helpers import BOUND_S, await_true, identity, service, status_of
from tests.deploy.local.conftest import Command, processes_of

pytestmark = [pytest.mark.timeout(120), pytest.mark.long]


@pytest.mark.parametrize("how", ["-a", "-al", "-as"], ids=["files", "hard_links", "symbolic_links"])
def test_a_copy_of_a_running_home_leaves_the_original_alone(detached_home: Home, run: Command, how: str) -> None:
    before = processes_of(detached_home)
    copy = Home(Path(f"{detached_home.path}-copy"))
    for command in (("status",), ("down",), ("doctor", "--fix")):
        subprocess.run(["cp", how, detached_home.path, copy.path], check=True)
        try:
            run(*command, ENGRAMQ_HOME=str(copy.path))
            assert [process.is_alive(each) for each in before] == [True] * len(before), command
            assert {each["restarts"] for each in status_of(detached_home)["services"]} == {0}, command
        finally:
            shutil.rmtree(copy.path)


def test_a_copied_home_says_of_which_it_is_a_copy_and_starts_a_stack_of_its_own(
    detached_home: Home, run: Command
) -> None:
    copy = Home(Path(f"{detached_home.path}-copy"))
    shutil.copytree(detached_home.path, copy.path, ignore=shutil.ignore_patterns("run"))
    try:
        place = {"ENGRAMQ_HOME": str(copy.path)}
        assert f"copied with the home {detached_home.path}" in run("status", **place).stdout
        stopped = run("down", **place)
        assert f"{copy.path} is a copy of {detached_home.path}" in stopped.stderr
        assert stopped.stdout == f"engramq is not running in {copy.path}.\n"
        assert run("up", "--detach", **place).returncode == 0
        assert status_of(copy)["pid"] != status_of(detached_home)["pid"]
    finally:
        run("down", ENGRAMQ_HOME=str(copy.path))
        shutil.rmtree(copy.path)


def test_a_home_that_was_moved_is_still_the_same(detached_home: Home, run: Command) -> None:
    moved = Home(Path(f"{detached_home.path}-moved"))
    before = processes_of(detached_home)
    os.kill(before[0].pid, signal.SIGSTOP)  # so that its stack does not end by itself
    detached_home.path.rename(moved.path)
    try:
        owned = read_ownership(moved)
        assert owned.holder is not None
        assert owned.holder.process == before[0]
        assert run("down", ENGRAMQ_HOME=str(moved.path)).returncode == 0
        assert not any(process.is_alive(each) for each in before)
    finally:
        moved.path.rename(detached_home.path)


def test_a_stack_ends_with_its_home(detached_home: Home) -> None:
    before = processes_of(detached_home)
    shutil.rmtree(detached_home.path, ignore_errors=True)
    await_true(lambda: not any(process.is_alive(each) for each in before[1:-1]))
    detached_home.path.mkdir(exist_ok=True)  # which the fixture removes


def test_a_home_that_was_removed_is_not_made_again(detached_home: Home) -> None:
    supervisor, *_, holder = processes_of(detached_home)
    os.kill(supervisor.pid, signal.SIGSTOP)
    shutil.rmtree(detached_home.path, ignore_errors=True)
    os.kill(supervisor.pid, signal.SIGKILL)
    await_true(lambda: not process.is_alive(holder))
    assert not detached_home.path.exists()
    detached_home.path.mkdir()  # which the fixture removes


def test_a_lock_that_was_removed_is_taken_again(detached_home: Home) -> None:
    detached_home.lock.unlink()
    await_true(lambda: read_ownership(detached_home).is_held)
    assert who_holds(detached_home) == f"the supervisor (pid {status_of(detached_home)['pid']})"


@pytest.mark.parametrize("what", ["supervisor.sock", "gateway.sock", "run"])
def test_sockets_that_somebody_removes_are_made_again(detached_home: Home, what: str) -> None:
    before = status_of(detached_home)["pid"]
    if what == "run":
        shutil.rmtree(detached_home.run)
    else:
        (detached_home.run / what).unlink()
    await_true(lambda: detached_home.supervisor_socket.exists() and detached_home.gateway_socket.exists())
    await_true(lambda: service(detached_home, "gateway")["state"] == "ready")
    assert status_of(detached_home)["pid"] == before


@pytest.mark.parametrize("folder", ["run", "run-pg", "logs"])
def test_servers_whose_sockets_somebody_removes_are_back(home: Home, run: Command, folder: str) -> None:
    assert run("up", "--detach", FAKE_SERVICES="servers").returncode == 0
    before = {each["name"]: each["pid"] for each in status_of(home)["services"]}
    shutil.rmtree(home.path / folder)
    name = "postgres" if folder == "run-pg" else "redis"
    if folder == "logs":
        os.kill(before["redis"], signal.SIGKILL)

    def is_back() -> bool:
        if not home.supervisor_socket.exists():
            return False
        found = service(home, name)
        return bool(found["state"] == "ready" and found["pid"] != before[name])

    await_true(is_back)
    assert Redis(home).is_ready()


def test_down_waits_for_what_has_let_go_of_its_lock_and_still_ends(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the disk of a home could not be unmounted yet."""
    home.ensure()
    program = (
        "import sys; from pathlib import Path; from engramq.deploy.local.home import Home\n"
        "from engramq.deploy.local.ownership import DETACHED_UP, register_up\n"
        "with register_up(Home(Path(sys.argv[1])), DETACHED_UP):\n    print(flush=True); input()\n"
        "print(flush=True); input()"
    )
    alive: list[bool] = []
    was_read = Event()

    def read(home: Home) -> Ownership:
        owned = read_ownership(home)
        was_read.set()
        return owned

    monkeypatch.setattr(ownership, "read_ownership", read)
    with subprocess.Popen(
        [sys.executable, "-c", program, str(home.path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as up:
        assert up.stdin is not None
        assert up.stdout is not None
        up.stdout.readline()
        ending = identity(up.pid)
        down = Thread(target=lambda: alive.append((shut_down(home), process.is_alive(ending))[1]))
        down.start()
        assert was_read.wait(BOUND_S)
        up.stdin.write("\n")
        up.stdin.flush()
        up.stdout.readline()
        process.wait_until(lambda: not down.is_alive(), 0.5)  # it would be over by now if it did not wait
        up.stdin.write("\n")
        up.stdin.flush()
        down.join()
    assert alive == [False]


def test_who_has_the_lock_is_named_with_its_process(home: Home, run: Command) -> None:
    home.ensure()
    lock = lock_home(home, "engramq backup")
    try:
        with pytest.raises(DeployError, match=f"in use by engramq backup \\(pid {os.getpid()}\\)"):
            lock_home(home, "engramq restore")
        with pytest.raises(DeployError, match="engramq backup"):
            hold_stack(home, "command", {"ENGRAMQ_HOME": str(home.path)}, 0.01)
        with pytest.raises(DeployError, match="no stack of it"):
            shut_down(home, answer_bound_s=0.1)
    finally:
        os.close(lock)


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"process": 1}', '{"process": ["x", "y"], "home": "/"}', "\0" * 64]
)
def test_a_lock_that_says_nothing_is_a_lock_all_the_same(home: Home, content: str) -> None:
    home.ensure()
    lock = lock_home(home, "a test")
    home.lock.write_text(content)
    try:
        assert who_holds(home) == "another process"
    finally:
        os.close(lock)
    os.close(lock_home(home, "another test"))
    assert who_holds(home) == ""
