"""The event loop of a command."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from engramq.schemas.command_line import CommandFailed
from engramq.schemas.servers import UnsupportedServer, let_tls_end
from engramq.schemas.settings import Settings, SettingsError
from engramq.workers.db.database import Store
from engramq.workers.db.readiness import NotReady

T = TypeVar("T")


def run(work: Coroutine[Any, Any, T], loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None) -> T:
    """Run `work` in a loop of its own.

    Raises CommandFailed when PostgreSQL or Redis is not fit.
    """

    async def whole() -> T:
        try:
            return await work
        finally:
            await let_tls_end()

    try:
        with asyncio.Runner(loop_factory=loop_factory) as runner:
            return runner.run(whole())
    except (NotReady, UnsupportedServer) as problem:
        raise CommandFailed(str(problem)) from None


async def in_database(settings: Settings, work: Callable[[Store], Awaitable[T]], *, pool_size: int = 1) -> T:
    """Run `work` with the database open; raises NotReady, and what `work` does."""
    async with await Store.open(
        settings.database_url, pooler=settings.database_pooler, pool_size=pool_size, language=settings.language
    ) as store:
        return await work(store)


def require_database(settings: Settings) -> None:
    """Raise SettingsError where no database is named."""
    if not settings.database_url:
        raise SettingsError("ENGRAMQ_DATABASE_URL: it is not set.")
