"""What `engramq status` and doctor are told by a supervisor that hangs, that hangs up, and where there is none."""

import socket
from collections.abc import Iterator
from contextlib import closing
from threading import Thread

import pytest

from engramq.deploy.cli import status
from engramq.deploy.local import lease
from engramq.deploy.local.doctor import examination
from engramq.deploy.local.home import DeployError, Home
from engramq.schemas.checks import CheckName, failed
from engramq.schemas.command_line import ExitCode


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
    monkeypatch.setattr(lease, "_STATUS_S", 0.05)
    for ask in (lambda: status.look(environment), lambda: lease.ask_status(home)):
        with pytest.raises(DeployError) as caught:
            ask()
        assert (caught.value.code, caught.value.recovery) == ("not_answering", "engramq down ends it.")
    said = failed(CheckName.STACK, "The supervisor does not answer.", "engramq down ends it.")
    assert said in examination.examine(environment).checks


def test_one_that_hangs_up_and_none_mean_that_nothing_runs(
    home: Home, supervisor: socket.socket, environment: dict[str, str]
) -> None:
    def hang_up() -> None:
        supervisor.accept()[0].close()

    thread = Thread(target=hang_up)
    thread.start()
    assert lease.ask_status(home) is None
    thread.join(10)
    supervisor.close()
    assert lease.ask_status(home) is None
    assert status.look(environment) == ({"running": False, "home": str(home.path)}, ExitCode.NOT_RUNNING)
