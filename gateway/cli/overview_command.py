"""What `engramq status` and `engramq doctor` ask of Redis, and through it of the workers, without any gateway."""

import asyncio
import logging
from functools import partial

from engramq.gateway.cli.running import run
from engramq.gateway.health import Health, whole_health_in
from engramq.gateway.identity.authorization import settings_caller
from engramq.gateway.overview import overview_of, redis_check
from engramq.gateway.queue.lanes import of_those_that_answer, open_bus
from engramq.gateway.queue.look import Look, NoLook, look_at, missing_rights
from engramq.schemas.checks import CheckName, merged, status_of
from engramq.schemas.lanes import lanes_of
from engramq.schemas.overview import Check, Overview
from engramq.schemas.servers import UnsupportedServer
from engramq.schemas.settings import Settings


def overview(settings: Settings) -> Overview:
    """Return how the installation at `settings.redis_url` is, within about 8 s."""
    logging.getLogger("engramq").addHandler(logging.NullHandler())  # what is wrong is told by the checks
    return run(partial(_overview, settings))


def whole_health(settings: Settings) -> Health:
    """Return the same in the form in which a home's gateway tells it to its supervisor."""
    return whole_health_in(overview(settings))


def redis_alone(settings: Settings) -> Check:
    """Check that Redis answers and takes writes, within about 4 s; no worker is asked."""
    return run(partial(_redis_alone, settings))


async def _redis_alone(settings: Settings) -> Check:
    lanes = lanes_of(settings)
    found = await asyncio.gather(*(look_at(lane.redis, lane.keys) for lane in lanes.all), return_exceptions=True)
    try:
        look, away = of_those_that_answer(found)
        there = next(lane for lane, one in zip(lanes.all, found, strict=True) if isinstance(one, Look))
        refused = look.refused or await missing_rights(there.redis, there.keys)
    except NoLook as problem:
        return redis_check(str(problem), answers=False)
    return redis_check(refused or away, answers=not refused)


async def _overview(settings: Settings) -> Overview:
    try:
        async with open_bus(settings) as bus:
            found = await overview_of(bus, settings_caller(settings))
    except UnsupportedServer as problem:
        checks = [redis_check(str(problem), answers=False)]
        return Overview(status=status_of(checks), checks=checks, mailboxes=[])
    first = lanes_of(settings).first
    try:
        missing = await missing_rights(first.redis, first.keys)
    except NoLook:
        return found  # the look has said why
    if not missing:
        return found
    cut_off = any(one.name == CheckName.REDIS and one.state == "failed" for one in found.checks)
    checks = merged([redis_check(missing, answers=not cut_off), *found.checks])  # of two as bad the first counts
    return Overview(status=status_of(checks), checks=checks, mailboxes=found.mailboxes)
