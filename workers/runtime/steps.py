"""What is to happen in Redis to a job, in the words of the SETTLE script: all of it or nothing."""

from collections.abc import Iterable, Sequence

from schemas import limits
from schemas.envelope import Envelope
from schemas.mailbox import JOB_KEY, LEASE_KEY, REPLY_TTL_S, TRIES_KEY, Keys, encode_job, job_id
from schemas.scripts import SETTLE
from schemas.vocabulary import WorkerKind
from workers.contract import Crumbs
from workers.runtime.line import pack_script

DEAD_LETTERS_MAX = 10_000  # kept per mailbox, the newest

Argument = str | bytes | int | float
Session = tuple[str, str, str]  # namespace, principal, session


class Steps:
    """The steps of one settlement, in order."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys
        self._arguments: list[Argument] = []

    def __bool__(self) -> bool:
        return bool(self._arguments)

    def end(self, mailbox: WorkerKind, job: str) -> None:
        """The job is over. Comes first: a Redis at its memory limit lets a script go on that has begun."""
        keys = self._keys
        self._step("end", keys.mailbox(mailbox), keys.depth(mailbox), JOB_KEY + job, TRIES_KEY + job, job)

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
        where = (keys.mailbox(mailbox), keys.bell(mailbox), keys.depth(mailbox), JOB_KEY + job, TRIES_KEY + job)
        self._step("job", *where, job, payload, bound, delay_ms, tries)

    def dead(self, mailbox: WorkerKind, letter_id: str, letter: bytes) -> None:
        """Keep a dead letter."""
        keys = self._keys
        self._step("dead", keys.dead(mailbox), keys.dead_index(mailbox), letter_id, letter, DEAD_LETTERS_MAX)

    def crumbs(self, left: Iterable[tuple[Envelope, Crumbs]]) -> None:
        """Write what sessions will remember, those of one session together."""
        sessions: dict[Session, list[Crumbs]] = {}
        for envelope, crumbs in left:
            session = (envelope.namespace, envelope.principal.name, envelope.session)
            sessions.setdefault(session, []).append(crumbs)
        for session, several in sessions.items():
            self._session(session, several)

    def _session(self, session: Session, several: list[Crumbs]) -> None:
        stored, recalled, touched = "", "-", list[str]()
        for crumbs in several:
            if crumbs.stored is not None:
                stored = crumbs.stored
                touched.append(stored)
            if crumbs.recalled is not None:
                recalled = "".join(f"{memory_id}\n" for memory_id in crumbs.recalled)
                touched.extend(crumbs.recalled)
        keys = self._keys
        self._step(
            "crumbs",
            keys.crumbs(*session),
            keys.touched(*session),
            keys.sessions(session[0]),
            keys.session(*session),
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
