"""Faults of the network between our processes and the servers."""

import asyncio
from typing import Any

from tests.faults.fault import Fault, Needs
from tests.faults.proxy import Weather
from tests.faults.world import World

SLOW_S = 4.0
# Longer than a lease; shorter and longer than what calls, statements and transactions may take.
LENGTHS_S = {("worker", "half"): 8, ("worker", "black"): 14, ("gateway", "half"): 8, ("gateway", "black"): 14,
             ("postgres", "half"): 12, ("postgres", "black"): 35}  # fmt: skip
_WEATHERS = {"half": Weather.HALF_OPEN, "black": Weather.BLACK, "slow": Weather.SLOW}


async def cut(world: World, name: str) -> None:
    """Break off every connection there."""
    world.proxies[name].cut()


async def storm(world: World, name: str, kind: str) -> None:
    """Let nothing come back, nothing through, or everything late, for a while; connections stay open."""
    proxy = world.proxies[name]
    proxy.become(_WEATHERS[kind])
    try:
        await asyncio.sleep(LENGTHS_S.get((name, kind), SLOW_S))
    finally:
        proxy.become(Weather.FAIR)


def _fault(name: str, cause: Any, *given: str) -> Fault:
    async def brought_about(world: World) -> None:
        await cause(world, *given)

    brought_about.__doc__ = cause.__doc__
    return Fault(name, brought_about, times=3, needs=Needs.PROXIES)


_SIDES = {"gateway": "redis_of_gateways", "worker": "redis_of_workers", "postgres": "postgres"}
FAULTS = tuple(
    fault
    for name, side in _SIDES.items()
    for fault in (
        _fault(f"{side}_cut", cut, name),
        _fault(f"{side}_half_open", storm, name, "half"),
        _fault(f"{side}_black_hole", storm, name, "black"),
        _fault(f"{side}_slow", storm, name, "slow"),
    )
)
