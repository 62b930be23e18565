"""Runs a fault under load as often as is wanted, and gives one line about it."""

import os
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from bench.common import percentile
from engramq.workers.queue.dead_letters import DeadLetter
from tests.faults import clocks, homes, network, processes, servers
from tests.faults.fault import Fault, Needs
from tests.faults.load import Load
from tests.faults.verdict import verdict
from tests.faults.world import new_world

FAULTS = {
    fault.name: fault for fault in (*processes.FAULTS, *clocks.FAULTS, *servers.FAULTS, *network.FAULTS, *homes.FAULTS)
}
CALLERS = 8
CALLERS_IN_SHORT = 4  # two that write, one that asks when it is served, one that reads
PAUSE_IN_SHORT_S = 0.05
MADE_ANEW = {"ClassifySectors", "EmbedPending", "LinkActivated"}  # by upkeep, whose effect the verdict looks for
READS_AFTER_S = 1.0  # within which a fault has to be told from a hiccup
BEFORE = 10  # stores, before the first fault
BETWEEN = 6


def _command(letter: DeadLetter) -> str:
    envelope = letter.envelope()
    return "unreadable" if envelope is None else type(envelope.command).__name__


@asynccontextmanager
async def site_for(fault: Fault) -> AsyncIterator[Any]:
    """Start the stack that a fault needs."""
    match fault.needs:
        case Needs.HOME:
            async with homes.new_home(fault) as home:
                yield home
        case needs:
            async with new_world(proxied=needs is Needs.PROXIES, on_small_disk=fault.small_disk) as world:
                yield world


async def run(
    fault: Fault, site: Any, times: int, *, seed: int | None = None, callers: int = CALLERS, pause_s: float = 0.0
) -> dict[str, Any]:
    """Cause a fault so many times under load; return the figures, `held` among them: whether all is as promised.

    `pause_s`: how long each caller rests after a call.
    """
    seed = random.randrange(2**32) if seed is None else seed
    name = f"{seed:08x}"
    before = {letter.id for letter in await site.dead_letters()}
    load = Load(await site.callers(callers), name, seed=seed, pause_s=pause_s)
    backs: list[float] = []
    spans: list[tuple[float, float]] = []  # in which reads have to go on
    began = time.monotonic()
    load.start()
    try:
        await load.more(BEFORE)
        for _ in range(times):
            caused = time.monotonic()
            await fault.cause(site)
            spans.append((caused + READS_AFTER_S, time.monotonic()))
            backs.append(await load.served_after(time.monotonic()))
            await load.more(BETWEEN)
    finally:
        await load.stop()
    account = load.account
    found = await verdict(site, account, name)
    letters = [letter for letter in await site.dead_letters() if letter.id not in before]
    unexpected = sum(_command(letter) not in MADE_ANEW for letter in letters) - times * fault.dead_letters
    told = {what: count for what, count in account.told.most_common() if what != "done"}
    held = found.is_clean and not unexpected and max(backs, default=0.0) <= fault.back_s
    held = held and not (fault.keeps_pending and found.forgotten)
    reads = [good for at, good in account.reads if any(first <= at < last for first, last in spans)]
    held = held and not (fault.unnoticed and account.failed) and not (fault.reads_go_on and not (reads and all(reads)))
    return {
        "fault": fault.name,
        "times": times,
        "held": held,
        **found.told(),
        "dead_letters": unexpected,
        "letters": [f"{_command(letter)}: {letter.error}, {letter.attempts}" for letter in letters][:5],
        "back_max_s": round(max(backs, default=0.0), 2),
        "back_target_s": fault.back_s,
        "calls": sum(account.told.values()),
        "failed": account.failed,
        "told": told,
        "reads_meanwhile": sum(reads),
        "reads_refused": len(reads) - sum(reads),
        "p99_s": round(percentile(account.latencies_s, 0.99), 2),
        "slowest_s": round(account.slowest_s, 2),
        "seconds": round(time.monotonic() - began, 1),
        "seed": seed,
        "load_1m": round(os.getloadavg()[0], 2),
    }


async def run_in_short(fault: Fault, site: Any) -> dict[str, Any]:
    """Cause a fault once, under a load that leaves the processors to other tests: a fault lasts for many seconds."""
    return await run(fault, site, 1, callers=CALLERS_IN_SHORT, pause_s=PAUSE_IN_SHORT_S)
