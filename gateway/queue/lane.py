"""Send the jobs of one lane, and read their answers from its reply list.

Commands are gathered into batches, one job each, by mailbox, and kept until Redis has answered. A wait ends once, by an
answer or a refusal.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from msgspec.structs import replace
from redis.exceptions import BusyLoadingError, NoScriptError, OutOfMemoryError, RedisError

from engramq.schemas.clocks import Presence, clock
from engramq.schemas.codec import DecodeError, PendingNote, decode_answer, encode, encode_job, encode_note
from engramq.schemas.connection import CONNECTION_ERRORS, Lanes, RedisConnection, UnsupportedServer, pack, pack_script
from engramq.schemas.envelope import Answer, Envelope
from engramq.schemas.faults import EngramqError, FaultCode, refuse
from engramq.schemas.ids import uuid7
from engramq.schemas.keys import JOB_KEY, LEASE_KEY, TRIES_KEY, Keys
from engramq.schemas.limits import (
    BULK,
    FEWEST_WAITING,
    JOB_BYTES,
    LONGEST_WAIT_S,
    NOTE_TTL_S,
    REGISTER_S,
    REPLY_LIST_MAX_AGE_S,
    RETRY_AFTER_S,
    commands_per_job,
)
from engramq.schemas.redis_problems import RefusalLog, doubt_of
from engramq.schemas.scripts import ABANDON, ENQUEUE_READS, ENQUEUE_WRITES, REGISTER
from engramq.schemas.vocabulary import WorkerKind
from engramq.telemetry.spans import process_name

log = logging.getLogger(__name__)

UNREACHABLE_S: Final = 2.0  # a command that could not be sent for so long is refused
REFUSED_S: Final = 30.0  # how long a refusal is reported that nothing since has contradicted
SEND_S: Final = 2.0  # for the replies to one write
NOTES_MAX: Final = 1_000  # notes kept while Redis is away
ABANDONED_MAX: Final = 1_000  # jobs that nobody waits for any more, and Redis has not heard of that
NOTE_WAIT_S: Final = 0.5  # how long a caller waits for its note to be written
FULL_S: Final = 0.05  # before a mailbox without room is asked again
BLOCK_S: Final = 5  # of the read that waits for answers
ANSWERS_PER_READ: Final = 256
TAKEN: Final = -1  # what the script that enqueues says of a job that is in its mailbox
BACKOFF_S: Final = (0.02, 0.05, 0.1, 0.2, 0.4, 0.5)
WAITING_MAX: Final = 16_384  # callers of a process that may wait at once
WAITING_BYTES: Final = 128 * 1024 * 1024  # of their commands together
WRITE_BYTES: Final = 4 * 1024 * 1024  # one write takes no further batch beyond this size
RETRY_AT_ONCE_S: Final = 0.1  # the least that a refused caller is told to wait
OF_ITS_OWN: Final = "This namespace has as many requests waiting as it may: half of the places that others leave free."
_NO_BATCH: Final = (None, 0)
_TIME: Final = pack("TIME")
_PING: Final = pack("PING")


def refusal_of_queue(why: str = "") -> EngramqError:
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


@dataclass(slots=True)
class Callers:
    """How many callers of a process wait, in all lanes, and the bytes of their commands."""

    count: int = 0
    bytes: int = 0


@dataclass(slots=True, eq=False)
class WaitingCall:
    """A command whose caller waits.

    The future's result is the answer, or None when all that is known is that it may be carried out.
    """

    envelope: Envelope
    data: bytes
    future: asyncio.Future[Answer | None]
    born: float = field(default_factory=time.monotonic)
    sent: bool = False
    job_id: str = ""
    batch: "Batch | None" = None  # the one it was sent in

    def expire(self) -> None:
        """End the wait: a write that was sent may have been or be carried out, everything else is refused."""
        if self.sent and self.envelope.command.write:
            succeed(self.future)
        else:
            fail(self.future, refusal_of_queue())


@dataclass(slots=True, eq=False)
class Batch:
    """Commands that become one job: all reads or all writes.

    `uncertain`: it was sent before, and whether it arrived is unknown; sending the same `packed` twice makes one job.
    """

    mailbox: WorkerKind
    commands: list[WaitingCall]
    packed: bytes = b""
    uncertain: bool = False

    def refuse(self, problem: Callable[[], EngramqError]) -> None:
        """End the waits for all commands; `problem` makes the refusal of each."""
        for waiting in self.commands:
            fail(waiting.future, problem())


class BusLane:
    """The connections and the waiting calls of one lane. Its owner runs `send_forever` and `read_forever`.

    `new` commands and batches to `resend` have not been taken by Redis yet; the number of callers bounds both.
    """

    def __init__(self, lanes: Lanes, keys: Keys, mailbox_bound: int, callers: Callers) -> None:
        self._lanes = lanes
        self._keys = keys
        self.reply_list = keys.replies(uuid7())
        self._sending = RedisConnection(lanes.server, (ENQUEUE_READS, ENQUEUE_WRITES, ABANDON), key=keys.prefix)
        self._reading = RedisConnection(lanes.server, (REGISTER,), key=keys.prefix)
        self._presence = Presence(
            keys, process_name("gateway"), forgotten_s=REPLY_LIST_MAX_AGE_S, fresh_s=3 * REGISTER_S
        )
        self._redis_ahead_s = time.time() - clock()  # what makes its clock Redis', as far as that has said
        self._mailbox_bound = mailbox_bound
        self._new: deque[WaitingCall] = deque()
        self._resend: deque[Batch] = deque()
        self._waiting: dict[str, WaitingCall] = {}
        self._callers = callers
        self._notes: dict[str, tuple[bytes, asyncio.Future[None]]] = {}
        self._pings: list[asyncio.Future[None]] = []
        self._abandoned: deque[bytes] = deque(maxlen=ABANDONED_MAX)
        self._wake = asyncio.Event()
        self._refusals = RefusalLog(log)
        self._refused, self._refused_at, self._takes_reads = "", 0.0, False
        self.is_open = False  # its tasks run

    async def connect(self) -> None:
        """Try to reach Redis; raises UnsupportedServer when it is too old. One that is away is waited for later."""
        try:
            await self._send()
        except CONNECTION_ERRORS as problem:
            if not self.note_refusal(problem):
                log.warning("Redis is not there yet", extra={"error": doubt_of(problem) or type(problem).__name__})

    async def close(self) -> None:
        """Close the connections."""
        await self._sending.close()
        await self._reading.close()

    @property
    def waiting(self) -> int:
        """How many callers wait for an answer."""
        return len(self._waiting)

    @property
    def refused(self) -> str:
        """The last refusal of Redis, as a sentence; nothing once it has accepted such a write since."""
        return self._refused if time.monotonic() < self._refused_at + REFUSED_S else ""

    async def ready(self) -> None:
        """Return when Redis answers; raises EngramqError `unavailable`, within about 2 s when it does not.

        The error says what it refuses.
        """
        ping: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if not self.is_open:
            raise refusal_of_queue()
        self._pings.append(ping)
        self._wake.set()
        try:
            await asyncio.wait_for(ping, UNREACHABLE_S)
        except TimeoutError:
            raise refusal_of_queue() from None

    def expire_all(self) -> None:
        """Answer every waiting caller; later calls are refused."""
        self.is_open = False
        for waiting in list(self._waiting.values()):
            waiting.expire()
        self._fail_pings(refusal_of_queue())

    async def deliver(self, envelope: Envelope, timeout_s: float) -> Answer | None:
        """Send a command and wait; None: it may be carried out, now or later. See Bus.send."""
        if not self.is_open:
            raise refusal_of_queue()
        now = clock() + self._redis_ahead_s  # by the time of Redis every worker judges how old a command is
        envelope = replace(envelope, issued_at=now, deadline=now + timeout_s, reply_to=self.reply_list)
        data, callers = encode(envelope), self._callers
        if callers.count >= WAITING_MAX or callers.bytes + len(data) > WAITING_BYTES:
            raise overloaded()
        callers.count += 1
        callers.bytes += len(data)
        loop = asyncio.get_running_loop()
        waiting = self._waiting[envelope.id] = WaitingCall(envelope, data, loop.create_future())
        timer = loop.call_later(timeout_s, waiting.expire)
        self._new.append(waiting)
        self._wake.set()
        try:
            answer = await waiting.future
        except asyncio.CancelledError:
            self._abandon(waiting)
            raise
        finally:
            timer.cancel()
            waiting.batch = None  # it refers back: the command and its answer would stay until a cyclic collection
            del self._waiting[envelope.id]
            callers.count -= 1
            callers.bytes -= len(data)
        if answer is None:
            await self._write_note(waiting)
        return answer

    def _abandon(self, waiting: WaitingCall) -> None:
        """End the job of a read whose caller has gone, once nobody waits for any of its commands. A write goes on."""
        batch = waiting.batch
        if waiting.envelope.command.write or batch is None or not all(other.future.done() for other in batch.commands):
            return
        of, job = self._keys.of[batch.mailbox], waiting.job_id
        keys = (of.mailbox, of.depth, JOB_KEY + job, LEASE_KEY + job, TRIES_KEY + job, *self._keys.guard)
        self._abandoned.append(pack_script(ABANDON, keys, (job,)))
        self._wake.set()

    async def _write_note(self, waiting: WaitingCall) -> None:
        """Say in Redis where the command went; while Redis is away the note is kept and written later."""
        written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if len(self._notes) >= NOTES_MAX // self._keys.lanes or not self.is_open:
            return
        command_id, note = waiting.envelope.id, encode_note(PendingNote.of(waiting.envelope, waiting.job_id))
        self._notes[command_id] = (pack("SET", self._keys.note(command_id), note, "EX", NOTE_TTL_S), written)
        self._wake.set()
        await asyncio.wait([written], timeout=NOTE_WAIT_S)

    async def send_forever(self) -> None:
        """Send what there is to send, until cancelled."""
        failures = 0
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._new or self._resend or self._notes or self._pings or self._abandoned:
                try:
                    await self._send()
                    failures = 0
                    continue
                except UnsupportedServer as problem:
                    why, age_s = str(problem), UNREACHABLE_S
                    log.error("Redis cannot be used", extra={"error": why})
                    self._fail_pings(refusal_of_queue(why))
                except CONNECTION_ERRORS as problem:
                    why = self.note_refusal(problem)
                    # One that refuses will go on doing so; one that loads its data is a server that restarts.
                    age_s = 0.0 if why and not isinstance(problem, BusyLoadingError) else UNREACHABLE_S
                    self._fail_pings(refusal_of_queue(why))
                self._fail_overdue(time.monotonic() - age_s, why)
                await asyncio.sleep(BACKOFF_S[min(failures, len(BACKOFF_S) - 1)])
                failures += 1

    def note_refusal(self, problem: object) -> str:
        """Log and remember what Redis refuses; return it, nothing where it refuses nothing."""
        why = self._refusals.note(problem)
        if why:
            self._refused, self._refused_at = why, time.monotonic()
            self._takes_reads = isinstance(problem, OutOfMemoryError)
        return why

    async def _send(self) -> None:
        """Send all that waits in one write, and learn what time it is there.

        Raises UnsupportedServer or one of CONNECTION_ERRORS.
        """
        await self._sending.open()
        if not self._lanes.number_is_right:
            await self._lanes.require_number()
        batches, notes, pings = self._batches(), dict(self._notes), len(self._pings)
        abandoned = [self._abandoned.popleft() for _ in range(len(self._abandoned))]  # if lost, their reads end in time
        commands = [batch.packed for batch in batches] + [packed for packed, _ in notes.values()] + abandoned
        asked_at = clock()
        try:
            sent = [*commands, *([_PING] if pings else []), _TIME]
            *replies, time_there = await self._sending.exchange(sent, SEND_S)
        except CONNECTION_ERRORS:
            for batch in batches:
                batch.uncertain = True
                self._resend.append(batch)
            raise
        if isinstance(time_there, list):
            self._redis_ahead_s = int(time_there[0]) + int(time_there[1]) / 1_000_000 - asked_at
        for batch, reply in zip(batches, replies[: len(batches)], strict=True):
            if reply != TAKEN:
                await self._conclude_untaken(batch, reply)
            elif batch.commands[0].envelope.command.write or not self._takes_reads:
                self._refused = ""
        for command_id, (_, written) in notes.items():
            del self._notes[command_id]
            succeed(written)
        if pings:
            self._conclude_pings(pings, replies[-1])

    def _batches(self) -> list[Batch]:
        """Return batches for one write, the oldest first; commands whose callers have gone are left out."""
        batches: list[Batch] = []
        size = 0
        while self._resend and size < WRITE_BYTES:
            again = self._resend.popleft()
            if not all(waiting.future.done() for waiting in again.commands):
                batches.append(again)
                size += sum(len(waiting.data) for waiting in again.commands)
        open_batches: dict[tuple[WorkerKind, bool], tuple[Batch, int]] = {}
        while self._new and size < WRITE_BYTES:
            waiting = self._new.popleft()
            if waiting.future.done():
                continue
            size += len(waiting.data)
            mailbox = waiting.envelope.command.mailbox
            sort = (mailbox, waiting.envelope.command.write)
            batch, filled = open_batches.get(sort, _NO_BATCH)
            if batch is None or len(batch.commands) == commands_per_job(mailbox) or filled >= JOB_BYTES:
                batch, filled = Batch(mailbox, []), 0
                batches.append(batch)
            batch.commands.append(waiting)
            open_batches[sort] = (batch, filled + len(waiting.data))
        for batch in batches:
            if not batch.packed:
                first = batch.commands[0].envelope
                job = self._keys.job_id(first.id, len(batch.commands), batch.mailbox, first.namespace)
                payload = encode_job([waiting.data for waiting in batch.commands], time.time_ns() // 1_000_000)
                of = self._keys.of[batch.mailbox]
                where = (of.mailbox, of.wakeups, of.depth, JOB_KEY + job, of.rate, *self._keys.guard)
                longest_ms = 0 if batch.mailbox in BULK else round(LONGEST_WAIT_S * 1000)
                script = ENQUEUE_WRITES if first.command.write else ENQUEUE_READS
                arguments = (job, payload, self._mailbox_bound, longest_ms, FEWEST_WAITING)
                batch.packed = pack_script(script, where, arguments)
                for waiting in batch.commands:
                    waiting.job_id, waiting.batch = job, batch
            for waiting in batch.commands:
                waiting.sent = True
        return batches

    def _fail_overdue(self, latest: float, why: str) -> None:
        """Refuse the commands that came no later than that and surely are not applied: never sent, or reads."""
        while self._new and self._new[0].born <= latest:
            fail(self._new.popleft().future, refusal_of_queue(why))
        for batch in self._resend:
            for waiting in batch.commands:
                if waiting.born <= latest and not waiting.envelope.command.write:
                    fail(waiting.future, refusal_of_queue(why))

    def _conclude_pings(self, count: int, reply: Any) -> None:
        """Act on the answer to a PING, which it refuses while it cannot write to its disk."""
        refused = self.note_refusal(reply) if isinstance(reply, RedisError) else ""
        for ping in self._pings[:count]:
            if refused:
                fail(ping, refusal_of_queue(refused))
            else:
                succeed(ping)
        del self._pings[:count]

    async def _conclude_untaken(self, batch: Batch, reply: Any) -> None:
        """Act on the answer for a batch that Redis did not take: for how many there is room, and when, or an error."""
        if isinstance(reply, NoScriptError):
            await self._sending.close()  # opening it again loads the scripts
            self._resend.append(batch)
        elif batch.uncertain:
            # It may have arrived the first time: a refusal now would not be true.
            asyncio.get_running_loop().call_later(FULL_S, self._send_again, batch)
        elif isinstance(reply, list):
            room, wait_ms, of_its_own = reply
            if room:
                self._resend.append(Batch(batch.mailbox, batch.commands[:room]))
                batch.commands = batch.commands[room:]
            batch.refuse(partial(overloaded, wait_ms / 1000, OF_ITS_OWN if of_its_own else ""))
        elif isinstance(reply, OutOfMemoryError):
            batch.refuse(partial(overloaded, why=self.note_refusal(reply)))
        else:
            why = self.note_refusal(reply)
            if not why:
                log.error("Redis refused a job", extra={"error": type(reply).__name__})
            batch.refuse(partial(refusal_of_queue, why))

    def _send_again(self, batch: Batch) -> None:
        self._resend.append(batch)
        self._wake.set()

    async def read_forever(self) -> None:
        """Give answers to those who wait for them, until cancelled."""
        failures, registered = 0, 0.0
        blocking = pack("BLMPOP", BLOCK_S, 1, self.reply_list, "LEFT", "COUNT", ANSWERS_PER_READ)
        while True:
            try:
                await self._reading.open()
                if time.monotonic() - registered > REGISTER_S or failures:
                    await self._register()
                    registered = time.monotonic()
                (found,) = await self._reading.exchange([blocking], BLOCK_S + SEND_S)
            except (*CONNECTION_ERRORS, UnsupportedServer) as problem:
                if not self._refusals.note(problem) and not failures:
                    log.warning("Redis went away", extra={"error": type(problem).__name__})
                await asyncio.sleep(BACKOFF_S[min(failures, len(BACKOFF_S) - 1)])
                failures += 1
                continue
            failures = 0
            if isinstance(found, list):
                for data in found[1]:
                    try:
                        answer = decode_answer(data)
                    except DecodeError as problem:
                        log.error("An answer cannot be read", extra={"error": type(problem).__name__})
                        continue
                    waiting = self._waiting.get(answer.id)
                    if waiting is not None and not waiting.future.done():
                        waiting.future.set_result(answer)
                await asyncio.sleep(0)  # the callers go on before time is spent on asking for more
            elif found is not None:
                if not self._refusals.note(found):
                    log.error("Redis refused a read", extra={"error": type(found).__name__})
                await asyncio.sleep(BACKOFF_S[-1])

    async def _register(self) -> None:
        """Say that the reply list is in use; raises one of CONNECTION_ERRORS."""
        for _ in range(2):  # the first answer has the time, so the second call says whether our clock is right
            packed = self._presence.packed(self._keys.reply_lists, self.reply_list)
            (answer,) = await self._reading.exchange([packed], SEND_S)
            if isinstance(answer, NoScriptError):
                await self._reading.close()  # opening it again loads the script
                raise answer
            self._presence.answered(answer)

    def _fail_pings(self, problem: EngramqError) -> None:
        for ping in self._pings:
            fail(ping, problem)
        self._pings.clear()
