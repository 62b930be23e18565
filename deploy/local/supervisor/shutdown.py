"""`engramq down`: stop a home's stack whoever uses it, also when its supervisor has been killed or does not answer."""

from __future__ import annotations

import os
import signal
import time
from enum import Enum, auto

from engramq.deploy.local.embedded import postgres, process
from engramq.deploy.local.embedded.servers import SERVER_SIGNALS, lock_home
from engramq.deploy.local.home import DeployError, Home, exists
from engramq.deploy.local.lease import connect
from engramq.deploy.local.supervisor.state import SUPERVISOR, end_predecessor, recorded

# More than all services' own bounds together.
STOP_BOUND_S = 120.0
# One that is just starting listens by then, and one that does not hang has answered.
ANSWER_BOUND_S = 5.0


class _Heard(Enum):
    """What became of the request to stop."""

    ABSENT = auto()  # there is nobody to ask
    DEAF = auto()  # no answer, as of one that hangs
    ANSWERED = auto()


def shut_down(home: Home, stop_bound_s: float = STOP_BOUND_S, answer_bound_s: float = ANSWER_BOUND_S) -> bool:
    """Stop everything that runs for this home and wait until it has gone.

    A supervisor that does not stop within `stop_bound_s` seconds of being asked, or holds the home's lock and does not
    answer for `answer_bound_s`, is ended by force.

    Returns:
        whether anything ran.

    Raises:
        DeployError: something could not be stopped; it is named. Or others may have written to the home.
    """
    if not exists(home.path):
        return False
    home.refuse_others()  # the file there names processes to be ended
    heard = _ask(home, stop_bound_s, answer_bound_s)
    asked = heard is not _Heard.ABSENT
    deadline = time.monotonic() + answer_bound_s
    while True:
        try:
            lock = lock_home(home)
            break
        except DeployError:
            if time.monotonic() > deadline:
                _end_supervisor(home, answer_bound_s if heard is _Heard.DEAF else stop_bound_s)
        # Perhaps it was only starting when it was asked first.
        heard = _ask(home, stop_bound_s, answer_bound_s)
        asked = asked or heard is not _Heard.ABSENT
        time.sleep(0.05)
    try:
        orphans = end_predecessor(home.state, SERVER_SIGNALS)
        postgres.Postgres(home).mend()
    finally:
        os.close(lock)
    return asked or bool(orphans)


def _ask(home: Home, stop_bound_s: float, answer_bound_s: float) -> _Heard:
    channel = connect(home)
    if channel is None:
        return _Heard.ABSENT
    heard = _Heard.DEAF
    try:
        channel.send({"op": "stop"})
        # It answers at once, and hangs up when all has stopped.
        while channel.receive(answer_bound_s if heard is _Heard.DEAF else stop_bound_s) is not None:
            heard = _Heard.ANSWERED
    except OSError:
        # Deaf or gone: the lock tells which.
        pass
    finally:
        channel.close()
    return heard


def _end_supervisor(home: Home, bound_s: float) -> None:
    who = recorded(home.state).get(SUPERVISOR)
    if who is None or not process.end(who, ((signal.SIGTERM, bound_s), (signal.SIGKILL, 5.0))):
        pid = f" (pid {who.pid})" if who is not None else ""
        raise DeployError("not_stopped", f"The supervisor of {home.path}{pid} does not stop.", "End it by hand.")
