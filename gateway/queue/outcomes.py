"""How the wait of a caller of the queue ends: its future gets a result or a refusal, once."""

import asyncio
from typing import Any, Final

from engramq.schemas.faults import EngramqError, FaultCode, refuse
from engramq.schemas.jobs import RETRY_AFTER_S

RETRY_AT_ONCE_S: Final = 0.1  # the least that a refused caller is told to wait


def unavailable(why: str = "") -> EngramqError:
    """Return the refusal of what cannot be sent or the server refuses, and of a read that was not answered."""
    return refuse(FaultCode.UNAVAILABLE, why or "The queue cannot be reached or did not answer in time.")


def overloaded(retry_after_s: float = 0.0, why: str = "") -> EngramqError:
    """Return the refusal of what there is no room for, or would wait for too long; 0: nobody knows until when."""
    retry_after_s = max(RETRY_AT_ONCE_S, round(retry_after_s, 1)) if retry_after_s else RETRY_AFTER_S
    return refuse(FaultCode.OVERLOADED, why or "Too many requests are waiting.", retry_after_s=retry_after_s)


def succeed(future: asyncio.Future[Any]) -> None:
    """End a wait without a result, unless it has ended."""
    if not future.done():
        future.set_result(None)


def fail(future: asyncio.Future[Any], problem: EngramqError) -> None:
    """End a wait with a refusal, unless it has ended."""
    if not future.done():
        future.set_exception(problem)
