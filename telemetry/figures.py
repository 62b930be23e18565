"""The figures of one process, kept and written by Prometheus' own library. Loaded only where they are served."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.metadata import version
from typing import Final

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

from engramq.telemetry.catalog import BUILD, Metric, Sort

disable_created_metrics()  # type: ignore[no-untyped-call]  # they are a series more for each, which nobody asks for

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST

Labels = tuple[str, ...]


class Figures(Collector):
    """Holds these metrics, and the process's own (`process_...`). Counters may be told of by one thread only."""

    def __init__(self, metrics: Sequence[Metric]) -> None:
        self._registry = CollectorRegistry()
        self._counters = {
            one: Counter(one.name, one.meaning, one.labels, registry=self._registry)
            for one in metrics
            if one.sort is Sort.COUNTER
        }
        self._histograms = {
            one: Histogram(one.name, one.meaning, one.labels, buckets=one.buckets, registry=self._registry)
            for one in metrics
            if one.sort is Sort.HISTOGRAM
        }
        self._counted: dict[tuple[Metric, Labels], Counter] = {}
        self._observed: dict[tuple[Metric, Labels], Histogram] = {}
        self._told: dict[Metric, Mapping[Labels, float]] = {one: {} for one in metrics if one.sort is Sort.GAUGE}
        self._registry.register(self)
        ProcessCollector(registry=self._registry)
        self.tell_all(BUILD, {(version("engramq"),): 1})

    def count(self, metric: Metric, *labels: str, by: float = 1) -> None:
        """Add to a counter."""
        child = self._counted.get((metric, labels))
        if child is None:  # the library looks its children up under a lock
            counter = self._counters[metric]
            child = self._counted[metric, labels] = counter.labels(*labels) if labels else counter
        child.inc(by)

    def observe(self, metric: Metric, value: float, *labels: str) -> None:
        """Add to a histogram."""
        child = self._observed.get((metric, labels))
        if child is None:
            histogram = self._histograms[metric]
            child = self._observed[metric, labels] = histogram.labels(*labels) if labels else histogram
        child.observe(value)

    def tell(self, metric: Metric, value: float | None) -> None:
        """Say what a gauge without labels is now; None while that is unknown."""
        self.tell_all(metric, {} if value is None else {(): value})

    def tell_all(self, metric: Metric, values: Mapping[Labels, float]) -> None:
        """Say all values of a gauge; one that is not said is unknown."""
        self._told[metric] = values

    def forget(self, metrics: Iterable[Metric]) -> None:
        """Say nothing of these gauges, since it is not known how they are."""
        for one in metrics:
            if one.sort is Sort.GAUGE:
                self.tell_all(one, {})

    def text(self) -> bytes:
        """Return all in the form that Prometheus scrapes, CONTENT_TYPE."""
        return generate_latest(self._registry)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the gauges; the library asks for them."""
        for metric, values in self._told.items():
            family = GaugeMetricFamily(metric.name, metric.meaning, labels=metric.labels)
            for labels, value in values.items():
                family.add_metric(labels, value)
            yield family
