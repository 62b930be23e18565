"""How a supervisor process comes to be: detached from its starter, alone on its home, logging into a file."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from engramq.deploy.local import settings
from engramq.deploy.local.embedded.servers import lock_home
from engramq.deploy.local.home import DeployError, Home, home_from
from engramq.deploy.local.settings import with_embedder
from engramq.deploy.local.supervisor.control import Control
from engramq.deploy.local.supervisor.default import default_stack
from engramq.deploy.local.supervisor.stack import Stack
from engramq.deploy.local.supervisor.supervise import Supervisor

# One that is just leaving has closed its socket a moment before the kernel takes its lock.
LOCK_BOUND_S = 1.5

StackMaker = Callable[[Home, Mapping[str, str]], Stack]

_STANDARD_FIELDS = frozenset(vars(logging.makeLogRecord({}))) | {"message"}


def main(environment: Mapping[str, str], make_stack: StackMaker = default_stack) -> int:
    """Fork away from the starter (which sees its child end at once) and supervise until told to stop or unused."""
    if os.fork() != 0:
        # Without clean-up: that is the child's, which goes on.
        os._exit(0)
    logging.basicConfig(level=logging.INFO, handlers=[_json_to_stderr()])
    logger = logging.getLogger(__name__)
    home = home_from(dict(environment))
    try:
        home.ensure()
        lock = _lock(home)
        if lock is None:
            # Somebody else won the race to start one; the starter will find it.
            return 0
        stack = make_stack(home, with_embedder(home, environment))
        asyncio.run(_supervise(home, stack, settings.linger_s(dict(environment))))
        os.close(lock)
    except DeployError as error:
        logger.critical("Supervisor not started", extra={"code": error.code, "error": str(error)})
        return 1
    return 0


async def _supervise(home: Home, stack: Stack, linger_s: float) -> None:
    supervisor = Supervisor(home, stack, linger_s)
    async with Control(supervisor).serving():
        await supervisor.run()


def _lock(home: Home) -> int | None:
    deadline = time.monotonic() + LOCK_BOUND_S
    while True:
        try:
            return lock_home(home)
        except DeployError:
            if time.monotonic() > deadline:
                return None
            time.sleep(0.02)


def _json_to_stderr() -> logging.Handler:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonFormatter())
    return handler


class _JsonFormatter(logging.Formatter):
    """One JSON object per record: time, level, message, and what the record carries as extras."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname,
            "message": record.getMessage(),
        }
        line |= {name: value for name, value in vars(record).items() if name not in _STANDARD_FIELDS}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)
