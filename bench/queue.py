"""Round trips through the queue, beside stock arq and a Redis Streams loop on the same redis-py, in one run.

    python -m bench.queue [--seconds 2] [--runs 5] [--callers 1,8,64]

Prints one JSON line for each way and number of callers: medians over the runs of p50 and p95 (milliseconds), round
trips a second, Redis commands each (those that clients send, and all, those inside scripts among them), and the ratios
to Streams. Asker and worker are processes of their own; the server is a Valkey of its own on a unix socket. All use the
same 200-byte ping and answer it at once. (Not `python bench/queue.py`: that would hide the standard library's queue.)
"""

import argparse
import asyncio
import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
from arq.connections import ArqRedis
from arq.worker import Worker, func
from redis.asyncio import ConnectionPool, Redis

from bench.common import cpu_seconds
from engramq.deploy.local.embedded.redis import find_binary
from engramq.gateway.queue.bus import Bus
from engramq.schemas.codec import encode
from engramq.schemas.commands import Ping, Pong
from engramq.schemas.envelope import Envelope, Principal
from engramq.schemas.ids import uuid7
from engramq.schemas.keys import Keys
from engramq.schemas.settings import read_settings
from engramq.schemas.vocabulary import WorkerKind
from engramq.workers.queue.contract import Assignment, Completion, WorkerSpec
from engramq.workers.queue.process import serve
from tests.lanes import lanes_at

PAYLOAD: Final = b"x" * 200
PRINCIPAL: Final = Principal(name="bench")
KEYS: Final = Keys("bench")
READY: Final = "bench:ready"
POLLS_S: Final = {"arq": 0.5, "arq-1ms": 0.001}
BOUND_S: Final = 30.0

RoundTrip = Callable[[], Awaitable[None]]


# --- our own way ---------------------------------------------------------------------------------------------------


async def engramq_worker(url: str, *kinds: WorkerKind) -> None:
    async def pong(assignment: Assignment) -> Completion:
        command = assignment.envelope.command
        assert isinstance(command, Ping)
        return Completion(Pong(payload=command.payload))

    settings = read_settings({"ENGRAMQ_REDIS_URL": url, "ENGRAMQ_KEY_PREFIX": KEYS.prefix})
    await announce(url)
    await serve([WorkerSpec(kind, {Ping: pong}) for kind in kinds or (WorkerKind.RECALL,)], settings)


@contextlib.asynccontextmanager
async def engramq_asker(url: str) -> AsyncIterator[RoundTrip]:
    async with Bus(lanes_at(url, KEYS), mailbox_bound=10_000, reply_timeout_s=BOUND_S) as bus:

        async def ask() -> None:
            await bus.ask(Ping(payload=PAYLOAD), namespace="bench", principal=PRINCIPAL)

        yield ask


# --- stock arq -----------------------------------------------------------------------------------------------------


async def arq_worker(url: str, poll_s: float) -> None:
    async def pong(ctx: dict[Any, Any], payload: bytes) -> bytes:  # noqa: ARG001 - arq's form
        return payload

    pool = ArqRedis(ConnectionPool.from_url(url))
    worker = Worker(functions=[func(pong, name="pong")], redis_pool=pool, poll_delay=poll_s, max_jobs=64)
    await announce(url)
    await worker.async_run()


@contextlib.asynccontextmanager
async def arq_asker(url: str, poll_s: float) -> AsyncIterator[RoundTrip]:
    pool = ArqRedis(ConnectionPool.from_url(url))

    async def ask() -> None:
        job = await pool.enqueue_job("pong", PAYLOAD)
        assert job is not None
        await job.result(timeout=BOUND_S, poll_delay=poll_s)

    yield ask
    await pool.connection_pool.disconnect()


# --- a Redis Streams loop, as one would write it on redis-py -------------------------------------------------------


async def streams_worker(url: str) -> None:
    redis: Any = Redis.from_url(url)
    with contextlib.suppress(Exception):
        await redis.xgroup_create("stream", "group", id="0", mkstream=True)
    await announce(url)
    while True:
        for _, entries in await redis.xreadgroup("group", "one", {"stream": ">"}, count=64, block=5_000):
            async with redis.pipeline(transaction=False) as batch:
                for entry, fields in entries:
                    batch.rpush(fields[b"to"], fields[b"data"])
                    batch.xack("stream", "group", entry)
                await batch.execute()


@contextlib.asynccontextmanager
async def streams_asker(url: str) -> AsyncIterator[RoundTrip]:
    redis: Any = Redis.from_url(url)
    envelope = Envelope(id=uuid7(), namespace="bench", principal=PRINCIPAL, command=Ping(payload=PAYLOAD))

    async def ask() -> None:
        to = f"reply:{uuid7()}"
        await redis.xadd("stream", {"to": to, "data": encode(envelope)}, maxlen=10_000, approximate=True)
        assert await redis.blpop([to], timeout=BOUND_S)

    yield ask
    await redis.aclose()


# --- measuring -----------------------------------------------------------------------------------------------------

WORKERS: Final[dict[str, Callable[[str], Coroutine[Any, Any, None]]]] = {
    "streams": streams_worker,
    "engramq": engramq_worker,
    "engramq-idle": lambda url: engramq_worker(url, *WorkerKind),
    "arq-1ms": lambda url: arq_worker(url, POLLS_S["arq-1ms"]),
    "arq": lambda url: arq_worker(url, POLLS_S["arq"]),
}
ASKERS: Final[dict[str, Callable[[str], contextlib.AbstractAsyncContextManager[RoundTrip]]]] = {
    "streams": streams_asker,
    "engramq": engramq_asker,
    "arq-1ms": lambda url: arq_asker(url, POLLS_S["arq-1ms"]),
    "arq": lambda url: arq_asker(url, POLLS_S["arq"]),
}


class Measured(msgspec.Struct):
    """One run of one way: each round trip's time in seconds, how long all took together, Redis commands."""

    times: list[float]
    took_s: float
    sent: int  # by clients
    executed: int  # those inside scripts too


async def announce(url: str) -> None:
    """Tell the measuring process that the worker is there."""
    async with Redis.from_url(url) as redis:
        await redis.rpush(READY, "1")


async def measure(way: str, url: str, callers: int, seconds: float) -> Measured:
    """Run a way for so long with so many callers at once."""
    times: list[float] = []
    async with ASKERS[way](url) as ask, Redis.from_url(url) as redis:
        await asyncio.gather(*(ask() for _ in range(callers)))
        before = await redis.info("commandstats")
        began = time.perf_counter()

        async def caller() -> None:
            while time.perf_counter() - began < seconds:
                asked = time.perf_counter()
                await ask()
                times.append(time.perf_counter() - asked)

        await asyncio.gather(*(caller() for _ in range(callers)))
        took_s = time.perf_counter() - began
        after = await redis.info("commandstats")
    calls = {name: figures["calls"] - before.get(name, {"calls": 0})["calls"] for name, figures in after.items()}
    executed = sum(calls.values())
    scripts = calls.get("cmdstat_evalsha", 0)
    # Our scripts use neither of the blocking reads, and our clients little else beside them and EVALSHA.
    sent = scripts + calls.get("cmdstat_blpop", 0) + calls.get("cmdstat_blmpop", 0) if scripts else executed
    return Measured(times, took_s, sent, executed)


def run_once(way: str, callers: list[int], seconds: float) -> dict[int, Measured]:
    """Measure a way with each number of callers, on a server and with a worker process of its own."""
    with server() as url, worker(way, url):
        return {count: asyncio.run(measure(way, url, count, seconds)) for count in callers}


@contextlib.contextmanager
def server() -> Iterator[str]:
    """Run a server with an append-only file, as the embedded one has, and give its address."""
    with tempfile.TemporaryDirectory(prefix="eqb-", dir="/tmp") as folder:
        socket = Path(folder) / "redis.sock"
        options = f"--port 0 --unixsocket {socket} --dir {folder} --save '' --appendonly yes --appendfsync everysec"
        argv = [find_binary(os.environ), *options.replace("''", "").split(" ")]
        with _process(argv, signal.SIGKILL):
            deadline = time.monotonic() + BOUND_S
            while not socket.exists():
                if time.monotonic() > deadline:
                    raise TimeoutError("the server did not start")
                time.sleep(0.01)
            yield f"unix://{socket}"


@contextlib.contextmanager
def worker(way: str, url: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run the worker of a way in a process of its own."""
    with _process([sys.executable, "-m", "bench.queue", "--worker", way, "--url", url], signal.SIGTERM) as process:
        asyncio.run(_announced(url))
        yield process


async def _announced(url: str) -> None:
    async with Redis.from_url(url) as redis:
        if not await redis.blpop([READY], timeout=BOUND_S):
            raise TimeoutError("the worker did not start")


@contextlib.contextmanager
def _process(argv: list[str], end: signal.Signals) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.send_signal(end)
        try:
            process.wait(BOUND_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def idle(seconds: float) -> dict[str, Any]:
    """Return the CPU that a worker process of all kinds takes while there is nothing to do, in % of a core."""
    with server() as url, worker("engramq-idle", url) as process:
        time.sleep(1)  # start-up is not idleness
        before = cpu_seconds([process.pid])
        time.sleep(seconds)
        took = cpu_seconds([process.pid]) - before
    return {"bench": "queue", "way": "idle", "kinds": len(WorkerKind), "cpu_percent": round(100 * took / seconds, 3)}


def summary(runs: dict[str, list[dict[int, Measured]]], callers: list[int]) -> Iterator[dict[str, Any]]:
    """Yield a line for each number of callers and way, Streams first."""
    for count in callers:
        base: dict[str, float] = {}
        for way, measured in runs.items():
            line = _medians([run[count] for run in measured])
            base = base or line
            ratios = {
                "p50_over_streams": round(line["p50_ms"] / base["p50_ms"], 2),
                "per_s_over_streams": round(line["per_s"] / base["per_s"], 2),
            }
            yield {"bench": "queue", "way": way, "callers": count, **line, **ratios, "load": os.getloadavg()[0]}


def _medians(measured: list[Measured]) -> dict[str, float]:
    def middle(figures: list[float], digits: int) -> float:
        return round(statistics.median(figures), digits)

    return {
        "p50_ms": middle([1e3 * _quantile(run.times, 0.50) for run in measured], 3),
        "p95_ms": middle([1e3 * _quantile(run.times, 0.95) for run in measured], 3),
        "per_s": middle([len(run.times) / run.took_s for run in measured], 1),
        "redis_sent": middle([run.sent / len(run.times) for run in measured], 2),
        "redis_executed": middle([run.executed / len(run.times) for run in measured], 2),
    }


def _quantile(times: list[float], share: float) -> float:
    return sorted(times)[min(len(times) - 1, int(share * len(times)))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--callers", default="1,8,64")
    parser.add_argument("--ways", default=",".join(ASKERS))
    parser.add_argument("--idle-seconds", type=float, default=20.0)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--url", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        asyncio.run(WORKERS[options.worker](options.url))
        return
    callers = [int(count) for count in options.callers.split(",")]
    ways = options.ways.split(",")
    runs: dict[str, list[dict[int, Measured]]] = {way: [] for way in ways}
    for _ in range(options.runs):
        for way in ways:
            runs[way].append(run_once(way, callers, options.seconds))
    for line in summary(runs, callers):
        print(json.dumps(line), flush=True)
    if options.idle_seconds:
        print(json.dumps(idle(options.idle_seconds)), flush=True)


if __name__ == "__main__":
    main()
