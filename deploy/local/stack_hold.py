"""Find the home's supervisor or start one, and hold its stack: a client's half of its socket.

Imported by the stdio relay: standard library only. Every function blocks, within a bound.
"""

import os
import socket
import sys
import time
from collections.abc import Mapping
from typing import Any

from engramq.deploy.local import settings
from engramq.deploy.local.home import SEE_DISK, DeployError, Home
from engramq.deploy.local.lines import Channel
from engramq.deploy.local.settings import with_embedder

# Between two tries to connect, while a supervisor is coming up or going down.
_RETRY_S = 0.01
# A supervisor that lost the race for the lock is gone by then; until then another one is not worth starting.
_RESTART_S = 2.0
_START_BOUND_S = 20.0
# A first start makes the database cluster and loads the model; slow disks take their time.
READY_BOUND_S = 180.0
# The kinds of holds with which HTTP is served: an `engramq up`, and one that stays without a terminal.
UP, DETACHED = SERVING = ("up", "detached")
# A supervisor asks a gateway for up to 9 s, which asks a worker, and then reads all processes' memory.
_STATUS_S = 15.0

# The command that starts a supervisor. Tests put their own in its place.
SUPERVISOR_COMMAND: tuple[str, ...] = (sys.executable, "-P", "-m", "engramq.deploy.local.supervisor")


class StackHold:
    """The right to a running stack, for as long as it is not closed and this process lives."""

    def __init__(self, channel: Channel, answer: dict[str, object]) -> None:
        self.channel = channel
        differing = answer.get("differing")
        # Variables that the running stack was started with other values of.
        self.differing: list[str] = differing if isinstance(differing, list) else []
        self.other_values = ""
        if self.differing:
            names = ", ".join(self.differing)
            self.other_values = f"the running stack has other values of {names}; engramq down lets them change."
        self.addresses = {name: value for name, value in answer.items() if isinstance(value, str)}

    def close(self) -> None:
        """Give it back; the stack stops after lingering if it was the last."""
        self.channel.close()


def open_channel(home: Home) -> Channel | None:
    """A connection to the home's supervisor, or None when there is none."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(5.0)
    try:
        connection.connect(str(home.supervisor_socket))
    except (FileNotFoundError, NotADirectoryError, ConnectionRefusedError, TimeoutError, BlockingIOError):
        connection.close()
        return None
    except PermissionError as error:
        connection.close()
        raise DeployError(
            "home_unusable",
            f"{home.path} is closed to this user: {error.strerror}.",
            "Run engramq as its owner, who can enter it (chmod u+rwx); or set ENGRAMQ_HOME to a folder of your own.",
        ) from error
    except OSError as error:
        connection.close()
        raise DeployError("home_unusable", f"{home.run} cannot be used: {error.strerror}.", SEE_DISK) from error
    return Channel(connection)


def request(home: Home, op: str, **more: object) -> dict[str, object]:
    """Return a request to the home's supervisor; one that a copied socket leads to is another's, and refuses it."""
    return {"op": op, "folder": home.folder_id(), **more}


def raise_refusal(answer: Mapping[str, object]) -> None:
    """Raise DeployError when a supervisor's answer is a refusal."""
    error = answer.get("error")
    if isinstance(error, dict):
        raise DeployError(str(error.get("code")), str(error.get("message")), str(error.get("recovery") or ""))


def ask_status(home: Home, *, brief: bool = False) -> dict[str, Any] | None:
    """Return the status that the home's supervisor has of its stack, or None when there is none.

    In `brief` it says only whether the stack is `stopping`, and asks no gateway, which may hang.
    Raises DeployError when it does not answer (`not_answering`).
    """
    channel = open_channel(home)
    if channel is None:
        return None
    try:
        channel.send(request(home, "status", brief=brief))
        answer = channel.receive(_STATUS_S)
        raise_refusal(answer or {})
        return answer
    except ConnectionError:  # it has hung up, perhaps before it was asked
        return None
    except OSError as error:
        raise DeployError("not_answering", "The supervisor does not answer.", "engramq down ends it.") from error
    finally:
        channel.close()


def hold_stack(
    home: Home,
    kind: str,
    environment: dict[str, str],
    bound_s: float,
    *,
    starts: bool = True,
) -> StackHold:
    """Hold the home's stack and wait until it is ready; `starts`: start its supervisor if there is none.

    `kind` is `stdio`, `up`, `detached`, `worker`, `backup` or `command`: it decides what is waited for, and which
    settings are refused.

    Raises DeployError when it cannot be started, or is not ready within `bound_s` seconds, or runs with other settings;
    or, where it is not to be started, it does not run (`not_running`).
    """
    settings.port(environment)
    home.ensure()
    settings.linger_s(environment)
    caller = {**environment, settings.PRINCIPAL: settings.principal_of(home, environment)}
    asked = {"settings": settings.stack_settings(environment), "http": settings.for_http(caller)}
    hold = request(home, "lease", kind=kind, pid=os.getpid(), **asked)
    deadline = time.monotonic() + bound_s
    started = -_RESTART_S
    while (left_s := deadline - time.monotonic()) > 0:
        channel = open_channel(home)
        if channel is None:
            if not starts:
                raise DeployError("not_running", f"engramq is not running in {home.path}.")
            if time.monotonic() - started >= _RESTART_S:
                # The endpoint of a stack that runs already is not this client's affair.
                settings.require_endpoint(with_embedder(home, environment))
                _start_supervisor(home, environment)
                started = time.monotonic()
            time.sleep(_RETRY_S)
            continue
        answer = _ask_to_hold(channel, hold, left_s)
        if answer is not None:
            return StackHold(channel, answer)
        # It was on its way out: as soon as it has gone another may start.
        started = -_RESTART_S
    from engramq.deploy.local.ownership import who_holds  # noqa: PLC0415 - not for the relay's start, which is in time

    holder = f": it is in use by {who}" if (who := who_holds(home)) else ""
    raise DeployError(
        "not_ready",
        f"engramq's stack in {home.path} was not ready within {bound_s:g} s{holder}.",
        f"See {home.logs}, and engramq status.",
    )


def _ask_to_hold(channel: Channel, request: dict[str, object], bound_s: float) -> dict[str, object] | None:
    try:
        channel.send(request)
        answer = channel.receive(bound_s)
        if answer is not None and answer.get("ok"):
            return answer
        try:
            raise_refusal(answer or {})
        except DeployError as refusal:
            if refusal.code != "stopping":
                raise
        # Its hanging up says when it has stopped.
        while answer is not None:
            answer = channel.receive(bound_s)
    except OSError:
        pass
    except BaseException:
        channel.close()
        raise
    channel.close()
    return None


def _start_supervisor(home: Home, environment: dict[str, str]) -> None:
    import subprocess  # noqa: PLC0415 - 8 ms of the relay's start, wasted when the stack runs already

    try:
        with (home.logs / "supervisor.log").open("ab") as log:
            # The supervisor detaches: this waits for the end of the process that it forked from.
            subprocess.run(
                SUPERVISOR_COMMAND,
                env={**environment, settings.HOME: str(home.path)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                start_new_session=True,
                check=False,
                timeout=_START_BOUND_S,
            )
    except (OSError, subprocess.SubprocessError) as error:
        # The disk is full, the installation was replaced under a running client, the machine is overloaded.
        raise DeployError(
            "not_started", f"engramq's supervisor cannot be started: {error}.", f"See {home.logs}."
        ) from error
