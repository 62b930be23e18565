"""Calls that wait for the queue, how many there may be, and how a wait ends: by a result or a refusal, once."""

import asyncio
import time
from dataclasses import dataclass, field
from typing import Any, Final

from engramq.schemas.envelope import Answer
from engramq.schemas.faults import EngramqError, FaultCode, refuse
from engramq.schemas.jobs import RETRY_AFTER_S
from engramq.schemas.vocabulary import WorkerKind

RETRY_AT_ONCE_S: Final = 0.1  # the least that a refused caller is told to wait
WAITING_MAX: Final = 16_384  # callers of a process that may wait at once
WAITING_BYTES: Final = 128 * 1024 * 1024  # of their commands together


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


class WaitingBound:
    """Counts the callers of a process that wait, in all lanes."""

    def __init__(self) -> None:
        self._count = 0
        self._bytes = 0

    def enter(self, size: int) -> None:
        """Count a caller whose command has so many bytes; raises EngramqError `overloaded`, and then counts nothing."""
        if self._count >= WAITING_MAX or self._bytes + size > WAITING_BYTES:
            raise overloaded()
        self._count += 1
        self._bytes += size

    def leave(self, size: int) -> None:
        """Count a caller no longer."""
        self._count -= 1
        self._bytes -= size


@dataclass(slots=True, eq=False)
class WaitingCall:
    """A command whose caller waits: for its answer, or only until it is in its mailbox (`for_reply` false).

    The future's result is the answer, or None when nothing more can be said than that it may be carried out.
    """

    id: str
    data: bytes
    mailbox: WorkerKind
    write: bool
    for_reply: bool
    future: asyncio.Future[Answer | None]
    born: float = field(default_factory=time.monotonic)
    sent: bool = False
    job_id: str = ""

    @property
    def may_be_applied(self) -> bool:
        """Say whether the command may have an effect, now or later."""
        return self.sent and (self.write or not self.for_reply)

    def expire(self) -> None:
        """End the wait: a write that was sent may have been or be carried out, everything else is refused."""
        if self.may_be_applied:
            succeed(self.future)
        else:
            fail(self.future, unavailable())
