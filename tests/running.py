"""Commands carried out without a queue: handlers over a store, as the queue would call them."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from engramq.schemas.commands import Reply
from engramq.schemas.keys import Keys
from engramq.schemas.settings import Settings, read_settings
from engramq.workers.app import HANDLERS
from engramq.workers.db.database import Store
from engramq.workers.db.transaction import Transaction
from engramq.workers.queue.contract import Assignment, Completion
from engramq.workers.queue.inspection import Inspection
from engramq.workers.runner import CommandHandler, CommandRunner, Context, Services
from tests.lanes import lanes_at

EVERY_HANDLER = tuple(handler for handlers in HANDLERS.values() for handler in handlers)
NO_SERVER = "redis://127.0.0.1:9"


def runner(
    store: Store,
    *handlers: CommandHandler[..., Any],
    inspection: Inspection | None = None,
    settings: Settings | None = None,
    services: Services | None = None,
) -> CommandRunner:
    """Return what carries commands out by these handlers, or by all; without a queue unless one is given."""
    return CommandRunner(
        handlers or EVERY_HANDLER,
        store=store,
        inspection=inspection or Inspection(lanes_at(NO_SERVER, Keys("nobody"))),
        settings=settings or read_settings({}),
        services=services or Services(),
    )


async def run_once(
    store: Store, given: Assignment, effect: Callable[[Transaction], Awaitable[Reply]], *, begun: bool = False
) -> Completion:
    """Carry a command out by a handler that does this; `begun`: a part of it is done already."""

    async def handle(tx: Transaction, _command: object, _context: Context) -> Reply:
        return await effect(tx)

    async def piece(_command: object, _context: Context) -> AsyncIterator[None]:
        yield

    handler = CommandHandler(type(given.envelope.command), handle, portions=piece if begun else None)
    return await runner(store, handler).run(given)


@asynccontextmanager
async def opened(store: Store, namespace: str) -> AsyncIterator[Transaction]:
    """Open one transaction, tried once, for as long as the block lasts."""
    async with store._pool.connection() as connection, await store._enter(connection, namespace, read_only=False) as tx:
        yield tx
