"""One lane of the gateway's half of the queue: commands go out in jobs, answers come back over one reply list."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

from redis.exceptions import BusyLoadingError, NoScriptError, OutOfMemoryError, RedisError

from engramq.gateway.queue.batch import Batch, Outbox
from engramq.gateway.queue.waiting import WaitingBound, WaitingCall, fail, overloaded, succeed, unavailable
from engramq.schemas.codec import DecodeError, Note, decode_answer, encode, encode_note
from engramq.schemas.connection import CONNECTION_ERRORS, RedisConnection, RefusalLog, doubt_of, pack
from engramq.schemas.envelope import Answer, Envelope
from engramq.schemas.faults import EngramqError
from engramq.schemas.ids import uuid7
from engramq.schemas.jobs import NOTE_TTL_S, REGISTER_S, REPLY_LIST_MAX_AGE_S
from engramq.schemas.keys import Keys
from engramq.schemas.scripts import ENQUEUE_READS, ENQUEUE_WRITES
from engramq.schemas.servers import Server, UnsupportedServer

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


class BusLane:
    """The connections and the waiting calls of one lane. Its owner runs `send_forever` and `read_forever`.

    `admit` raises when the lanes may not be used as they are; it is called before anything is sent.
    """

    def __init__(
        self,
        server: Server,
        keys: Keys,
        mailbox_bound: int,
        waiting_bound: WaitingBound,
        admit: Callable[[], Awaitable[None]],
    ) -> None:
        self._keys = keys
        self.reply_list = keys.replies(uuid7())
        self._sending = RedisConnection(server, (ENQUEUE_READS, ENQUEUE_WRITES), key=keys.prefix)
        self._reading = RedisConnection(server, key=keys.prefix)
        self._outbox = Outbox(keys, mailbox_bound)
        self._waiting: dict[str, WaitingCall] = {}
        self._bound = waiting_bound
        self._admit = admit
        self._notes: dict[str, tuple[bytes, asyncio.Future[None]]] = {}
        self._pings: list[asyncio.Future[None]] = []
        self._wake = asyncio.Event()
        self._refusals = RefusalLog(log)
        self._refused, self._refused_at, self._takes_reads = "", 0.0, False
        self.is_open = False  # its tasks run

    async def connect(self) -> None:
        """Try to reach Redis; raises UnsupportedServer when it is too old. One that is away is waited for later."""
        try:
            await self._sending.open()
            await self._admit()
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
        """What Redis refused of late, as a sentence; nothing when it has taken such a thing since."""
        return self._refused if time.monotonic() < self._refused_at + REFUSED_S else ""

    async def ready(self) -> None:
        """Return when Redis answers; raises EngramqError `unavailable`, within about 2 s when it does not.

        The error says what it refuses.
        """
        ping: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if not self.is_open:
            raise unavailable()
        self._pings.append(ping)
        self._wake.set()
        try:
            await asyncio.wait_for(ping, UNREACHABLE_S)
        except TimeoutError:
            raise unavailable() from None

    def expire_all(self) -> None:
        """Answer every waiting caller; later calls are refused."""
        self.is_open = False
        for waiting in list(self._waiting.values()):
            waiting.expire()
        self._fail_pings(unavailable())

    async def deliver(self, envelope: Envelope, timeout_s: float) -> Answer | None:
        """Send a command and wait; None: it may be carried out, now or later. See Bus.ask."""
        if not self.is_open:
            raise unavailable()
        data = encode(envelope)
        self._bound.enter(len(data))
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
            self._bound.leave(len(data))
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
        if len(self._notes) >= NOTES_MAX // self._keys.lanes or not self.is_open:
            return
        packed = pack("SET", self._keys.note(waiting.id), encode_note(note), "EX", NOTE_TTL_S)
        self._notes[waiting.id] = (packed, written)
        self._wake.set()
        await asyncio.wait([written], timeout=NOTE_WAIT_S)

    async def send_forever(self) -> None:
        """Send what there is to send, until cancelled."""
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
                    why = self.note_refusal(problem)
                    # One that refuses will go on doing so; one that loads its data is a server that restarts.
                    age_s = 0.0 if why and not isinstance(problem, BusyLoadingError) else UNREACHABLE_S
                    self._fail_pings(unavailable(why))
                for waiting in self._outbox.overdue(age_s):
                    fail(waiting.future, unavailable(why))
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
        """Send all that waits in one write; raises UnsupportedServer or one of CONNECTION_ERRORS."""
        await self._sending.open()
        await self._admit()
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
        refused = self.note_refusal(reply) if isinstance(reply, RedisError) else ""
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
            batch.refuse(partial(overloaded, why=self.note_refusal(reply)))
        else:
            why = self.note_refusal(reply)
            if not why:
                log.error("Redis refused a job", extra={"error": type(reply).__name__})
            batch.refuse(partial(unavailable, why))

    def _send_again(self, batch: Batch) -> None:
        self._outbox.resend.append(batch)
        self._wake.set()

    async def read_forever(self) -> None:
        """Give answers to those who wait for them, until cancelled."""
        failures, registered = 0, 0.0
        blocking = pack("BLMPOP", BLOCK_S, 1, self.reply_list, "LEFT", "COUNT", ANSWERS_PER_READ)
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
        expiring = pack("EXPIRE", lists, round(REPLY_LIST_MAX_AGE_S))
        return [pack("ZADD", lists, now, self.reply_list), forgetting, expiring]

    def _fail_pings(self, problem: EngramqError) -> None:
        for ping in self._pings:
            fail(ping, problem)
        self._pings.clear()
