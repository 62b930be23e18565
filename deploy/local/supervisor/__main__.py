"""`python -m engramq.deploy.local.supervisor`: detach, take the home's lock, and run the stack of the environment."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Callable, Mapping

from engramq.deploy.local import settings
from engramq.deploy.local.home import DeployError, Home, home_from
from engramq.deploy.local.ownership import SUPERVISOR, lock_home
from engramq.deploy.local.settings import take_secrets, with_embedder
from engramq.deploy.local.supervisor.control import Control
from engramq.deploy.local.supervisor.stack import Stack, default_stack
from engramq.deploy.local.supervisor.state import LOCK_BOUND_S
from engramq.deploy.local.supervisor.supervise import Supervisor
from engramq.telemetry.spans import JsonFormatter

logger = logging.getLogger(__name__)


def main(environment: Mapping[str, str], make_stack: Callable[[Home, Mapping[str, str]], Stack] = default_stack) -> int:
    """Fork away from the starter (which sees its child end at once) and supervise until a stop or disuse."""
    if os.fork() != 0:
        # Without clean-up: that is the child's, which goes on.
        os._exit(0)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    home = home_from(dict(environment))
    try:
        home.ensure()
        lock = _lock(home)
        if lock is None:
            # Somebody else won the race to start one; the starter will find it.
            return 0
        stack = make_stack(home, with_embedder(home, environment))
        asyncio.run(_supervise(home, stack, settings.linger_s(environment), lock))
    except DeployError as error:
        logger.critical("Supervisor not started", extra={"code": error.code, "error": str(error)})
        return 1
    except OSError as error:  # of its disk: nothing of ours is wrong
        logger.critical("Supervisor ended", extra={"code": "disk", "error": str(error)})
        return 1
    return 0


async def _supervise(home: Home, stack: Stack, linger_s: float, lock: int) -> None:
    supervisor = Supervisor(home, stack, linger_s, lock)
    async with Control(supervisor).serving():
        await supervisor.run()


def _lock(home: Home) -> int | None:
    try:
        return lock_home(home, SUPERVISOR, LOCK_BOUND_S)
    except DeployError as error:
        if error.code != "home_in_use":
            raise
        return None


if __name__ == "__main__":
    try:
        take_secrets(os.environ)
    except DeployError as problem:
        sys.exit(f"engramq: {problem}")
    sys.exit(main(os.environ))
