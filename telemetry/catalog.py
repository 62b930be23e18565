"""Every metric by name, with what it says and by which labels, and the figures of one process.

Labels have few values: never a namespace or a principal. Prometheus' own library keeps and writes the figures.

`make generate` writes docs/metrics.md from it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from importlib.metadata import version
from typing import Final, TypeVar

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

disable_created_metrics()  # type: ignore[no-untyped-call]  # they are a series more for each, which nobody asks for

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST


class Sort(StrEnum):
    """How Prometheus reads a metric."""

    COUNTER = "counter"  # only grows
    GAUGE = "gauge"  # how it is at the scrape; missing while that is unknown
    HISTOGRAM = "histogram"  # how many were how large


@dataclass(frozen=True, eq=False)
class Metric:
    """One metric. Seconds and bytes stand in its name; `buckets` are upper bounds in its unit."""

    name: str
    sort: Sort
    meaning: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()


def _counter(name: str, meaning: str, *labels: str) -> Metric:
    return Metric(name, Sort.COUNTER, meaning, labels)


def _gauge(name: str, meaning: str, *labels: str) -> Metric:
    return Metric(name, Sort.GAUGE, meaning, labels)


def _histogram(name: str, meaning: str, *labels: str) -> Metric:
    return Metric(name, Sort.HISTOGRAM, meaning, labels, _SECONDS)


# Around what is promised: a call takes milliseconds, an answer at most 2 s, a caller waits for 10 s.
_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 60.0)

BUILD: Final = _gauge("engramq_build_info", "1; the version is a label", "version")

# Of a gateway.
READY: Final = _gauge("engramq_ready", "1 while calls are answered, 0 while they are not")
CHECK: Final = _gauge(
    "engramq_check_state", "Results of the checks of `engramq doctor`: 0 well, 1 degraded, 2 failed", "check"
)
DEPTH: Final = _gauge("engramq_mailbox_depth", "Commands that wait or run, by mailbox", "kind")
OLDEST: Final = _gauge(
    "engramq_mailbox_oldest_seconds", "How long the oldest command has been due that nobody has begun", "kind"
)
PER_SECOND: Final = _gauge(
    "engramq_mailbox_served_per_second", "How fast a mailbox with a backlog is served; missing without one", "kind"
)
DEAD: Final = _gauge(
    "engramq_mailbox_dead_letters", "Commands that were set aside and that nobody has looked at", "kind"
)
WORKERS: Final = _gauge("engramq_mailbox_workers", "Workers that live, by the mailbox that they serve", "kind")
CLOCKS: Final = _gauge(
    "engramq_clock_ahead_seconds",
    "By how much the clock of a worker or gateway is ahead of Redis' (negative: behind); only those wrong by over 2 s",
    "process",
)
CALLS: Final = _counter(
    "engramq_tool_calls_total", "Calls of tools; the outcome is a reply's status or a refusal's code", "tool", "outcome"
)
CALL_SECONDS: Final = _histogram("engramq_tool_call_seconds", "How long calls took", "tool")
WAITING: Final = _gauge("engramq_calls_waiting", "Calls that wait for a worker's answer")
BODIES: Final = _gauge(
    "engramq_bodies_bytes", "Bytes of requests' bodies that are not whole yet, or wait for their turn"
)
BODIES_REFUSED: Final = _counter("engramq_bodies_refused_total", "Requests refused for want of room for their bodies")

# Of a worker.
COMMANDS: Final = _counter(
    "engramq_commands_total",
    "Tries of commands; the outcome is done, retried, set_aside, abandoned or a refusal's code",
    *("kind", "command", "outcome"),
)
QUEUED: Final = _histogram("engramq_command_queue_seconds", "How long commands waited for their handler", "kind")
HANDLED: Final = _histogram("engramq_command_handling_seconds", "How long handlers took", "kind", "command")
DATABASE: Final = _gauge("engramq_database_up", "1 while PostgreSQL answers")
WRITABLE: Final = _gauge("engramq_database_writable", "1 while PostgreSQL takes writes, as far as is known")
CONNECTIONS: Final = _gauge(
    "engramq_database_connections", "Connections of this process; state is used or idle", "state"
)
CONNECTIONS_MAX: Final = _gauge("engramq_database_connections_max", "Connections that this process may have")
CONNECTIONS_WANTED: Final = _gauge("engramq_database_connections_waiting", "Those who wait for a connection")
TEXTS: Final = _counter("engramq_embedder_texts_total", "Texts that the model made vectors of")
EMBEDDING: Final = _histogram("engramq_embedder_batch_seconds", "How long batches of texts took")
EMBEDDER_FAILED: Final = _counter("engramq_embedder_failures_total", "Batches that the model failed at")
EMBEDDER_WAITING: Final = _gauge("engramq_embedder_waiting", "Texts that wait; sort is interactive or bulk", "sort")
HOME_FREE: Final = _gauge("engramq_home_free_bytes", "Room on the file system of ENGRAMQ_HOME, where there is one")
HOME_SIZE: Final = _gauge("engramq_home_size_bytes", "Size of that file system")

# Of a worker of the kind upkeep: the whole store, looked at twice a minute at most.
MEMORIES: Final = _gauge("engramq_store_memories", "Memories of all namespaces, as the database estimates them")
BYTES: Final = _gauge("engramq_store_bytes", "Size of the database")
PENDING: Final = _gauge("engramq_store_pending_memories", "Memories without a vector; at most 10,000 are counted")
UNFINISHED: Final = _gauge("engramq_store_unfinished_namespaces", "Namespaces with a change that upkeep has to look at")
REEMBEDDING: Final = _gauge(
    "engramq_reembedding_remaining", "Memories whose vectors are of another model, while they are made anew"
)
# Of all namespaces.
WEBHOOKS_WAITING: Final = _gauge(
    "engramq_webhook_waiting_messages",
    "Messages of webhooks that were not taken yet, those between two tries too; at most 10,000 are counted",
)
WEBHOOKS_DUE: Final = _gauge("engramq_webhook_due_messages", "Those of the waiting messages that could be sent now")
WEBHOOKS_OLDEST: Final = _gauge(
    "engramq_webhook_oldest_seconds", "How long ago the oldest of the waiting messages came; 0: none"
)
WEBHOOKS_DEAD: Final = _gauge(
    "engramq_webhook_dead_messages", "Messages that a webhook did not take in all their tries, of the last 30 days"
)

GATEWAY: Final = (
    *(BUILD, READY, CHECK, DEPTH, OLDEST, PER_SECOND, DEAD, WORKERS, CLOCKS),
    *(CALLS, CALL_SECONDS, WAITING, BODIES, BODIES_REFUSED),
)
WORKER: Final = (
    *(BUILD, COMMANDS, QUEUED, HANDLED, DATABASE, WRITABLE, CONNECTIONS, CONNECTIONS_MAX, CONNECTIONS_WANTED),
    *(TEXTS, EMBEDDING, EMBEDDER_FAILED, EMBEDDER_WAITING, HOME_FREE, HOME_SIZE),
)
UPKEEP: Final = (
    *(MEMORIES, BYTES, PENDING, UNFINISHED, REEMBEDDING),
    *(WEBHOOKS_WAITING, WEBHOOKS_DUE, WEBHOOKS_OLDEST, WEBHOOKS_DEAD),
)


Labels = tuple[str, ...]
T = TypeVar("T", Counter, Histogram)


class Labelled(dict[tuple[Metric, *Labels], T]):
    """Counters, or histograms, by metric and labels; each is made when it is first asked for."""

    def __init__(self, metrics: Mapping[Metric, T]) -> None:
        super().__init__()
        self._metrics: Mapping[Metric, T] = metrics

    def __missing__(self, key: tuple[Metric, *Labels]) -> T:
        """Return it, and keep it: the library looks it up under a lock."""
        metric, *labels = key
        self[key] = self._metrics[metric].labels(*labels) if labels else self._metrics[metric]
        return self[key]


class Figures(Collector):
    """Holds these metrics, and the process's own (`process_...`). Only one thread may update a counter."""

    def __init__(self, metrics: Sequence[Metric]) -> None:
        self._registry = CollectorRegistry()
        counters = {
            metric: Counter(metric.name, metric.meaning, metric.labels, registry=self._registry)
            for metric in metrics
            if metric.sort is Sort.COUNTER
        }
        histograms = {
            metric: Histogram(
                metric.name, metric.meaning, metric.labels, buckets=metric.buckets, registry=self._registry
            )
            for metric in metrics
            if metric.sort is Sort.HISTOGRAM
        }
        self.counters, self.histograms = Labelled(counters), Labelled(histograms)
        self._gauges: dict[Metric, Mapping[Labels, float]] = {
            metric: {} for metric in metrics if metric.sort is Sort.GAUGE
        }
        self._registry.register(self)
        ProcessCollector(registry=self._registry)
        self.tell_all(BUILD, {(version("engramq"),): 1})

    def tell(self, metric: Metric, value: float | None) -> None:
        """Say what a gauge without labels is now; None while that is unknown."""
        self.tell_all(metric, {} if value is None else {(): value})

    def tell_all(self, metric: Metric, values: Mapping[Labels, float]) -> None:
        """Say all values of a gauge; one that is not said is unknown."""
        self._gauges[metric] = values

    def forget(self, metrics: Iterable[Metric]) -> None:
        """Say nothing of these gauges, since it is not known how they are."""
        for metric in metrics:
            if metric.sort is Sort.GAUGE:
                self.tell_all(metric, {})

    def text(self) -> bytes:
        """Return all in the form that Prometheus scrapes, CONTENT_TYPE."""
        return generate_latest(self._registry)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the gauges; the library asks for them."""
        for metric, values in self._gauges.items():
            family = GaugeMetricFamily(metric.name, metric.meaning, labels=metric.labels)
            for labels, value in values.items():
                family.add_metric(labels, value)
            yield family


HEAD = """# Metrics

For Prometheus, at `/metrics`. This page is made from the table that the program reads:
`make generate`. A dashboard for Grafana, alert rules and their tests are in
`deploy/observability/`; each alert names its runbook in `docs/operations.md`.

**Gateways** serve it beside `/readyz`, and with it tell of every mailbox: all of them tell the same of those, so take
the largest (`max by (kind)`). Without authentication, on loopback, everybody on the machine may read it. With
authentication a token of scope admin may, or, if it is set, `ENGRAMQ_METRICS_TOKEN` alone. The name or address under
which Prometheus scrapes must be one that the gateway answers to (`ENGRAMQ_PUBLIC_URL`; in a pod its own address).
The gateway of an embedded stack serves metrics while an `engramq up` has it serve HTTP, and none for `engramq stdio`.

**Workers** serve it where `ENGRAMQ_METRICS_PORT` names a port, at 127.0.0.1 or the address before it. If
`ENGRAMQ_METRICS_TOKEN` is set, a scraper has to show it. Several workers of a host need a port each. All workers of
the kind upkeep tell the same of the store.

Each process tells of itself too (`process_cpu_seconds_total`, `process_resident_memory_bytes`,
`process_start_time_seconds` and others of Prometheus' library): `changes(process_start_time_seconds[1h])` counts
restarts. No label holds a namespace, a principal, a session or anything of a memory. A gauge that cannot be known is
left out. Readiness, mailboxes and the database are looked at when somebody scrapes, the store twice a minute at most.
"""

TABLE = """
## {title}

| metric | sort | labels | meaning |
|---|---|---|---|
{rows}
"""


def metrics_page() -> str:
    """Return the page as Markdown."""
    parts = (("A gateway", GATEWAY), ("A worker", WORKER), ("A worker of the kind upkeep, besides", UPKEEP))
    return HEAD + "".join(TABLE.format(title=title, rows="\n".join(_rows(metrics))) for title, metrics in parts)


def _rows(metrics: Iterable[Metric]) -> Iterable[str]:
    for metric in metrics:
        labels = ", ".join(f"`{label}`" for label in metric.labels)
        yield f"| `{metric.name}` | {metric.sort} | {labels} | {metric.meaning} |"
