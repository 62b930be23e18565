"""Two worker processes beside one, on a machine with cores enough for them, the gateway, PostgreSQL and the callers."""

import os
import statistics
from typing import Final

from bench.at_size import MANY, Load, Site
from bench.common import await_ready
from bench.settled import Watch

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
