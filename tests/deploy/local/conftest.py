"""A stack of a home that is copied, moved, emptied or full, and the commands over it."""

import contextlib
import subprocess
from collections.abc import Callable, Iterator

import pytest

from engramq.deploy.local.embedded.process import ProcessIdentity
from engramq.deploy.local.home import DeployError, Home
from engramq.deploy.local.supervisor.state import shut_down
from tests.deploy.helpers import engramq, identity, status_of

Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(environment: dict[str, str]) -> Command:
    """Run a command over the fake stack, with other variables where they are given."""

    def command(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        done = engramq(environment | variables, *arguments, bound_s=60.0)
        assert "Traceback" not in done.stderr
        return done

    return command


@pytest.fixture
def detached_home(home: Home, run: Command) -> Iterator[Home]:
    """A home whose stack stays until `engramq down`."""
    assert run("up", "--detach").returncode == 0
    yield home
    with contextlib.suppress(DeployError):
        shut_down(home)


def processes_of(home: Home) -> list[ProcessIdentity]:
    status = status_of(home)
    pids = [status["pid"], *(each["pid"] for each in status["services"]), *(each["pid"] for each in status["leases"])]
    return [identity(pid) for pid in pids if pid]
