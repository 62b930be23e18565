"""A real Redis server of the test's own, on a unix socket, that can be killed and started again."""

import os
import signal
import subprocess
import time
from pathlib import Path

from redis import Redis
from redis.exceptions import RedisError

from engramq.deploy.embedded.redis import find_binary

READY_BOUND_S = 10.0


class Server:
    """What it acknowledged is in its append-only file, so that `kill` and `start` lose nothing."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.socket = folder / "redis.sock"
        self.url = f"unix://{self.socket}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start, and return when it answers."""
        settings = {
            "port": "0",
            "unixsocket": str(self.socket),
            "dir": str(self.folder),
            "save": "",
            "appendonly": "yes",
            "appendfsync": "no",
            "logfile": str(self.folder / "redis.log"),
        }
        options = [part for name, value in settings.items() for part in (f"--{name}", value)]
        self._process = subprocess.Popen([find_binary(os.environ), *options])
        deadline = time.monotonic() + READY_BOUND_S
        with Redis.from_url(self.url) as probe:
            while True:
                try:
                    probe.ping()
                except RedisError:
                    assert time.monotonic() < deadline, "the server did not start"
                    os.sched_yield()
                else:
                    return

    def kill(self) -> None:
        """End it as a crash would."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """End it for good."""
        self._end(signal.SIGKILL)

    def pause(self) -> None:
        """Make it hang: it accepts connections and answers nothing."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Undo `pause`."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def _end(self, number: int) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)
            self._process.send_signal(number)
            self._process.wait(READY_BOUND_S)
            self._process = None
