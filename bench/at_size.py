"""Searches, stores, links and edges on a stack with so many made-up memories, each beside what it is compared with."""

import asyncio
import itertools
import random
import statistics
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import psycopg

from bench.common import ENGRAMQ, McpClient, PrivateStack, Refused, private_stack
from bench.measured import BENCH, Report, Round, Watch, Work, at_load
from bench.search import link
from bench.synthetic import Corpus, Graph, Texts, filled
from bench.yardsticks import Float32Model, Parts
from engramq.schemas.faults import FaultCode

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
            p95s = [one.samples.figures()["p95_ms"] for one in rounds[1]]
            at.report.ratio("search_p95", [one / P95_UNIT_MS for one in p95s])
    if FEW in rounds:
        at.report.ratio("searches_over_r", _each_over(_rates(rounds[FEW]), alone["r_per_s"]), **_shown(alone))
        cpu = [sum(one.cpu_ms.values()) for one in rounds[FEW]]
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
    for callers in [one for one in load.callers if one in {1, MANY}]:
        several = [at.at_load(callers, load.seconds / 2, connect) for _ in range(load.rounds)]
        at.report.calls("connect", callers, several)


def _tell_crowds(at: Site, tool: str, rows: str, rounds: dict[int, list[Round]]) -> None:
    """Tell what becomes of many callers, and then of all."""
    for callers in [one for one in rounds if one in {MANY, CROWD}]:
        p99s = [one.samples.figures()["p99_ms"] for one in rounds[callers]]
        at.report.ratio(f"{tool}_p99_{callers}", [one / P99_UNIT_MS for one in p99s])
        failed = sum(one.samples.figures()["errors"] for one in rounds[callers])
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
    return [one.p50_ms for one in rounds]


def _rates(rounds: Sequence[Round]) -> list[float]:
    return [one.per_s for one in rounds]
