"""A real Redis Cluster of the test's own: masters and replicas on this machine, resharded and killed on purpose.

The server is the one that engramq embeds, in cluster mode; the cluster is joined by its own commands, so that neither
redis-cli nor a package of Debian's is needed.
"""

import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, Self

from redis import Redis

from engramq.schemas.keys import SLOTS, slot_of
from engramq.schemas.redis_urls import ServerPlace
from tests.faults.world import free_port
from tests.redis_process import RedisProcess, options, until

NODE_TIMEOUT_MS: Final = 1_500  # after which a silent master is replaced: short, for the tests' sake
KEYS_PER_STEP: Final = 10


class Node(RedisProcess):
    """A server of the cluster."""

    def __init__(self, folder: Path, password: str = "") -> None:
        super().__init__()
        self.folder, self.password = folder, password
        self.place = ServerPlace("127.0.0.1", _free_port())
        self.redis: Any = Redis(port=self.place.port, password=password or None, socket_timeout=5.0)
        self.is_hung = False

    def start(self, *, cluster: bool = True) -> None:
        """Start, as a node of a cluster or (not `cluster`) as a server by itself, and return when it answers."""
        self.folder.mkdir(exist_ok=True)
        settings = {
            "port": str(self.place.port),
            "bind": "127.0.0.1",
            "dir": str(self.folder),
            "cluster-enabled": "yes" if cluster else "no",
            "cluster-config-file": "nodes.conf",
            "cluster-node-timeout": str(NODE_TIMEOUT_MS),
            "appendonly": "yes",
            "appendfsync": "no",
            "save": "",
            "logfile": str(self.folder / "redis.log"),
            "repl-diskless-sync-delay": "0",
        }
        if self.password:
            settings |= {"requirepass": self.password, "masterauth": self.password}
        self.launch(options(settings))

    def hang(self) -> None:
        """Let it do nothing any more, while its connections stay and new ones are made."""
        self.pause()
        self.is_hung = True

    @property
    def is_running(self) -> bool:
        """Say whether its process lives and does something."""
        return self.process is not None and not self.is_hung

    @property
    def id(self) -> str:
        return str(self._cluster("MYID").decode())

    @property
    def is_whole(self) -> bool:
        """Say whether it sees a cluster without a gap."""
        return b"cluster_state:ok" in self._cluster("INFO")

    @property
    def known(self) -> int:
        """How many nodes it knows."""
        return len(self._cluster("NODES").splitlines())

    def has_replica(self) -> bool:
        """Say whether a replica follows it."""
        return bool(self.redis.info("replication")["connected_slaves"])

    def _cluster(self, *words: str | int) -> Any:
        # Not through redis-py's parsers, which differ with its versions.
        connection = self.redis.connection_pool.get_connection()
        try:
            connection.send_command("CLUSTER", *words)
            return connection.read_response()
        finally:
            self.redis.connection_pool.release(connection)

    def meet(self, other: "Node") -> None:
        self._cluster("MEET", other.place.host, other.place.port)

    def take(self, first: int, last: int) -> None:
        self._cluster("ADDSLOTSRANGE", first, last)

    def follow(self, master: "Node") -> None:
        self._cluster("REPLICATE", master.id)

    def set_slot(self, slot: int, *words: str) -> None:
        self._cluster("SETSLOT", slot, *words)

    def keys_in(self, slot: int, most: int) -> list[bytes]:
        """Return some keys of a slot."""
        return list(self._cluster("GETKEYSINSLOT", slot, most))

    def slots(self) -> list[tuple[int, int, int]]:
        """Return first slot, last slot and port of the master, of each range."""
        return [(first, last, master[1]) for first, last, master, *_ in self._cluster("SLOTS")]


class RedisCluster:
    """Use as `with RedisCluster(masters, replicas) as cluster`."""

    def __init__(self, masters: int = 3, replicas: int = 0, password: str = "") -> None:
        self._login = f":{password}@" if password else ""
        # Sockets are none, but the shared memory of a disk is what makes rewriting quick.
        self.folder = Path(tempfile.mkdtemp(prefix="eq-cluster-", dir="/tmp"))
        self.masters = [Node(self.folder / f"master-{number}", password) for number in range(masters)]
        self.replicas = [Node(self.folder / f"replica-{number}", password) for number in range(replicas)]

    @property
    def nodes(self) -> list[Node]:
        return [*self.masters, *self.replicas]

    @property
    def url(self) -> str:
        """The URL that settings take; names one node only, which leads to the others."""
        return f"redis+cluster://{self._login}{self.masters[0].place.host}:{self.masters[0].place.port}"

    @property
    def whole_url(self) -> str:
        """The URL with all nodes, for tests that kill some."""
        hosts = ",".join(f"{node.place.host}:{node.place.port}" for node in self.nodes)
        return f"redis+cluster://{self._login}{hosts}"

    def __enter__(self) -> Self:
        try:
            self._join()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for node in self.nodes:
            node.kill()
            node.redis.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _join(self) -> None:
        for node in self.nodes:
            node.start()
        share = SLOTS // len(self.masters)
        for number, node in enumerate(self.masters):
            last = SLOTS - 1 if node is self.masters[-1] else (number + 1) * share - 1
            node.take(number * share, last)
        for node in self.nodes[1:]:
            node.meet(self.nodes[0])
        until(lambda: all(node.known == len(self.nodes) for node in self.nodes))
        for number, replica in enumerate(self.replicas):
            replica.follow(self.masters[number % len(self.masters)])
        until(lambda: all(node.is_whole for node in self.nodes))
        if self.replicas:
            until(lambda: all(node.has_replica() for node in self.masters[: len(self.replicas)]))

    def master_of(self, key: str) -> Node:
        """Return the node that is the master of a key now."""
        slot = slot_of(key)
        asked = next(node for node in self.nodes if node.is_running)
        port = next(port for first, last, port in asked.slots() if first <= slot <= last)
        return next(node for node in self.nodes if node.place.port == port)

    def move(self, slot: int, target: Node, *, between: Callable[[int], None] = lambda _: None) -> int:
        """Move a slot as redis-cli's reshard does, a few keys at a time; returns how many keys moved.

        `between` is told after each step how many keys have moved so far.
        """
        source = next(
            node
            for node in self.masters
            for first, last, port in node.slots()
            if first <= slot <= last and port == node.place.port
        )
        target.set_slot(slot, "IMPORTING", source.id)
        source.set_slot(slot, "MIGRATING", target.id)
        moved = 0
        between(moved)
        while keys := source.keys_in(slot, KEYS_PER_STEP):
            source.redis.execute_command("MIGRATE", "127.0.0.1", target.place.port, "", 0, 5000, "KEYS", *keys)
            moved += len(keys)
            between(moved)
        for node in (target, source, *self.masters):
            node.set_slot(slot, "NODE", target.id)
        return moved

    def flush(self) -> None:
        """Empty every master."""
        for node in self.masters:
            node.redis.flushall()

    def keys(self, pattern: str = "*") -> Sequence[str]:
        """Return the keys of all masters."""
        return [key.decode() for node in self.masters for key in node.redis.keys(pattern)]


def _free_port() -> int:
    """Return a port whose twin for the nodes among themselves, 10,000 above, exists."""
    while (port := free_port()) > 55_000:
        pass
    return port
