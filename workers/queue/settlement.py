"""What is to happen in Redis to a job, in the words of the SETTLE script: all of it or nothing."""

from collections.abc import Iterable, Sequence
from typing import Any

from engramq.schemas import limits
from engramq.schemas.codec import encode_job, job_id
from engramq.schemas.connection import pack_script
from engramq.schemas.envelope import Envelope
from engramq.schemas.jobs import REPLY_TTL_S
from engramq.schemas.keys import JOB_KEY, LEASE_KEY, TRIES_KEY, Keys
from engramq.schemas.scripts import SETTLE
from engramq.schemas.vocabulary import WorkerKind
from engramq.workers.queue.contract import SessionState, SessionUse

DEAD_LETTERS_MAX = 10_000  # kept per mailbox, the newest

Argument = str | bytes | int | float
Session = tuple[str, str, str]  # namespace, principal, session


class Settlement:
    """What one settlement does, in order."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys
        self._arguments: list[Argument] = []
        self._sessions: list[Session] = []

    def __bool__(self) -> bool:
        return bool(self._arguments)

    def end(self, mailbox: WorkerKind, job: str) -> None:
        """The job is over. Comes first: a Redis at its memory limit lets a script go on that has begun."""
        keys = self._keys
        self._step("end", keys.of[mailbox].mailbox, keys.of[mailbox].depth, JOB_KEY + job, TRIES_KEY + job, job)

    def reply(self, reply_list: str, answers: Sequence[bytes]) -> None:
        """Send encoded answers to a gateway."""
        self._step("reply", reply_list, REPLY_TTL_S, *answers)

    def job(
        self,
        mailbox: WorkerKind,
        envelopes: Sequence[tuple[str, bytes]],
        *,
        bound: int,
        at_ms: int,
        delay_ms: int = 0,
        tries: int = 0,
    ) -> None:
        """Put a job of these (command id, encoded envelope) into a mailbox, unless that holds `bound` commands.

        `tries`: how often it has been begun already without an orderly end.
        """
        keys, job = self._keys, job_id(envelopes[0][0], len(envelopes))
        payload = encode_job([data for _, data in envelopes], at_ms)
        of = keys.of[mailbox]
        where = (of.mailbox, of.wakeups, of.depth, JOB_KEY + job, TRIES_KEY + job)
        self._step("job", *where, job, payload, bound, delay_ms, tries)

    def dead(self, mailbox: WorkerKind, letter_id: str, letter: bytes) -> None:
        """Keep a dead letter."""
        keys = self._keys
        self._step("dead", keys.of[mailbox].dead, keys.of[mailbox].dead_index, letter_id, letter, DEAD_LETTERS_MAX)

    def sessions(self, ended: Iterable[tuple[Envelope, SessionState | None]]) -> None:
        """Use the sessions of commands and write what they will remember, all of one session together."""
        sessions: dict[Session, list[SessionState]] = {}
        for envelope, session_state in ended:
            if envelope.in_session or session_state is not None:
                left = sessions.setdefault(session_of(envelope), [])
                left += () if session_state is None else (session_state,)
        for session, several in sessions.items():
            self._sessions.append(session)
            self._session(session, several)

    def uses(self, written: Any) -> dict[Session, SessionUse]:
        """Return how the sessions were used, from what the script returned."""
        if not isinstance(written, list):
            return {}
        now, *rest = written
        told = zip(self._sessions, rest[0::3], rest[1::3], rest[2::3], strict=True)
        return {
            session: SessionUse(
                namespace=session[0],
                session=self._keys.session(*session).name,
                instance=int(instance),
                intervals=_intervals(owed, int(ticked), now),
            )
            for session, instance, ticked, owed in told
        }

    def _session(self, session: Session, several: list[SessionState]) -> None:
        stored, recalled, touched = "", "-", list[str]()
        for session_state in several:
            if session_state.stored is not None:
                stored = session_state.stored
                touched.append(stored)
            if session_state.recalled is not None:
                recalled = "".join(f"{memory_id}\n" for memory_id in session_state.recalled)
                touched.extend(session_state.recalled)
        self._step(
            "session_state",
            *self._keys.session(*session),
            limits.BREADCRUMB_SECONDS,
            limits.SESSION_GAP_SECONDS * 1000,
            limits.BREADCRUMB_TOUCHED,
            stored,
            recalled,
            *dict.fromkeys(touched),
        )

    def pack(self, job: str, token: str) -> bytes:
        """Return the call that does all this if the lease of `job` is still held with `token`."""
        return pack_script(SETTLE, (LEASE_KEY + job,), (token, *self._arguments))

    def _step(self, word: str, *arguments: Argument) -> None:
        self._arguments += (word, len(arguments), *arguments)


def session_of(envelope: Envelope) -> Session:
    """Return whose session a command belongs to."""
    return envelope.namespace, envelope.principal.name, envelope.session


def _intervals(owed: bytes, ticked: int, now: int) -> tuple[tuple[int, int], ...]:
    moments = [int(one) for one in owed.split()]
    pairs = [*zip(moments[0::2], moments[1::2], strict=True), (ticked, now)]
    return tuple((since, until) for since, until in pairs if since < until)
