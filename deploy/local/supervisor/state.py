"""Record in a file which processes a supervisor runs, so that those of a killed one can be ended.

`engramq down` (`shut_down`) stops a home's stack while clients use it, also if its supervisor hangs or is dead.
"""

import logging
import os
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from engramq.deploy.local import ownership
from engramq.deploy.local.embedded import postgres, process
from engramq.deploy.local.embedded.process import ProcessIdentity
from engramq.deploy.local.embedded.servers import SERVER_SIGNALS
from engramq.deploy.local.home import DeployError, Home, exists, replace_whole
from engramq.deploy.local.stack_hold import open_channel, raise_refusal, request

logger = logging.getLogger(__name__)

# More than all services' own bounds together.
STOP_BOUND_S = 120.0
# A supervisor that is just starting listens by then, and one that does not hang has answered.
ANSWER_BOUND_S = 5.0
# One that is just starting waits so long: who leaves closes the socket before the kernel takes the lock.
LOCK_BOUND_S = 1.5
# An `engramq up` whose stack was stopped has ended by then.
_LEAVE_S = 1.0
_END_S = 5.0  # for a process to end that has given its lock back
_SIGNALS: Sequence[tuple[int, float]] = ((signal.SIGTERM, 3.0), (signal.SIGKILL, 3.0))


class StateFile:
    """Names and identities of a supervisor's children, replaced whole at every change."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._processes: dict[str, ProcessIdentity] = {}

    def record(self, name: str, who: ProcessIdentity) -> None:
        """Write down a process before it runs."""
        self._processes[name] = who
        self._write()

    def forget(self, name: str) -> None:
        """A process has ended and was waited for."""
        self._processes.pop(name, None)
        self._write()

    def clear(self) -> None:
        """Nothing runs any more."""
        self._processes.clear()
        ownership.remove_leftover(self._home.state)

    def _write(self) -> None:
        try:
            replace_whole(self._home.state, ownership.state_text(self._home, self._processes))
        except OSError as error:
            # A full disk must not take the stack down; on Linux the kernel ends our children with us all the same.
            logger.warning("State file not written", extra={"path": str(self._home.state), "error": str(error)})


def end_predecessor(home: Home, signals: Mapping[str, Sequence[tuple[int, float]]] = SERVER_SIGNALS) -> list[str]:
    """End the children that a killed supervisor left, all at once, and remove the file.

    Blocks, within the signals' bounds. The caller holds the lock of the home. A pid that another program has by now is
    left alone: its start time differs. So are the processes that the file of a copied home names.

    Returns:
        the names of those that were still alive.
    """
    recorded, copied_from = ownership.read_recorded(home)
    if copied_from:
        logger.warning("State file of another home", extra={"path": str(home.state), "of": copied_from})
    orphans = {name: who for name, who in recorded.items() if who.pid != os.getpid() and process.is_alive(who)}
    process.end_all({who: signals.get(name, _SIGNALS) for name, who in orphans.items()})
    ownership.remove_leftover(home.state)
    return list(orphans)


@dataclass(frozen=True)
class Shutdown:
    """The effect of `shut_down`: whether anything ran; `copied_from` is the home whose state file lay here."""

    was_running: bool
    copied_from: str = ""


def shut_down(home: Home, answer_bound_s: float = ANSWER_BOUND_S) -> Shutdown:
    """Stop everything that runs for this home and wait until it has gone, what would start it again too.

    A supervisor that does not stop within STOP_BOUND_S of being asked, or holds the home's lock and does not answer for
    `answer_bound_s`, is ended by force.

    Raises DeployError naming what could not be stopped, and when others may have written to the home.
    """
    if not exists(home.path):
        return Shutdown(was_running=False)
    home.refuse_others()  # the files there name processes to be ended
    owned = ownership.read_ownership(home)
    copied_from = owned.copied_from
    answered = _ask_to_stop(home, answer_bound_s)
    was_there = answered is not None
    deadline = time.monotonic() + answer_bound_s
    while True:
        if not (home.lock.exists() or os.access(home.path, os.W_OK)):  # nobody can ever have started a stack
            return Shutdown(was_there, copied_from)
        try:
            lock = ownership.lock_home(home, "engramq down")
            break
        except DeployError as error:
            if error.code != "home_in_use":
                raise
            if time.monotonic() > deadline:
                _end_holder(home, STOP_BOUND_S if answered else answer_bound_s)
        # Perhaps it was only starting when it was asked first.
        answered = _ask_to_stop(home, answer_bound_s)
        was_there = was_there or answered is not None
        time.sleep(0.05)
    try:
        ups = _end_ups(home, answer_bound_s)
        orphans = end_predecessor(home)
        orphans += postgres.Postgres(home).mend()
    finally:
        os.close(lock)
    # What has let go of its lock still ends, with open files: a disk that it lies on cannot be unmounted until then.
    ending = [each.process for each in (owned.holder, *owned.ups.values()) if each is not None and each.is_of(home)]
    process.wait_until(lambda: not any(map(process.is_alive, ending)), _END_S)
    return Shutdown(was_there or bool(orphans) or ups, copied_from)


def _ask_to_stop(home: Home, answer_bound_s: float) -> bool | None:
    """Ask the supervisor to stop, and wait until it has; return whether it answered, None where there is none.

    Raises DeployError when it is another home's.
    """
    channel = open_channel(home)
    if channel is None:
        return None
    answered = False
    try:
        channel.send(request(home, "stop"))
        # It answers at once, and hangs up when all has stopped.
        while (answer := channel.receive(STOP_BOUND_S if answered else answer_bound_s)) is not None:
            raise_refusal(answer)
            answered = True
    except OSError:
        # It hangs or has gone: the lock says which.
        pass
    finally:
        channel.close()
    return answered


def _end_ups(home: Home, bound_s: float) -> bool:
    """End the `engramq up` that wait to start the stack again; return whether there were any.

    Those that had a hold know that the stack was stopped, and end by themselves.
    """
    process.wait_until(lambda: not ownership.read_ownership(home).ups, _LEAVE_S)
    ups = ownership.read_ownership(home).ups
    process.end_all({owner.process: ((signal.SIGTERM, bound_s), (signal.SIGKILL, bound_s)) for owner in ups.values()})
    for path in (*ups, *ownership.dead_ups(home)):
        ownership.remove_leftover(path)
    if ups:
        # A supervisor that one of them has just started gives up meanwhile.
        time.sleep(LOCK_BOUND_S)
    return bool(ups)


def _end_holder(home: Home, bound_s: float) -> None:
    """End the supervisor that holds the lock and does not stop. Raises DeployError when it is none, or stays."""
    holder = ownership.read_ownership(home).holder
    if holder is not None and (holder.role != ownership.SUPERVISOR or not holder.is_of(home)):
        raise DeployError(
            "home_in_use",
            f"{home.path} is in use by {ownership.who_holds(home)}, which is no stack of it.",
            "Wait for its end.",
        )
    if holder is None or not process.end(holder.process, ((signal.SIGTERM, bound_s), (signal.SIGKILL, 5.0))):
        pid = f" (pid {holder.process.pid})" if holder is not None else ""
        raise DeployError("not_stopped", f"The supervisor of {home.path}{pid} does not stop.", "End it by hand.")
