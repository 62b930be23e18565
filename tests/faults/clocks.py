"""Faults of clocks: all workers, or all gateways, of a machine whose clock is an hour off, by libfaketime."""

import asyncio
import signal
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from tests.faults.fault import Fault, NotHere
from tests.faults.world import BOUND_S, World

WRONG_S = 5.0  # for so long
LIBRARY = "usr/lib/*/faketime/libfaketime.so.1"
# Debian's own, or what `make test-scale` has fetched.
PLACES = (Path("/"), Path(__file__).parents[2] / ".environments" / "scale" / "root")


def an_hour_off(sign: str) -> dict[str, str]:
    """Return the variables by which a process gets another clock; the one that measures spans stays as it is.

    Raises NotHere.
    """
    library = next((found for root in PLACES for found in root.glob(LIBRARY)), None)
    if library is None:
        raise NotHere("libfaketime is not here: `make test-scale` fetches it, or Debian's package libfaketime has it")
    return {"LD_PRELOAD": str(library), "FAKETIME": f"{sign}3600s", "DONT_FAKE_MONOTONIC": "1"}


async def workers_clock(world: World, sign: str) -> None:
    """Replace all workers by some whose clock is an hour off, and later these by others."""
    await _replace_workers(world, an_hour_off(sign))
    await asyncio.sleep(WRONG_S)
    await _replace_workers(world, {})


async def gateways_clock(world: World, sign: str) -> None:
    """Replace all gateways by some whose clock is an hour off, and later these by others."""
    await _replace_doors(world, an_hour_off(sign))
    await asyncio.sleep(WRONG_S)
    await _replace_doors(world, {})


async def _replace_workers(world: World, clock: Mapping[str, str]) -> None:
    old = list(world.workers)
    for _ in old:
        world.new_worker(clock)
    await world.alive(2 * len(old))
    for worker in old:
        world.workers.remove(worker)
        await world.kill(worker, signal.SIGTERM)


async def _replace_doors(world: World, clock: Mapping[str, str]) -> None:
    old = list(world.doors)
    for _ in old:
        world.new_door(clock=clock)
    await world.ready()
    for door in old:
        world.doors.remove(door)
        door.process.send_signal(signal.SIGTERM)
    for door in old:
        await asyncio.to_thread(door.process.wait, BOUND_S)


def _fault(whose: str, cause: Callable[[World, str], Awaitable[None]], word: str, sign: str) -> Fault:
    async def brought_about(world: World) -> None:
        await cause(world, sign)

    brought_about.__doc__ = cause.__doc__
    return Fault(f"{whose}_clock_{word}", brought_about, 3, unnoticed=True)


FAULTS = tuple(
    _fault(whose, cause, word, sign)
    for whose, cause in (("workers", workers_clock), ("gateways", gateways_clock))
    for word, sign in (("ahead", "+"), ("behind", "-"))
)
