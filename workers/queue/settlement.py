"""Write the end of a job to Redis, all of it or nothing, and gather follow-ups for a moment.

Gathered follow-ups are in no settlement. A command may be gathered only if the sweep finds the work that a crash loses.
"""

import asyncio
import logging
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from redis.exceptions import RedisError

from engramq.schemas import limits
from engramq.schemas.codec import encode, encode_job
from engramq.schemas.commands import Command
from engramq.schemas.connection import pack_script
from engramq.schemas.envelope import Envelope, Principal, PrincipalId
from engramq.schemas.ids import uuid7
from engramq.schemas.keys import JOB_KEY, LEASE_KEY, TRIES_KEY, Keys
from engramq.schemas.limits import BULK, FOLLOW_UP_BOUND, REPLY_TTL_S, commands_per_job
from engramq.schemas.scripts import ENQUEUE_READS, SETTLE
from engramq.schemas.vocabulary import ALL_SCOPES, SYSTEM_PRINCIPAL, WorkerKind
from engramq.workers.queue.background import Activity
from engramq.workers.queue.contract import Completion, FollowUp, SessionState, SessionUse
from engramq.workers.queue.dead_letters import DeadLetter, encode_letter
from engramq.workers.queue.pipeline import ConnectionLost, Pipeline

log = logging.getLogger(__name__)

DEAD_LETTERS_MAX: Final = 10_000  # kept per mailbox, the newest
DEAD_BYTES_MAX: Final = 16 * 1024 * 1024  # of a mailbox's letters together; all: a fifth of the embedded Redis
UNBOUNDED: Final = 2**53  # for commands that were in the mailbox already
GATHER_S: Final = 0.1  # how long follow-ups wait for others
GATHER_MAX_S: Final = 1.0  # how long they may wait while somebody waits for this process
GATHERED_MAX: Final = 2_000  # commands, each of which may have been several; beyond, they are left to the sweep
SYSTEM: Final = Principal(name=SYSTEM_PRINCIPAL, scopes=ALL_SCOPES)

Argument = str | bytes | int | float
SessionKey = tuple[str, PrincipalId, str]  # namespace, principal, session


@dataclass(frozen=True, slots=True)
class Result:
    """The end of one try of a command: an encoded answer (with its completion or dead letter), or another try."""

    envelope: Envelope
    answer: bytes | None = None
    completion: Completion | None = None
    letter: DeadLetter | None = None
    retry: Envelope | None = None
    delay_s: float = 0.0  # before the retry
    # The answer refuses a write as not applied: the retry takes its place if its caller may have been told `pending`.
    if_heard: bool = False


@dataclass(slots=True)
class Settlement:
    """Gathers the actions of one settlement of a job in `mailbox`; the script takes them in order."""

    keys: Keys
    mailbox: WorkerKind
    gathered: list[FollowUp] = field(default_factory=list)  # to be sent later, once the settlement is written
    ended: int = 0  # commands that have an answer, as far as is known before it is written
    _actions: list[tuple[Argument, ...]] = field(default_factory=list)
    _sessions: dict[SessionKey, str] = field(default_factory=dict)  # each with its name, as the keys have it

    def add(self, results: Sequence[Result]) -> None:
        """Send the answers, enqueue retries and follow-ups, keep dead letters, use and change the sessions."""
        replies: dict[str, list[bytes]] = {}
        follow_ups: dict[tuple[WorkerKind, str], list[tuple[str, bytes]]] = {}
        for result in results:
            if result.if_heard:
                self._refuse(result)
                continue
            if result.answer is not None and result.envelope.reply_to:
                replies.setdefault(result.envelope.reply_to, []).append(result.answer)
            if result.retry is not None:
                self._actions.append(("job", *self._retry_of(result)))
            if result.letter is not None:
                self.bury(result.letter)
            if result.completion is not None:
                for follow_up in result.completion.follow_ups:
                    if follow_up.command.gathered:
                        self.gathered.append(follow_up)
                        continue
                    envelope = follow_up_envelope(follow_up, result.envelope.traceparent)
                    mailbox = follow_up.command.mailbox
                    sort = (mailbox, envelope.namespace if mailbox in BULK else "")
                    follow_ups.setdefault(sort, []).append((envelope.id, encode(envelope)))
        self._actions += (("reply", reply_list, REPLY_TTL_S, *answers) for reply_list, answers in replies.items())
        ended = [result for result in results if result.retry is None or result.if_heard]
        self.ended += len(ended)
        if any(result.envelope.session or result.envelope.in_session for result in ended):
            self._use_sessions(ended)
        # Where a mailbox is full beyond reason they are dropped, and the sweep finds the work.
        bound = FOLLOW_UP_BOUND // self.keys.lanes
        for (mailbox, namespace), envelopes in follow_ups.items():
            most = commands_per_job(mailbox)
            for start in range(0, len(envelopes), most):
                job = self._job(mailbox, namespace, envelopes[start : start + most], bound=bound)
                self._actions.append(("job", *job))

    def put_back(self, namespace: str, command_id: str, envelope: bytes, tries: int) -> None:
        """Make an encoded envelope a job of its own, that has been begun so often without an orderly end."""
        job = self._job(self.mailbox, namespace, [(command_id, envelope)], tries=tries)
        self._actions.append(("job", *job))

    def _refuse(self, result: Result) -> None:
        """Answer a write that was not applied, or try it again if that comes too late for its caller."""
        assert result.answer is not None
        until_ms, reply_to = round(result.envelope.deadline * 1000), result.envelope.reply_to
        self._actions.append(("refuse", until_ms, reply_to, REPLY_TTL_S, result.answer, *self._retry_of(result)))

    def _retry_of(self, result: Result) -> tuple[Argument, ...]:
        assert result.retry is not None
        envelopes = [(result.retry.id, encode(result.retry))]
        return self._job(self.mailbox, result.retry.namespace, envelopes, delay_ms=round(result.delay_s * 1000))

    def _job(
        self,
        mailbox: WorkerKind,
        namespace: str,
        envelopes: Sequence[tuple[str, bytes]],
        *,
        bound: int = UNBOUNDED,
        delay_ms: int = 0,
        tries: int = 0,
    ) -> tuple[Argument, ...]:
        """Return what the action `job` takes: a job of these (command id, encoded envelope), unless the mailbox holds
        `bound` commands.
        """
        keys, job = self.keys, self.keys.job_id(envelopes[0][0], len(envelopes), mailbox, namespace)
        payload = encode_job([data for _, data in envelopes], time.time_ns() // 1_000_000)
        where = (
            keys.of[mailbox].mailbox,
            keys.of[mailbox].wakeups,
            keys.of[mailbox].depth,
            JOB_KEY + job,
            TRIES_KEY + job,
        )
        return (*where, job, payload, bound, delay_ms, tries)

    def bury(self, letter: DeadLetter) -> None:
        """Keep a dead letter."""
        of = self.keys.of[letter.mailbox]
        where = (of.dead, of.dead_index, of.dead_bytes)
        most = (DEAD_LETTERS_MAX // self.keys.lanes, DEAD_BYTES_MAX // self.keys.lanes)
        self._actions.append(("dead", *where, letter.id, encode_letter(letter), *most))

    def pack(self, job: str, token: str, served: int | None = None) -> bytes:
        """Return the call of the script, which writes if the lease of `job` is still held with `token`.

        `served`: how many commands of the job were neither dropped nor put back, if it is to end.
        """
        actions, of = self._actions, self.keys.of[self.mailbox]
        if served is not None:  # first, for a Redis at its memory limit lets a script go on that has begun to write
            end = ("end", of.mailbox, of.depth, JOB_KEY + job, TRIES_KEY + job, job, of.rate, served)
            actions = [end, *actions]
        arguments: list[Argument] = [token]
        for word, *rest in actions:
            arguments += (word, len(rest), *rest)
        return pack_script(SETTLE, (LEASE_KEY + job, *self.keys.guard), arguments)

    def uses(self, written: list[Any]) -> dict[SessionKey, SessionUse]:
        """Return how the sessions were used, from the list that the script returned."""
        now, *rest = written
        uses = {}
        for session, instance, ticked, owed in zip(self._sessions, rest[0::3], rest[1::3], rest[2::3], strict=True):
            times = [*map(int, owed.split()), int(ticked), now]
            intervals = zip(times[0::2], times[1::2], strict=True)
            uses[session] = SessionUse(
                namespace=session[0],
                session=self._sessions[session],
                instance=int(instance),
                intervals=tuple((since, until) for since, until in intervals if since < until),
            )
        return uses

    def _use_sessions(self, results: Iterable[Result]) -> None:
        """Use the sessions of commands and write what they will remember, all of one session together."""
        states_of: dict[SessionKey, list[SessionState]] = {}
        for result in results:
            completion = result.completion
            state = None if completion is None or completion.replayed else completion.session_state
            named = result.envelope.session != ""  # one without a name is used, but has no breadcrumbs
            if result.envelope.in_session or (state is not None and named):
                left = (state,) if state is not None and named else ()
                states_of.setdefault(session_of(result.envelope), []).extend(left)
        for session, states in states_of.items():
            stored = [state.stored for state in states if state.stored is not None]
            recalled = [
                "".join(f"{each}\n" for each in state.recalled) for state in states if state.recalled is not None
            ]
            touched = dict.fromkeys(
                each for state in states for each in (state.stored, *(state.recalled or ())) if each is not None
            )
            keys = self.keys.session(*session)
            self._sessions[session] = keys.name
            self._actions.append(
                (
                    "session_state",
                    *keys,
                    limits.BREADCRUMB_SECONDS,
                    limits.SESSION_GAP_SECONDS * 1000,
                    limits.BREADCRUMB_TOUCHED,
                    stored[-1] if stored else "",
                    recalled[-1] if recalled else "-",
                    *touched,
                )
            )


def session_of(envelope: Envelope) -> SessionKey:
    """Return whose session a command belongs to."""
    return envelope.namespace, envelope.principal.identity, envelope.session


def follow_up_envelope(follow_up: FollowUp, traceparent: str | None = None) -> Envelope:
    """Return the envelope of a command that a command (of this trace) or a schedule caused; nobody waits for it."""
    return Envelope(
        id=uuid7(),
        namespace=follow_up.namespace,
        principal=SYSTEM,
        command=follow_up.command,
        issued_at=time.time(),
        traceparent=traceparent,
    )


async def send_follow_ups(pipeline: Pipeline, keys: Keys, follow_ups: Iterable[FollowUp]) -> None:
    """Enqueue follow-ups, a job each. Raises ConnectionLost, RedisError."""
    for follow_up in follow_ups:
        envelope, kind = follow_up_envelope(follow_up), follow_up.command.mailbox
        job = keys.job_id(envelope.id, 1, kind, envelope.namespace)
        of = keys.of[kind]
        where = (of.mailbox, of.wakeups, of.depth, JOB_KEY + job, of.rate, *keys.guard)
        payload = encode_job([encode(envelope)], time.time_ns() // 1_000_000)
        await pipeline.call(pack_script(ENQUEUE_READS, where, (job, payload, FOLLOW_UP_BOUND // keys.lanes, 0, 0)))


class GatheredFollowUps:
    """Gathers the follow-ups of one worker. `run` sends them; `finish` sends what is left."""

    def __init__(self, keys: Keys, pipeline: Pipeline, activity: Activity) -> None:
        self._keys = keys
        self._pipeline = pipeline
        self._activity = activity
        self._gathered: dict[tuple[str, type[Command]], list[Command]] = {}
        self._arrived = asyncio.Event()
        self._stopping = asyncio.Event()

    def take(self, follow_up: FollowUp) -> None:
        """Keep a follow-up to be sent soon, as a part of one that is there if it can be."""
        command = follow_up.command
        several = self._gathered.setdefault((follow_up.namespace, type(command)), [])
        joined = several[-1].joined(command) if several else None
        if joined is not None:
            several[-1] = joined
        elif sum(map(len, self._gathered.values())) < GATHERED_MAX:
            several.append(command)
        self._arrived.set()

    async def run(self) -> None:
        """Send what comes until cancelled."""
        while True:
            await self._arrived.wait()
            await self._activity.pause(GATHER_S, GATHER_MAX_S, self._stopping)
            await self._send()

    async def finish(self) -> None:
        """Send what is left at once."""
        self._stopping.set()
        await self._send()

    async def _send(self) -> None:
        self._arrived.clear()
        gathered, self._gathered = self._gathered, {}
        follow_ups = [FollowUp(key[0], command) for key, commands in gathered.items() for command in commands]
        try:
            await send_follow_ups(self._pipeline, self._keys, follow_ups)
        except (ConnectionLost, RedisError) as problem:
            extra = {"count": len(follow_ups), "error": type(problem).__name__}
            log.warning("Follow-ups were lost; the sweep finds the work", extra=extra)
