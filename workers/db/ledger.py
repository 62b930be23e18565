"""Effects that happen once: the ledger row of a command commits together with its effect and its answer."""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

import msgspec

from engramq.schemas.commands import AnyReply, Command, Reply, WriteReply
from engramq.schemas.envelope import Answer, Envelope
from engramq.schemas.faults import NOT_APPLIED, EngramqError, Fault, FaultCode, refuse
from engramq.schemas.ids import parse_uuid
from engramq.workers.db.answers import decode_answer, encode_answer, filled, subject
from engramq.workers.db.database import Store
from engramq.workers.db.pool import Row
from engramq.workers.db.queries import sql
from engramq.workers.db.transaction import Transaction
from engramq.workers.queue.contract import Job, LeaseLost, OutcomeUnknown

log = logging.getLogger(__name__)

BEGIN: Final = sql("ledger_begin")
END: Final = sql("ledger_end")
REFUSE: Final = sql("ledger_refuse")
FIND: Final = sql("ledger_find")

Effect = Callable[[Transaction], Awaitable[WriteReply]]
ENTRIES_LOST_MAX: Final = 3


@dataclass(frozen=True, slots=True)
class Entry:
    """A command that has ended. `answer` is complete again: contents were read anew."""

    command_id: str
    principal: str
    answer: Answer


@dataclass(frozen=True, slots=True)
class Recorded:
    """What a command answers. `replayed`: an earlier command with its idempotency key did so."""

    reply: Reply
    replayed: bool = False


class _Taken(Exception):
    """The command id or the idempotency key is in the ledger already; the transaction is undone."""


class Ledger:
    """Carries commands out once."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def run(self, job: Job, effect: Effect) -> Recorded:
        """Carry out `effect` in one transaction with its ledger row, or give the answer that is there already.

        The effect may be tried again or be undone after it has returned; it must change nothing but the database.
        Raises EngramqError for a refusal (which is recorded), OutcomeUnknown, LeaseLost.
        """

        async def prepare() -> Effect:
            return effect

        return await self.run_prepared(job, prepare)

    async def run_prepared(self, job: Job, prepare: Callable[[], Awaitable[Effect]]) -> Recorded:
        """Do as `run` does with the effect that `prepare` returns, which works outside any transaction.

        A command that may have been carried out before is looked up first, to spare the preparation.
        """
        envelope = job.envelope
        if envelope.idempotency_key is not None or envelope.attempt > 1:
            known = await self._find(envelope)
            if known is not None:
                return await self._again(job, known)
        if envelope.refusal is not None:
            return await self._refused(job, envelope.refusal)
        try:
            effect = await prepare()
            return await self._carry_out(job, effect)
        except EngramqError as refusal:
            if refusal.fault.code in NOT_APPLIED:
                raise
            return await self._refused(job, refusal.fault)

    async def _carry_out(self, job: Job, effect: Effect) -> Recorded:
        envelope = job.envelope
        for _ in range(ENTRIES_LOST_MAX):
            try:
                reply = await self._store.write(envelope.namespace, lambda tx: _recorded(tx, job, effect))
            except _Taken:
                known = await self._find(envelope)
                if known is not None:
                    return await self._again(job, known)
                continue  # it was trimmed, or erased with its namespace, in between
            return Recorded(reply)
        raise refuse(FaultCode.UNAVAILABLE, "The command's ledger row could not be read.")

    async def _find(self, envelope: Envelope) -> tuple[Row, Answer] | None:
        async def find(tx: Transaction) -> tuple[Row, Answer] | None:
            row = await tx.row(FIND, **_identity(envelope))
            if row is None:
                return None
            asked = envelope.command if row["fingerprint"] == envelope.fingerprint else None
            return row, await filled(tx, decode_answer(row["answer"]), asked)

        return await self._store.read(envelope.namespace, find)

    async def _again(self, job: Job, known: tuple[Row, Answer]) -> Recorded:
        row, answer = known
        ours = row["command_id"] == UUID(job.envelope.id)
        if not ours and row["fingerprint"] != job.envelope.fingerprint:
            fault = refuse(FaultCode.IDEMPOTENCY_CONFLICT, "This idempotency_key was used for another request.").fault
            return await self._refused(job, fault)
        if answer.fault is not None:
            raise EngramqError(answer.fault)
        assert answer.reply is not None
        return Recorded(answer.reply, replayed=not ours)

    async def _refused(self, job: Job, fault: Fault) -> Recorded:
        """Note the refusal and raise it; a late worker then finds that the command has ended."""
        envelope = job.envelope
        named = msgspec.structs.replace(fault, command_id=envelope.id)
        values = _identity(envelope) | {"answer": encode_answer(Answer(id=envelope.id, fault=named))}

        async def note(tx: Transaction) -> bool:
            tx.lease = job.lease
            return await tx.row(REFUSE, **values) is not None

        try:
            noted = await self._store.write(envelope.namespace, note)
        except (EngramqError, OutcomeUnknown, LeaseLost):
            log.warning("A refusal was not noted", extra={"command_id": envelope.id, "code": fault.code})
            noted = True
        if not noted:  # another attempt at this very command has ended it
            known = await self._find(envelope)
            if known is not None and known[0]["command_id"] == UUID(envelope.id):
                return await self._again(job, known)
        raise EngramqError(named)


async def find_entry(tx: Transaction, command_id: str) -> Entry | None:
    """Return what became of a command of this namespace, None when the ledger does not know it."""
    wanted = parse_uuid(command_id)
    if wanted is None:
        return None
    row = await tx.row(FIND, command_id=wanted, principal="", idempotency_key=None)
    if row is None:
        return None
    return Entry(command_id, row["principal"], await filled(tx, decode_answer(row["answer"])))


async def _recorded(tx: Transaction, job: Job, effect: Effect) -> AnyReply:
    tx.lease = job.lease
    begun = await tx.send(BEGIN, **_identity(job.envelope))
    try:
        reply = await effect(tx)
    except EngramqError:
        if await begun.row() is None:
            raise _Taken from None
        raise
    if await begun.row() is None:
        raise _Taken
    reply.command_id = job.envelope.id
    answer = encode_answer(Answer(id=job.envelope.id, reply=reply))  # type: ignore[arg-type]  # one of the union
    await tx.send(END, command_id=UUID(job.envelope.id), answer=answer, memory_id=subject(reply))
    return reply  # type: ignore[return-value]  # one of the union


def _identity(envelope: Envelope) -> dict[str, Any]:
    return {
        "command_id": UUID(envelope.id),
        "principal": envelope.principal.name,
        "command": tag(envelope.command),
        "idempotency_key": envelope.idempotency_key,
        "fingerprint": envelope.fingerprint,
        "attempt": envelope.attempt,
    }


def tag(command: Command) -> str:
    """Return the word by which a command is known on the wire."""
    return str(type(command).__struct_config__.tag)
