"""Searches through `engramq stdio`, the front that an MCP client starts: its own CPU, and the rest of the call."""

import tempfile
import time
from typing import Final

from bench.at_size import NAMESPACE, Load, Site
from bench.common import Samples, await_ready
from bench.measured import Round
from bench.processes import Kind, cpu_by_kind
from bench.stack import StdioClient, kinds_of, stack_processes, stdio_client, stop

WARMING: Final = 10  # calls that are not counted


def measure_front(at: Site, load: Load) -> None:
    """Let one client search over stdio; a home of its own has gateway and worker, over the servers that are filled."""
    at.stack.stop_workers()
    with tempfile.TemporaryDirectory(prefix="engramq-bench-", dir="/tmp") as home:
        environment = at.stack.environment(HOME=home, NAMESPACE=NAMESPACE)
        with stdio_client(environment) as client:
            client.initialize()
            client.ask({"jsonrpc": "2.0", "method": "notifications/initialized"})
            home_kinds = kinds_of(stack_processes(environment))
            kinds = {**at.stack.kinds, **home_kinds, "front": Kind((client.process.pid,))}
            _search(at, client, WARMING)
            rounds = []
            for _ in range(load.rounds):
                before = cpu_by_kind(kinds)
                samples = _search(at, client, load.alone)
                used = {name: after - before[name] for name, after in cpu_by_kind(kinds).items()}
                rounds.append(Round(samples, {name: 1000 * cpu / load.alone for name, cpu in used.items()}))
            at.report.calls("search over stdio", 1, rounds)
        stop(environment)
    at.stack.start_workers()
    await_ready(at.port)


def _search(at: Site, client: StdioClient, calls: int) -> Samples:
    samples, began = Samples(), time.perf_counter()
    for number in range(2, calls + 2):
        started = time.perf_counter()
        reply = client.call(number, "search_memories", query=next(at.questions))
        assert reply["status"] == "success", reply
        samples.latencies_ms.append((time.perf_counter() - started) * 1000)
    samples.seconds = time.perf_counter() - began
    return samples
