"""What `engramq status` prints, and what it is told by a supervisor that hangs, hangs up, or is not there."""

import socket
from collections.abc import Iterator
from contextlib import closing
from threading import Thread
from typing import Any

import pytest

from engramq.deploy.cli import status
from engramq.deploy.cli.status import table
from engramq.deploy.local import stack_hold
from engramq.deploy.local.doctor import examination
from engramq.deploy.local.doctor.machine import STARTED_S, hang_mend
from engramq.deploy.local.home import DeployError, Home
from engramq.gateway.overview import queue_check
from engramq.schemas.checks import CheckName, MailboxState, failed
from engramq.schemas.command_line import ExitCode
from engramq.schemas.vocabulary import WorkerKind


def found(**told: Any) -> dict[str, Any]:
    return {"running": True, "addresses": {}, "health": {"status": "ready"}} | told


def lines(**told: Any) -> list[str]:
    return table(found(**told)).splitlines()


@pytest.mark.parametrize(
    ("namespaces", "pending", "line"),
    [
        (0, 0, None),
        (1, 0, "  upkeep has work left in 1 namespace"),
        (1, 1, "  upkeep has work left in 1 namespace: 1 memory without a vector"),
        (2, 1_200, "  upkeep has work left in 2 namespaces: 1,200 memories without a vector"),
        (2, 10_000, "  upkeep has work left in 2 namespaces: 10,000 memories or more without a vector"),
    ],
)
def test_what_is_left_for_upkeep_is_counted(namespaces: int, pending: int, line: str | None) -> None:
    shown = lines(unfinished={"namespaces": namespaces, "pending": pending})
    assert [item for item in shown if "upkeep" in item] == ([line] if line else [])


@pytest.mark.parametrize(
    ("rebuilding", "line"),
    [
        (1, "  words made anew for another language: 1 namespace is left"),
        (2, "  words made anew for another language: 2 namespaces are left"),
    ],
)
def test_namespaces_whose_words_are_made_anew_are_counted(rebuilding: int, line: str) -> None:
    assert lines(rebuilding=rebuilding)[-1] == line


@pytest.mark.parametrize(
    ("figures", "line"),
    [
        ({"due": 0, "waiting": 0, "oldest_s": 0.0, "dead": 0}, None),
        ({"due": 3, "waiting": 3, "oldest_s": 2.0, "dead": 0}, None),
        (
            {"due": 0, "waiting": 1, "oldest_s": 40.2, "dead": 0},
            "  webhooks: 1 message not taken yet, the oldest 40 s old",
        ),
        (
            {"due": 1, "waiting": 2, "oldest_s": 4_000.0, "dead": 2},
            "  webhooks: 2 messages not taken yet, the oldest 4,000 s old, 2 messages given up (engramq webhook dead)",
        ),
    ],
)
def test_what_webhooks_have_not_taken_is_told_when_it_is_old_or_given_up(
    figures: dict[str, float], line: str | None
) -> None:
    assert [item for item in lines(webhooks=figures) if "webhook" in item] == ([line] if line else [])


@pytest.mark.parametrize(("total", "far"), [(1, "0 of 1 memory"), (2_000, "0 of 2,000 memories")])
def test_a_change_of_model_is_counted(total: int, far: str) -> None:
    change = {"state": "running", "model": "minilm", "done": 0, "total": total, "per_s": None, "problem": None}
    assert lines(reembedding=change)[-1] == f"  embedding anew for minilm: {far}, running"


def test_a_database_that_cannot_be_asked_is_not_called_a_change_of_model() -> None:
    unknown = {"state": "unknown", "problem": "PostgreSQL cannot be reached."}
    assert lines(reembedding=unknown)[-1] == "  work in the background: unknown: PostgreSQL cannot be reached."


def test_what_is_wrong_stands_under_the_health_with_its_mend() -> None:
    check = {"name": "worker", "state": "degraded", "told": "No worker of the kind edges lives.", "mend": "Start one."}
    mailbox = {"kind": "edges", "depth": 1, "oldest_s": 0.5, "per_s": None, "workers": 0, "dead": 0}
    health = {"status": "degraded", "checks": [{"name": "redis", "state": "ok"}, check], "mailboxes": [mailbox]}
    heading, state, wrong, *rest = lines(health=health)
    assert heading == "engramq on servers of the environment"
    assert state == "  health              degraded"
    assert wrong == "    worker: No worker of the kind edges lives. Start one."
    assert [item.split()[0] for item in rest] == ["mailbox", "edges"]


@pytest.mark.parametrize(
    ("state", "uptime_s", "told"),
    [
        ("ready", 60.0, " If it hangs: `kill -9 7`; it is started anew at once."),
        ("ready", STARTED_S - 1, ""),
        ("starting", 60.0, ""),
    ],
)
def test_who_has_only_just_been_started_is_not_to_be_killed(state: str, uptime_s: float, told: str) -> None:
    worker = {"name": "worker", "state": state, "pid": 7, "uptime_s": uptime_s}
    assert hang_mend({"services": [worker]}, "worker") == told
    assert hang_mend({"services": [worker]}, "gateway") == ""


@pytest.mark.parametrize(
    ("depth", "told"),
    [
        (1, "The one command of edges has waited for 31 s."),
        (1_200, "The oldest of 1,200 commands of edges has waited for 31 s."),
    ],
)
def test_commands_that_wait_are_counted(depth: int, told: str) -> None:
    stuck = MailboxState(kind=WorkerKind.EDGES, depth=depth, oldest_s=31, per_s=None, dead=0, workers=1)
    assert queue_check([stuck]).told == told


@pytest.fixture
def supervisor(home: Home) -> Iterator[socket.socket]:
    """A socket in a supervisor's place, where nobody answers."""
    home.ensure()
    with closing(socket.socket(socket.AF_UNIX)) as listening:
        listening.bind(str(home.supervisor_socket))
        listening.listen()
        yield listening
    home.supervisor_socket.unlink()


def test_one_that_hangs_is_named_with_what_ends_it(
    home: Home, supervisor: socket.socket, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stack_hold, "_STATUS_S", 0.05)
    for ask in (lambda: status.look(environment), lambda: stack_hold.ask_status(home)):
        with pytest.raises(DeployError) as caught:
            ask()
        assert (caught.value.code, caught.value.recovery) == ("not_answering", "engramq down ends it.")
    hangs = failed(CheckName.STACK, "The supervisor does not answer.", "engramq down ends it.")
    assert hangs in examination.examine(environment).checks


def test_one_that_hangs_up_and_none_mean_that_nothing_runs(
    home: Home, supervisor: socket.socket, environment: dict[str, str]
) -> None:
    def hang_up() -> None:
        supervisor.accept()[0].close()

    thread = Thread(target=hang_up)
    thread.start()
    assert stack_hold.ask_status(home) is None
    thread.join(10)
    supervisor.close()
    assert stack_hold.ask_status(home) is None
    assert status.look(environment) == ({"running": False, "home": str(home.path)}, ExitCode.NOT_RUNNING)
