"""Where the time of one call goes, stage by stage: `python -m bench.profile [--memories 10000] [--calls 100]`.

One caller at a private stack whose gateway and worker note time stamps (bench.stamps). Prints a table: the median of
each stage, and of the whole, in milliseconds. Stages follow each other without a gap, so they add up in each call.
"""

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from itertools import chain, repeat
from pathlib import Path
from typing import Final

from bench.at_size import Site, site
from bench.common import McpClient
from bench.measured import Report, Work
from bench.stamps import Span, spans_in

WARMING: Final = 20  # calls of each tool that are not counted
STAGES: Final = (
    "client to gateway", "HTTP, MCP", "arguments, scopes", "enqueue", "queue wait", "model", "transaction", "ranking",
    "rest of the handler", "settle", "reply list", "out to the client",
)  # fmt: skip
WHOLE: Final = "whole call"

Called = tuple[int, int]  # when the client began and ended a call, in ns


def stages_of(called: Called, spans: Sequence[Span]) -> dict[str, float]:
    """Return the milliseconds of each stage of a call; raises KeyError when a stamp is missing."""
    first = {name: (begun, ended) for name, begun, ended in reversed(spans)}
    (asked, answered), (began, ended) = first["asked"], first["handler"]
    # A search asks the database while the model runs: of that only what takes longer than the model counts here.
    ranking, model = _covered(spans, "ranking"), _covered(spans, "model")
    transaction = _covered(spans, "model", "transaction") - model
    taken = (
        first["request"][0] - called[0],
        first["service"][0] - first["request"][0],
        asked - first["service"][0],
        first["sealed"][1] - asked,
        began - first["sealed"][1],
        model,
        transaction - ranking,
        ranking,
        ended - began - model - transaction,
        first["settle"][0] - ended,
        answered - first["settle"][0],
        called[1] - answered,
    )
    return {**{stage: ns / 1e6 for stage, ns in zip(STAGES, taken, strict=True)}, WHOLE: (called[1] - called[0]) / 1e6}


def _covered(spans: Sequence[Span], *names: str) -> int:
    """Return how long at least one of these lasted, in ns."""
    covered, until = 0, 0
    for _, begun, ended in sorted((span for span in spans if span[0] in names), key=lambda span: span[1]):
        covered += max(0, ended - max(begun, until))
        until = max(until, ended)
    return covered


def of_calls(calls: Sequence[Called], spans: Sequence[Sequence[Span]]) -> dict[str, float]:
    """Return the median of each stage over calls that one caller made one after another."""
    requests = sorted((begun, several) for several in spans for name, begun, _ in several if name == "request")
    stages = []
    for called in calls:
        (several,) = [several for begun, several in requests if called[0] <= begun <= called[1]]
        stages.append(stages_of(called, several))
    return {stage: statistics.median(stage_times[stage] for stage_times in stages) for stage in (*STAGES, WHOLE)}


def table(profiles: dict[str, dict[str, float]]) -> str:
    """Return the profiles of tools side by side."""
    rows = [("ms, medians", *profiles)]
    rows += [(stage, *(f"{profile[stage]:.2f}" for profile in profiles.values())) for stage in (*STAGES, WHOLE)]
    return "\n".join(f"{name:<22}" + "".join(f"{cell:>18}" for cell in cells) for name, *cells in rows)


async def call_in_turn(port: int, work: Work, count: int) -> list[Called]:
    """Make so many calls, one after the other, after some that are not counted."""
    calls = []
    async with McpClient.connect(port) as client:
        for counted in chain(repeat(False, WARMING), repeat(True, count)):
            begun = time.perf_counter_ns()
            await work(client)
            if counted:
                calls.append((begun, time.perf_counter_ns()))
    return calls


def measure(memories: int, calls: int) -> dict[str, dict[str, float]]:
    """Return the stages of each tool."""
    made: dict[str, list[Called]] = {}
    with ExitStack() as cleanup:
        folder = Path(cleanup.enter_context(tempfile.TemporaryDirectory(prefix="engramq-profile-")))
        launcher = (sys.executable, "-m", "bench.stamps", str(folder))
        with site(Report(memories), launcher=launcher) as at:
            for tool, work in _works(at).items():
                made[tool] = asyncio.run(call_in_turn(at.port, work, calls))
        spans = list(spans_in(folder).values())  # written when the processes ended
    return {tool: of_calls(several, spans) for tool, several in made.items()}


def _works(at: Site) -> dict[str, Work]:
    graph = at.with_graph()

    async def get_edge(client: McpClient) -> None:
        await client.call("get_edge", **graph.triple())

    return {"search_memories": at.search, "get_edge": get_edge, "store_memory": at.store}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memories", type=int, default=10_000)
    parser.add_argument("--calls", type=int, default=100)
    chosen = parser.parse_args()
    profiles = measure(chosen.memories, chosen.calls)
    print(f"{chosen.memories} memories, {chosen.calls} calls of one caller, load {os.getloadavg()[0]:.1f}")
    print(table(profiles))


if __name__ == "__main__":
    main()
