"""Redis's append-only file holds every command that was ever queued, contents too, until it is written anew.

Whoever erases leaves a mark. Upkeep writes the file anew where there is one, and takes away the one that it began with.
"""

import asyncio
import logging
from typing import Any, Final

from redis.exceptions import ResponseError

from engramq.schemas.ids import uuid7
from engramq.schemas.keys import Keys
from engramq.schemas.lanes import Lanes
from engramq.schemas.scripts import MARK_ERASED, UNMARK_ERASED
from engramq.schemas.servers import masters_of, run

log = logging.getLogger(__name__)

REWRITE_EVERY_S: Final = 3_600.0  # how often upkeep looks for the mark; what is erased is promised to be gone in a day
REWRITE_S: Final = 600.0  # for one writing: 100 MB take about a second
POLL_S: Final = 0.05


class NotRewritten(Exception):
    """The file was not written anew; the text says why."""


async def mark_erased(redis: Any, keys: Keys) -> None:
    """Note that something was erased which the file still holds."""
    await run(redis, MARK_ERASED, keys, (keys.erased,), uuid7())


async def rewrite_marked(redis: Any, lanes: Lanes) -> bool:
    """Write the file anew if something was erased since it last was; return whether it was written.

    What a server refuses is tried again the next time, and logged each time. Raises CLIENT_ERRORS.
    """
    marks = {keys: mark for keys in lanes.all if (mark := await redis.get(keys.erased)) is not None}
    if not marks:
        return False
    try:
        written = await rewrite(redis)
    except NotRewritten as problem:
        log.warning("What was erased is still in Redis's append-only file", extra={"problem": str(problem)})
        return False
    for keys, mark in marks.items():
        if not await run(redis, UNMARK_ERASED, keys, (keys.erased,), mark):
            log.info("More was erased while the append-only file was written anew")
    return written


async def rewrite(redis: Any) -> bool:
    """Write the file anew, of each master of a cluster, and wait until that is done.

    Returns False where there is no such file. Raises NotRewritten when a server refuses or fails, or is not done in
    time; CLIENT_ERRORS.
    """
    return any([await _rewrite(master) for master in await masters_of(redis)])


async def _rewrite(redis: Any) -> bool:
    if not (await redis.execute_command("INFO", "persistence")).get("aof_enabled"):
        return False
    try:
        async with asyncio.timeout(REWRITE_S):
            await _settled(redis)  # one that is under way may have begun before the erasure
            await redis.execute_command("BGREWRITEAOF")
            found = await _settled(redis)
    except ResponseError as refusal:
        raise NotRewritten(f"Redis refuses BGREWRITEAOF: {refusal}") from refusal
    except TimeoutError:
        raise NotRewritten(f"Redis was not done with BGREWRITEAOF within {REWRITE_S:.0f} s") from None
    if found.get("aof_last_bgrewrite_status") != "ok":
        raise NotRewritten("BGREWRITEAOF failed; Redis's own log says why")
    log.info("Append-only file written anew", extra={"bytes": found.get("aof_current_size")})
    return True


async def _settled(redis: Any) -> dict[str, Any]:
    """Wait until no writing is under way or about to begin; return what the server then says of persistence."""
    while True:
        found: dict[str, Any] = await redis.execute_command("INFO", "persistence")
        if not (found.get("aof_rewrite_in_progress") or found.get("aof_rewrite_scheduled")):
            return found
        await asyncio.sleep(POLL_S)
