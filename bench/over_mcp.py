"""What the benchmarks of single tools over MCP HTTP share: options, and callers measured beside the parts alone."""

import argparse
import asyncio
import statistics
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bench.common import McpClient, closed_loop, emit, median_of

WARMING_CALLERS: Final = 4


@dataclass(frozen=True, slots=True)
class Load:
    """How many callers at once, how often each number of them is measured, and for how many seconds."""

    callers: tuple[int, ...]
    runs: int
    seconds: float


def parse_options(description: str | None) -> tuple[tuple[int, ...], Load]:
    """Return the sizes (memories that are there) and the load that the command line asks for."""
    return sizes_and_load(options(description).parse_args())


def options(description: str | None) -> argparse.ArgumentParser:
    """Return a parser of these options, for a benchmark that has more."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--memories", default="10000,100000")
    parser.add_argument("--callers", default="1,8,64,256")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0)
    return parser


def sizes_and_load(chosen: argparse.Namespace) -> tuple[tuple[int, ...], Load]:
    """Return what was chosen."""
    return numbers(chosen.memories), Load(numbers(chosen.callers), chosen.runs, chosen.seconds)


def beside_parts(
    bench: str,
    memories: int,
    load: Load,
    port: int,
    call: Callable[[McpClient], Awaitable[None]],
    measure_parts: Callable[[], Mapping[str, Sequence[float]]],
) -> None:
    """Warm up, measure the parts alone (milliseconds by name), then the callers; one caller's ratio is to their sum."""
    asyncio.run(closed_loop(port, WARMING_CALLERS, load.seconds, call))  # not counted: caches fill
    parts: dict[str, Any] = {f"{name}_p50_ms": statistics.median(times) for name, times in measure_parts().items()}
    emit(bench, "alone", synthetic=True, memories=memories, **parts)
    for several in load.callers:
        figures = median_of([asyncio.run(closed_loop(port, several, load.seconds, call)) for _ in range(load.runs)])
        if several == 1:
            figures["ratio"] = figures["p50_ms"] / sum(parts.values())
        emit(bench, "mcp_http", synthetic=True, memories=memories, callers=several, **figures)


def numbers(text: str) -> tuple[int, ...]:
    """Return the numbers of a list with commas."""
    return tuple(int(one) for one in text.split(","))
