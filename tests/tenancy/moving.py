"""Moving a tenant between two databases in tests; as a program, a move that dies by SIGKILL as it comes to a step."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable

from engramq.workers.db.owner import Owner
from engramq.workers.tenants.moving import Move, Moved, Place, Step

HERE, THERE = "primary", "second"


async def move(namespace: str, here: str, there: str, tell: Callable[[Step], None] = lambda _step: None) -> Moved:
    """Move a namespace between databases that are given by their owners' URLs."""
    async with Owner.opened(here) as source, Owner.opened(there) as target:
        return await _between(namespace, source, target, tell).run()


async def move_back(namespace: str, here: str, there: str) -> Moved:
    """Move a namespace back from `there`."""
    async with Owner.opened(here) as source, Owner.opened(there) as target:
        back = Place(name=THERE, side=target), Place(name=HERE, side=source)
        return await Move(namespace=namespace, here=back[0], there=back[1], actor="operator").run()


async def abort(namespace: str, here: str, there: str) -> None:
    """Take a move back."""
    async with Owner.opened(here) as source, Owner.opened(there) as target:
        await _between(namespace, source, target, lambda _step: None).abort()


def _between(namespace: str, source: Owner, target: Owner, tell: Callable[[Step], None]) -> Move:
    return Move(
        namespace=namespace,
        here=Place(name=HERE, side=source),
        there=Place(name=THERE, side=target),
        actor="operator",
        tell=tell,
    )


async def killed_at(step: Step, namespace: str, here: str, there: str) -> None:
    """Run a move in a process that is killed as it comes to a step; return when it is dead."""
    program = (sys.executable, "-m", "tests.tenancy.moving", step, namespace, here, there)
    process = await asyncio.create_subprocess_exec(*program)
    assert await asyncio.wait_for(process.wait(), 60) == -signal.SIGKILL


def _die_at(wanted: str) -> Callable[[Step], None]:
    def tell(step: Step) -> None:
        if step == wanted:
            os.kill(os.getpid(), signal.SIGKILL)

    return tell


if __name__ == "__main__":
    asyncio.run(move(sys.argv[2], sys.argv[3], sys.argv[4], _die_at(sys.argv[1])))
