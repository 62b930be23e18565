"""Callers at a running stack: latencies, what came of the calls, and the CPU that each kind of process used for one."""

import asyncio
import os
import statistics
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from bench.common import McpClient, PrivateStack, Samples, closed_loop, emit, median_of
from bench.processes import processor
from bench.targets import TARGETS

BENCH: Final = "all"
Work = Callable[[McpClient], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Round:
    """So many callers for a while: their calls, and the CPU milliseconds of one by kind of process."""

    samples: Samples
    cpu_ms: Mapping[str, float]

    @property
    def per_s(self) -> float:
        return float(self.samples.figures()["per_s"])

    @property
    def p50_ms(self) -> float:
        return float(self.samples.figures()["p50_ms"])


@dataclass(slots=True)
class Report:
    """Prints the lines of one size and keeps them: ratios as they are known, calls with all that belongs to them."""

    memories: int
    lines: list[dict[str, Any]] = field(default_factory=list)

    def ratio(self, row: str, values: Sequence[float], **parts: Any) -> None:
        """Tell a ratio that has a target: the median over the rounds, and what it was taken of."""
        target, ratio = TARGETS[row], statistics.median(values)
        shown = {"ratio": ratio, "target": target.bound, "at_least": target.at_least, "is_met": target.is_met(ratio)}
        self.tell("ratio", row=row, **shown, rounds=len(values), **parts)

    def calls(self, tool: str, callers: int, rounds: Sequence[Round]) -> None:
        """Tell the latencies, the rate, what was shed, and the CPU of a call, medians over the rounds."""
        self.tell("calls", tool=tool, callers=callers, **median_of([one.samples for one in rounds]),
                  cpu_ms=medians([one.cpu_ms for one in rounds]))  # fmt: skip

    def tell(self, measure: str, **figures: Any) -> None:
        """Print a line and keep it."""
        self.lines.append(emit(BENCH, measure, synthetic=True, memories=self.memories, **figures))


def medians(several: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the median of each figure, those that all have."""
    return {name: round(statistics.median(one[name] for one in several), 3) for name in several[0]}


def at_load(stack: PrivateStack, port: int, callers: int, seconds: float, work: Work) -> Round:
    """Let so many callers call one thing after another for so long."""
    with stack.cpu_used() as used:
        samples = asyncio.run(closed_loop(port, callers, seconds, work))
    calls = max(1, len(samples.latencies_ms))
    return Round(samples, {name: 1000 * cpu / calls for name, cpu in used.items()})


def tell_machine(report: Report) -> None:
    """Say where this was measured."""
    memory_gb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    report.tell("machine", processor=processor(), memory_gb=round(memory_gb, 1))
