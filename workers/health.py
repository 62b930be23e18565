"""Serve /healthz and /readyz of a worker: whether its process lives, and whether it serves.

Lives: its event loop turns. Serves: it takes commands from Redis, PostgreSQL answers, its model is loaded. A missing
server is waited for, so a process that does not serve need not be started anew; one that does not live must be.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final

import msgspec

from engramq.schemas.checks import Check, CheckName, failed, health_of
from engramq.schemas.server_checks import database_check
from engramq.schemas.settings import Settings
from engramq.telemetry.listener import PageAnswer, ServedPage, serving
from engramq.workers.checks import WorkerChecks
from engramq.workers.db.database import Store

log = logging.getLogger(__name__)

LOOK_S: Final = 4.0  # more than PostgreSQL and the model are waited for
JSON: Final = "application/json"


def _ready(found: Sequence[Check]) -> PageAnswer:
    health = msgspec.structs.replace(health_of(found).without_details(), refused=[])  # a check says it
    return PageAnswer(503 if health.missing else 200, msgspec.json.encode(health), JSON)


async def _alive() -> PageAnswer:
    return PageAnswer(200, b'{"status":"alive"}', JSON)


_LATE: Final = f"It did not find out within {LOOK_S:.0f} s whether it serves."
_AGAIN: Final = "Ask again; if it says so again, give it more processor time."

# For a model that is loaded here, and for one behind an endpoint.
_SILENT: Final = "The model has not answered yet."
_WAIT: Final = "Wait while it is loaded. With an endpoint see that ENGRAMQ_EMBEDDER_URL answers."


class WorkerHealth:
    """One per process. Before `know` it waits for the database."""

    def __init__(self, stopping: asyncio.Event, polls: Callable[[], bool]) -> None:
        """`polls`: whether its workers take commands from Redis."""
        self._stopping = stopping
        self._polls = polls
        self._known: tuple[Store, WorkerChecks] | None = None
        self._looking: asyncio.Task[PageAnswer] | None = None

    def know(self, store: Store, checks: WorkerChecks) -> None:
        """Tell it what the process works with, now that this is there."""
        self._known = store, checks

    @asynccontextmanager
    async def served(self, settings: Settings) -> AsyncIterator[None]:
        """Tell it over HTTP while the block lasts, where a port is set. Raises SettingsError where that cannot be."""
        if settings.health_port is None:
            yield
            return
        late = _ready([failed(CheckName.WORKER, _LATE, _AGAIN)])
        pages = {
            "/healthz": ServedPage(read=_alive, bound_s=LOOK_S, late=late),
            "/readyz": ServedPage(read=self._share_look, bound_s=LOOK_S, late=late),
        }
        host, port = settings.health_port
        async with serving(host, port, pages, variable="ENGRAMQ_HEALTH_PORT") as bound:
            log.info("Serving health", extra={"host": host, "port": bound})
            yield

    async def _share_look(self) -> PageAnswer:
        """Look; callers that ask meanwhile share the look: they bring no token, so each must be cheap."""
        if self._looking is None:
            self._looking = asyncio.create_task(self._look())
            self._looking.add_done_callback(self._end_look)
        return await asyncio.shield(self._looking)

    def _end_look(self, task: asyncio.Task[PageAnswer]) -> None:
        self._looking = None
        if not task.cancelled():
            task.exception()  # looked at, so that asyncio does not complain when nobody waits any more

    async def _look(self) -> PageAnswer:
        return _ready([check for check in await self._checks() if check is not None])

    async def _checks(self) -> list[Check | None]:
        if self._stopping.is_set():
            return [failed(CheckName.WORKER, "It is stopping.", "Another one takes its place.")]
        if self._known is None:
            return [failed(CheckName.DATABASE, "It waits for the database; its log says why.")]
        store, checks = self._known
        health, model = await asyncio.gather(store.health(), checks.model())
        database = database_check(health.refused, reads=health.reads)
        redis = None if self._polls() else failed(CheckName.REDIS, "It takes no commands from Redis; its log says why.")
        return [redis, database, failed(CheckName.MODEL, _SILENT, _WAIT) if model is None else model]
