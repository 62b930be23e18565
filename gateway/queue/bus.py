"""The gateway's half of the queue: commands go out in coalesced jobs, answers come back over one reply list.

`ask` waits for the answer, `tell` only until the command is in its mailbox. What a caller is told is true: `overloaded`
and `unavailable` mean that the command is not applied and never will be; a write whose fate is uncertain is Pending.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Final

import msgspec
from redis.exceptions import BusyLoadingError, NoScriptError, OutOfMemoryError, RedisError

from engramq.gateway.queue.batch import Batch, Outbox, WaitingCall
from engramq.gateway.queue.callers import Callers
from engramq.gateway.queue.look import Look, look_at
from engramq.gateway.queue.outcomes import fail, overloaded, succeed, unavailable
from engramq.schemas.codec import DecodeError, Note, decode_answer, encode, encode_note, fingerprint
from engramq.schemas.commands import Command
from engramq.schemas.connection import CONNECTION_ERRORS, RedisConnection, RefusalLog, doubt_of, pack
from engramq.schemas.envelope import Answer, Envelope, Principal
from engramq.schemas.faults import EngramqError, Fault, FaultCode, refuse
from engramq.schemas.ids import uuid7
from engramq.schemas.jobs import NOTE_TTL_S, REGISTER_S, REPLY_LIST_MAX_AGE_S
from engramq.schemas.keys import Keys
from engramq.schemas.scripts import ENQUEUE_READS, ENQUEUE_WRITES
from engramq.schemas.servers import Server, UnsupportedServer
from engramq.telemetry.spans import name_command

log = logging.getLogger(__name__)

UNREACHABLE_S: Final = 2.0  # a command that could not be sent for so long is refused
REFUSED_S: Final = 30.0  # how long a refusal is told that nothing since has contradicted
SEND_S: Final = 2.0  # for the replies to one write
NOTES_MAX: Final = 1_000  # notes kept while Redis is away
NOTE_WAIT_S: Final = 0.5  # how long a caller waits for its note to be written
FULL_S: Final = 0.05  # before a mailbox without room is asked again
BLOCK_S: Final = 5  # of the read that waits for answers
ANSWERS_PER_READ: Final = 256
TAKEN: Final = -1  # what the script that enqueues says of a job that is in its mailbox
BACKOFF_S: Final = (0.02, 0.05, 0.1, 0.2, 0.4, 0.5)


class Pending(msgspec.Struct, frozen=True):
    """The command is on its way, or may be: get_command tells later what became of it."""

    command_id: str


class BusFailed(EngramqError):
    """A task of the bus ended that never should: only a new process helps."""


class Bus:
    """Use as `async with Bus(...) as bus`; all its tasks and connections end with the block.

    `redis` and `keys` are those of a lane. `mailbox_bound`: commands that may wait in one mailbox. `reply_timeout_s`:
    how long `ask` waits by default. `callers`: what the buses of a process share. `also`: packed commands that go with
    each registration of the gateway.
    When the bus fails for good, every waiting caller is answered, and all later calls are refused. The block is then
    cancelled, unless `on_failure` is given, which is called instead and has to end the block. It ends with BusFailed.
    """

    def __init__(
        self,
        redis: str | Server,
        keys: Keys,
        *,
        mailbox_bound: int,
        reply_timeout_s: float,
        on_failure: Callable[[], None] | None = None,
        callers: Callers | None = None,
        also: Sequence[bytes] = (),
    ) -> None:
        self._also = tuple(also)
        self._redis = redis
        self._keys = keys
        self._reply_timeout_s = reply_timeout_s
        self._reply_list = keys.replies(uuid7())
        self._sending = RedisConnection(redis, (ENQUEUE_READS, ENQUEUE_WRITES))
        self._reading = RedisConnection(redis)
        self._outbox = Outbox(keys, mailbox_bound)
        self._waiting: dict[str, WaitingCall] = {}
        self._callers = callers or Callers()
        self._notes: dict[str, tuple[bytes, asyncio.Future[None]]] = {}
        self._pings: list[asyncio.Future[None]] = []
        self._wake = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._on_failure = on_failure
        self._failure: BaseException | None = None
        self._refusals = RefusalLog(log)
        self._refused, self._refused_at, self._takes_reads = "", 0.0, False
        self._owner: asyncio.Task[Any] | None = None
        self._cancelled_owner = False
        self._tried = False

    async def connect(self) -> None:
        """Try to reach Redis before the start, which does it otherwise; raises UnsupportedServer when it is too old."""
        self._tried = True
        try:
            await self._sending.open()
        except CONNECTION_ERRORS as problem:
            if not self._note_refusal(problem):
                log.warning("Redis is not there yet", extra={"error": doubt_of(problem) or type(problem).__name__})

    async def disconnect(self) -> None:
        """Undo `connect` of a bus that is not started."""
        await self._sending.close()

    async def __aenter__(self) -> "Bus":
        """Start; raises UnsupportedServer when the Redis there is too old. One that is away is waited for later."""
        if not self._tried:
            await self.connect()
        self._owner = asyncio.current_task()
        self._tasks = [asyncio.create_task(self._send_forever()), asyncio.create_task(self._read_forever())]
        for task in self._tasks:
            task.add_done_callback(self._fail)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._expire_all()
        await self._sending.close()
        await self._reading.close()
        if self._failure is not None:
            # A block that another task has cancelled too stays cancelled.
            cancelled_by_us = self._cancelled_owner and self._owner is not None and self._owner.uncancel() == 0
            if kind is None or (cancelled_by_us and issubclass(kind, asyncio.CancelledError)):
                error = f"The connection to the queue has failed for good ({type(self._failure).__name__})."
                raise BusFailed(refuse(FaultCode.UNAVAILABLE, error).fault) from self._failure

    async def ask(
        self,
        command: Command,
        *,
        namespace: str,
        principal: Principal,
        session: str = "",
        idempotency_key: str | None = None,
        traceparent: str | None = None,
        timeout_s: float | None = None,
        digest: str | None = None,
        in_session: bool = False,
        refusal: Fault | None = None,
        references: Mapping[str, str] | None = None,
        project: str = "",
    ) -> Answer | Pending:
        """Send a command and wait for its answer; a refusal by the worker is the answer's fault.

        `digest` tells a repeated request from another one with the same idempotency key; by default the command's own.
        `in_session`: the call is a use of its session. `refusal`: the command's answer, unless its key is a repeated
        one. `references`: which ids stand in the command for references. `project`: the caller's own. A write that is
        not answered in time is Pending. Raises EngramqError `overloaded` or `unavailable`.
        """
        timeout_s = self._reply_timeout_s if timeout_s is None else timeout_s
        if digest is None:
            digest = fingerprint(command) if command.write else ""
        now = time.time()
        envelope = Envelope(
            id=uuid7(),
            command=command,
            namespace=namespace,
            principal=principal,
            session=session,
            in_session=in_session,
            issued_at=now,
            deadline=now + timeout_s,
            reply_to=self._reply_list,
            idempotency_key=idempotency_key,
            fingerprint=digest,
            refusal=refusal,
            references=dict(references or {}),
            traceparent=traceparent,
            project=project,
        )
        return await self._deliver(envelope, timeout_s) or Pending(envelope.id)

    ask_any = ask  # of one lane there is no other; see LaneBuses

    async def tell(
        self,
        command: Command,
        *,
        namespace: str,
        principal: Principal,
        session: str = "",
        idempotency_key: str | None = None,
        traceparent: str | None = None,
    ) -> Pending:
        """Send a command and return when it is in its mailbox (or may be); its answer is not sent back.

        Raises EngramqError `overloaded` or `unavailable`.
        """
        envelope = Envelope(
            id=uuid7(),
            command=command,
            namespace=namespace,
            principal=principal,
            session=session,
            issued_at=time.time(),
            idempotency_key=idempotency_key,
            fingerprint=fingerprint(command) if command.write else "",
            traceparent=traceparent,
        )
        await self._deliver(envelope, self._reply_timeout_s)
        return Pending(envelope.id)

    @property
    def waiting(self) -> int:
        """How many callers wait for an answer."""
        return len(self._waiting)

    @property
    def refused(self) -> str:
        """What Redis refused of late, as a sentence; nothing when it has taken such a thing since."""
        return self._refused if time.monotonic() < self._refused_at + REFUSED_S else ""

    async def ready(self) -> None:
        """Return when Redis answers; raises EngramqError `unavailable`, within about 2 s when it does not.

        The error says what it refuses.
        """
        ping: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if not self._tasks or self._failure is not None:
            raise unavailable()
        self._pings.append(ping)
        self._wake.set()
        try:
            await asyncio.wait_for(ping, UNREACHABLE_S)
        except TimeoutError:
            raise unavailable() from None

    async def look(self) -> Look:
        """Return the state of every mailbox; raises NoLook within about 4 s. Needs no task of the bus."""
        return await look_at(self._redis, self._keys)

    def _fail(self, task: asyncio.Task[None]) -> None:
        """Fail for good, since a task ended that never should."""
        if task.cancelled() or self._failure is not None:
            return
        self._failure = task.exception() or RuntimeError("a task of the bus returned")
        log.critical("The queue's connection has failed for good", extra={"error": type(self._failure).__name__})
        for other in self._tasks:
            other.cancel()
        self._expire_all()
        if self._on_failure is not None:
            self._on_failure()
        elif self._owner is not None and self._tasks:
            self._cancelled_owner = self._owner.cancel()

    def _expire_all(self) -> None:
        """Answer every waiting caller."""
        for waiting in list(self._waiting.values()):
            waiting.expire()
        self._fail_pings(unavailable())

    async def _deliver(self, envelope: Envelope, timeout_s: float) -> Answer | None:
        name_command(envelope.id)
        if not self._tasks or self._failure is not None:
            raise unavailable()
        data = encode(envelope)
        self._callers.enter(len(data))
        loop = asyncio.get_running_loop()
        waiting = WaitingCall(
            id=envelope.id,
            data=data,
            mailbox=envelope.command.mailbox,
            write=envelope.command.write,
            for_reply=bool(envelope.reply_to),
            future=loop.create_future(),
        )
        self._waiting[waiting.id] = waiting
        timer = loop.call_later(timeout_s, waiting.expire)
        self._outbox.new.append(waiting)
        self._wake.set()
        try:
            answer = await waiting.future
        finally:
            timer.cancel()
            del self._waiting[waiting.id]
            self._callers.leave(len(data))
        if answer is None and waiting.for_reply:
            await self._write_note(waiting, envelope)
        return answer

    async def _write_note(self, waiting: WaitingCall, envelope: Envelope) -> None:
        """Say in Redis where the command went; while Redis is away the note is kept and written later."""
        note = Note(
            job_id=waiting.job_id,
            mailbox=waiting.mailbox,
            namespace=envelope.namespace,
            principal=envelope.principal.name,
            untrusted=envelope.principal.untrusted,
        )
        written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if len(self._notes) >= NOTES_MAX // self._keys.lanes or not self._tasks or self._failure is not None:
            return
        packed = pack("SET", self._keys.note(waiting.id), encode_note(note), "EX", NOTE_TTL_S)
        self._notes[waiting.id] = (packed, written)
        self._wake.set()
        await asyncio.wait([written], timeout=NOTE_WAIT_S)

    async def _send_forever(self) -> None:
        failures = 0
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._outbox.new or self._outbox.resend or self._notes or self._pings:
                try:
                    await self._send()
                    failures = 0
                    continue
                except UnsupportedServer as problem:
                    why, age_s = str(problem), UNREACHABLE_S
                    log.error("Redis cannot be used", extra={"error": why})
                    self._fail_pings(unavailable(why))
                except CONNECTION_ERRORS as problem:
                    why = self._note_refusal(problem)
                    # One that refuses will go on doing so; one that loads its data is a server that restarts.
                    age_s = 0.0 if why and not isinstance(problem, BusyLoadingError) else UNREACHABLE_S
                    self._fail_pings(unavailable(why))
                for waiting in self._outbox.overdue(age_s):
                    fail(waiting.future, unavailable(why))
                await asyncio.sleep(BACKOFF_S[min(failures, len(BACKOFF_S) - 1)])
                failures += 1

    def _note_refusal(self, problem: object) -> str:
        """Log and remember what Redis refuses; return it, nothing where it refuses nothing."""
        why = self._refusals.note(problem)
        if why:
            self._refused, self._refused_at = why, time.monotonic()
            self._takes_reads = isinstance(problem, OutOfMemoryError)
        return why

    async def _send(self) -> None:
        """Send all that waits in one write; raises UnsupportedServer or one of CONNECTION_ERRORS."""
        await self._sending.open()
        batches, notes, pings = self._outbox.take(), dict(self._notes), len(self._pings)
        if not (batches or notes or pings):
            return
        for batch in batches:
            for waiting in batch.commands:
                waiting.sent = True
        commands = [batch.packed for batch in batches] + [packed for packed, _ in notes.values()]
        try:
            replies = await self._sending.exchange([*commands, pack("PING")] if pings else commands, SEND_S)
        except CONNECTION_ERRORS:
            for batch in batches:
                batch.uncertain = True
                self._outbox.resend.append(batch)
            raise
        for batch, reply in zip(batches, replies[: len(batches)], strict=True):
            if reply == TAKEN:
                self._conclude_taken(batch)
            else:
                await self._conclude_untaken(batch, reply)
        for command_id, (_, written) in notes.items():
            del self._notes[command_id]
            succeed(written)
        if pings:
            self._conclude_pings(pings, replies[-1])

    def _conclude_taken(self, batch: Batch) -> None:
        """Act on a batch that is in its mailbox: who did not want an answer has waited for that."""
        if batch.commands[0].write or not self._takes_reads:
            self._refused = ""
        for waiting in batch.commands:
            if not waiting.for_reply:
                succeed(waiting.future)

    def _conclude_pings(self, count: int, reply: Any) -> None:
        """Act on what Redis said of a PING, which it refuses while it cannot write to its disk."""
        refused = self._note_refusal(reply) if isinstance(reply, RedisError) else ""
        for ping in self._pings[:count]:
            if refused:
                fail(ping, unavailable(refused))
            else:
                succeed(ping)
        del self._pings[:count]

    async def _conclude_untaken(self, batch: Batch, reply: Any) -> None:
        """Act on what Redis said of a batch that it did not take: what room there is and will be, or an error."""
        if isinstance(reply, NoScriptError):
            await self._sending.close()  # opening it again loads the scripts
            self._outbox.resend.append(batch)
        elif batch.uncertain:
            # It may have arrived the first time: a refusal now would not be true.
            asyncio.get_running_loop().call_later(FULL_S, self._send_again, batch)
        elif isinstance(reply, list):
            room, wait_ms = reply
            if room:
                self._outbox.resend.append(batch.first(room))
            batch.refuse(partial(overloaded, wait_ms / 1000))
        elif isinstance(reply, OutOfMemoryError):
            batch.refuse(partial(overloaded, why=self._note_refusal(reply)))
        else:
            why = self._note_refusal(reply)
            if not why:
                log.error("Redis refused a job", extra={"error": type(reply).__name__})
            batch.refuse(partial(unavailable, why))

    def _send_again(self, batch: Batch) -> None:
        self._outbox.resend.append(batch)
        self._wake.set()

    async def _read_forever(self) -> None:
        failures, registered = 0, 0.0
        blocking = pack("BLMPOP", BLOCK_S, 1, self._reply_list, "LEFT", "COUNT", ANSWERS_PER_READ)
        while True:
            commands = [blocking]
            if time.monotonic() - registered > REGISTER_S or failures:
                commands = [*self._registration(), blocking]
            try:
                await self._reading.open()
                *_, found = await self._reading.exchange(commands, BLOCK_S + SEND_S)
            except (*CONNECTION_ERRORS, UnsupportedServer) as problem:
                if not self._refusals.note(problem) and not failures:
                    log.warning("Redis went away", extra={"error": type(problem).__name__})
                await asyncio.sleep(BACKOFF_S[min(failures, len(BACKOFF_S) - 1)])
                failures += 1
                continue
            failures = 0
            if len(commands) > 1:
                registered = time.monotonic()
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

    def _registration(self) -> list[bytes]:
        lists, now = self._keys.reply_lists, time.time()
        forgetting = pack("ZREMRANGEBYSCORE", lists, "-inf", now - REPLY_LIST_MAX_AGE_S)
        expiring = pack("EXPIRE", lists, round(REPLY_LIST_MAX_AGE_S))  # else a lane that nobody uses seems in use
        return [pack("ZADD", lists, now, self._reply_list), forgetting, expiring, *self._also]

    def _fail_pings(self, problem: EngramqError) -> None:
        for ping in self._pings:
            fail(ping, problem)
        self._pings.clear()
