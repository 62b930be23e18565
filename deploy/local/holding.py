"""Hold a stack until it is stopped on purpose, and start it again whenever it is lost: what `engramq up` does at last.

It stays for weeks, so once all is said `engramq up` becomes `python -m engramq.deploy.local.holding KIND HOLD LOCK`,
which loads a third of its modules: 10 MB, not 21. The process stays the same, and it keeps two descriptors: of the
connection that is the hold, and of the lock by which `engramq down` finds it.
"""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from types import FrameType
from typing import NoReturn

from engramq.deploy.local.home import DeployError, Home, home_from
from engramq.deploy.local.lines import Channel
from engramq.deploy.local.ownership import DETACHED_UP, FOREGROUND_UP, register_up
from engramq.deploy.local.stack_hold import DETACHED, READY_BOUND_S, StackHold, hold_stack

STOP_BOUND_S = 120.0
# The command that `engramq up` becomes. Tests put their own in its place.
HOLDING_COMMAND: tuple[str, ...] = (sys.executable, "-P", "-m", "engramq.deploy.local.holding")
# Between two starts that failed, each twice as long as the one before.
FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 8.0
_ENDING = (signal.SIGTERM, signal.SIGINT)


class Left(BaseException):
    """The user wants `engramq up` to end."""


def end_by_signals() -> None:
    """Have the signals that end this process raise Left, those too that came while `become` kept them waiting."""
    for number in _ENDING:
        signal.signal(number, _leave)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)


def become(kind: str, environment: Mapping[str, str], hold: StackHold, lock: int) -> None:
    """Go on as a process that does nothing but stay; return where that cannot be, so that the caller stays itself.

    `lock`: the descriptor that `register_up` gave.
    """
    if (connection := hold.channel.unread()) is None or not _can_be_loaded(kind, environment):
        return
    sys.stdout.flush()
    order = [*HOLDING_COMMAND, kind, str(connection), str(lock)]
    signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    try:
        for descriptor in (connection, lock):
            os.set_inheritable(descriptor, True)
        os.execve(order[0], order, environment)  # noqa: S606 - our own
    except OSError:  # the installation was replaced
        for descriptor in (connection, lock):
            os.set_inheritable(descriptor, False)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)


def _can_be_loaded(kind: str, environment: Mapping[str, str]) -> bool:
    """Say whether the program can be loaded: an upgrade may be replacing its modules at this moment."""
    tried = subprocess.run([*HOLDING_COMMAND, kind], env=environment, capture_output=True, check=False)
    return tried.returncode == 0


def role_of(kind: str) -> str:
    """Return the name by which `engramq down` and sentences know an `engramq up` of that kind."""
    return DETACHED_UP if kind == DETACHED else FOREGROUND_UP


def stay(home: Home, kind: str, environment: dict[str, str], holds: list[StackHold]) -> None:
    """Hold the stack until it is stopped on purpose, and start it again whenever that is lost."""
    while _was_lost(holds[0]):
        say("The supervisor was killed. Starting it again ...")
        holds[0].close()
        try:
            holds[0] = _regain(home, kind, environment)
        except Left:
            say("Stopped.")
            return
        say("Running again.")


def release(hold: StackHold) -> None:
    """Give the hold back without lingering and wait for the end, if ours was the last."""
    say("Stopping ...")
    try:
        try:
            hold.channel.send({"op": "release"})
        except ConnectionError:  # it has gone, and may have said why before the signal came
            if _was_lost(hold):
                say("Left.")
            return
        answer = hold.channel.receive(STOP_BOUND_S)
        while answer is not None and "stopping" not in answer:
            answer = hold.channel.receive(STOP_BOUND_S)
        if answer is not None and not answer["stopping"]:
            say("Other clients still use this stack: it stays until the last has left (engramq down stops it).")
            return
        while hold.channel.receive(STOP_BOUND_S) is not None:
            pass
        say("Stopped.")
    except (OSError, Left):
        # Gone, or told twice to hurry: the connection's end releases the hold just as well.
        say("Left.")
    finally:
        hold.close()


def _was_lost(hold: StackHold) -> bool:
    """Wait for the end of the stack; False when somebody stopped it on purpose."""
    stopping = False
    while True:
        try:
            event = hold.channel.receive(3600.0)
        except TimeoutError:
            continue
        if event is None:
            if stopping:
                say("Stopped by engramq down.")
            return not stopping
        stopping = stopping or event.get("event") == "stopping"


def _regain(home: Home, kind: str, environment: dict[str, str]) -> StackHold:
    """Start the stack again, as often as it takes, until `engramq down` or Ctrl-C ends this process."""
    pause_s, said = FIRST_PAUSE_S, ""
    while True:
        if not home.path.is_dir():  # it was removed, and is not to come back as an empty one
            raise Left
        try:
            return hold_stack(home, kind, environment, READY_BOUND_S)
        except (DeployError, OSError) as problem:
            if str(problem) != said:
                said = str(problem)
                say(f"Not started: {said} Trying again until engramq down.")
        time.sleep(pause_s)
        pause_s = min(pause_s * 2, LONGEST_PAUSE_S)


def say(text: str) -> None:
    """Print a line."""
    with contextlib.suppress(OSError):  # the log's disk is full: that must not end what starts the stack again
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()


def _leave(_number: int, _frame: FrameType | None) -> NoReturn:
    raise Left


def main(kind: str, connection: str = "", lock: str = "") -> int:
    """Stay with the hold and the lock that `become` has handed over; without them, as when it tries, do nothing."""
    if not connection:
        return 0
    environment = dict(os.environ)
    holds = [StackHold(Channel(socket.socket(fileno=int(connection))), {})]
    try:
        home = home_from(environment)
        with register_up(home, role_of(kind), int(lock)):
            end_by_signals()
            stay(home, kind, environment, holds)
    except Left:
        release(holds[0])
    except DeployError as problem:
        sys.stderr.write(f"engramq: {problem}\n")
        return problem.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
