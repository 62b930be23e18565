"""Notice that a process hangs: it answers nothing for HUNG_S seconds, while the supervisor itself ran.

A starting server has STARTING_S seconds for an answer, until it is ready and has given its first.

For example a worker under SIGSTOP says no more that its event loop turns, and a stopped PostgreSQL lets no session in.
A machine that slept is no hang: time in which the supervisor did not run either is not counted.
"""

import asyncio
import contextlib
import socket
import time
from collections.abc import Callable
from pathlib import Path

HUNG_S = 15.0
STARTING_S = 300.0  # for the first answer of what starts: a slow disk, a model to be loaded; recovery answers
PROBE_PERIOD_S = 3.0  # between two looks at a service that answers
PROBE_BOUND_S = 5.0  # for a server's answer
TICK_S = 1.0
_LONGEST_TICK_S = 2.0  # more has passed when the machine slept, or when somebody stopped the supervisor


class Silence:
    """The seconds since a service last answered or was started.

    It hangs after STARTING_S of them, and once it has answered after HUNG_S, unless it still `is_starting`.
    `has_answered`: it did so while it started.
    """

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, *, is_starting: bool = False, has_answered: bool = False
    ) -> None:
        self.seconds = 0.0
        self._clock = clock
        self._ticked_at = clock()
        self._is_starting = is_starting
        self._bound_s = HUNG_S if has_answered and not is_starting else STARTING_S

    @property
    def is_hang(self) -> bool:
        """Whether it lasts too long."""
        return self.seconds >= self._bound_s

    def end(self) -> None:
        """Begin anew: the service has answered."""
        self.seconds = 0.0
        self._bound_s = STARTING_S if self._is_starting else HUNG_S

    def tick(self) -> None:
        """Count the time since the last tick, as far as this process ran meanwhile."""
        now = self._clock()
        self.seconds += min(now - self._ticked_at, _LONGEST_TICK_S)
        self._ticked_at = now


class Heartbeat:
    """The signs of life of a child's event loop, by systemd's protocol (telemetry/listener.py), on our socket."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._socket: socket.socket | None = None
        self._was_heard = self._is_ready = False

    def listen(self) -> None:
        """Make the socket, before each start of the child."""
        self.close()
        self._was_heard = self._is_ready = False
        self._path.unlink(missing_ok=True)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        self._socket.bind(str(self._path))

    def close(self) -> None:
        """Listen no more."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def variables(self) -> dict[str, str]:
        """Return the variables with which the child finds the socket."""
        return {"NOTIFY_SOCKET": str(self._path), "WATCHDOG_USEC": str(int(HUNG_S * 1_000_000))}

    def was_heard(self) -> bool:
        """Say whether the child has sent anything since the last call."""
        self._receive()
        heard, self._was_heard = self._was_heard, False
        return heard

    def said_ready(self) -> bool:
        """Say whether the child has said that it serves."""
        self._receive()
        return self._is_ready

    def _receive(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while self._socket is not None and (said := self._socket.recv(64)):
                self._was_heard = True
                self._is_ready = self._is_ready or b"READY=1" in said


async def until_hung(
    answers: Callable[[], bool], ended: asyncio.Event, *, is_starting: bool = False, has_answered: bool = False
) -> float:
    """Wait until a service has answered nothing for too long, or has ended.

    `answers` says whether it has answered anything; it may block, within PROBE_BOUND_S.

    Returns:
        the seconds for which it has been silent.
    """
    silence = Silence(is_starting=is_starting, has_answered=has_answered)
    probing = asyncio.create_task(_probe(answers, silence))
    try:
        while not ended.is_set() and not probing.done() and not silence.is_hang:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(ended.wait(), TICK_S)
            silence.tick()
        if probing.done():
            probing.result()  # raises what has ended it
    finally:
        probing.cancel()
        await asyncio.wait([probing])
    return silence.seconds


async def _probe(answers: Callable[[], bool], silence: Silence) -> None:
    while True:
        if await asyncio.to_thread(answers):
            silence.end()
            await asyncio.sleep(PROBE_PERIOD_S)
        else:
            await asyncio.sleep(TICK_S)
