"""Searches, stores, links and edges on a stack with so many made-up memories, each beside what it is compared with."""

import asyncio
import itertools
import json
import os
import random
import statistics
import subprocess
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import psycopg
from psycopg import sql

from bench import mem0_adds
from bench.common import (
    ENGRAMQ,
    Kind,
    McpClient,
    PrivateStack,
    Refused,
    Samples,
    await_ready,
    closed_loop,
    cpu_by_kind,
    cpu_seconds,
    peak_rss_mb,
    private_stack,
    with_descendants,
)
from bench.measured import BENCH, Report, Round, Watch, Work, at_load
from bench.stack import StdioClient, kinds_of, stack_processes, stdio_client, stop
from bench.synthetic import Corpus, Graph, Texts, filled, link
from bench.yardsticks import Float32Model, Parts, batch_rate, shipped_embedder
from engramq.schemas.faults import FaultCode
from engramq.schemas.vocabulary import WorkerKind
from engramq.workers.db.conninfo import WORKER_ROLE
from engramq.workers.db.database import Store
from engramq.workers.embedders import minilm

NAMESPACE: Final = "bench"
TOKENS: Final = 24  # of a stored text, and of the texts of R
QUESTION_WORDS: Final = (3, 8)  # made-up ones: 24 tokens
NODES: Final = 1_000  # of the graph that get_edge reads
EDGES: Final = 3_000
R_TEXTS: Final = 60
WARMING_CALLERS: Final = 4
P95_UNIT_MS: Final = 60.0
P95_FROM: Final = 100_000  # memories: the target of the p95 is of this size
P99_UNIT_MS: Final = 2_000.0
FEW: Final = 8  # callers that the targets name
MANY: Final = 64
CROWD: Final = 256
PAIRS: Final = b"select node_id from memories where tenant = tenant_of(%(namespace)s) order by random() limit 5000"


@dataclass(frozen=True, slots=True)
class Load:
    """How many callers at once, how many rounds, seconds of each measurement, and calls of each part alone."""

    callers: tuple[int, ...]
    rounds: int
    seconds: float
    alone: int


@dataclass(slots=True)
class Site:
    """A filled stack with a gateway, and what is asked of it."""

    stack: PrivateStack
    port: int
    parts: Parts
    report: Report
    questions: Iterator[str]
    contents: Iterator[str]
    texts: Texts
    model: Float32Model = field(default_factory=Float32Model)
    stored: list[str] = field(default_factory=list)

    async def search(self, client: McpClient) -> None:
        """Ask a question that nobody has asked before."""
        await client.call("search_memories", query=next(self.questions))

    async def store(self, client: McpClient) -> None:
        """Store a text that nobody has stored before; raises Refused when that is not known to be done in time."""
        reply = await client.call("store_memory", content=next(self.contents))
        if "stored" not in reply:
            raise Refused(reply["status"])
        self.stored.append(reply["stored"]["id"])

    def at_load(self, callers: int, seconds: float, work: Work) -> Round:
        return at_load(self.stack, self.port, callers, seconds, work)

    def with_graph(self) -> Graph:
        """Load a graph, for get_edge."""
        graph = Graph(NODES, EDGES, NAMESPACE)
        with psycopg.connect(self.stack.owner_url) as connection:
            graph.load(connection)
            connection.execute(b"analyze nodes, edges")
        return graph

    def rate_of_model(self) -> float:
        """Return R, texts a second of the float32 model."""
        return self.model.rate([self.texts.of(TOKENS) for _ in range(R_TEXTS)])


@contextmanager
def site(report: Report, *, launcher: tuple[str, ...] = (ENGRAMQ,)) -> Iterator[Site]:
    """Fill a stack of its own and start a worker and a gateway, by `launcher`."""
    corpus, texts = Corpus(report.memories), Texts()
    with private_stack() as stack:
        stack.launcher = launcher
        model_id = filled(stack, corpus, BENCH)
        link(stack.owner_url)
        stack.start_workers()
        port = stack.start_gateway(NAMESPACE)
        questions = (f"{corpus.text(*QUESTION_WORDS)} {number}" for number in itertools.count())
        contents = (f"{texts.of(TOKENS)} {number}" for number in itertools.count())
        parts = Parts(stack.database_url, NAMESPACE, model_id)
        yield Site(stack, port, parts, report, questions, contents, texts)


def measure_searches(at: Site, load: Load) -> None:
    """Searches beside their parts, R and the CPU of their embeddings."""
    at.at_load(WARMING_CALLERS, load.seconds, at.search)
    alone: dict[str, list[float]] = defaultdict(list)
    rounds: dict[int, list[Round]] = defaultdict(list)
    for _ in range(load.rounds):
        questions = [next(at.questions) for _ in range(load.alone)]
        _note_medians(alone, asyncio.run(at.parts.of_search(questions)))
        _note_medians(alone, asyncio.run(at.parts.of_copy(questions)))
        alone["float32_cpu_ms"].append(at.model.cpu_ms(questions))
        alone["r_per_s"].append(at.rate_of_model())
        for callers in load.callers:
            rounds[callers].append(at.at_load(callers, load.seconds, at.search))
    whole = [sum(pair) for pair in zip(alone["embedding_p50_ms"], alone["sql_p50_ms"], strict=True)]
    if 1 in rounds:
        at.report.ratio(
            "search_p50", _each_over(_p50s(rounds[1]), whole), **_shown(alone), **_over_sent(rounds[1], alone)
        )
        if at.report.memories >= P95_FROM:
            p95s = [round_.samples.figures()["p95_ms"] for round_ in rounds[1]]
            at.report.ratio("search_p95", [p95 / P95_UNIT_MS for p95 in p95s])
    if FEW in rounds:
        at.report.ratio("searches_over_r", _each_over(_rates(rounds[FEW]), alone["r_per_s"]), **_shown(alone))
        cpu = [sum(round_.cpu_ms.values()) for round_ in rounds[FEW]]
        at.report.ratio("search_cpu", _each_over(cpu, alone["float32_cpu_ms"]), cpu_ms=statistics.median(cpu))
    _tell_crowds(at, "search", "searches", rounds)


def measure_stores(at: Site, load: Load) -> None:
    """Stores beside their parts and R; what follows them is over before the next are measured."""
    alone: dict[str, list[float]] = defaultdict(list)
    rounds: dict[int, list[Round]] = defaultdict(list)
    with Watch(at.stack) as watch:

        def stores(callers: int) -> Round:
            at.stored.clear()
            measured = at.at_load(callers, load.seconds, at.store)
            settled = watch.wait(at.stored)
            at.report.tell("settled", callers=callers, stored=len(at.stored), seconds=settled.seconds,
                           unfinished=settled.unfinished)  # fmt: skip
            return measured

        stores(WARMING_CALLERS)
        for _ in range(load.rounds):
            contents = [next(at.contents) for _ in range(load.alone)]
            _note_medians(alone, asyncio.run(at.parts.of_store(contents)))
            alone["r_per_s"].append(at.rate_of_model())
            for callers in load.callers:
                rounds[callers].append(stores(callers))
    whole = [sum(pair) for pair in zip(alone["embedding_p50_ms"], alone["insert_p50_ms"], strict=True)]
    if 1 in rounds:
        at.report.ratio("store_p50", _each_over(_p50s(rounds[1]), whole), **_shown(alone))
    if FEW in rounds:
        at.report.ratio("stores_over_r", _each_over(_rates(rounds[FEW]), alone["r_per_s"]), **_shown(alone))
    _tell_crowds(at, "store", "stores", rounds)


def measure_edges(at: Site, load: Load) -> None:
    """get_edge beside a call that needs no worker, and connect."""
    graph = at.with_graph()
    with psycopg.connect(at.stack.owner_url) as connection:
        ids = [str(row[0]) for row in connection.execute(PAIRS, {"namespace": NAMESPACE})]
    dice = random.Random(5)

    async def get_edge(client: McpClient) -> None:
        await client.call("get_edge", **graph.triple())

    async def without_worker(client: McpClient) -> None:
        await client.call("get_breadcrumbs", session="bench")

    async def connect(client: McpClient) -> None:
        source, target = dice.sample(ids, 2)
        try:
            await client.call("connect", source=source, target=target)
        except Refused as refusal:
            if str(refusal) != FaultCode.DEGREE_LIMIT:  # a right answer to who has as many links as may be
                raise

    works: dict[str, Work] = {"get_breadcrumbs": without_worker, "get_edge": get_edge}
    rounds: dict[str, list[Round]] = defaultdict(list)
    for number in range(-1, load.rounds):  # the first is not counted: caches fill
        for tool, work in works.items():
            measured = at.at_load(1, load.seconds / 2, work)
            rounds[tool] += [measured] if number >= 0 else []
    ratios = _each_over(_p50s(rounds["get_edge"]), _p50s(rounds["get_breadcrumbs"]))
    at.report.ratio("get_edge_p50", ratios)
    for tool, several in rounds.items():
        at.report.calls(tool, 1, several)
    for callers in [number for number in load.callers if number in {1, MANY}]:
        several = [at.at_load(callers, load.seconds / 2, connect) for _ in range(load.rounds)]
        at.report.calls("connect", callers, several)


def _tell_crowds(at: Site, tool: str, rows: str, rounds: dict[int, list[Round]]) -> None:
    """Tell what becomes of many callers, and then of all."""
    for callers in [round_ for round_ in rounds if round_ in {MANY, CROWD}]:
        p99s = [round_.samples.figures()["p99_ms"] for round_ in rounds[callers]]
        at.report.ratio(f"{tool}_p99_{callers}", [p99 / P99_UNIT_MS for p99 in p99s])
        failed = sum(round_.samples.figures()["errors"] for round_ in rounds[callers])
        at.report.ratio("failed", [failed], tool=tool, callers=callers)
    if MANY in rounds and CROWD in rounds:
        at.report.ratio(f"{rows}_256_over_64", _each_over(_rates(rounds[CROWD]), _rates(rounds[MANY])))
    for callers, several in rounds.items():
        at.report.calls(tool, callers, several)


def _note_medians(alone: dict[str, list[float]], taken: dict[str, list[float]]) -> None:
    for name, times in taken.items():
        alone[f"{name}_p50_ms"].append(statistics.median(times))


def _shown(alone: dict[str, list[float]]) -> dict[str, Any]:
    return {name: statistics.median(values) for name, values in alone.items()}


def _over_sent(rounds: Sequence[Round], alone: dict[str, list[float]]) -> dict[str, float]:
    """Return p50 / (embedding + the SQL that is sent where a copy is used); nothing where none is, at every round."""
    names = ("embedding_p50_ms", "proof_p50_ms", "sql_with_copy_p50_ms")
    if len(alone.get("proof_p50_ms", ())) < len(rounds):
        return {}
    sent = [sum(parts) for parts in zip(*(alone[name] for name in names), strict=True)]
    return {"ratio_to_sent": statistics.median(_each_over(_p50s(rounds), sent))}


def _each_over(values: Sequence[float], bases: Sequence[float]) -> list[float]:
    return [value / base for value, base in zip(values, bases, strict=True)]


def _p50s(rounds: Sequence[Round]) -> list[float]:
    return [round_.p50_ms for round_ in rounds]


def _rates(rounds: Sequence[Round]) -> list[float]:
    return [round_.per_s for round_ in rounds]


ROLE: Final = "bench_following"
AFTERWARDS: Final = (WorkerKind.SECTORS, WorkerKind.EDGES, WorkerKind.UPKEEP)
CREATE: Final = sql.SQL("create role {} login in role {}").format(sql.Identifier(ROLE), sql.Identifier(WORKER_ROLE))


def measure_following(at: Site, load: Load) -> None:
    """Let a worker of its own do what follows the stores. Redis's share counts to the stores."""
    with psycopg.connect(at.stack.owner_url, autocommit=True) as connection:
        connection.execute(CREATE)
    at.stack.stop_workers()
    at.stack.start_worker(*(kind for kind in WorkerKind if kind not in AFTERWARDS))
    following = at.stack.start_worker(*AFTERWARDS, role=ROLE)
    await_ready(at.port)
    ratios, stores_ms, following_ms = [], [], []
    with Watch(at.stack) as watch:
        for number in range(-1, load.rounds):  # the first is not counted: models are loaded
            at.stored.clear()
            before, of_following = _cpu(at, watch.pid), _cpu_of(at, following)
            at.at_load(FEW, load.seconds, at.store)
            watch.wait(at.stored)
            theirs = _cpu_of(at, following) - of_following
            stores = _cpu(at, watch.pid) - before - theirs
            if number >= 0:
                ratios.append(theirs / stores)
                stores_ms.append(1000 * stores / len(at.stored))
                following_ms.append(1000 * theirs / len(at.stored))
    at.report.ratio("following_cpu", ratios, store_cpu_ms=statistics.median(stores_ms),
                    following_cpu_ms=statistics.median(following_ms))  # fmt: skip
    at.stack.stop_workers()
    at.stack.start_workers()
    await_ready(at.port)


def _cpu(at: Site, watching: int) -> float:
    """Return the CPU seconds of the whole stack so far; neither client nor watch belongs to it."""
    kinds = {name: kind for name, kind in at.stack.kinds.items() if name != "client"}
    return sum(cpu_by_kind(kinds, without=[watching]).values())


def _cpu_of(at: Site, worker: int) -> float:
    """Return the CPU seconds of the worker that follows, and of the server processes that serve it."""
    return cpu_seconds(with_descendants([worker]), ended=True) + cpu_seconds(_serving(at))


def _serving(at: Site) -> Iterator[int]:
    """Yield the ids of PostgreSQL's processes that serve the role, as their titles say."""
    for pid in with_descendants([at.stack.servers.postgres_process.pid]):
        title = Path(f"/proc/{pid}/cmdline")
        if title.exists() and f"postgres: {ROLE} ".encode() in title.read_bytes():
            yield pid


WARMING: Final = 10  # calls that are not counted


def measure_front(at: Site, load: Load) -> None:
    """Let one client search over stdio; a home of its own has gateway and worker, over the servers that are filled."""
    at.stack.stop_workers()
    with tempfile.TemporaryDirectory(prefix="engramq-bench-", dir="/tmp") as home:
        environment = at.stack.environment(HOME=home, NAMESPACE=NAMESPACE)
        with stdio_client(environment) as client:
            client.initialize()
            client.ask({"jsonrpc": "2.0", "method": "notifications/initialized"})
            _search(at, client, WARMING)
            home_kinds = kinds_of(stack_processes(environment))
            kinds = {**at.stack.kinds, **home_kinds, "front": Kind((client.process.pid,))}
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


CORES: Final = 4  # fewer would measure the cores, not the workers


def measure_scaling(at: Site, load: Load) -> None:
    """Let many callers store, with one worker process and with two in turn."""
    if (cores := os.cpu_count() or 1) < CORES:
        at.report.tell("scaling_left_out", needs_cpus=CORES, has_cpus=cores)
        return
    ratios, rates = [], {1: list[float](), 2: list[float]()}
    with Watch(at.stack) as watch:
        for _ in range(load.rounds):
            for workers in (1, 2):
                at.stack.stop_workers()
                at.stack.start_workers(workers)
                await_ready(at.port)
                for counted in (False, True):  # models are loaded first
                    at.stored.clear()
                    per_s = at.at_load(MANY, load.seconds, at.store).per_s
                    watch.wait(at.stored)
                    rates[workers] += [per_s] if counted else []
            ratios.append(rates[2][-1] / rates[1][-1])
    at.report.ratio("workers_2_over_1", ratios, one_per_s=statistics.median(rates[1]),
                    two_per_s=statistics.median(rates[2]))  # fmt: skip


BATCH: Final = 128  # rows, as `engramq import` has by default
YARDSTICK_ROWS: Final = 4 * BATCH
IMPORT_S: Final = 3_600.0
MEM0_PYTHON: Final = "MEM0_PYTHON"
MEM0_ADDS: Final = mem0_adds.__file__
MEM0_ROWS: Final = 200
MEM0_S: Final = 60.0  # that it has for them
MEM0_START_S: Final = 60.0
BEFORE_S: Final = 3.0
SLICE_S: Final = 0.5  # of searching while the import runs


def measure_import(at: Site, rows: int) -> None:
    """Import so many rows alone, then as many while one caller searches."""
    contents = at.texts.mixed(rows + 1)
    python, mem0_rows = os.environ.get(MEM0_PYTHON), contents[: MEM0_ROWS + mem0_adds.WARMING]
    adds = _add_to_mem0(python, mem0_rows) if python else None  # first: what follows an import takes cores from it
    before = asyncio.run(_batch_rate(at, contents))
    started = time.perf_counter()
    with _importing(at, contents[:rows]) as running:
        running.wait(IMPORT_S)
    seconds = time.perf_counter() - started
    rates = [before, asyncio.run(_batch_rate(at, contents))]
    at.report.ratio("import_rate", [rows / seconds / statistics.mean(rates)], rows=rows, rows_per_s=rows / seconds,
                    embedder_per_s=statistics.mean(rates), found=asyncio.run(_finds(at, contents[rows - 1])),
                    worker_peak_rss_mb=peak_rss_mb(at.stack.kinds["worker"].all_pids()))  # fmt: skip
    if adds is not None:
        at.report.ratio("import_over_mem0", [rows / seconds / adds["rows_per_s"]], rows=rows, rows_per_s=rows / seconds,
                        mem0_rows=adds["rows"], mem0_rows_per_s=adds["rows_per_s"])  # fmt: skip
    _measure_searches_meanwhile(at, at.texts.mixed(rows))


def _add_to_mem0(python: str, contents: list[str]) -> dict[str, float]:
    """Return how many of these the mem0 library added, one by one, and how many a second; it has MEM0_S for them."""
    lines = "".join(json.dumps(content) + "\n" for content in contents)
    with tempfile.TemporaryDirectory(prefix="engramq-bench-", dir="/tmp") as folder:
        files = [str(minilm.FOLDER / name) for name in (minilm.MODEL_FILE, minilm.TOKENIZER_FILE)]
        command = [python, "-P", MEM0_ADDS, folder, *files, str(MEM0_S)]
        printed = subprocess.run(
            command, input=lines, stdout=subprocess.PIPE, text=True, check=True, timeout=MEM0_START_S + MEM0_S
        ).stdout
    adds: dict[str, float] = json.loads(printed.splitlines()[-1])
    return adds


def _measure_searches_meanwhile(at: Site, contents: list[str]) -> None:
    quiet = asyncio.run(closed_loop(at.port, 1, BEFORE_S, at.search))
    busy = Samples()
    with _importing(at, contents) as running:
        while running.poll() is None:
            part = asyncio.run(closed_loop(at.port, 1, SLICE_S, at.search))
            busy.latencies_ms += part.latencies_ms
            busy.failures += part.failures
            busy.seconds += part.seconds
    figures = {"before": quiet.figures(), "during": busy.figures()}
    at.report.ratio("import_p95", [figures["during"]["p95_ms"] / figures["before"]["p95_ms"]], rows=len(contents),
                    before_p95_ms=figures["before"]["p95_ms"], during_p95_ms=figures["during"]["p95_ms"],
                    searches=figures["during"]["calls"], errors=figures["during"]["errors"])  # fmt: skip


@contextmanager
def _importing(at: Site, contents: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    """Run `engramq import` on a file of these; raises when it has failed."""
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl", encoding="utf-8") as file:
        file.writelines(json.dumps({"content": content}) + "\n" for content in contents)
        file.flush()
        command = [ENGRAMQ, "import", file.name, "--namespace", NAMESPACE, "--batch", str(BATCH)]
        running = subprocess.Popen(
            command, env=at.stack.environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            yield running
        finally:
            if running.poll() is None:
                running.kill()
            if running.wait():
                raise subprocess.CalledProcessError(running.returncode, command)


async def _batch_rate(at: Site, contents: list[str]) -> float:
    async with await Store.open(at.stack.database_url) as store:
        embedder = await shipped_embedder(store)
    try:
        return await batch_rate(embedder, contents[:YARDSTICK_ROWS], BATCH)
    finally:
        await embedder.aclose()


async def _finds(at: Site, content: str) -> bool:
    """Say whether the last imported row is found by its content."""
    async with McpClient.connect(at.port) as client:
        found: dict[str, Any] = await client.call("search_memories", query=content[:500], min_relevance=0)
    return any(memory["content"] == content for memory in found["memories"])
