"""Assignments as the queue hands them to runners."""

import math
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from engramq.schemas.codec import fingerprint
from engramq.schemas.commands import Command
from engramq.schemas.envelope import Envelope, Principal
from engramq.schemas.ids import uuid7
from engramq.schemas.vocabulary import ALL_SCOPES, DEFAULT_NAMESPACE, DEFAULT_PRINCIPAL
from engramq.workers.queue.contract import Assignment, Lease

OWNER = Principal(name=DEFAULT_PRINCIPAL, scopes=ALL_SCOPES)


def assignment(
    command: Command, *, namespace: str = DEFAULT_NAMESPACE, principal: Principal = OWNER, **envelope: Any
) -> Assignment:
    """Return a job for a command; `envelope` takes any other field of an Envelope, such as idempotency_key."""
    given = {"id": uuid7(), "fingerprint": fingerprint(command), **envelope}
    return Assignment(Envelope(namespace=namespace, principal=principal, command=command, **given), Lease("", math.inf))


def repeated(first: Assignment, **changes: Any) -> Assignment:
    """Return the same command delivered again, to another worker."""
    return Assignment(msgspec.structs.replace(first.envelope, **changes), Lease("", math.inf))


def losing_lease(running: Assignment) -> Callable[[Callable[..., Awaitable[None]]], Callable[..., Awaitable[None]]]:
    """Return what wraps the steps of a job: in the second the lease is lost, and its transaction not committed."""
    steps = 0

    def wrap(step: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
        async def losing(*arguments: Any) -> None:
            nonlocal steps
            steps += 1
            await step(*arguments)
            running.lease.lost = running.lease.lost or steps == 2

        return losing

    return wrap
