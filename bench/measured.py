"""Callers at a running stack: latencies, outcomes, CPU of each kind of process, and the wait until all is settled."""

import asyncio
import os
import statistics
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, Self

import psycopg
from redis import Redis

from bench.common import McpClient, PrivateStack, Samples, closed_loop, emit, median_of, processor
from bench.page import TARGETS
from engramq.schemas.keys import Keys
from engramq.schemas.settings import read_settings
from engramq.schemas.vocabulary import WorkerKind


def numbers(text: str) -> tuple[int, ...]:
    """Return the numbers of a list with commas."""
    return tuple(int(part) for part in text.split(","))


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
        self.tell("calls", tool=tool, callers=callers, **median_of([round_.samples for round_ in rounds]),
                  cpu_ms=medians([round_.cpu_ms for round_ in rounds]))  # fmt: skip

    def tell(self, measure: str, **figures: Any) -> None:
        """Print a line and keep it."""
        self.lines.append(emit(BENCH, measure, synthetic=True, memories=self.memories, **figures))


def medians(several: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the median of each figure, those that all have."""
    return {name: round(statistics.median(line[name] for line in several), 3) for name in several[0]}


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


SETTLED_S: Final = 120.0  # that it may take
LOOK_S: Final = 0.1  # between two looks
UNFINISHED: Final = b"""
    select count(*) as unfinished from memories
    where node_id = any(%(ids)s::uuid[]) and (links_made_at is null or sector_source is null)
"""


@dataclass(frozen=True, slots=True)
class Settled:
    """How long it took after the wait began, and how many of the memories are unfinished after all."""

    seconds: float
    unfinished: int


class Watch:
    """Looks at the stored memories and at the mailboxes; `pid` is of the server process that it uses.

    Use as `with Watch(stack) as watch`; that process is no part of what is measured.
    """

    def __init__(self, stack: PrivateStack) -> None:
        self._database: psycopg.Connection[Any] = psycopg.connect(stack.owner_url, autocommit=True)
        self._redis = Redis.from_url(stack.servers.redis_url)
        self._keys = Keys(read_settings({}).key_prefix)
        self.pid = self._database.info.backend_pid

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._database.close()
        self._redis.close()

    def wait(self, ids: Sequence[str]) -> Settled:
        """Return when these memories have their sectors and links, and nothing waits in any mailbox."""
        started = time.perf_counter()
        while (unfinished := self._unfinished(ids)) or self._under_way():
            if time.perf_counter() - started > SETTLED_S:
                break
            time.sleep(LOOK_S)
        return Settled(time.perf_counter() - started, unfinished)

    def _unfinished(self, ids: Sequence[str]) -> int:
        row = self._database.execute(UNFINISHED, {"ids": list(ids)}).fetchone()
        assert row is not None
        return int(row[0])

    def _under_way(self) -> int:
        return sum(self._redis.zcard(self._keys.of[kind].mailbox) for kind in WorkerKind)  # type: ignore[misc]  # no coroutine
