"""The command line of what needs the database: `main` runs one command and returns its exit code."""

import asyncio
import os
import sys
from collections.abc import Callable, Coroutine
from typing import Any, Final

from engramq.schemas.connection import UnsupportedServer
from engramq.schemas.faults import EngramqError
from engramq.schemas.settings import Settings, SettingsError, read_settings
from engramq.schemas.vocabulary import WorkerKind
from engramq.workers.cli.arguments import UsageEnd, parse_migrate, parse_worker
from engramq.workers.db.readiness import NotReady

FAILED: Final = 1
BAD_USAGE: Final = 2


def main(argv: list[str]) -> int:
    """Run the command that `argv` begins with.

    Returns its exit code: 0 done, 1 the database or Redis is not fit, 2 it was called or set wrongly.
    """
    command = {"worker": _worker, "migrate": _migrate, "audit": _audit, "token": _token}[argv[0]]
    try:
        return command(argv[1:])
    except UsageEnd as end:
        return end.code
    except SettingsError as problem:
        return _fail(argv[0], problem, BAD_USAGE)
    except (NotReady, UnsupportedServer) as problem:
        return _fail(argv[0], problem, FAILED)
    except EngramqError as problem:
        return _fail(argv[0], f"{problem.fault.error} {problem.fault.recovery}", FAILED)
    except KeyboardInterrupt:
        return 130


def _worker(arguments: list[str]) -> int:
    kinds = parse_worker(arguments)
    settings = read_settings(os.environ)
    for name, value in (("DATABASE", settings.database_url), ("REDIS", settings.redis_url)):
        if not value:
            raise SettingsError(f"ENGRAMQ_{name}_URL: it is not set.")
    from engramq.workers.app import run  # noqa: PLC0415 - onnxruntime and arq, which `migrate` and --help do without
    from engramq.workers.queue.logs import configure_logging  # noqa: PLC0415 - see above

    configure_logging(settings.log_level)
    _run_loop(lambda: run(kinds or tuple(WorkerKind), settings))
    return 0


def _migrate(arguments: list[str]) -> int:
    wait_s = parse_migrate(arguments)
    settings = _database_settings()
    from engramq.workers.db.migrate import migrate  # noqa: PLC0415 - psycopg, which --help does without

    applied = asyncio.run(migrate(settings.database_url, wait_s=wait_s))
    for name in applied:
        print(f"applied {name}")
    if not applied:
        print("nothing to apply: the database is up to date")
    return 0


def _audit(arguments: list[str]) -> int:
    from engramq.workers.cli.audit_command import parse_audit, show_audit  # noqa: PLC0415 - psycopg, see _migrate

    question = parse_audit(arguments)
    asyncio.run(show_audit(question, _database_settings()))
    return 0


def _token(arguments: list[str]) -> int:
    from engramq.workers.cli.token_command import parse_token, run_token  # noqa: PLC0415 - psycopg, see _migrate

    request = parse_token(arguments)
    return asyncio.run(run_token(request, _database_settings()))


def _database_settings() -> Settings:
    settings = read_settings(os.environ)
    if not settings.database_url:
        raise SettingsError("ENGRAMQ_DATABASE_URL: it is not set.")
    return settings


def _run_loop(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    if sys.platform == "win32":
        asyncio.run(work())
        return
    import uvloop  # noqa: PLC0415 - there is none on Windows

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(work())


def _fail(command: str, problem: Exception | str, code: int) -> int:
    print(f"engramq {command}: {problem}", file=sys.stderr)
    return code
