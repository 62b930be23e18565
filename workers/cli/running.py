"""The event loop of a command."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from engramq.schemas.command_line import CommandFailed
from engramq.schemas.servers import UnsupportedServer, let_tls_end
from engramq.schemas.settings import Settings, SettingsError
from engramq.workers.db.errors import Held, Moved
from engramq.workers.db.readiness import NotReady

T = TypeVar("T")


def run(work: Coroutine[Any, Any, T], loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None) -> T:
    """Run `work` in a loop of its own.

    Raises CommandFailed when PostgreSQL or Redis is not fit, or settings do not name the namespace's database.
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
    except Moved as moved:
        raise CommandFailed(
            f"Namespace {moved.namespace!r} is in database {moved.place!r}: name it in ENGRAMQ_DATABASES, as "
            f"{moved.place}=URL, and run this again."
        ) from None
    except Held as held:
        raise CommandFailed(f"Nothing was done: {held}. Run this again in a few seconds.") from None


def require_database(settings: Settings) -> None:
    """Raise SettingsError where no database is named."""
    if not settings.database_url:
        raise SettingsError("ENGRAMQ_DATABASE_URL: it is not set.")
