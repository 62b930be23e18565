"""Ask the queue what waits and what died, and erase contents in it, for handlers.

Redis's append-only file holds every command that was ever queued, contents too, until it is written anew. A command
that erases leaves a mark. Upkeep writes the file anew where there is one, and takes away the mark that it began with.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from msgspec import UNSET
from redis.asyncio import RedisCluster
from redis.exceptions import ResponseError

from engramq.schemas.codec import decode_answer, decode_envelope, decode_job, decode_note, encode, encode_job
from engramq.schemas.commands import DeleteTenant, ForgetMemory
from engramq.schemas.connection import CLIENT_ERRORS, Lanes, run
from engramq.schemas.envelope import Answer, Envelope, PrincipalId
from engramq.schemas.faults import FaultCode, refuse
from engramq.schemas.ids import uuid7
from engramq.schemas.keys import JOB_KEY, LEASE_KEY, TRIES_KEY, Keys
from engramq.schemas.limits import REPLY_TTL_S
from engramq.schemas.scripts import MARK_ERASED, SCRUB_JOB, SCRUB_SESSION, UNMARK_ERASED
from engramq.schemas.vocabulary import WorkerKind
from engramq.workers.queue.contract import ResultUnknown
from engramq.workers.queue.dead_letters import decode_letter, drop_letters
from engramq.workers.queue.parts import PartSender

log = logging.getLogger(__name__)

JOBS_PER_READ: Final = 50
LETTERS_PER_READ: Final = 100
REDIS_S: Final = 5.0  # to connect, and for an answer
READS_PER_TRIP: Final = 100  # one trip for each made an erasure take a second while 64 callers erased
TRIES: Final = 5  # to scrub a job that others change meanwhile
REWRITE_EVERY_S: Final = 3_600.0  # how often upkeep looks for the mark; what is erased is promised to be gone in a day
REWRITE_S: Final = 600.0  # for one writing: 100 MB take about a second
REWRITE_POLL_S: Final = 0.05


class NotRewritten(Exception):
    """The file was not written anew; the text says why."""


class Inspection:
    """Looks into the queue with a client of its own; use as `async with Inspection(...)`.

    Every method raises ResultUnknown when Redis is away: the command whose handler asked is tried again later.
    """

    def __init__(self, lanes: Lanes) -> None:
        self._redis: Any = lanes.server.client(timeout_s=REDIS_S)
        self._lanes = lanes

    async def __aenter__(self) -> "Inspection":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._redis.aclose()

    async def depths(self) -> Mapping[WorkerKind, tuple[int, int]]:
        """Return (commands waiting or running, dead letters) by mailbox."""
        depths = dict.fromkeys(WorkerKind, (0, 0))
        for lane in self._lanes.all:
            async with self._reach(), self._redis.pipeline(transaction=False) as batch:
                for kind in WorkerKind:
                    batch.zcard(lane.of[kind].mailbox)
                    batch.get(lane.of[kind].depth)
                    batch.zcard(lane.of[kind].dead_index)
                found = iter(await batch.execute())
            # The counter means nothing while the mailbox is empty.
            for kind, jobs, depth, dead in zip(WorkerKind, found, found, found, strict=True):
                depths[kind] = (depths[kind][0] + (int(depth or 0) if jobs else 0), depths[kind][1] + dead)
        return depths

    @asynccontextmanager
    async def sending(self, channel: str) -> AsyncIterator[PartSender]:
        """Lend the block what sends the parts of a channel."""
        async with self._reach():
            yield PartSender(self._redis, self._lanes.first, channel)

    async def find(self, command_id: str, namespace: str, principal: PrincipalId | None) -> Answer | bool | None:
        """Look for a command that the ledger does not know, of this principal or (None) of any in the namespace.

        True: it is being carried out. False: it waits in a mailbox. An Answer: it went to the dead letters, with the
        fault its caller got. None: nothing is known, or it belongs to somebody else.
        """
        keys = self._lanes.of(namespace)
        async with self._reach():
            async with self._redis.pipeline(transaction=False) as batch:
                batch.get(keys.note(command_id))
                for kind in WorkerKind:
                    batch.hget(keys.of[kind].dead, command_id)
                note_data, *letters = await batch.execute()
            for data in letters:
                letter = decode_letter(data) if data is not None else None
                envelope = letter.envelope() if letter is not None else None
                if letter is not None and envelope is not None:
                    owner = (envelope.namespace, envelope.principal.identity)
                    return Answer(id=command_id, fault=letter.fault) if _may_see(owner, namespace, principal) else None
            if note_data is None:
                return None
            note = decode_note(note_data)
            if not _may_see(note.owner, namespace, principal):
                return None
            # A command that was tried again, or handed back by its worker, is a job of its own.
            jobs = {note.job_id, keys.job_id(command_id, 1, note.mailbox, namespace)}
            leases = await self._redis.exists(*(LEASE_KEY + job for job in jobs))
            waiting = await self._redis.exists(*(JOB_KEY + job for job in jobs))
        if not waiting:
            return None
        return bool(leases)

    async def scrub(self, namespace: str, erased: Mapping[str, str]) -> int:
        """Remove erased memories (contents by id) from mailboxes, dead letters, undelivered replies and breadcrumbs.

        A waiting command that names one, or that stores the same content, goes too; its caller gets `unavailable` if it
        was never begun. Notes and follow-ups hold no content. Return how many places they were in.
        """
        if not erased:
            return 0
        keys, gone = self._lanes.of(namespace), _Erasure(namespace, erased)
        async with self._reach():
            waiting = await self._waiting(keys, namespace)
            places = await self._scrub_waiting(keys, gone, waiting)
            letters, scrubbed = await self._scrub_sessions(keys, gone, waiting.sessions)
            places += scrubbed + await self._scrub_letters(keys, gone, letters)
            await mark_erased(self._redis, keys)
            return places

    async def scrub_namespace(self, namespace: str) -> int:
        """Remove what waits for a namespace that is being deleted: commands, dead letters, what sessions remember.

        Return how many places that were. The deleting command itself stays. The caller of a command that was never
        begun gets `unavailable`. Answers that wait for a gateway name no namespace: they are scrubbed by the ids of
        memories, or gone within a minute.
        """
        keys = self._lanes.of(namespace)
        async with self._reach():
            gone = _Erasure(namespace, None)
            waiting = await self._waiting(keys, namespace)
            places = await self._scrub_waiting(keys, gone, waiting)
            places += await self._scrub_letters(keys, gone, await self._answer_all(_dead_indexes(keys)))
            for session in waiting.sessions:
                places += await self._redis.delete(*keys.session_keys_of(session))
            principals = keys.principals(namespace)
            await self._redis.delete(principals, *await self._redis.zrange(principals, 0, -1))
            await mark_erased(self._redis, keys)
            return places

    async def rewrite_log(self, *, at_once: bool = False) -> bool:
        """Have Redis forget the history of what was erased, which its append-only file keeps; return whether it did.

        Nothing is done where nothing was erased since (unless it is to be done `at_once`), nor without such a file.
        Raises NotRewritten when it was to be done at once and was not.
        """
        async with self._reach():
            return await (rewrite(self._redis) if at_once else rewrite_marked(self._redis, self._lanes))

    async def _waiting(self, keys: Keys, namespace: str) -> "_Waiting":
        """Read what waits: two trips, and more where much does."""
        mailboxes = [of.mailbox for of in keys.of.values()]
        names = (*mailboxes, keys.reply_lists, keys.principals(namespace))
        *jobs, reply_lists, principals = await self._answer_all([("ZRANGE", name, 0, -1) for name in names])
        ids = [job.decode() for mailbox in jobs for job in mailbox]
        some = [ids[start : start + JOBS_PER_READ] for start in range(0, len(ids), JOBS_PER_READ)]
        payloads = [("MGET", *(JOB_KEY + job for job in few)) for few in some]
        answers = [("LRANGE", reply_list, 0, -1) for reply_list in reply_lists]
        sessions = [("ZRANGE", principal, 0, -1) for principal in principals]
        found = iter(await self._answer_all([*payloads, *answers, *sessions]))
        return _Waiting(
            {job: payload for few in some for job, payload in zip(few, next(found), strict=True)},
            {reply_list: next(found) for reply_list in reply_lists},
            [name.decode() for _ in principals for name in next(found)],
        )

    async def _answer_all(self, commands: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Return the answers to several commands, so many of which make one trip."""
        found: list[Any] = []
        for start in range(0, len(commands), READS_PER_TRIP):
            async with self._redis.pipeline(transaction=False) as batch:
                for command in commands[start : start + READS_PER_TRIP]:
                    batch.execute_command(*command)
                found += await batch.execute()
        return found

    async def _scrub_waiting(self, keys: Keys, erased: "_Erasure", waiting: "_Waiting") -> int:
        """Remove commands that wait, and answers that nobody has taken yet; return how many there were."""
        places = 0
        for job, payload in waiting.jobs.items():
            if payload is not None and erased.may_be_in(payload):
                places += await self._scrub_job(keys, job, payload, erased)
        for reply_list, answers in waiting.answers.items():
            for data in answers:
                if erased.is_in_answer(data):
                    places += await self._redis.lrem(reply_list, 1, data)
        return places

    async def _scrub_letters(self, keys: Keys, erased: "_Erasure", indexes: Sequence[Sequence[bytes]]) -> int:
        """Remove dead letters, of those with these ids in each mailbox; return how many there were."""
        places = 0
        for kind, ids in zip(keys.of, indexes, strict=True):
            for start in range(0, len(ids), LETTERS_PER_READ):
                letters = ids[start : start + LETTERS_PER_READ]
                found = zip(letters, await self._redis.hmget(keys.of[kind].dead, letters), strict=True)
                if gone := [letter_id for letter_id, data in found if data is not None and erased.is_in_letter(data)]:
                    places += await drop_letters(self._redis, keys, kind, gone)
        return places

    async def _scrub_job(self, keys: Keys, job: str, payload: bytes | None, erased: "_Erasure") -> int:
        for _ in range(TRIES):
            if payload is None:
                return 0
            try:
                parts = decode_job(payload)
            except msgspec.DecodeError:
                return 0  # a worker is about to make a dead letter of it
            kept = [part for part in parts if not erased.is_in_command(part)]
            if len(kept) == len(parts):
                return 0
            less = encode_job(kept, time.time_ns() // 1_000_000)
            begun = await run(self._redis, SCRUB_JOB, keys, (JOB_KEY + job, TRIES_KEY + job), payload, less)
            if begun >= 0:
                if not begun:
                    await self._refuse([part for part in parts if part not in kept], erased.message)
                return len(parts) - len(kept)
            payload = await self._redis.get(JOB_KEY + job)
        return 0

    async def _refuse(self, parts: list[bytes], message: str) -> None:
        """Refuse commands that were taken out before any worker began them.

        A command that is tried again may have had its effect: its caller gets no answer and learns `pending`.
        """
        for part in parts:
            envelope = decode_envelope(part)
            if envelope.reply_to and envelope.attempt == 1:
                fault = refuse(FaultCode.UNAVAILABLE, message).fault
                async with self._redis.pipeline(transaction=False) as batch:
                    batch.rpush(envelope.reply_to, encode(Answer(id=envelope.id, fault=fault)))
                    batch.expire(envelope.reply_to, REPLY_TTL_S)
                    await batch.execute()

    async def _scrub_sessions(
        self, keys: Keys, erased: "_Erasure", names: Sequence[str]
    ) -> tuple[list[list[bytes]], int]:
        """Remove what sessions remember; return the ids of dead letters by mailbox, and how many places those were.

        They make the same trip, after the commands: one of these may have become a dead letter meanwhile.
        """
        scripts = []
        for name in names:
            where = (*keys.session_keys_of(name), *keys.guard)
            scripts.append(("EVAL", SCRUB_SESSION.text, len(where), *where, *erased.ids))
        found = await self._answer_all([*_dead_indexes(keys), *scripts])
        return found[: len(keys.of)], sum(found[len(keys.of) :])

    @asynccontextmanager
    async def _reach(self) -> AsyncIterator[None]:
        try:
            yield
        except CLIENT_ERRORS as problem:
            raise ResultUnknown("Redis is away") from problem


def _may_see(owner: tuple[str, PrincipalId], namespace: str, principal: PrincipalId | None) -> bool:
    """Return whether this namespace and principal (None: any) may see a command of this owner."""
    return owner[0] == namespace and principal in (None, owner[1])


def _dead_indexes(keys: Keys) -> list[tuple[Any, ...]]:
    return [("ZRANGE", of.dead_index, 0, -1) for of in keys.of.values()]


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A lane's contents: payloads by job, None for one that has gone; answers by reply list; a namespace's sessions."""

    jobs: Mapping[str, bytes | None]
    answers: Mapping[bytes, Sequence[bytes]]
    sessions: Sequence[str]


class _Erasure:
    """The data to erase from a namespace: all of it, or some memories.

    For memories (`contents` by id) that is an id wherever it stands as a value, a content wherever it is some memory's
    content. `message`: what the callers hear whose commands go.
    """

    def __init__(self, namespace: str, contents: Mapping[str, str] | None) -> None:
        self.namespace = namespace
        self.whole = contents is None
        self.message = (
            "The namespace was deleted." if self.whole else "A memory that the request names or repeats was erased."
        )
        self.ids = frozenset(contents or ())
        self._contents = frozenset((contents or {}).values()) - {""}  # unknown: any bytes may hold an empty text
        self._id_bytes = [memory_id.encode() for memory_id in self.ids]
        # With its length: the whole value, not a part of one.
        self._text_bytes = [msgspec.msgpack.encode(text) for text in ([namespace] if self.whole else self._contents)]

    def may_be_in(self, data: bytes) -> bool:
        """Say, at little cost, whether it may be in these bytes."""
        return self._names(data) or any(text in data for text in self._text_bytes)

    def is_in_command(self, data: bytes) -> bool:
        """Say whether these bytes are a command that has to go."""
        if not self.may_be_in(data):
            return False
        try:
            envelope = decode_envelope(data)
        except msgspec.DecodeError:
            return False
        return self._is_in_envelope(envelope)

    def is_in_letter(self, data: bytes) -> bool:
        """Say whether these bytes are a dead letter that has to go."""
        if not self.may_be_in(data):
            return False
        envelope = decode_letter(data).envelope()
        if envelope is not None:
            # A deletion that was given up has no worker to end it: it goes like all of the namespace.
            return envelope.namespace == self.namespace if self.whole else self._is_in_envelope(envelope)
        return self.namespace.encode() in data  # unreadable: the bytes are all that there is to go by

    def is_in_answer(self, data: bytes) -> bool:
        if not self._names(data):
            return False
        try:
            answer = decode_answer(data)
        except msgspec.DecodeError:
            return True
        if answer.fault is None:
            return self._has(msgspec.to_builtins(answer.reply))
        previews = answer.fault.resolved_references  # nothing else in a refusal says what a memory contains
        return previews is not UNSET and self._has(msgspec.to_builtins(previews))

    def _names(self, data: bytes) -> bool:
        return any(memory_id in data for memory_id in self._id_bytes)

    def _is_in_envelope(self, envelope: Envelope) -> bool:
        # The erasing command itself ends by its own worker's hand; one that forgets names the memory and no more.
        if envelope.namespace != self.namespace:
            return False
        if self.whole:
            return not isinstance(envelope.command, DeleteTenant)
        if isinstance(envelope.command, ForgetMemory):
            return False
        return self._has(msgspec.to_builtins(envelope.command)) or self._has(envelope.references)

    def _has(self, value: Any, name: str = "") -> bool:
        if isinstance(value, str):
            return value in self.ids or (name == "content" and value in self._contents)
        if isinstance(value, dict):
            return any(self._has(item, str(key)) for key, item in value.items())
        if isinstance(value, list | tuple):
            return any(self._has(item, name) for item in value)
        return False


async def mark_erased(redis: Any, keys: Keys) -> None:
    """Note that something was erased which the file still holds, and which other processes may remember."""
    await run(redis, MARK_ERASED, keys, (keys.erased, keys.last_erased), uuid7())


async def rewrite_marked(redis: Any, lanes: Lanes) -> bool:
    """Write the file anew if something was erased since it last was; return whether it was written.

    A rewrite that a server refuses is tried again the next time, and logged each time. Raises CLIENT_ERRORS.
    """
    marks = {keys: mark for keys in lanes.all if (mark := await redis.get(keys.erased)) is not None}
    if not marks:
        return False
    try:
        written = await rewrite(redis)
    except NotRewritten as problem:
        log.warning("Erased data is still in Redis's append-only file", extra={"problem": str(problem)})
        return False
    for keys, mark in marks.items():
        if not await run(redis, UNMARK_ERASED, keys, (keys.erased,), mark):
            log.info("More was erased while the append-only file was written anew")
    return written


async def rewrite(redis: Any) -> bool:
    """Write the file anew, of each master of a cluster, and wait until that is done.

    Returns False where there is no such file. Raises NotRewritten when a server refuses or fails, or is not done in
    time; CLIENT_ERRORS.
    """
    masters = [redis]
    if isinstance(redis, RedisCluster):
        await redis.initialize()
        masters = list(redis.get_primaries())
    return any([await _rewrite(master) for master in masters])


async def _rewrite(redis: Any) -> bool:
    if not (await redis.execute_command("INFO", "persistence")).get("aof_enabled"):
        return False
    try:
        async with asyncio.timeout(REWRITE_S):
            await _settle(redis)  # one that is under way may have begun before the erasure
            await redis.execute_command("BGREWRITEAOF")
            found = await _settle(redis)
    except ResponseError as refusal:
        raise NotRewritten(f"Redis refuses BGREWRITEAOF: {refusal}") from refusal
    except TimeoutError:
        raise NotRewritten(f"Redis was not done with BGREWRITEAOF within {REWRITE_S:.0f} s") from None
    if found.get("aof_last_bgrewrite_status") != "ok":
        raise NotRewritten("BGREWRITEAOF failed; Redis's own log says why")
    log.info("Append-only file written anew", extra={"bytes": found.get("aof_current_size")})
    return True


async def _settle(redis: Any) -> dict[str, Any]:
    """Wait until no writing is under way or about to begin; return what the server then says of persistence."""
    while True:
        found: dict[str, Any] = await redis.execute_command("INFO", "persistence")
        if not (found.get("aof_rewrite_in_progress") or found.get("aof_rewrite_scheduled")):
            return found
        await asyncio.sleep(REWRITE_POLL_S)
