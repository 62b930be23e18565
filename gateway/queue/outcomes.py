"""How the wait of a caller of the queue ends: its future gets a result or a refusal, once."""

import asyncio
from typing import Any

from engramq.schemas.faults import EngramqError, FaultCode, refuse
from engramq.schemas.jobs import RETRY_AFTER_S


def unavailable() -> EngramqError:
    """Return the refusal of what cannot be sent, and of a read that was not answered."""
    return refuse(FaultCode.UNAVAILABLE, "The queue cannot be reached or did not answer in time.")


def overloaded() -> EngramqError:
    """Return the refusal of what there is no room for."""
    return refuse(FaultCode.OVERLOADED, "Too many requests are waiting.", retry_after_s=RETRY_AFTER_S)


def succeed(future: asyncio.Future[Any]) -> None:
    """End a wait without a result, unless it has ended."""
    if not future.done():
        future.set_result(None)


def fail(future: asyncio.Future[Any], problem: EngramqError) -> None:
    """End a wait with a refusal, unless it has ended."""
    if not future.done():
        future.set_exception(problem)
