"""The targets of speed that `bench.all` measures, as ratios to what was measured in the same round where possible."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Target:
    """What is measured, and what it should be at most, or at least."""

    text: str
    bound: float
    at_least: bool = False

    def is_met(self, value: float) -> bool:
        """Say whether a measured value is good enough."""
        return value >= self.bound if self.at_least else value <= self.bound

    def effort(self, value: float) -> float:
        """Return the value as a share of the target, 1 being the target and less being better; inf for nothing done."""
        if self.at_least:
            return self.bound / value if value else float("inf")
        return value / self.bound if self.bound else value


TARGETS: Final[Mapping[str, Target]] = {
    "search_p50": Target("search p50, 1 caller / (embedding + all SQL of a search alone)", 1.3),
    "search_p95": Target("search p95, 1 caller, in units of 60 ms", 1.0),
    "search_growth": Target("search p50, 1 caller / that at 100k", 2.0),
    "store_p50": Target("store p50, 1 caller / (embedding + synced insert)", 1.5),
    "searches_over_r": Target("searches/s, 8 callers / R", 0.7, at_least=True),
    "stores_over_r": Target("stores/s, 8 callers / R", 0.7, at_least=True),
    "search_cpu": Target("CPU of a search, 8 callers, all processes / its float32 embedding", 1.5),
    "following_cpu": Target("CPU of what follows a store / CPU of the store", 0.5),
    "get_edge_p50": Target("get_edge p50 / a call that needs no worker", 2.5),
    "search_p99_64": Target("search p99, 64 callers, in units of 2 s", 1.0),
    "store_p99_64": Target("store p99, 64 callers, in units of 2 s", 1.0),
    "search_p99_256": Target("search p99, 256 callers, in units of 2 s", 1.0),
    "store_p99_256": Target("store p99, 256 callers, in units of 2 s", 1.0),
    "searches_256_over_64": Target("searches/s, 256 / 64 callers", 1.0, at_least=True),
    "stores_256_over_64": Target("stores/s, 256 / 64 callers", 1.0, at_least=True),
    "failed": Target("calls that failed, shed ones not counted, 64 and 256 callers", 0.0),
    "import_rate": Target("imported rows/s / the embedder's batch rate", 0.85, at_least=True),
    "import_p95": Target("search p95 during an import / before it", 3.0),
    "workers_2_over_1": Target("stores/s, 64 callers, two workers / one", 1.7, at_least=True),
}
