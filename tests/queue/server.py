"""A real Redis server of the test's own, on a unix socket, that can be killed and started again."""

import os
import signal
import subprocess
import time
from pathlib import Path
from resource import RLIM_INFINITY, RLIMIT_FSIZE, prlimit

from redis import Redis
from redis.exceptions import RedisError

from engramq.deploy.local.embedded.redis import find_binary

READY_BOUND_S = 10.0


class Server:
    """What it acknowledged is in its append-only file, so that `kill` and `start` lose nothing."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.socket = folder / "redis.sock"
        self.url = f"unix://{self.socket}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, *, wait: bool = True, **more: str) -> None:
        """Start, with more settings, and return when it answers."""
        settings = {
            "port": "0",
            "unixsocket": str(self.socket),
            "dir": str(self.folder),
            "save": "",
            "appendonly": "yes",
            "appendfsync": "no",
            "logfile": str(self.folder / "redis.log"),
            **{name.replace("_", "-"): value for name, value in more.items()},
        }
        options = [part for name, value in settings.items() for part in (f"--{name}", value)]
        # Python ignores the signal that a file above its limit brings: so does the server, and sees the error.
        self._process = subprocess.Popen([find_binary(os.environ), *options], restore_signals=False)
        if not wait:
            return
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

    def limit_files(self, most: int) -> None:
        """Let it write no file beyond so many bytes, as on a disk that is full; -1: as far as it wants."""
        assert self._process is not None
        prlimit(self._process.pid, RLIMIT_FSIZE, (most, RLIM_INFINITY))

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
