"""`engramq worker`: workers until they are asked to stop."""

import asyncio
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from engramq.schemas.settings import Settings, SettingsError
from engramq.schemas.vocabulary import WorkerKind
from engramq.workers.app import run as run_workers
from engramq.workers.cli.running import require_database, run
from engramq.workers.queue.logs import configure_logging


def serve(kinds: Sequence[WorkerKind], settings: Settings, embedder_file: Path | None = None) -> None:
    """Serve these kinds until SIGTERM or SIGINT. `embedder_file`: of the home whose worker this is.

    Raises SettingsError, CommandFailed.
    """
    require_database(settings)
    if not settings.redis_url:
        raise SettingsError("ENGRAMQ_REDIS_URL: it is not set.")
    configure_logging(settings.log_level)
    run(run_workers(kinds, settings, embedder_file=embedder_file), _loop_factory())


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    if sys.platform == "win32":
        return None
    import uvloop  # noqa: PLC0415 - there is none on Windows

    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory
