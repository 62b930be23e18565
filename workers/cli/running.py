"""The event loop of a command."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from engramq.schemas.command_line import CommandFailed
from engramq.schemas.connection import UnsupportedServer
from engramq.schemas.settings import Settings, SettingsError
from engramq.workers.db.readiness import NotReady

T = TypeVar("T")


def run(work: Coroutine[Any, Any, T], loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None) -> T:
    """Run `work` in a loop of its own; raises CommandFailed when PostgreSQL or Redis is not fit."""
    try:
        with asyncio.Runner(loop_factory=loop_factory) as runner:
            return runner.run(work)
    except (NotReady, UnsupportedServer) as problem:
        raise CommandFailed(str(problem)) from None


def require_database(settings: Settings) -> None:
    """Raise SettingsError where no database is named."""
    if not settings.database_url:
        raise SettingsError("ENGRAMQ_DATABASE_URL: it is not set.")
