"""What a worker writes to Redis about a job that it holds, as the steps of the SETTLE script: all of them or none."""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from engramq.schemas import limits
from engramq.schemas.codec import encode, encode_job
from engramq.schemas.connection import pack_script
from engramq.schemas.envelope import Envelope, Principal, PrincipalId
from engramq.schemas.ids import uuid7
from engramq.schemas.jobs import COMMANDS_PER_JOB, FOLLOW_UP_BOUND, REPLY_TTL_S
from engramq.schemas.keys import JOB_KEY, LEASE_KEY, TRIES_KEY, Keys
from engramq.schemas.scripts import SETTLE
from engramq.schemas.vocabulary import ALL_SCOPES, SYSTEM_PRINCIPAL, WorkerKind
from engramq.workers.queue.contract import FollowUp, Outcome, SessionState, SessionUse
from engramq.workers.queue.dead_letters import DeadLetter, encode_letter

DEAD_LETTERS_MAX: Final = 10_000  # kept per mailbox, the newest
DEAD_BYTES_MAX: Final = 16 * 1024 * 1024  # of a mailbox's letters together; all: a fifth of the embedded Redis
UNBOUNDED: Final = 2**53  # for commands that were in the mailbox already
SYSTEM: Final = Principal(name=SYSTEM_PRINCIPAL, scopes=ALL_SCOPES)

Argument = str | bytes | int | float
Session = tuple[str, PrincipalId, str]  # namespace, principal, session


@dataclass(frozen=True, slots=True)
class Result:
    """What came of one try of a command: an encoded answer (with its outcome or dead letter), or another try."""

    envelope: Envelope
    answer: bytes | None = None
    outcome: Outcome | None = None
    letter: DeadLetter | None = None
    retry: Envelope | None = None
    delay_s: float = 0.0  # before the retry


@dataclass(slots=True)
class Settlement:
    """Gathers the steps of one settlement of a job in `mailbox`; the script takes them in order."""

    keys: Keys
    mailbox: WorkerKind
    gathered: list[FollowUp] = field(default_factory=list)  # to be sent later, once the settlement is written
    _steps: list[tuple[Argument, ...]] = field(default_factory=list)
    _sessions: list[Session] = field(default_factory=list)

    def end(self, job: str, served: int) -> None:
        """End the job, so many commands of which were served: neither dropped nor put back.

        Comes first: a Redis at its memory limit lets a script go on that has begun to write.
        """
        of = self.keys.of[self.mailbox]
        self._steps.append(("end", of.mailbox, of.depth, JOB_KEY + job, TRIES_KEY + job, job, of.rate, served))

    def add(self, results: Sequence[Result]) -> None:
        """Send the answers, enqueue retries and follow-ups, keep dead letters, use and change the sessions."""
        replies: dict[str, list[bytes]] = {}
        follow_ups: dict[WorkerKind, list[tuple[str, bytes]]] = {}
        for result in results:
            if result.answer is not None and result.envelope.reply_to:
                replies.setdefault(result.envelope.reply_to, []).append(result.answer)
            if result.retry is not None:
                retry = (result.retry.id, encode(result.retry))
                self.enqueue(self.mailbox, [retry], delay_ms=round(result.delay_s * 1000))
            if result.letter is not None:
                self.bury(result.letter)
            if result.outcome is not None:
                for follow_up in result.outcome.follow_ups:
                    if follow_up.command.gathered:
                        self.gathered.append(follow_up)
                        continue
                    envelope = follow_up_envelope(follow_up, result.envelope.traceparent)
                    follow_ups.setdefault(follow_up.command.mailbox, []).append((envelope.id, encode(envelope)))
        self._steps += (("reply", reply_list, REPLY_TTL_S, *answers) for reply_list, answers in replies.items())
        self._use_sessions(result for result in results if result.retry is None)
        # Where a mailbox is full beyond reason they are dropped, and the sweep finds the work.
        bound = FOLLOW_UP_BOUND // self.keys.lanes
        for mailbox, envelopes in follow_ups.items():
            for start in range(0, len(envelopes), COMMANDS_PER_JOB):
                self.enqueue(mailbox, envelopes[start : start + COMMANDS_PER_JOB], bound=bound)

    def enqueue(
        self,
        mailbox: WorkerKind,
        envelopes: Sequence[tuple[str, bytes]],
        *,
        bound: int = UNBOUNDED,
        delay_ms: int = 0,
        tries: int = 0,
    ) -> None:
        """Put a job of these (command id, encoded envelope) into a mailbox, unless that holds `bound` commands.

        `tries`: how often it has been begun already without an orderly end.
        """
        keys, job = self.keys, self.keys.job_id(envelopes[0][0], len(envelopes))
        payload = encode_job([data for _, data in envelopes], time.time_ns() // 1_000_000)
        where = (
            keys.of[mailbox].mailbox,
            keys.of[mailbox].wakeups,
            keys.of[mailbox].depth,
            JOB_KEY + job,
            TRIES_KEY + job,
        )
        self._steps.append(("job", *where, job, payload, bound, delay_ms, tries))

    def bury(self, letter: DeadLetter) -> None:
        """Keep a dead letter."""
        of = self.keys.of[letter.mailbox]
        where = (of.dead, of.dead_index, of.dead_bytes)
        most = (DEAD_LETTERS_MAX // self.keys.lanes, DEAD_BYTES_MAX // self.keys.lanes)
        self._steps.append(("dead", *where, letter.id, encode_letter(letter), *most))

    def pack(self, job: str, token: str) -> bytes:
        """Return the call of the script, which writes if the lease of `job` is still held with `token`."""
        arguments: list[Argument] = [token]
        for word, *rest in self._steps:
            arguments += (word, len(rest), *rest)
        return pack_script(SETTLE, (LEASE_KEY + job, *self.keys.guard), arguments)

    def uses(self, written: Any) -> dict[Session, SessionUse]:
        """Return how the sessions were used, from what the script returned."""
        if not isinstance(written, list):
            return {}
        now, *rest = written
        uses = {}
        for session, instance, ticked, owed in zip(self._sessions, rest[0::3], rest[1::3], rest[2::3], strict=True):
            times = [*map(int, owed.split()), int(ticked), now]
            intervals = zip(times[0::2], times[1::2], strict=True)
            uses[session] = SessionUse(
                namespace=session[0],
                session=self.keys.session(*session).name,
                instance=int(instance),
                intervals=tuple((since, until) for since, until in intervals if since < until),
            )
        return uses

    def _use_sessions(self, results: Iterable[Result]) -> None:
        """Use the sessions of commands and write what they will remember, all of one session together."""
        states_of: dict[Session, list[SessionState]] = {}
        for result in results:
            outcome = result.outcome
            state = None if outcome is None or outcome.replayed else outcome.session_state
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
            keys = self.keys
            self._sessions.append(session)
            self._steps.append(
                (
                    "session_state",
                    *keys.session(*session),
                    limits.BREADCRUMB_SECONDS,
                    limits.SESSION_GAP_SECONDS * 1000,
                    limits.BREADCRUMB_TOUCHED,
                    stored[-1] if stored else "",
                    recalled[-1] if recalled else "-",
                    *touched,
                )
            )


def session_of(envelope: Envelope) -> Session:
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
