"""`engramq down`: stop a home's stack whoever uses it, also when its supervisor has been killed or does not answer."""

from __future__ import annotations

import os
import signal
import time

from deploy.client import connect
from deploy.embedded import postgres, process, redis
from deploy.embedded.servers import lock_home
from deploy.home import DeployError, Home
from deploy.supervisor.state import SUPERVISOR, end_predecessor, recorded

# More than all services' own bounds together.
STOP_BOUND_S = 90.0
# One that is just starting listens by then.
ANSWER_BOUND_S = 5.0
_FORCE = ((signal.SIGTERM, STOP_BOUND_S), (signal.SIGKILL, 5.0))


def shut_down(home: Home) -> bool:
    """Stop everything that runs for this home and wait until it has gone.

    Returns:
        whether anything ran.

    Raises:
        DeployError: something could not be stopped; it is named.
    """
    if not home.path.exists():
        return False
    asked = _ask(home)
    deadline = time.monotonic() + ANSWER_BOUND_S
    while True:
        try:
            lock = lock_home(home)
            break
        except DeployError:
            if time.monotonic() > deadline:
                _end_supervisor(home)
        # Perhaps it was only starting when it was asked first.
        asked = _ask(home) or asked
        time.sleep(0.05)
    try:
        orphans = end_predecessor(home.state, {"postgres": postgres.STOP_SIGNALS, "redis": redis.STOP_SIGNALS})
        postgres.Postgres(home).mend()
    finally:
        os.close(lock)
    return asked or bool(orphans)


def _ask(home: Home) -> bool:
    channel = connect(home)
    if channel is None:
        return False
    try:
        channel.send({"op": "stop"})
        # It hangs up when all has stopped.
        while channel.receive(STOP_BOUND_S) is not None:
            pass
    except OSError:
        # Deaf or gone: the lock tells which.
        pass
    finally:
        channel.close()
    return True


def _end_supervisor(home: Home) -> None:
    who = recorded(home.state).get(SUPERVISOR)
    if who is None or not process.end(who, _FORCE):
        pid = f" (pid {who.pid})" if who is not None else ""
        raise DeployError("not_stopped", f"The supervisor of {home.path}{pid} does not stop.", "End it by hand.")
