"""A real Redis server of the test's own, on a unix socket, that can be killed and started again."""

from pathlib import Path
from resource import RLIM_INFINITY, RLIMIT_FSIZE, prlimit

from redis import Redis

from tests.redis_process import RedisProcess, options


class Server(RedisProcess):
    """What it acknowledged is in its append-only file, so that `kill` and `start` lose nothing."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder
        self.socket = folder / "redis.sock"
        self.url = f"unix://{self.socket}"

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
        # Python ignores the signal that a file above its limit brings: so does the server, and sees the error.
        with Redis.from_url(self.url) as self.redis:
            self.launch(options(settings), wait=wait, restore_signals=False)

    def limit_files(self, most: int) -> None:
        """Let it write no file beyond so many bytes, as on a disk that is full; -1: as far as it wants."""
        assert self.process is not None
        prlimit(self.process.pid, RLIMIT_FSIZE, (most, RLIM_INFINITY))
