"""Helpers that benchmarks share: JSON lines, percentiles, a private stack of real processes, a lean MCP client."""

import asyncio
import contextlib
import json
import os
import platform
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol, Self

from bench.servers import Servers, running_servers
from engramq.schemas.settings import PREFIX
from engramq.workers.db.conninfo import WORKER_ROLE
from engramq.workers.db.migrate import migrate

PROC: Final = Path("/proc")
TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
_PARENT, _OWN, _ENDED = 1, slice(11, 13), slice(13, 15)  # fields of /proc/PID/stat after the command's name


@dataclass(frozen=True, slots=True)
class Kind:
    """The processes of one kind: those of these ids, and, unless `alone`, all below them."""

    pids: tuple[int, ...]
    alone: bool = False

    def all_pids(self) -> list[int]:
        """Return those that live now."""
        return list(self.pids) if self.alone else with_descendants(self.pids)


def with_descendants(pids: Iterable[int]) -> list[int]:
    """Return these processes and all that were started below them."""
    children: dict[int, list[int]] = {}
    for entry in PROC.iterdir():
        if entry.name.isdigit() and (fields := _fields(int(entry.name))):
            children.setdefault(int(fields[_PARENT]), []).append(int(entry.name))
    waiting, found = list(pids), []
    while waiting:
        pid = waiting.pop()
        found.append(pid)
        waiting += children.get(pid, [])
    return found


def cpu_seconds(pids: Iterable[int], *, ended: bool = False) -> float:
    """Return the CPU time that these have used; with `ended`, that of their children that are gone is theirs too."""
    ticks = 0
    for pid in pids:
        fields = _fields(pid) or ["0"] * _ENDED.stop
        ticks += sum(map(int, fields[_OWN])) + (sum(map(int, fields[_ENDED])) if ended else 0)
    return ticks / TICKS_PER_S


def cpu_by_kind(kinds: Mapping[str, Kind], *, without: Sequence[int] = ()) -> dict[str, float]:
    """Return the CPU seconds that each kind has used so far; `without` are processes that are no part of them."""
    return {
        name: cpu_seconds([pid for pid in kind.all_pids() if pid not in without], ended=not kind.alone)
        for name, kind in kinds.items()
    }


def pss_mb(pids: Iterable[int]) -> float:
    """Return the sum of the proportional set sizes: a page that several share counts once."""
    return sum(_kilobytes(PROC / str(pid) / "smaps_rollup", "Pss:") for pid in pids) / 1024


def peak_rss_mb(pids: Iterable[int]) -> float:
    """Return the largest resident set size that one of these has ever had."""
    return max((_kilobytes(PROC / str(pid) / "status", "VmHWM:") for pid in pids), default=0.0) / 1024


def free_port() -> int:
    """Return a port that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def processor() -> str:
    """Return the name of the machine's processor."""
    lines = (PROC / "cpuinfo").read_text(encoding="utf-8").splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")


def _fields(pid: int) -> list[str]:
    """Return the fields of a process after its name, none when it is gone."""
    try:
        return (PROC / str(pid) / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return []


def _kilobytes(file: Path, name: str) -> float:
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except OSError:  # it is gone
        return 0.0
    return next((float(line.split()[1]) for line in lines if line.startswith(name)), 0.0)


ENGRAMQ: Final = str(Path(sys.executable).with_name("engramq"))
READY_S: Final = 120.0
END_S: Final = 15.0
ERA: Final = "2026-07-28"
_LENGTH: Final = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)


def emit(bench: str, measure: str, *, digits: int | None = 4, **figures: Any) -> dict[str, Any]:
    """Print one JSON line, with the machine and its load, and return it; figures to so many digits, or as they are."""
    machine = {"cpus": os.cpu_count(), "machine": platform.machine(), "load_1m": round(os.getloadavg()[0], 2)}
    line = {"bench": bench, "measure": measure, **_rounded(figures, digits), **machine}
    print(json.dumps(line), flush=True)
    return line


def _rounded(figures: dict[str, Any], digits: int | None) -> dict[str, Any]:
    if digits is None:
        return figures
    return {name: round(figure, digits) if isinstance(figure, float) else figure for name, figure in figures.items()}


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value below which this share of the values lies, by the nearest rank; nan when there are none."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")


@dataclass
class Samples:
    """Latencies in milliseconds of the calls that were answered well, and what came of the others."""

    latencies_ms: list[float] = field(default_factory=list)
    failures: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0

    def figures(self) -> dict[str, Any]:
        shown: dict[str, Any] = {f"p{share}_ms": percentile(self.latencies_ms, share / 100) for share in (50, 95, 99)}
        shed = self.failures["overloaded"]
        rate = len(self.latencies_ms) / self.seconds
        return shown | {"per_s": rate, "calls": len(self.latencies_ms), "shed": shed,
                        "errors": self.failures.total() - shed}  # fmt: skip


def median_of(runs: Sequence[Samples]) -> dict[str, Any]:
    """Return the median of each figure over the runs; calls and failures are added up."""
    figures = [run.figures() for run in runs]
    added = {name: sum(figure[name] for figure in figures) for name in ("calls", "shed", "errors")}
    return (
        {name: statistics.median(figure[name] for figure in figures) for name in figures[0]}
        | added
        | {"runs": len(runs)}
    )


async def timed(work: Callable[[int], Awaitable[object]], count: int) -> list[float]:
    """Do this so many times, one after the other; return the milliseconds of each."""
    taken = []
    for number in range(count):
        started = time.perf_counter()
        await work(number)
        taken.append((time.perf_counter() - started) * 1000)
    return taken


class Refused(Exception):
    """A call was answered with an error; its text is the code, and `retry_after_s` how long to stay away."""

    def __init__(self, code: str, retry_after_s: float = 0.0) -> None:
        super().__init__(code)
        self.retry_after_s = retry_after_s


class ToolClient(Protocol):
    """Whatever calls tools of a stack."""

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool and return the structured reply."""


class McpClient:
    """One connection of the stateless era: what a call costs is the server's, not a client library's."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int, token: str = "") -> None:
        self._reader, self._writer, self._host = reader, writer, f"127.0.0.1:{port}"
        self._authorization = f"authorization: Bearer {token}\r\n" if token else ""

    @classmethod
    @asynccontextmanager
    async def connect(cls, port: int, token: str = "") -> AsyncIterator[Self]:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**24)
        try:
            yield cls(reader, writer, port, token)
        finally:
            writer.close()

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool; raises Refused."""
        result = (await self.ask(tool, arguments)).get("result")
        if result is None or result.get("isError"):
            fault = (result or {}).get("structuredContent", {})
            raise Refused(fault.get("code", "protocol"), fault.get("retry_after_s", 0.0))
        content: dict[str, Any] = result["structuredContent"]
        return content

    async def ask(self, tool: str, arguments: Any) -> dict[str, Any]:
        """Call a tool with whatever arguments; return the answer as JSON-RPC has it."""
        prefix = "io.modelcontextprotocol/"
        meta = {
            f"{prefix}protocolVersion": ERA,
            f"{prefix}clientInfo": {"name": "bench", "version": "1"},
            f"{prefix}clientCapabilities": {},
        }
        params = {"name": tool, "arguments": arguments, "_meta": meta}
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
        head = (
            f"POST /mcp HTTP/1.1\r\nhost: {self._host}\r\ncontent-type: application/json\r\n"
            f"accept: application/json, text/event-stream\r\nmcp-protocol-version: {ERA}\r\nmcp-method: tools/call\r\n"
            f"mcp-name: {tool}\r\n{self._authorization}content-length: {len(body)}\r\n\r\n"
        )
        self._writer.write(head.encode() + body)
        answered = await self._reader.readuntil(b"\r\n\r\n")
        length = _LENGTH.search(answered)
        answer: dict[str, Any] = json.loads(await self._reader.readexactly(int(length[1]) if length else 0))
        return answer


async def closed_loop(
    port: int, callers: int, seconds: float, work: Callable[[McpClient], Awaitable[object]], *, token: str = ""
) -> Samples:
    """Let so many callers, a connection each, call one thing after another for so long."""
    samples = Samples()
    begin = asyncio.Barrier(callers + 1)

    async def caller() -> None:
        async with McpClient.connect(port, token) as client:
            await begin.wait()
            until = time.perf_counter() + seconds
            while (started := time.perf_counter()) < until:
                try:
                    await work(client)
                except Refused as refusal:
                    samples.failures[str(refusal)] += 1
                    await asyncio.sleep(max(0.0, min(refusal.retry_after_s, until - time.perf_counter())))
                else:
                    samples.latencies_ms.append((time.perf_counter() - started) * 1000)

    async with asyncio.TaskGroup() as group:
        for _ in range(callers):
            group.create_task(caller())
        await begin.wait()
        started = time.perf_counter()
    samples.seconds = time.perf_counter() - started
    return samples


@dataclass
class PrivateStack:
    """Servers in a folder of their own; workers and gateways are processes, started when they are wanted."""

    servers: Servers
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    launcher: tuple[str, ...] = (ENGRAMQ,)

    @property
    def owner_url(self) -> str:
        """The URL for the database's owner."""
        return self.servers.database_url_owner

    @property
    def database_url(self) -> str:
        """The URL for workers."""
        return self.servers.postgres.url(WORKER_ROLE)

    @property
    def variables(self) -> dict[str, str]:
        """The environment that names these servers to a command."""
        given = {"DATABASE_URL": self.database_url, "REDIS_URL": self.servers.redis_url, "LOG_LEVEL": "WARNING"}
        return {PREFIX + name: value for name, value in given.items()}

    @property
    def kinds(self) -> dict[str, Kind]:
        """The processes of this stack by what they are; `client` is the benchmark itself."""
        started: dict[str, list[int]] = {"gateway": [], "worker": []}
        for child in self.processes:
            started[self._kind_of(child)].append(child.pid)
        return {
            "client": Kind((os.getpid(),), alone=True),
            **{name: Kind(tuple(pids)) for name, pids in started.items()},
            "postgres": Kind((self.servers.postgres_process.pid,)),
            "redis": Kind((self.servers.redis_process.pid,)),
        }

    @contextmanager
    def cpu_used(self) -> Iterator[dict[str, float]]:
        """Note the CPU seconds that each kind uses within the block; they are there when it ends."""
        used: dict[str, float] = {}
        # Reading /proc costs the client some milliseconds: it comes last here and first at the end.
        before = cpu_by_kind(dict(reversed(self.kinds.items())))
        yield used
        used |= {name: after - before.get(name, 0.0) for name, after in cpu_by_kind(self.kinds).items()}

    def start_workers(self, count: int = 1, **variables: str) -> None:
        """Start worker processes that host all kinds, with settings that differ."""
        for _ in range(count):
            self._start(variables, "worker", "--all")

    def start_worker(self, *kinds: str, role: str = WORKER_ROLE) -> int:
        """Start a worker process of these kinds, which connects to the database as `role`; return its id."""
        self._start({"DATABASE_URL": self.servers.postgres.url(role)}, "worker", *kinds)
        return self.processes[-1].pid

    def stop_workers(self) -> None:
        """End the worker processes."""
        workers = [child for child in self.processes if self._kind_of(child) == "worker"]
        self.processes = [child for child in self.processes if child not in workers]
        _end(workers)

    def start_gateway(self, namespace: str, **variables: str) -> int:
        """Start a gateway whose callers are in this namespace, with settings that differ; return its port when it and a
        worker answer.
        """
        port = free_port()
        self._start({"NAMESPACE": namespace, "PORT": str(port), **variables}, "gateway")
        await_ready(port, self.processes)
        return port

    def environment(self, **variables: str) -> dict[str, str]:
        """Return the environment of a command that these servers serve, with settings that differ."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
        return kept | self.variables | {PREFIX + name: value for name, value in variables.items()}

    def stop(self) -> None:
        """End the processes that were started here."""
        _end(self.processes)

    def _start(self, variables: dict[str, str], *arguments: str) -> None:
        command = [*self.launcher, *arguments]
        self.processes.append(subprocess.Popen(command, env=self.environment(**variables)))

    def _kind_of(self, child: subprocess.Popen[bytes]) -> str:
        assert isinstance(child.args, list)
        return str(child.args[len(self.launcher)])


def await_ready(port: int, processes: Sequence[subprocess.Popen[bytes]] = ()) -> None:
    """Return when the gateway at this port and a worker answer; raises TimeoutError, at once when one has ended."""
    until = time.monotonic() + READY_S
    while time.monotonic() < until and all(child.poll() is None for child in processes):
        with contextlib.suppress(OSError):
            if asyncio.run(_is_ready(port)):
                return
        time.sleep(0.1)
    raise TimeoutError("the stack does not answer")


def _end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    for child in processes:
        child.terminate()
    for child in processes:
        try:
            child.wait(END_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


@contextmanager
def private_stack() -> Iterator[PrivateStack]:
    """Start PostgreSQL (fsync on) and Redis in a temporary home, with the schema and no worker yet."""
    home = Path(tempfile.mkdtemp(prefix="engramq-bench-", dir="/tmp"))
    try:
        with running_servers(home) as servers:
            stack = PrivateStack(servers)
            asyncio.run(migrate(stack.owner_url))
            try:
                yield stack
            finally:
                stack.stop()
    finally:
        shutil.rmtree(home, ignore_errors=True)


async def _is_ready(port: int) -> bool:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(f"GET /readyz HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nconnection: close\r\n\r\n".encode())
        return b" 200 " in await asyncio.wait_for(reader.readline(), READY_S)
    finally:
        writer.close()
