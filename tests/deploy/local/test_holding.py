"""What `engramq up` becomes once all is said: small, with the same hold, and no signal is lost on the way."""

import socket
import subprocess
import sys

import pytest

from engramq.deploy.local.holding import release
from engramq.deploy.local.home import Home
from engramq.deploy.local.lines import Channel
from engramq.deploy.local.ownership import FOREGROUND_UP
from engramq.deploy.local.stack_hold import StackHold
from tests.deploy.helpers import BOUND_S

# Is registered as an `engramq up`, and becomes another program, with what `{before}` does just before.
BECOMES = """
import os, signal, socket, sys
from pathlib import Path
from engramq.deploy.local import holding
from engramq.deploy.local.home import Home
from engramq.deploy.local.lines import Channel
from engramq.deploy.local.ownership import register_up
from engramq.deploy.local.stack_hold import StackHold

{before}
holding.end_by_signals()
home = Home(Path(os.environ["ENGRAMQ_HOME"]))
with register_up(home, holding.role_of("up")) as lock:
    holding.become("up", dict(os.environ), StackHold(Channel(socket.socket(fileno=int(sys.argv[1]))), {{}}), lock)
    print("stays itself", os.get_inheritable(lock))
"""
# By a signal it ends itself.
LEAVES = """
execve = os.execve
os.execve = lambda *order: (os.kill(os.getpid(), signal.SIGTERM), execve(*order))
"""
# The other program is one that has loaded nothing of ours when it asks whether it is registered.
ASKS = """
import sys
if len(sys.argv) > 2:
    import os
    from pathlib import Path
    from engramq.deploy.local.home import Home
    from engramq.deploy.local.ownership import read_ownership
    ups = read_ownership(Home(Path(os.environ["ENGRAMQ_HOME"]))).ups.values()
    print([(up.role, up.process.pid == os.getpid()) for up in ups])
"""


def begin(environment: dict[str, str], descriptor: int, before: str) -> subprocess.Popen[str]:
    program = BECOMES.format(before=before)
    return subprocess.Popen(
        [sys.executable, "-P", "-c", program, str(descriptor)],
        env=environment, pass_fds=[descriptor], stdout=subprocess.PIPE, text=True,
    )  # fmt: skip


@pytest.mark.parametrize(("heard", "said"), [(b'{"event": "stopping"}\n', "Stopped by engramq down."), (b"", "Left.")])
def test_a_signal_that_comes_after_the_stack_has_gone_does_not_hide_why(
    heard: bytes, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    ours, theirs = socket.socketpair()
    theirs.sendall(heard)
    theirs.close()
    release(StackHold(Channel(ours), {}))
    assert capsys.readouterr().out == f"Stopping ...\n{said}\n"


def test_it_loads_little() -> None:
    program = "import sys, engramq.deploy.local.holding; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert not {"asyncio", "click", "msgspec"} & set(loaded)


def test_a_signal_on_the_way_gives_the_hold_back(home: Home, environment: dict[str, str]) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        leaving = begin(environment, theirs.fileno(), LEAVES)
        supervisor = Channel(ours)
        assert supervisor.receive(BOUND_S) == {"op": "release"}
        supervisor.send({"ok": True, "stopping": False})
        said, _ = leaving.communicate(timeout=BOUND_S)
    assert (leaving.returncode, said.splitlines()[0]) == (0, "Stopping ...")
    assert "Other clients still use this stack" in said


def test_a_down_on_the_way_finds_it(home: Home, environment: dict[str, str]) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        command = f"holding.HOLDING_COMMAND = (sys.executable, '-P', '-c', {ASKS!r})"
        said, _ = begin(environment, theirs.fileno(), command).communicate(timeout=BOUND_S)
    assert said == f"{[(FOREGROUND_UP, True)]}\n"


def test_where_the_other_program_cannot_be_loaded_it_stays_itself(home: Home, environment: dict[str, str]) -> None:
    """As while an upgrade replaces its modules."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        command = "holding.HOLDING_COMMAND = (sys.executable, '-P', '-m', 'engramq.that_is_gone')"
        said, _ = begin(environment, theirs.fileno(), command).communicate(timeout=BOUND_S)
    assert said == "stays itself False\n"


def test_a_connection_of_which_something_was_read_is_not_handed_over() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        channel = Channel(ours)
        assert channel.unread() == ours.fileno()
        theirs.sendall(b'{"ok": true}\n{"event": "stopping"}\n{"part')
        assert channel.receive(BOUND_S) == {"ok": True}
        assert channel.unread() is None
        assert channel.receive(BOUND_S) == {"event": "stopping"}
        assert channel.unread() is None
        theirs.sendall(b'": 1}\n')
        assert channel.receive(BOUND_S) == {"part": 1}
        assert channel.unread() == ours.fileno()
