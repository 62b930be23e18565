"""What doctor finds on the machine: settings, home, disk, leftovers, ports; and `up`, which looks before it starts."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from engramq.deploy.cli import up as up_command
from engramq.deploy.local import stack_hold
from engramq.deploy.local.doctor import examination
from engramq.deploy.local.doctor.machine import descriptors_check, stack_checks
from engramq.deploy.local.embedded.process import ProcessIdentity
from engramq.deploy.local.home import Home
from engramq.deploy.local.ownership import state_text
from engramq.deploy.local.supervisor.state import shut_down
from engramq.schemas.checks import Check, CheckName, failed
from tests.deploy.fake_engramq import FAKE_STACK
from tests.deploy.helpers import BOUND_S, identity
from tests.deploy.local.doctor.conftest import Command, Environment, wrong

pytestmark = pytest.mark.timeout(120)

UP_S = 10.0


@contextmanager
def small_disk(folder: Path, megabytes: int) -> Iterator[None]:
    """Mount a small file system at a folder for as long as the block lasts."""
    options = ["-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(folder)]
    if subprocess.run(["mount", *options], capture_output=True, check=False).returncode:
        pytest.skip("takes the right to mount a file system")
    try:
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)


@pytest.fixture
def taken() -> Iterator[int]:
    """A port on which another program listens."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        yield other.getsockname()[1]


def test_nothing_is_wrong_where_nothing_was_started_yet(alone: Environment, doctor: Command) -> None:
    code, found = doctor(alone)
    assert code == 0
    assert {check.get("state", "ok") for name, check in found.items() if name != "done"} == {"ok"}


def test_a_stack_that_stops_meanwhile_is_looked_at_again(
    alone: Environment, doctor: Command, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stack_hold, "SUPERVISOR_COMMAND", FAKE_STACK)
    held, look = stack_hold.hold_stack(home, "stdio", alone, BOUND_S), examination._look

    def look_late(*_: Any) -> list[Check]:
        monkeypatch.setattr(examination, "_look", look)
        held.close()
        shut_down(home)
        return [failed(CheckName.GATEWAY, "It does not answer.")]

    monkeypatch.setattr(examination, "_look", look_late)
    _, found = doctor(alone)
    assert (found["stack"]["told"].startswith("Nothing runs here."), "gateway" in found) == (True, False)


def test_a_setting_that_cannot_be_read_is_named(alone: Environment, doctor: Command) -> None:
    code, found = doctor(alone | {"ENGRAMQ_DEGREE_CAP": "many"})
    assert code == 1
    assert "ENGRAMQ_DEGREE_CAP" in wrong(found, "settings")
    _, found = doctor(alone | {"ENGRAMQ_REDIS_URL": "redis://cache:many/0"})
    assert "ENGRAMQ_REDIS_URL" in wrong(found, "settings")


@pytest.mark.promise("CL-2")
def test_more_tokens_for_hooks_than_clients_show_are_named(alone: Environment, doctor: Command) -> None:
    _, found = doctor(alone | {"ENGRAMQ_HOOK_TOKENS": "3101"})
    assert found["settings"]["state"] == "degraded"
    assert "ENGRAMQ_HOOK_TOKENS is 3101, but clients cut what is longer than 3100" in wrong(found, "settings")
    _, found = doctor(alone | {"ENGRAMQ_HOOK_TOKENS": "3100"})
    assert found["settings"].get("state", "ok") == "ok"


def test_a_file_of_projects_that_hooks_cannot_read_is_named(alone: Environment, doctor: Command, home: Home) -> None:
    home.projects.write_text("[]")
    _, found = doctor(alone)
    assert f"{home.projects} is no list of projects. Mend it, or remove it" in wrong(found, "hooks")


@pytest.mark.promise("OP-4")
def test_a_port_that_is_taken_is_named(alone: Environment, doctor: Command, taken: int) -> None:
    _, found = doctor(alone | {"ENGRAMQ_PORT": str(taken)})
    assert f"127.0.0.1:{taken} is taken" in wrong(found, "port")
    assert "ENGRAMQ_PORT" in wrong(found, "port")


def test_an_address_that_is_not_of_this_machine_is_not_said_to_be_taken(
    environment: Environment, alone: Environment, doctor: Command
) -> None:
    elsewhere = {"ENGRAMQ_HOST": "192.0.2.1", "ENGRAMQ_PORT": "9", "ENGRAMQ_AUTH": "token"}  # of nobody (RFC 5737)
    _, found = doctor(alone | elsewhere)
    assert "192.0.2.1:9 cannot be listened on" in wrong(found, "port")
    assert "ENGRAMQ_HOST" in wrong(found, "port")
    _, found = doctor(environment | elsewhere)
    assert "No gateway answers at http://192.0.2.1:9" in wrong(found, "gateway")
    assert "port" not in found


@pytest.mark.promise("OP-4")
def test_no_gateway_is_missed_where_none_is_to_serve(environment: Environment, doctor: Command) -> None:
    """As in a pod of workers, whose gateways are pods of their own."""
    _, found = doctor(environment | {"ENGRAMQ_HOST": "0.0.0.0", "ENGRAMQ_PORT": "0", "ENGRAMQ_AUTH": "token"})
    assert {"gateway", "port"} & found.keys() == set()
    assert "database" in found


class _Alive(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"status":"alive"}')

    def log_message(self, *_: Any) -> None:
        pass


def test_a_gateway_is_known_whatever_proxy_this_user_has(alone: Environment, doctor: Command) -> None:
    with HTTPServer(("127.0.0.1", 0), _Alive) as gateway:
        serving = Thread(target=gateway.serve_forever)
        serving.start()
        try:
            behind = {"ENGRAMQ_PORT": str(gateway.server_port), "http_proxy": "http://127.0.0.1:1", "no_proxy": ""}
            _, found = doctor(alone | behind)
        finally:
            gateway.shutdown()
            serving.join()
    assert "Another gateway of engramq" in wrong(found, "port")


@pytest.mark.promise("OP-4")
def test_a_disk_that_is_full_is_named(home: Home, alone: Environment, doctor: Command) -> None:
    with small_disk(home.path, 200):
        _, found = doctor(alone)
        assert found["disk"]["state"] == "degraded"
        (home.path / "filler").write_bytes(b"x" * 190 * 2**20)
        _, found = doctor(alone)
        assert found["disk"]["state"] == "failed"
        assert "MB left" in wrong(found, "disk")
        assert "Make room" in wrong(found, "disk")


@pytest.mark.parametrize(("limit", "state"), [(-1, "ok"), (4096, "ok"), (255, "degraded"), (63, "failed")], ids=str)
def test_how_many_files_a_process_may_open_is_checked(limit: int, state: str) -> None:
    checks = stack_checks({"services": [], "descriptors": limit, "health": {}})
    assert descriptors_check(limit) in checks
    assert descriptors_check(limit).state == state


def test_a_home_that_others_can_write_to_is_closed(home: Home, alone: Environment, doctor: Command) -> None:
    (home.path / "mine").touch()
    home.path.chmod(0o777)
    _, found = doctor(alone)
    assert "Others can write" in wrong(found, "home")
    code, found = doctor(alone, "--fix")
    assert code == 0
    assert [line for line in found["done"] if line.startswith(f"Closed {home.path}")]
    assert home.path.stat().st_mode & 0o022 == 0


def test_what_a_dead_stack_left_is_named_and_removed(home: Home, alone: Environment, doctor: Command) -> None:
    home.ensure()
    home.gateway_socket.unlink(missing_ok=True)  # outside the home: a home of before may have had this path
    with socket.socket(socket.AF_UNIX) as gone:
        gone.bind(str(home.gateway_socket))
    home.state.write_text(state_text(home, {"worker": ProcessIdentity(999999, "1")}))
    _, found = doctor(alone)
    assert str(home.gateway_socket) in wrong(found, "leftovers")
    code, found = doctor(alone, "--fix")
    assert code == 0
    assert not home.gateway_socket.exists()
    assert not home.state.exists()
    assert found["done"] == [f"Removed {home.gateway_socket}, on which nobody listens."]


def test_a_process_without_its_supervisor_is_named_and_ended(home: Home, alone: Environment, doctor: Command) -> None:
    home.ensure()
    orphan = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    try:
        home.state.write_text(state_text(home, {"worker": identity(orphan.pid)}))
        _, found = doctor(alone)
        assert f"worker (pid {orphan.pid}) runs without its supervisor" in wrong(found, "leftovers")
        _, found = doctor(alone, "--fix")
        assert "Ended worker, whose supervisor is dead." in found["done"]
        assert orphan.wait(10)
    finally:
        orphan.kill()
        orphan.wait(10)


def test_a_server_without_its_supervisor_is_asked_to_shut_down_fast(
    home: Home, alone: Environment, doctor: Command
) -> None:
    home.ensure()
    # As PostgreSQL does: SIGTERM waits for every client, SIGINT does not.
    server = "import signal, sys; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); signal.pause()"
    with subprocess.Popen([sys.executable, "-c", server], stdout=subprocess.PIPE, start_new_session=True) as orphan:
        assert orphan.stdout is not None
        assert orphan.stdout.readline() == b"1\n"
        home.state.write_text(state_text(home, {"postgres": identity(orphan.pid)}))
        try:
            _, found = doctor(alone, "--fix")
            assert "Ended postgres, whose supervisor is dead." in found["done"]
            assert orphan.wait(10) != -signal.SIGKILL
        finally:
            orphan.kill()


@pytest.mark.skipif(os.geteuid() != 0, reason="takes the right to give files away")
def test_nothing_is_ended_that_the_home_of_another_names(home: Home, alone: Environment, doctor: Command) -> None:
    home.ensure()
    stranger = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    try:
        home.state.write_text(state_text(home, {"worker": identity(stranger.pid)}))
        os.chown(home.path, 12_345, 12_345)
        _, found = doctor(alone, "--fix")
        assert [line for line in found["done"] if line.startswith("Nothing cleared:")]
        assert stranger.poll() is None
    finally:
        os.chown(home.path, os.geteuid(), os.getegid())
        stranger.kill()
        stranger.wait(10)


@pytest.mark.parametrize(
    ("variables", "told"),
    [
        ({"ENGRAMQ_REDIS_URL": "redis://127.0.0.1:1/0"}, "Redis cannot be reached."),
        ({"ENGRAMQ_DATABASE_URL": "postgresql://ada:x@127.0.0.1:2/engramq"}, "PostgreSQL cannot be reached"),
        ({"ENGRAMQ_EMBEDDER": "e5"}, "engramq model build e5"),
    ],
)
def test_up_says_what_is_missing_within_seconds(alone: Environment, variables: Environment, told: str) -> None:
    done, took_s = up(alone | variables)
    assert (done.returncode, told in done.stderr) == (1, True), done.stderr
    assert took_s < UP_S
    assert not Path(alone["ENGRAMQ_HOME"], "supervisor.lock").exists(), "nothing was started"


@pytest.mark.promise("OP-10")
def test_up_says_all_that_is_missing_at_once(alone: Environment, taken: int) -> None:
    wrong_ones = {
        "ENGRAMQ_PORT": str(taken),
        "ENGRAMQ_REDIS_URL": "redis://127.0.0.1:1/0",
        "ENGRAMQ_DATABASE_URL": "postgresql://ada:x@127.0.0.1:2/engramq",
    }
    done, took_s = up(alone | wrong_ones)
    assert done.returncode == 1
    assert all(words in done.stderr for words in ("is taken", "Redis cannot be reached", "PostgreSQL cannot be"))
    assert took_s < UP_S


def test_a_machine_that_is_too_busy_for_the_checks_is_no_reason_not_to_start(
    alone: Environment, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(up_command, "CHECKS_BOUND_S", 0.01)  # less than a process takes to start
    up_command.require_fit(alone)
    assert "goes on without them. See: engramq doctor" in capsys.readouterr().err


def up(environment: Environment) -> tuple["subprocess.CompletedProcess[str]", float]:
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-P", "-m", "engramq", "up"],
        env=environment, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    return done, time.monotonic() - began
