"""How the embedded stack starts and idles: `python -m bench.stack`. Linux only (reads /proc).

Prints JSON lines: the start of a fresh home, from the process's start to a memory stored and found, with what came
when and the CPU that it took by kind of process. Then the time to `initialize` answered, cold (nothing runs) and
with the stack running, beside the start of a bare Python process. Then idle CPU over a while, and memory after first
use: over stdio, and with `engramq up` in a home of its own. Memory is the sum of proportional set sizes (pages that
processes share count once, and those that others on the machine map too less than once).
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from bench.common import ENGRAMQ, Kind, cpu_seconds, emit, free_port, pss_mb, with_descendants

BENCH: Final = "stack"
INITIALIZE: Final = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}},
}
ANSWER_BOUND_S: Final = 60.0
# What appears in a home as it starts, in that order where nothing else is busy.
APPEARS: Final = {
    "supervisor": "run/supervisor.sock",
    "initdb": "postgres/data.unfinished",
    "redis": "run/redis.sock",
    "gateway": "run/gateway.sock",
    "cluster": "postgres/data",
    "postgres": "run-pg/.s.PGSQL.5432",
    "embedder": "embedder",
}
LOOK_S: Final = 0.005  # between two looks
WORDS: Final = ("postgres", "worker", "gateway", "valkey", "supervisor")  # of command lines, the most telling first


class StdioClient:
    """An `engramq stdio` process and the lines that go in and out. `folder`: where it starts; / is of no project."""

    def __init__(self, environment: dict[str, str], folder: str = "/") -> None:
        self.started = time.perf_counter()
        self.process = subprocess.Popen(
            [ENGRAMQ, "stdio"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, cwd=folder, text=True
        )

    def ask(self, message: dict[str, Any]) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()
        if "id" not in message:
            return {}
        while True:
            answer: dict[str, Any] = json.loads(self.process.stdout.readline())
            if answer.get("id") == message["id"]:
                assert "error" not in answer, answer
                return answer

    def initialize(self) -> float:
        """Return the seconds from the process's start to the answer."""
        self.ask(INITIALIZE)
        return time.perf_counter() - self.started

    def call(self, number: int, tool: str, **arguments: Any) -> dict[str, Any]:
        params = {"name": tool, "arguments": arguments}
        answer = self.ask({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params})
        body: dict[str, Any] = answer["result"]["structuredContent"]
        return body

    def close(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(ANSWER_BOUND_S)
        self.process.stdout.close()


@contextmanager
def stdio_client(environment: dict[str, str], folder: str = "/") -> Iterator[StdioClient]:
    opened = StdioClient(environment, folder)
    try:
        yield opened
    finally:
        opened.close()


def bare_python() -> float:
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import json, socket, subprocess"], check=True)
    return time.perf_counter() - started


def environment_of(home: str, **variables: str) -> dict[str, str]:
    """Return the environment of a home's commands. Modules are compiled once, as where engramq is installed."""
    return {**os.environ, "PYTHONDONTWRITEBYTECODE": "", "ENGRAMQ_HOME": home, **variables}


def stack_processes(environment: dict[str, str]) -> list[int]:
    """Return the process ids of the stack, also while it starts: the supervisor and all below it."""
    status = subprocess.run([ENGRAMQ, "status", "--json"], env=environment, capture_output=True, text=True, check=False)
    return with_descendants([int(json.loads(status.stdout)["pid"])])


def kinds_of(pids: list[int]) -> dict[str, Kind]:
    """Return processes of the stack by what they are, as their command lines tell."""
    found: dict[str, list[int]] = {}
    for pid in pids:
        try:
            arguments = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:  # it is gone
            continue
        name = next((word for word in WORDS if any(word.encode() in argument for argument in arguments)), "other")
        found.setdefault(name, []).append(pid)
    return {name: Kind(tuple(several), alone=True) for name, several in sorted(found.items())}


def stop(environment: dict[str, str]) -> None:
    subprocess.run([ENGRAMQ, "down"], env=environment, check=True, capture_output=True)


@contextmanager
def watch(home: Path) -> Iterator[dict[str, float]]:
    """Note, for as long as the block lasts, after how many seconds each of APPEARS is there."""
    seen: dict[str, float] = {}
    began, ended = time.perf_counter(), threading.Event()

    def look() -> None:
        while not ended.wait(LOOK_S):
            for name, place in APPEARS.items():
                if name not in seen and (home / place).exists():
                    seen[name] = time.perf_counter() - began

    looking = threading.Thread(target=look)
    looking.start()
    try:
        yield seen
    finally:
        ended.set()
        looking.join()


def start_fresh() -> float:
    """Start in a fresh home, store a memory and find it; return the seconds to that."""
    with tempfile.TemporaryDirectory(prefix="engramq-bench-") as home:
        environment = environment_of(home, ENGRAMQ_TEST_LINGER_S="600")
        with watch(Path(home)) as seen, stdio_client(environment) as client:
            seen["initialized"] = client.initialize()
            client.ask({"jsonrpc": "2.0", "method": "notifications/initialized"})
            stored = client.call(2, "store_memory", content="The kettle in room 7 is blue.")
            seen["stored"] = time.perf_counter() - client.started
            found = client.call(3, "search_memories", query="which kettle is blue?")
            seen["found"] = time.perf_counter() - client.started
            assert (stored["status"], found["count"]) == ("stored", 1), (stored, found)
            kinds = kinds_of(stack_processes(environment))
            # Of the supervisor's children that are gone initdb is nearly all.
            used = {name: cpu_seconds(kind.pids, ended=name != "supervisor") for name, kind in kinds.items()}
            gone = cpu_seconds(kinds["supervisor"].pids, ended=True) - used["supervisor"]
            cpu = {name: round(cpu_s, 2) for name, cpu_s in {**used, "initdb": gone}.items()}
        stop(environment)
    emit(BENCH, "start_fresh", after_s={name: round(after_s, 3) for name, after_s in seen.items()},
         cpu_s=cpu, cpu_total_s=round(sum(cpu.values()), 2))  # fmt: skip
    return seen["found"]


def measure(rounds: int, idle_s: float) -> None:
    with tempfile.TemporaryDirectory(prefix="engramq-bench-") as home:
        environment = environment_of(home, ENGRAMQ_TEST_LINGER_S="600")
        bare = statistics.median(bare_python() for _ in range(rounds))
        start_fresh()  # which may compile all modules
        found = [start_fresh() for _ in range(rounds)]
        emit(BENCH, "start_fresh_found", median_s=statistics.median(found), max_s=max(found),
             rounds=rounds, bare_python_s=bare, target_s=1.5)  # fmt: skip
        with stdio_client(environment) as first:
            first.initialize()
        stop(environment)
        cold = []
        for _ in range(rounds):
            with stdio_client(environment) as opened:
                cold.append(opened.initialize())
            stop(environment)
        emit(
            BENCH,
            "start_cold",
            median_s=statistics.median(cold),
            max_s=max(cold),
            rounds=rounds,
            target_s=3.0,
        )
        with stdio_client(environment) as first_client:
            first_client.initialize()
            warm = []
            for _ in range(rounds):
                with stdio_client(environment) as opened:
                    warm.append(opened.initialize())
            emit(
                BENCH,
                "start_warm",
                median_s=statistics.median(warm),
                max_s=max(warm),
                rounds=rounds,
                target_s=0.2,
                ratio_to_bare_python=statistics.median(warm) / bare,
            )
            use(first_client)
            idle_cpu(environment, idle_s)
            idle_memory("over_stdio", environment, {"stdio": first_client.process.pid}, target_mb=190)
        stop(environment)
    with tempfile.TemporaryDirectory(prefix="engramq-bench-") as home:
        environment = environment_of(home, ENGRAMQ_PORT=str(free_port()))
        with running_up(environment) as pid:
            with stdio_client(environment) as client:
                client.initialize()
                use(client)
            time.sleep(idle_s)
            idle_memory("with_up", environment, {"up": pid}, target_mb=205)


@contextmanager
def running_up(environment: dict[str, str]) -> Iterator[int]:
    """Run `engramq up` until the end of the block; yield its process id once the stack is there."""
    process = subprocess.Popen([ENGRAMQ, "up"], stdout=subprocess.PIPE, env=environment, text=True)
    assert process.stdout is not None
    try:
        assert any("Ctrl-C" in line for line in process.stdout), "engramq up has ended"
        yield process.pid
    finally:
        stop(environment)
        process.wait(ANSWER_BOUND_S)
        process.stdout.close()


def use(client: StdioClient) -> None:
    """Store 20 memories and search, and wait until what follows is over."""
    client.ask({"jsonrpc": "2.0", "method": "notifications/initialized"})
    for number in range(2, 22):
        stored = client.call(
            number, "store_memory", content=f"Fact number {number}: the kettle in room {number} is blue."
        )
        assert stored["status"] == "stored", stored
    found = client.call(22, "search_memories", query="which kettle is blue?", min_relevance=0)
    assert found["count"] == 5, found
    time.sleep(3.0)  # what follows a store is over


def idle_cpu(environment: dict[str, str], idle_s: float) -> None:
    pids = stack_processes(environment)
    before, started = cpu_seconds(pids), time.perf_counter()
    time.sleep(idle_s)
    used, elapsed = cpu_seconds(pids) - before, time.perf_counter() - started
    emit(
        BENCH,
        "idle_cpu",
        percent_of_a_core=round(100 * used / elapsed, 2),
        over_s=round(elapsed, 1),
        processes=len(pids),
        target=2.0,
    )


def idle_memory(home: str, environment: dict[str, str], beside: dict[str, int], *, target_mb: float) -> None:
    """Tell the memory of a home's stack, and of the processes `beside` it that are the user's."""
    sizes = {name: pss_mb(kind.pids) for name, kind in kinds_of(stack_processes(environment)).items()}
    sizes |= {name: pss_mb([pid]) for name, pid in beside.items()}
    emit(
        BENCH,
        "idle_memory",
        home=home,
        total_mb=round(sum(sizes.values()), 1),
        by_process_mb={name: round(size, 1) for name, size in sorted(sizes.items())},
        target_mb=target_mb,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--idle-s", type=float, default=30.0)
    chosen = parser.parse_args()
    measure(chosen.rounds, chosen.idle_s)


if __name__ == "__main__":
    main()
