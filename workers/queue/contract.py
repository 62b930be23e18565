"""Define what a worker's handlers and its queue agree on.

A runner gets an Assignment, has a handler carry it out, and returns a Completion. It knows nothing of Redis, queues,
retries or replies; the queue knows nothing of memories.
"""

import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from engramq.schemas.clocks import clock
from engramq.schemas.commands import Command, Reply
from engramq.schemas.envelope import Envelope
from engramq.schemas.vocabulary import WorkerKind
from engramq.workers.queue.background import Activity

LEASE_S: Final = 5.0  # after which another worker takes a dead one's job over


class LeaseLost(Exception):
    """The lease has run out: stop without any effect; its new holder finishes the command."""


class ResultUnknown(Exception):
    """The store cannot say whether an effect was committed: do not answer, carry the command out again later.

    The ledger makes the repetition harmless.
    """


@dataclass(slots=True)
class Lease:
    """The right to carry a command out: lost when the worker was away for too long and another has taken over.

    It counts from when its claim or renewal was sent, not from the answer.
    """

    token: str
    sent_at: float
    lost: bool = False
    abandoned: bool = False  # lost since nobody waits for the job any more

    def require(self, seconds: float = 0.0) -> None:
        """Return if the lease surely holds for that many more seconds, else raise LeaseLost."""
        if self.lost or clock() + seconds >= self.sent_at + LEASE_S:
            raise LeaseLost


@dataclass(frozen=True, slots=True)
class SessionState:
    """The part of a session's state that a command changes; the script that sends the reply writes it."""

    stored: str | None = None
    recalled: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class SessionUse:
    """A call in a session. Times are milliseconds of Redis's clock.

    `intervals` are the times (from, until) between calls less than half an hour apart that no SessionUse has reported
    yet; `instance` tells the sessions of one name apart.
    """

    namespace: str
    session: str  # with its principal, percent-encoded: no character of it is special to an array or a key
    instance: int
    intervals: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class FollowUp:
    """A command that a handler enqueues with its completion, or a moment later if it is one to be gathered.

    Nobody waits for its reply.
    """

    namespace: str
    command: Command


@dataclass(slots=True)
class Completion:
    """The outcome of a command. `replayed`: it was carried out before, and this is the stored reply."""

    reply: Reply
    session_state: SessionState | None = None
    follow_ups: tuple[FollowUp, ...] = ()
    replayed: bool = False
    # A background task: best effort, nobody waits for it. It gets the use of the command's session, if that is known.
    after_reply: Callable[[SessionUse | None], Awaitable[None]] | None = None


@dataclass(frozen=True, slots=True)
class Assignment:
    """One command to be carried out, under its lease. `patience_s`: how long its caller still waits."""

    envelope: Envelope
    lease: Lease
    patience_s: float = math.inf


@dataclass(frozen=True, slots=True)
class CommandTry:
    """One try of a command, as seen from outside: how long it waited and ran, in seconds, and what came of it."""

    kind: WorkerKind
    command: str
    outcome: str
    waited_s: float
    taken_s: float


RunAssignment = Callable[[Assignment], Awaitable[Completion]]
ObserveTry = Callable[[CommandTry], None]


@dataclass(frozen=True, slots=True)
class WorkerSpec:
    """A worker kind: what runs its commands, and its periodic work."""

    kind: WorkerKind
    runners: Mapping[type[Command], RunAssignment]
    schedule: tuple["Periodic", ...] = field(default=())
    concurrency: int = 32  # commands that one process carries out at a time
    # A background task that gets the sessions that commands used, refused commands too; best effort.
    sessions_used: Callable[[Sequence[SessionUse]], Awaitable[None]] | None = None
    activity: Activity = field(default_factory=Activity)  # of the process
    observe: ObserveTry | None = None  # called with each try of a command


@dataclass(frozen=True, slots=True)
class Periodic:
    """Something to do every so many seconds, by one worker of the kind at a time.

    `run` may return a tuple of FollowUps, which are sent.
    """

    name: str
    every_s: float
    run: Callable[[], Awaitable[Any]]
