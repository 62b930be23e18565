"""A master, two replicas and three Sentinels, all from the server's one binary: `with RedisSentinel() as watched`."""

import shutil
import signal
import tempfile
from pathlib import Path
from typing import Any, Final, Self

from redis import Redis
from redis.exceptions import RedisError

from tests.faults.world import free_port
from tests.redis_process import RedisProcess, until

SERVICE: Final = "memory"
QUORUM: Final = 2
DOWN_MS: Final = 1_000  # after which a Sentinel holds a master that does not answer for gone
PASSWORD: Final = "heather"  # of the servers
SENTINEL_PASSWORD: Final = "bracken"


class Node(RedisProcess):
    """A server, or a Sentinel, at a port of its own."""

    def __init__(self, folder: Path, *, sentinel: bool = False) -> None:
        super().__init__()
        folder.mkdir(parents=True)
        self.folder, self.sentinel, self.port = folder, sentinel, free_port()
        password = SENTINEL_PASSWORD if sentinel else PASSWORD
        self.redis: Any = Redis(port=self.port, password=password, socket_timeout=2, socket_connect_timeout=2)

    def start(self, *lines: str) -> None:
        """Start with these lines of configuration, which a server writes anew itself; without any as it was."""
        file = self.folder / "server.conf"
        if lines:
            own = (f"port {self.port}", f"dir {self.folder}", f"logfile {self.folder}/log", "bind 127.0.0.1", *lines)
            file.write_text("\n".join(own) + "\n")
        self.launch([str(file), *(["--sentinel"] if self.sentinel else [])])


class RedisSentinel:
    """Three servers, one of them the master, and three Sentinels that watch it as SERVICE."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="eq-sentinel-", dir="/tmp"))
        self.servers = [Node(self.folder / f"server-{number}") for number in range(3)]
        self.sentinels = [Node(self.folder / f"sentinel-{number}", sentinel=True) for number in range(3)]

    @property
    def url(self) -> str:
        """What settings take."""
        hosts = ",".join(f"127.0.0.1:{sentinel.port}" for sentinel in self.sentinels)
        return f"redis+sentinel://:{PASSWORD}@{hosts}/{SERVICE}?sentinel_password={SENTINEL_PASSWORD}"

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for node in (*self.sentinels, *self.servers):
            node.kill()
            node.redis.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _start(self) -> None:
        first = self.servers[0]
        shared = (
            f"requirepass {PASSWORD}",
            f"masterauth {PASSWORD}",
            'save ""',
            "appendonly yes",
            "repl-diskless-sync-delay 0",
        )
        for server in self.servers:
            server.start(*shared, *([] if server is first else [f"replicaof 127.0.0.1 {first.port}"]))
        until(lambda: first.redis.info("replication")["connected_slaves"] == len(self.servers) - 1)
        for sentinel in self.sentinels:
            sentinel.start(
                f"requirepass {SENTINEL_PASSWORD}",
                f"sentinel sentinel-pass {SENTINEL_PASSWORD}",
                f"sentinel monitor {SERVICE} 127.0.0.1 {first.port} {QUORUM}",
                f"sentinel auth-pass {SERVICE} {PASSWORD}",
                f"sentinel down-after-milliseconds {SERVICE} {DOWN_MS}",
                f"sentinel failover-timeout {SERVICE} 10000",
            )
        for sentinel in self.sentinels:
            until(lambda sentinel=sentinel: _knows_all(sentinel))  # type: ignore[misc] # mypy takes defaults for no capture

    @property
    def master(self) -> Node:
        """The server that the Sentinels name now."""
        asked = next(sentinel for sentinel in self.sentinels if sentinel.answers())
        _, port = asked.redis.execute_command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE)
        return next(server for server in self.servers if server.port == int(port))

    def is_settled(self) -> bool:
        """Say whether the master that is named takes writes, and a replica follows it."""
        try:
            told = self.master.redis.info("replication")
        except RedisError:
            return False
        return bool(told["role"] == "master" and told["connected_slaves"])


def _knows_all(sentinel: Node) -> bool:
    told = sentinel.redis.execute_command("SENTINEL", "MASTERS")
    (master,) = told if isinstance(told, list) else told.values()
    if isinstance(master, list):
        pairs = [word.decode() for word in master]
        master = dict(zip(pairs[::2], pairs[1::2], strict=True))
    return int(master["num-slaves"]) == 2 and int(master["num-other-sentinels"]) == 2


CONTINUE, STOP = signal.SIGCONT, signal.SIGSTOP
