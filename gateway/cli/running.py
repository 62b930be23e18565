"""The event loop of a command."""

import os
from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio

from engramq.schemas.command_line import CommandFailed
from engramq.schemas.servers import UnsupportedServer, let_tls_end

T = TypeVar("T")


def run(work: Callable[[], Awaitable[T]]) -> T:
    """Run `work` in a loop of its own; raises CommandFailed when Redis is not fit."""

    async def whole() -> T:
        try:
            return await work()
        finally:
            with anyio.CancelScope(shield=True):
                await let_tls_end()

    try:
        return anyio.run(whole, backend_options={"use_uvloop": os.name != "nt"})
    except UnsupportedServer as problem:
        raise CommandFailed(str(problem)) from None
