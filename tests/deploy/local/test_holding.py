"""What `engramq up` becomes once all is said: small, with the same hold, and no signal is lost on the way."""

import socket
import subprocess
import sys

from engramq.deploy.local.home import Home
from engramq.deploy.local.lines import Channel
from tests.deploy.helpers import BOUND_S

# Ends itself by a signal just before it becomes the other program.
LEAVES = """
import os, signal, socket, sys
from engramq.deploy.local import holding
from engramq.deploy.local.lines import Channel
from engramq.deploy.local.stack_hold import StackHold

execve = os.execve
os.execve = lambda *order: (os.kill(os.getpid(), signal.SIGTERM), execve(*order))
holding.end_by_signals()
holding.become("up", dict(os.environ), StackHold(Channel(socket.socket(fileno=int(sys.argv[1]))), {}))
"""


def test_it_loads_little() -> None:
    program = "import sys, engramq.deploy.local.holding; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert not {"asyncio", "click", "msgspec"} & set(loaded)


def test_a_signal_on_the_way_gives_the_hold_back(home: Home, environment: dict[str, str]) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        leaving = subprocess.Popen(
            [sys.executable, "-P", "-c", LEAVES, str(theirs.fileno())],
            env=environment, pass_fds=[theirs.fileno()], stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        supervisor = Channel(ours)
        assert supervisor.receive(BOUND_S) == {"op": "release"}
        supervisor.send({"ok": True, "stopping": False})
        said, _ = leaving.communicate(timeout=BOUND_S)
    assert (leaving.returncode, said.splitlines()[0]) == (0, "Stopping ...")
    assert "Other clients still use this stack" in said


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
