"""One supervisor per home: found or started, kept by holds, mending what dies, leaving nothing behind."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from engramq.deploy.local import settings
from engramq.deploy.local.embedded import process, redis
from engramq.deploy.local.embedded.process import ProcessIdentity
from engramq.deploy.local.home import DeployError, Home
from engramq.deploy.local.ownership import state_text
from engramq.deploy.local.stack_hold import open_channel
from engramq.deploy.local.supervisor.runner import last_lines, rotate_logs
from engramq.deploy.local.supervisor.stack import HttpDoor, Stack, SupervisedService, accepts, default_stack, stop_order
from engramq.deploy.local.supervisor.state import shut_down
from engramq.deploy.local.supervisor.supervise import Supervisor
from tests.deploy.conftest import Hold
from tests.deploy.fake_engramq import FAKE_STACK
from tests.deploy.helpers import BOUND_S, await_true, identity, is_stopped, service, status_of


def request(home: Home, text: bytes) -> dict[str, Any]:
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(BOUND_S)
        line.connect(str(home.supervisor_socket))
        line.sendall(text)
        answer: dict[str, Any] = json.loads(line.makefile("rb").readline())
        return answer


def test_a_supervisor_loads_little() -> None:
    program = "import sys, engramq.deploy.local.supervisor.__main__; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert not {"click", "msgspec", "engramq.schemas.settings"} & set(loaded)


@pytest.mark.promise("OP-2")
def test_many_clients_that_start_at_once_find_one_supervisor(home: Home, hold: Hold) -> None:
    with ThreadPoolExecutor(8) as starters:
        holds = list(starters.map(hold, ["stdio"] * 8))

    status = status_of(home)
    assert [each["kind"] for each in status["leases"]] == ["stdio"] * 8
    assert {each["restarts"] for each in status["services"]} == {0}
    for each in holds:
        each.close()


def test_the_stack_outlives_its_last_hold_by_the_linger_time_only(home: Home, hold: Hold) -> None:
    held = hold(ENGRAMQ_TEST_LINGER_S="0.3")
    children = [identity(each["pid"]) for each in status_of(home)["services"] if each["pid"]]
    held.close()
    await_true(lambda: not status_of(home)["leases"])
    next_one = hold()
    assert [process.is_alive(child) for child in children] == [True] * len(children)

    next_one.close()
    await_true(lambda: is_stopped(home))
    assert [process.is_alive(child) for child in children] == [False] * len(children)


def test_a_starter_that_never_takes_its_hold_leaves_no_stack_behind(
    home: Home, hold: Hold, environment: dict[str, str]
) -> None:
    client = hold(ENGRAMQ_TEST_LINGER_S="0")
    client.close()
    await_true(lambda: is_stopped(home))

    # Its own hold came and went while the services were starting.
    with socket.socket(socket.AF_UNIX) as hasty:
        subprocess.run(FAKE_STACK, env=environment | {"ENGRAMQ_TEST_LINGER_S": "0"}, check=True, timeout=BOUND_S)
        await_true(home.supervisor_socket.exists)
        hasty.connect(str(home.supervisor_socket))
        hasty.sendall(b'{"op": "lease", "kind": "command"}\n')
    await_true(lambda: is_stopped(home))


@pytest.mark.parametrize("name", ["worker", "gateway"])
def test_a_killed_child_is_back_and_the_others_never_notice(home: Home, hold: Hold, name: str) -> None:
    hold()
    before = {each["name"]: each["pid"] for each in status_of(home)["services"]}
    os.kill(before[name], signal.SIGKILL)
    await_true(lambda: service(home, name)["pid"] not in (None, before[name]))
    await_true(lambda: service(home, name)["state"] == "ready")

    after = {each["name"]: each["pid"] for each in status_of(home)["services"]}
    assert {each for each in after if after[each] != before[each]} == {name}
    assert service(home, name)["restarts"] == 1


def test_a_child_that_always_fails_is_reported_with_its_last_words(home: Home, hold: Hold) -> None:
    with pytest.raises(DeployError, match="this one always fails") as refusal:
        hold("command", "failing")
    assert refusal.value.code == "service_failing"

    # Others are not drawn into it.
    hold("stdio", "failing")
    failing = service(home, "failing")
    assert failing["state"] == "failing"
    assert "this one always fails" in "\n".join(failing["last_lines"])
    assert failing["restarts"] < 10


@pytest.mark.promise("OP-3")
def test_after_a_kill_of_the_supervisor_the_next_ends_its_orphans_and_goes_on(home: Home, hold: Hold) -> None:
    hold("command", "orphan").close()
    before = status_of(home)
    children = [identity(each["pid"]) for each in before["services"] if each["pid"]]
    os.kill(before["pid"], signal.SIGKILL)

    hold("command", "orphan")
    assert [process.is_alive(child) for child in children] == [False] * len(children)
    assert status_of(home)["pid"] != before["pid"]


def test_the_children_of_a_killed_supervisor_end_without_a_next_one(home: Home, hold: Hold) -> None:
    hold().close()
    before = status_of(home)
    children = [identity(each["pid"]) for each in before["services"] if each["pid"]]
    os.kill(before["pid"], signal.SIGKILL)

    await_true(lambda: not any(process.is_alive(child) for child in children))


def test_a_recorded_pid_that_is_another_program_by_now_is_left_alone(home: Home, hold: Hold) -> None:
    home.ensure()
    with subprocess.Popen(["/bin/sleep", "60"]) as bystander:
        home.state.write_text(state_text(home, {"worker": ProcessIdentity(bystander.pid, "long ago")}))
        hold().close()
        assert bystander.poll() is None
        bystander.kill()


@pytest.mark.parametrize("content", ["", "[]", "{", '{"worker": 1}', '{"worker": ["x", "y"]}', "null"])
def test_a_spoilt_state_file_is_no_obstacle(home: Home, hold: Hold, content: str) -> None:
    home.ensure()
    home.state.write_text(content)

    hold("stdio").close()
    assert service(home, "gateway")["state"] == "ready"


def test_children_that_need_the_same_stop_together(home: Home, hold: Hold) -> None:
    """One after the other each took its own time of a busy machine."""
    hold("command", "mutual")
    assert shut_down(home).was_running
    assert set((home.path / "stopped").read_text().split()) == {"this", "that", "gateway", "worker"}


@pytest.mark.long
def test_of_several_children_that_hear_no_signal_one_alone_takes_its_time(home: Home, hold: Hold) -> None:
    hold("command", "deaf")
    began = time.monotonic()
    assert shut_down(home).was_running
    assert time.monotonic() - began < 2 * 8.0


def test_a_whole_stack_that_hears_no_signal_is_down_within_30_seconds(home: Home) -> None:
    """Whichever of its services is the first to be killed: what stops after it has the bounds of one that hangs."""
    services = {service.name: service for service in default_stack(home, {}).services}
    groups = [[services[name] for name in names] for names in stop_order(list(services.values()))]

    def seconds(service: SupervisedService, *, in_haste: bool) -> float:
        wait_s = redis.REWRITE_BOUND_S if service.before_stop is not None and not in_haste else 0.0
        signals = service.hung_signals if in_haste else service.stop_signals
        return wait_s + sum(bound_s for number, bound_s in signals if number != signal.SIGKILL)

    for first, group in enumerate(groups):
        deaf_s = max(seconds(service, in_haste=False) for service in group)
        after_s = sum(max(seconds(service, in_haste=True) for service in later) for later in groups[first + 1 :])
        assert deaf_s + after_s < 30.0


def test_children_stop_in_the_reverse_of_their_order(home: Home, hold: Hold) -> None:
    held = hold()
    assert shut_down(home).was_running

    assert (home.path / "stopped").read_text().split() == ["gateway", "worker"]
    assert held.channel.receive(BOUND_S) == {"event": "stopping"}
    assert held.channel.receive(BOUND_S) is None
    assert not home.state.exists()


def test_other_data_are_refused_and_other_settings_named(home: Home, hold: Hold) -> None:
    held = hold("stdio")
    with pytest.raises(DeployError, match="ENGRAMQ_EMBEDDER"):
        hold("stdio", ENGRAMQ_EMBEDDER="hash")
    other = hold("stdio", ENGRAMQ_DEGREE_CAP="3", ENGRAMQ_NAMESPACE="x")

    command = hold("command", ENGRAMQ_EMBEDDER="hash")

    assert held.differing == []
    assert other.differing == ["ENGRAMQ_DEGREE_CAP"]
    assert hold("stdio", ENGRAMQ_WEBHOOKS_PRIVATE="0").differing == []  # the default, as the stack has it unsaid
    assert command.differing == ["ENGRAMQ_EMBEDDER"]
    assert len(status_of(home)["leases"]) == 4


def test_a_supervisor_whose_code_was_broken_meanwhile_says_so(home: Home, hold: Hold) -> None:
    hold("stdio", "broken")
    with pytest.raises(DeployError, match=r"unexpected end of file.*engramq down") as refused:
        hold("stdio", "broken", ENGRAMQ_DEGREE_CAP="3")
    assert refused.value.code == "code_changed"
    assert hold("stdio", "broken").differing == []


def test_who_names_no_embedder_takes_that_of_the_stack_that_runs(home: Home, hold: Hold) -> None:
    hold("stdio", ENGRAMQ_EMBEDDER="hash")
    for kind in ("stdio", "command", "worker"):
        assert hold(kind).differing == []
    with pytest.raises(DeployError, match="ENGRAMQ_EMBEDDER"):
        hold("stdio", ENGRAMQ_EMBEDDER=settings.DEFAULT_EMBEDDER)


def test_http_runs_only_while_somebody_holds_it_up(home: Home, hold: Hold) -> None:
    keeper = hold("stdio")
    assert "http" not in keeper.addresses
    up = hold("up")
    port = int(up.addresses["http"].rpartition(":")[2])
    socket.create_connection(("127.0.0.1", port), timeout=BOUND_S).close()
    up.close()

    await_true(lambda: status_of(home)["http"] is None)
    assert {each["name"] for each in status_of(home)["services"]} == {"migrate", "worker", "gateway"}
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=BOUND_S)


def test_http_is_back_with_a_gateway_that_was_killed(home: Home, hold: Hold) -> None:
    port = int(hold("up").addresses["http"].rpartition(":")[2])
    killed = service(home, "gateway")["pid"]
    os.kill(killed, signal.SIGKILL)
    await_true(lambda: service(home, "gateway")["pid"] not in (None, killed))
    await_true(lambda: accepts(socket.AF_INET, ("127.0.0.1", port)))
    assert not service(home, "gateway")["complaint"]


def test_what_the_gateway_refuses_of_http_is_said_and_the_others_go_on(home: Home, hold: Hold) -> None:
    hold("stdio")
    with pytest.raises(DeployError, match="There is no key"):
        hold("up", ENGRAMQ_AUTH="jwt")
    assert [each["kind"] for each in status_of(home)["leases"]] == ["stdio"]
    assert status_of(home)["http"] is None
    assert hold("up").addresses["http"]


@pytest.mark.promise("SE-3")
@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("ENGRAMQ_AUTH", "token"),
        ("ENGRAMQ_JWT", "audience=https://memory.example.org/mcp"),
        ("ENGRAMQ_PUBLIC_URL", "https://app.example.org"),
        ("ENGRAMQ_NAMESPACE", "acme"),
        ("ENGRAMQ_HOST", "::1"),
    ],
)
def test_who_asks_for_another_door_than_the_one_that_is_open_is_refused(
    home: Home, hold: Hold, name: str, asked: str
) -> None:
    first = hold("up")
    with pytest.raises(DeployError, match=f"{name}={asked}") as refusal:
        hold("up", **{name: asked})
    assert "engramq down" in refusal.value.recovery
    assert [each["kind"] for each in status_of(home)["leases"]] == ["up"]
    assert status_of(home)["http"] == first.addresses["http"]

    # Whoever asks for no HTTP, or for the same in other words, is welcome.
    assert hold("stdio", **{name: asked}).differing == []
    defaults = {"ENGRAMQ_AUTH": "none", "ENGRAMQ_HOST": "127.0.0.1", "ENGRAMQ_NAMESPACE": "default_user"}
    assert hold("up", ENGRAMQ_TOOLS="core", **defaults).differing == ["ENGRAMQ_TOOLS"]


def test_a_taken_port_is_named_and_the_others_go_on(home: Home, hold: Hold) -> None:
    hold("stdio")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        with pytest.raises(DeployError, match=f"{port} .*ENGRAMQ_PORT"):
            hold("up", ENGRAMQ_PORT=port)
    assert [each["kind"] for each in status_of(home)["leases"]] == ["stdio"]


@pytest.mark.parametrize(
    "text", [b"nonsense\n", b"[]\n", b'{"op": "fly"}\n', b'{"op": "lease", "kind": "x"}\n', b"x" * 300_000 + b"\n"]
)
def test_what_the_supervisor_does_not_understand_is_refused(home: Home, hold: Hold, text: bytes) -> None:
    hold("stdio")

    assert request(home, text)["error"]["code"] == "bad_request"
    assert service(home, "gateway")["restarts"] == 0


def test_a_hold_can_be_taken_while_the_last_stack_stops(home: Home, hold: Hold) -> None:
    hold()
    before = status_of(home)["pid"]
    channel = open_channel(home)
    assert channel is not None
    with contextlib.closing(channel):
        channel.send({"op": "stop"})
        hold()
    assert status_of(home)["pid"] != before


@pytest.mark.promise("OP-3")
def test_after_a_kill_of_everything_the_servers_are_back_and_no_lock_is_stale(home: Home, hold: Hold) -> None:
    hold("command", "servers").close()
    process.signal_tree(status_of(home)["pid"], signal.SIGKILL)

    held = hold("command", "servers")
    after = status_of(home)
    assert {each["name"]: each["state"] for each in after["services"]} == {
        "postgres": "ready", "redis": "ready", "migrate": "done", "worker": "ready", "gateway": "ready",
    }  # fmt: skip
    assert held.addresses["database_url"].startswith("postgresql://engramq_worker@")
    for name in ("postgres", "redis"):
        pid = service(home, name)["pid"]
        os.kill(pid, signal.SIGKILL)
        await_true(lambda name=name, pid=pid: service(home, name)["pid"] not in (None, pid))  # type: ignore[misc]
        await_true(lambda name=name: service(home, name)["state"] == "ready")  # type: ignore[misc]


def test_down_ends_a_supervisor_that_does_not_answer(home: Home, hold: Hold) -> None:
    hold()
    before = status_of(home)
    children = [identity(each["pid"]) for each in before["services"] if each["pid"]]
    os.kill(before["pid"], signal.SIGSTOP)
    program = (
        "import sys; from pathlib import Path; from engramq.deploy.local.home import Home\n"
        "from engramq.deploy.local.supervisor.state import shut_down\n"
        "shut_down(Home(Path(sys.argv[1])), answer_bound_s=0.5)"  # without the two minutes of one that stops
    )
    subprocess.run([sys.executable, "-c", program, str(home.path)], check=True, timeout=BOUND_S)

    assert process.identify(before["pid"]) is None
    assert [process.is_alive(child) for child in children] == [False] * len(children)


def test_logs_are_kept_within_their_size_while_their_writers_go_on(tmp_path: Path) -> None:
    log = tmp_path / "worker.log"
    with log.open("ab", buffering=0) as writer:
        writer.write(b"old\n" * 1000)
        rotate_logs(tmp_path, largest_bytes=1000)
        writer.write(b"new 1\n\nnew 2\n")

    assert log.read_bytes() == b"new 1\n\nnew 2\n"
    assert log.with_name("worker.log.1").stat().st_size == 4000
    assert last_lines(log) == ["new 1", "new 2"]
    assert last_lines(log, since=len(b"new 1\n")) == ["new 2"]
    assert last_lines(log, since=10**6) == ["new 1", "new 2"]
    assert last_lines(tmp_path / "missing.log") == []


@pytest.mark.parametrize(
    ("given", "last"),
    [({}, ["redis", "postgres"]), ({settings.REDIS_URL: "redis://127.0.0.1:6379/0"}, ["postgres"])],
    ids=["of_a_home", "with_another_redis"],
)
def test_servers_stop_after_what_uses_them(home: Home, given: dict[str, str], last: list[str]) -> None:
    assert stop_order(default_stack(home, given).services) == [["gateway"], ["worker"], last]


def test_the_worker_migrates_a_home_and_a_process_of_its_own_another_database(home: Home) -> None:
    def names(given: dict[str, str]) -> list[str]:
        return [service.name for service in default_stack(home, given).services]

    assert names({}) == ["postgres", "redis", "worker", "gateway"]
    assert names({settings.DATABASE_URL: "postgresql:///own"}) == ["redis", "migrate", "worker", "gateway"]


def test_http_is_opened_again_where_the_gateway_that_opened_it_has_gone_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    door, asked = HttpDoor(tmp_path / "socket"), []

    def ask(variables: dict[str, str] | None) -> None:
        asked.append(variables)
        if len(asked) == 1:
            door.forget()  # its gateway dies after its answer

    monkeypatch.setattr(door, "_ask", ask)
    door.choose({"ENGRAMQ_PORT": "0"})
    door.open()
    assert door.tend() == ""
    assert door.tend() == ""
    assert len(asked) == 2


def test_http_that_a_gateway_did_not_close_in_time_is_closed_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    door, asked = HttpDoor(tmp_path / "socket"), list[dict[str, str] | None]()

    def ask(variables: dict[str, str] | None) -> None:
        asked.append(variables)
        if len(asked) == 2:
            raise DeployError("not_answering", "The gateway does not serve HTTP: timed out.")

    monkeypatch.setattr(door, "_ask", ask)
    door.choose({"ENGRAMQ_PORT": "0"})
    door.open()
    door.close()
    assert asked[1:] == [None]
    assert door.tend() == ""
    assert door.tend() == ""
    assert asked[1:] == [None, None]


async def test_nobody_asks_the_gateway_to_close_http_while_the_stack_stops(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of `engramq down`: the gateway had gone by then, and each time the log warned that HTTP was not closed yet."""
    door = HttpDoor(home.gateway_socket)
    asked: list[dict[str, str] | None] = []
    monkeypatch.setattr(door, "_ask", asked.append)
    door.choose({"ENGRAMQ_PORT": "0"})
    door.open()
    supervisor = Supervisor(home, Stack((), {}, http=door), 0.0, -1)
    supervisor.add_hold("terminal", "up", 1)
    supervisor.stopping.set()
    await supervisor.drop_hold("terminal", linger=False)
    assert None not in asked
