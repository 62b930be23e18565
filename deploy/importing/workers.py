"""Whether somebody takes imports: told at once, since a batch would wait in its mailbox for ever."""

import time
from typing import Final

import anyio
import click

from engramq.schemas.connection import CONNECTION_ERRORS, RedisConnection, pack
from engramq.schemas.jobs import ALIVE_S
from engramq.schemas.lanes import Lane
from engramq.schemas.servers import UnsupportedServer
from engramq.schemas.vocabulary import WorkerKind

SILENT_S: Final = 3 * ALIVE_S  # after which a worker counts as gone
QUIET_S: Final = 2.0  # before it is said: a stack that this very command has started needs a moment
START_S: Final = 10.0  # that workers get which are being started
RETURN_S: Final = 60.0  # and workers that are being restarted
ASK_S: Final = 0.2
START_ONE: Final = "Start one: `engramq worker imports`, or `engramq worker --all`. See `engramq status`."


class NoWorker(Exception):
    """Nobody takes imports; the message says what to do."""


class ImportWorkers:
    """The workers of the imports mailbox, as their signs of life in Redis show them."""

    def __init__(self, lane: Lane) -> None:
        self._redis = RedisConnection(lane.redis)
        self._key = lane.keys.of[WorkerKind.IMPORTS].alive

    async def require(self, patience_s: float) -> None:
        """Return when there is one; says so soon when there is none, and raises NoWorker when none comes."""
        begun, told = time.monotonic(), False
        while not await self._are_there():
            waited_s = time.monotonic() - begun
            if waited_s >= patience_s:
                break
            if waited_s >= QUIET_S and not told:
                told = True
                click.echo(f"No worker takes imports; waiting {patience_s:.0f} s for one. {START_ONE}", err=True)
            await anyio.sleep(ASK_S)
        else:
            return
        raise NoWorker(f"No worker takes imports. {START_ONE}")

    async def watch(self) -> None:
        """Raise NoWorker once there have been none for a while."""
        while True:
            await anyio.sleep(ALIVE_S)
            await self.require(RETURN_S)

    async def _are_there(self) -> bool:
        """Say whether one has shown a sign of life; also when Redis cannot be asked, which whoever sends will tell."""
        try:
            await self._redis.open()
            (count,) = await self._redis.exchange([pack("ZCOUNT", self._key, time.time() - SILENT_S, "+inf")])
        except (*CONNECTION_ERRORS, UnsupportedServer):
            return True
        return not isinstance(count, int) or count > 0

    async def close(self) -> None:
        """Close the connection."""
        await self._redis.close()
