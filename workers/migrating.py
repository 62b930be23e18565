"""Migrate a database, in an event loop whose failures a command line can tell.

Apart from admin.py, which loads four times as much: a home migrates at each of its starts.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from engramq.schemas.command_line import CommandFailed, ExitCode
from engramq.schemas.connection import UnsupportedServer, let_tls_end
from engramq.schemas.settings import Settings, SettingsError
from engramq.workers.db.migrate import migrate, to_be_sharded
from engramq.workers.db.readiness import NotReady, Reason, packaged

__all__ = ["migrate", "newest_schema", "require_database", "run", "to_be_sharded"]

T = TypeVar("T")


def run(work: Coroutine[Any, Any, T], loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None) -> T:
    """Run `work` in a loop of its own."""

    async def whole() -> T:
        try:
            return await work
        finally:
            await let_tls_end()

    try:
        with asyncio.Runner(loop_factory=loop_factory) as runner:
            return runner.run(whole())
    except NotReady as problem:
        # A supervisor does not try again then, and says at once what is wrong.
        is_final = problem.reason in {Reason.AHEAD, Reason.CHANGED}
        raise CommandFailed(str(problem), ExitCode.MISUSED if is_final else ExitCode.FAILED) from None
    except UnsupportedServer as problem:
        raise CommandFailed(str(problem)) from None


def require_database(settings: Settings) -> None:
    """Raise SettingsError where no database is named."""
    if not settings.database_url:
        raise SettingsError("ENGRAMQ_DATABASE_URL: it is not set.")


def newest_schema() -> int:
    """Return the number of the last migration that this release knows."""
    return packaged().version
