"""How it grows: `python -m bench.scale_up [--memories N] [--namespaces K] [--seconds S] [--idle-s S] [--index-s S]`.

A private stack is loaded with N made-up memories of K namespaces (texts and vectors made up, the latter by the loader;
in each namespace links, in the first a graph too). One caller of the first namespace calls the tools one after another.
Then the vector index is built anew as upkeep does, and the home is exported, saved, restored, started and left alone.
Prints JSON lines. Linux only (/proc). `--from FILE ... [--write]` shows the lines of several runs as tables, or puts
them into docs/scaling.md, with the picture docs/scaling.svg.
"""

import argparse
import asyncio
import itertools
import json
import os
import random
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

import httpx
import psycopg

from bench.at_size import NAMESPACE, PAIRS
from bench.common import (
    ENGRAMQ,
    Kind,
    PrivateStack,
    closed_loop,
    cpu_by_kind,
    emit,
    private_stack,
    processor,
    pss_mb,
)
from bench.growth import show
from bench.measured import Work, at_load
from bench.scale import sizes
from bench.stack import kinds_of, stack_processes, stdio_client, stop
from bench.synthetic import Corpus, Graph, Texts, filled, link
from engramq.schemas.vocabulary import Partition
from engramq.workers.db.queries import sql

BENCH: Final = "scale_up"
TOKENS: Final = 24  # of a stored text
NODES_PER_MEMORY: Final = 0.1  # of the graph
EDGES_PER_NODE: Final = 3
WARMING_S: Final = 5.0
REPORTED: Final = 10  # points of a build's course
PROGRESS: Final = b"select tuples_done from pg_stat_progress_create_index"
OTHERS: Final = 10  # namespaces that are searched in turn


@dataclass(slots=True)
class Grown:
    """A loaded stack, its gateway, and what is asked of it."""

    stack: PrivateStack
    memories: int
    namespaces: int
    corpus: Corpus
    port: int = 0
    ids: list[str] = field(default_factory=list)
    texts: Texts = field(default_factory=Texts)
    numbers: Iterator[int] = field(default_factory=itertools.count)
    dice: random.Random = field(default_factory=lambda: random.Random(3))

    def tell(self, measure: str, **figures: Any) -> None:
        emit(BENCH, measure, synthetic=True, memories=self.memories, namespaces=self.namespaces, **figures)

    def timed(self, measure: str, work: Callable[[], object], **figures: Any) -> None:
        """Tell how long this took."""
        started = time.perf_counter()
        work()
        self.tell(measure, seconds=time.perf_counter() - started, **figures)

    def question(self) -> str:
        return f"{self.corpus.text(3, 8)} {next(self.numbers)}"

    def tools(self, graph: Graph) -> dict[str, Work]:
        """Return what is called, by name."""

        def call(tool: str, arguments: Callable[[], Mapping[str, Any]]) -> Work:
            return lambda client: client.call(tool, **arguments())

        def a_pair(first: str, second: str) -> Mapping[str, Any]:
            return dict(zip((first, second), self.dice.sample(self.ids, 2), strict=True))

        def an_id() -> Mapping[str, Any]:
            return {"memory_id": self.dice.choice(self.ids)}

        def a_node(depth: int) -> Mapping[str, Any]:
            return {"node_name": graph.triple()["source_name"], "depth": depth}

        return {
            "get_memory": call("get_memory", an_id),
            "search": call("search_memories", lambda: {"query": self.question()}),
            "search by similarity": call(
                "search_memories", lambda: {"query": self.question(), "ranking": "similarity"}
            ),
            "survey": call("survey_memories", lambda: {"topic": self.question()}),
            "store": call("store_memory", lambda: {"content": f"{self.texts.of(TOKENS)} {next(self.numbers)}"}),
            "update": call("update_memory", lambda: {**an_id(), "add_tags": [f"tag{next(self.numbers) % 9}"]}),
            "supersede": call("supersede_memory", partial(a_pair, "old_memory_id", "new_memory_id")),
            "connect": call("connect", partial(a_pair, "source", "target")),
            "list": call("list_recent_memories", lambda: {"limit": 10}),
            "list of a tag": call("list_recent_memories", lambda: {"limit": 10, "tags": ["tag1"]}),
            "list of a thread": call(
                "list_recent_memories", lambda: {"thread": f"thread-{self.dice.randrange(max(1, self.memories // 25))}"}
            ),
            "neighbours, depth 1": call("graph_query_neighbors", partial(a_node, 1)),
            "neighbours, depth 2": call("graph_query_neighbors", partial(a_node, 2)),
            "stats": call("memory_stats", dict),
        }


def loaded(stack: PrivateStack, memories: int, namespaces: int) -> tuple[Grown, Graph]:
    """Fill the stack; tell how long each part took, and what lies on the disk."""
    names = [NAMESPACE, *(f"{NAMESPACE}{number}" for number in range(1, namespaces))]
    grown = Grown(stack, memories, namespaces, Corpus(memories, shares=dict.fromkeys(names, 1 / namespaces)))
    grown.timed("load", lambda: filled(stack, grown.corpus, BENCH))
    grown.timed("links", lambda: link(stack.owner_url))
    nodes = max(10, int(memories / namespaces * NODES_PER_MEMORY))
    graph = Graph(nodes, nodes * EDGES_PER_NODE, NAMESPACE)
    with psycopg.connect(stack.owner_url) as connection:
        graph.load(connection)
        grown.ids = [str(row[0]) for row in connection.execute(PAIRS, {"namespace": NAMESPACE})]
    started = time.perf_counter()
    parts = {name: round(size / 1e6, 1) for name, size in sizes(stack).items()}
    grown.tell("disk", analyzed_s=time.perf_counter() - started, mb=parts)
    return grown, graph


def measure_calls(grown: Grown, graph: Graph, seconds: float) -> None:
    """Start, call each tool by one caller, then look at the page and at other namespaces."""

    def start() -> None:
        grown.stack.start_workers()
        grown.port = grown.stack.start_gateway(NAMESPACE)
        asyncio.run(closed_loop(grown.port, 1, 0.01, tools["search"]))

    tools = grown.tools(graph)
    grown.timed("first_search", start)
    asyncio.run(closed_loop(grown.port, 1, WARMING_S, tools["search"]))
    for name, work in tools.items():
        told(grown, name, 1, seconds, work)
    told(grown, "search", 8, seconds, tools["search"])
    pages = {
        "page overview": "/ui",
        "page counts": "/ui/counts",
        "page memories": "/ui/memories",
        "page graph": "/ui/graph",
    }
    with httpx.Client(base_url=f"http://127.0.0.1:{grown.port}", timeout=60.0, follow_redirects=True) as browser:
        for name, path in pages.items():
            told_page(grown, name, partial(browser.get, path))
    if grown.namespaces > 1:
        measure_others(grown, tools["search"])
    kinds = {name: kind for name, kind in grown.stack.kinds.items() if name != "client"}
    grown.tell("memory", mb={name: round(pss_mb(kind.all_pids()), 1) for name, kind in kinds.items()})


def told(grown: Grown, name: str, callers: int, seconds: float, work: Work) -> None:
    """Let so many callers call this; tell latencies and the CPU of a call."""
    round_ = at_load(grown.stack, grown.port, callers, seconds, work)
    grown.tell("call", tool=name, callers=callers, **round_.samples.figures(), failed=dict(round_.samples.failures),
               cpu_ms={kind: round(spent, 2) for kind, spent in round_.cpu_ms.items()})  # fmt: skip


def told_page(grown: Grown, name: str, get: Callable[[], httpx.Response]) -> None:
    """Get a part of the page three times; tell the median."""
    taken = []
    for _ in range(3):
        started = time.perf_counter()
        status = get().status_code
        taken.append(1000 * (time.perf_counter() - started))
    grown.tell("call", tool=name, callers=1, p50_ms=sorted(taken)[1], p95_ms=max(taken), calls=3, status=status)


def new_token(stack: PrivateStack, namespace: str) -> str:
    """Return a token of a principal who may read and write there."""
    making = [ENGRAMQ, "token", "create", "--principal", "somebody", "--json"]
    given = stack.environment(NAMESPACE=namespace, DATABASE_URL=stack.owner_url)
    made = subprocess.run(making, env=given, capture_output=True, text=True, check=True)
    return str(json.loads(made.stdout)["token"])


def measure_others(grown: Grown, search: Work) -> None:
    """Search in namespaces in turn that nobody has used yet: first calls, and a second later ones."""
    port = grown.stack.start_gateway(NAMESPACE, AUTH="token")
    for number in range(1, min(grown.namespaces, OTHERS + 1)):
        token = new_token(grown.stack, f"{NAMESPACE}{number}")
        for name, seconds in (("first search of a namespace", 0.001), ("search of other namespaces", 1.0)):
            samples = asyncio.run(closed_loop(port, 1, seconds, search, token=token))
            grown.tell("other", tool=name, **samples.figures())


def measure_rebuild(grown: Grown, bound_s: float) -> None:
    """Build the vector index anew as upkeep does, for so long at most; tell how far it came, and when."""
    url, reached = grown.stack.owner_url, [(0.0, 0)]
    with (
        ThreadPoolExecutor(1) as pool,
        grown.stack.cpu_used() as used,
        psycopg.connect(url, autocommit=True) as building,
    ):
        building.execute(sql("build_settings"), {"timeout": "0"})
        row = building.execute(sql("build_command"), {"partition": Partition.TRUSTED, "model_id": 1}).fetchone()
        assert row is not None
        started = time.perf_counter()
        running = pool.submit(building.execute, row[0])
        with psycopg.connect(url, autocommit=True) as watching:
            while not running.done() and (elapsed := time.perf_counter() - started) < bound_s:
                time.sleep(1.0)
                row = watching.execute(PROGRESS).fetchone()
                if row and row[0] - reached[-1][1] >= grown.memories / REPORTED:
                    reached.append((round(elapsed, 1), row[0]))
        seconds, is_done = time.perf_counter() - started, running.done()
        if not is_done:
            building.cancel()
            running.exception()
            building.execute(sql("drop_broken_indexes"))
        else:
            running.result()
    grown.tell("rebuild", seconds=seconds, is_done=is_done, reached=reached, postgres_cpu_s=used["postgres"])


def command(grown: Grown, measure: str, home: Path, *arguments: str, file: Path, **variables: str) -> None:
    """Run a command of engramq; tell its time and CPU, and the size of the file."""
    given, started = {**os.environ, "ENGRAMQ_HOME": str(home), **variables}, time.perf_counter()
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen([ENGRAMQ, *arguments], env=given, stdout=subprocess.DEVNULL, stderr=said)
        _, status, used = os.wait4(process.pid, 0)  # of this command alone, not of servers that ended before
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            said.seek(0)
            raise SystemExit(f"{measure}: {said.read().decode()}")
    grown.tell(measure, seconds=time.perf_counter() - started, file_mb=file.stat().st_size / 1e6,
               command_cpu_s=used.ru_utime + used.ru_stime, command_rss_mb=used.ru_maxrss / 1024)  # fmt: skip


def measure_home(grown: Grown, folder: Path, idle_s: float) -> None:
    """Export, save, restore; start what was restored, search once, and leave it alone."""
    home, copy, backup = grown.stack.servers.home.path, folder / "home", folder / "backup"
    exported = folder / "export.jsonl"
    with grown.stack.cpu_used() as used:
        command(grown, "export", home, "export", str(exported), "--namespace", NAMESPACE, file=exported,
                **grown.stack.environment())  # fmt: skip
    grown.tell("export_cpu", cpu_s=used)
    exported.unlink()
    grown.stack.stop()
    grown.stack.servers.stop()
    command(grown, "backup", home, "backup", str(backup), file=backup)
    shutil.rmtree(home / "postgres" / "data")
    command(grown, "restore", copy, "restore", str(backup), file=backup)
    backup.unlink()
    given = {**os.environ, "ENGRAMQ_HOME": str(copy), "ENGRAMQ_NAMESPACE": NAMESPACE, "ENGRAMQ_TEST_LINGER_S": "3600"}
    with stdio_client(given) as client:
        grown.tell("start", seconds=client.initialize())
        client.ask({"jsonrpc": "2.0", "method": "notifications/initialized"})
        grown.timed("start_search", lambda: client.call(2, "search_memories", query=grown.question()))
        kinds = kinds_of(stack_processes(given))
        kinds["postgres"] = Kind((min(kinds["postgres"].pids),))  # backends come and go below the first
        for name, seconds in (("after_start", idle_s), ("idle", idle_s)):
            before, started = cpu_by_kind(kinds), time.perf_counter()
            time.sleep(seconds)
            elapsed = time.perf_counter() - started
            used = {kind: round(100 * (cpu - before[kind]) / elapsed, 3) for kind, cpu in cpu_by_kind(kinds).items()}
            grown.tell(name, over_s=elapsed, percent_of_a_core=used)
        grown.tell("idle_memory", mb={name: round(pss_mb(kind.all_pids()), 1) for name, kind in kinds.items()})
    stop(given)


def main() -> None:
    """Measure one size, or show what was measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memories", type=int, default=100_000)
    parser.add_argument("--namespaces", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=4.0, help="of each call")
    parser.add_argument("--idle-s", type=float, default=120.0)
    parser.add_argument("--index-s", type=float, default=600.0, help="that building the index anew may take")
    parser.add_argument("--from", dest="files", type=Path, nargs="+", metavar="FILE", default=[])
    parser.add_argument("--write", action="store_true", help="into docs, what --from names")
    given = parser.parse_args()
    if given.files:
        show(given.files, write=given.write)
        return
    machine = {"processor": processor(), "date": datetime.now(UTC).date().isoformat()}
    with private_stack() as stack, tempfile.TemporaryDirectory(prefix="engramq-bench-", dir="/tmp") as folder:
        grown, graph = loaded(stack, given.memories, given.namespaces)
        grown.tell("machine", **machine)
        measure_calls(grown, graph, given.seconds)
        measure_rebuild(grown, given.index_s)
        measure_home(grown, Path(folder), given.idle_s)


if __name__ == "__main__":
    main()
