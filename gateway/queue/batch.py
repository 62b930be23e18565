"""Commands on their way to Redis: gathered into batches, one job each, by mailbox, kept until Redis has answered."""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from engramq.gateway.queue.waiting import WaitingCall, fail
from engramq.schemas.codec import encode_job
from engramq.schemas.connection import pack_script
from engramq.schemas.faults import EngramqError
from engramq.schemas.jobs import BULK, COMMANDS_PER_JOB, FEWEST_WAITING, JOB_BYTES, LONGEST_WAIT_S
from engramq.schemas.keys import JOB_KEY, Keys
from engramq.schemas.scripts import ENQUEUE_READS, ENQUEUE_WRITES
from engramq.schemas.vocabulary import WorkerKind

_NO_BATCH: Final = (None, 0)
WRITE_BYTES: Final = 4 * 1024 * 1024  # one write takes no further batch beyond this size


@dataclass(slots=True, eq=False)
class Batch:
    """Commands that become one job: all reads or all writes.

    `uncertain`: it was sent before, and whether it arrived is unknown.
    """

    mailbox: WorkerKind
    commands: list[WaitingCall]
    job_id: str = ""
    packed: bytes = b""
    uncertain: bool = False

    def seal(self, keys: Keys, bound: int) -> None:
        """Give the job its id and its final form; sending the same form twice makes one job."""
        self.job_id = keys.job_id(self.commands[0].id, len(self.commands))
        payload = encode_job([waiting.data for waiting in self.commands], time.time_ns() // 1_000_000)
        of = keys.of[self.mailbox]
        where = (of.mailbox, of.wakeups, of.depth, JOB_KEY + self.job_id, of.rate, *keys.guard)
        longest_ms = 0 if self.mailbox in BULK else round(LONGEST_WAIT_S * 1000)
        script = ENQUEUE_WRITES if self.commands[0].write else ENQUEUE_READS
        self.packed = pack_script(script, where, (self.job_id, payload, bound, longest_ms, FEWEST_WAITING))
        for waiting in self.commands:
            waiting.job_id = self.job_id

    def refuse(self, problem: Callable[[], EngramqError]) -> None:
        """End the waits for all commands; `problem` makes the refusal of each."""
        for waiting in self.commands:
            fail(waiting.future, problem())

    def first(self, count: int) -> "Batch":
        """Return a batch of the first `count` commands; what remains here is the rest."""
        head = Batch(self.mailbox, self.commands[:count])
        self.commands = self.commands[count:]
        return head


class Outbox:
    """What has not been taken by Redis yet: `new` commands, and batches to `resend`.

    Its size is bounded by the number of callers that may wait.
    """

    def __init__(self, keys: Keys, bound: int) -> None:
        self._keys = keys
        self._bound = bound
        self.new: deque[WaitingCall] = deque()
        self.resend: deque[Batch] = deque()

    def take(self) -> list[Batch]:
        """Return batches for one write, the oldest first; commands whose callers have gone are left out."""
        batches: list[Batch] = []
        size = 0
        while self.resend and size < WRITE_BYTES:
            again = self.resend.popleft()
            if not all(waiting.future.done() for waiting in again.commands):
                batches.append(again)
                size += sum(len(waiting.data) for waiting in again.commands)
        open_batches: dict[tuple[WorkerKind, bool], tuple[Batch, int]] = {}
        while self.new and size < WRITE_BYTES:
            waiting = self.new.popleft()
            if waiting.future.done():
                continue
            size += len(waiting.data)
            sort = (waiting.mailbox, waiting.write)
            batch, filled = open_batches.get(sort, _NO_BATCH)
            if batch is None or len(batch.commands) == COMMANDS_PER_JOB or filled >= JOB_BYTES:
                batch, filled = Batch(waiting.mailbox, []), 0
                batches.append(batch)
            batch.commands.append(waiting)
            open_batches[sort] = (batch, filled + len(waiting.data))
        for batch in batches:
            if not batch.packed:
                batch.seal(self._keys, self._bound)
        return batches

    def overdue(self, age_s: float) -> list[WaitingCall]:
        """Return the commands older than this that can be refused: those that were never sent, and reads."""
        latest = time.monotonic() - age_s
        overdue = []
        while self.new and self.new[0].born <= latest:
            overdue.append(self.new.popleft())
        for batch in self.resend:
            overdue += [waiting for waiting in batch.commands if waiting.born <= latest and not waiting.may_be_applied]
        return overdue
