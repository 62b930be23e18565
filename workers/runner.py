"""Run each command once, in a transaction with its ledger row, and record the reply.

A handler is a function: `@handles(Connect) async def connect(tx, command, context) -> Connected`. A write runs in one
transaction with its ledger row; a read in a read-only one. `before` does what takes time and needs no transaction (a
model); `after` does what follows the commit, also when the command is repeated. Handlers know nothing of Redis, retries
or replies; what they leave to be done they put into the context.
"""

import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, ParamSpec, TypeVar, overload
from uuid import UUID

import msgspec
from msgspec import UNSET

from engramq.schemas.commands import Command, Reply, Stored, WriteReply
from engramq.schemas.envelope import Answer, Envelope
from engramq.schemas.faults import NOT_APPLIED, EngramqError, Fault, FaultCode, refuse
from engramq.schemas.settings import Settings
from engramq.workers.db import ledger
from engramq.workers.db.database import Store
from engramq.workers.db.ledger import LedgerEntry
from engramq.workers.db.transaction import Transaction
from engramq.workers.db.viewers import Viewer
from engramq.workers.queue.contract import Assignment, Completion, Lease, ResultUnknown
from engramq.workers.queue.inspection import Inspection
from engramq.workers.replies import (
    add_previews,
    add_references,
    announcement,
    blank_for_ledger,
    restore_answer,
    subject,
)

ENTRIES_LOST_MAX: Final = 3
TOLD_PENDING_S: Final = 0.5  # whose caller waits no longer than this may read `pending` before the answer is there

C = TypeVar("C", bound=Command)
P = TypeVar("P")
R = TypeVar("R", bound=Reply)
S = TypeVar("S")
A = ParamSpec("A")


class Services(dict[type[Any], Any]):
    """The objects that handlers of one process share besides the store, by type; KeyError for a missing one."""

    def __init__(self, *shared: object) -> None:
        super().__init__({type(service): service for service in shared})

    if TYPE_CHECKING:

        def __getitem__(self, kind: type[S]) -> S:
            """Return the one of this type."""


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class Context(Completion):
    """The facts that a handler has besides its command, and the completion that it leaves for after the commit.

    `reply` is set at the end.
    `store`: as the principal of the command sees it, all of it where that is engramq itself.
    `begun`: a part of the effect is committed already, so that no refusal may say that nothing was applied.
    `since`: when this process began with the command, by time.monotonic. `patience_s`: how long its caller waits from
    then on.
    `after_reply` is best effort; it gets the use of the command's session if it had one.
    """

    reply: Reply = field(init=False)
    envelope: Envelope
    lease: Lease
    store: Store
    inspection: Inspection
    settings: Settings
    services: Services
    begun: bool = False
    since: float = field(default_factory=time.monotonic)
    patience_s: float = math.inf
    erased: str = ""  # the content that an erasure takes, to be looked for in the queues once more

    def forget(self) -> None:
        """Drop what a handler has asked for whose transaction was rolled back."""
        self.session_state, self.follow_ups, self.after_reply = None, (), None


@dataclass(frozen=True, slots=True)
class CommandHandler(Generic[A, R]):
    """A handler of one command. Made by one of the functions `handles...`; calling it calls the function."""

    command: type[Command]
    run: Callable[A, Awaitable[R]]
    before: Callable[[Any, Context], Awaitable[Any]] | None = None
    after: Callable[[Any, Any, Context], Awaitable[Any]] | None = None
    unrecorded: Callable[[Any, Envelope], bool] | None = None
    portions: Callable[[Any, Context], AsyncIterator[None] | None] | None = None
    in_transaction: bool = True
    by_keys: bool = False

    def __call__(self, *args: A.args, **kwargs: A.kwargs) -> Awaitable[R]:
        """Carry a command out in a transaction that the caller has opened."""
        return self.run(*args, **kwargs)


@overload
def handles(
    command: type[C],
    *,
    after: Callable[[Reply, C, Context], Awaitable[None]] | None = None,
    by_keys: bool = False,
) -> Callable[[Callable[[Transaction, C, Context], Awaitable[R]]], CommandHandler[[Transaction, C, Context], R]]: ...


@overload
def handles(
    command: type[C],
    *,
    before: Callable[[C, Context], Awaitable[P]],
    after: Callable[[Reply, C, Context], Awaitable[None]] | None = None,
    unrecorded: Callable[[C, Envelope], bool] | None = None,
    by_keys: bool = False,
) -> Callable[
    [Callable[[Transaction, C, Context, P], Awaitable[R]]], CommandHandler[[Transaction, C, Context, P], R]
]: ...


def handles(command: type[Any], **how: Any) -> Callable[[Callable[..., Any]], CommandHandler[..., Any]]:
    """Register a function that carries a command out in one transaction, and may be tried again.

    `before` runs outside any transaction; what it returns is the function's fourth argument. `after` runs when all is
    committed, on a replay too. `unrecorded` names the writes that leave nothing behind, not even a ledger row.
    `by_keys`: its statements all go by keys, so that a session plans them once.
    """
    return lambda run: CommandHandler(command, run, **how)


def handles_gradually(
    command: type[C], portions: Callable[[C, Context], AsyncIterator[None] | None]
) -> Callable[[Callable[[Transaction, C, Context], Awaitable[R]]], CommandHandler[[Transaction, C, Context], R]]:
    """Register a function that sums up what `portions` have done, each in a transaction of its own.

    `portions` yields after each; None: this command has none. Another try goes on with what earlier ones left.
    """
    return lambda run: CommandHandler(command, run, portions=portions)


def handles_without_transaction(
    command: type[C],
) -> Callable[[Callable[[C, Context], Awaitable[R]]], CommandHandler[[C, Context], R]]:
    """Register a function that opens what transactions it needs; for what is not in the ledger."""
    return lambda run: CommandHandler(command, run, in_transaction=False)


class _AlreadyInLedger(Exception):
    """The command id or the idempotency key is in the ledger already; the transaction is rolled back."""


class CommandRunner:
    """Carries commands out by their handlers; `run` is what the queue calls."""

    def __init__(
        self,
        handlers: Iterable[CommandHandler[..., Any]],
        *,
        store: Store,
        inspection: Inspection,
        settings: Settings,
        services: Services,
    ) -> None:
        self.handlers: Mapping[type[Command], CommandHandler[..., Any]] = {
            handler.command: handler for handler in handlers
        }
        self._store = store
        self._inspection = inspection
        self._context = partial(Context, inspection=inspection, settings=settings, services=services)

    async def run(self, given: Assignment) -> Completion:
        """Carry a command out, once. Raises EngramqError for a refusal, ResultUnknown, LeaseLost."""
        envelope, command = given.envelope, given.envelope.command
        handler = self.handlers[type(command)]
        store = self._store.seen_by(Viewer.of(envelope.principal))
        context = self._context(envelope=envelope, store=store, lease=given.lease, patience_s=given.patience_s)
        if not handler.in_transaction:
            context.reply = await handler.run(command, context)
        elif command.write and not (handler.unrecorded and handler.unrecorded(command, envelope)):
            context.reply = await self._write(handler, context)
        else:
            prepared = () if handler.before is None else (await handler.before(command, context),)
            read = partial(_read, handler, context, prepared)
            context.reply = await store.read(envelope.namespace, read, by_keys=handler.by_keys)
        if handler.after is not None:
            await handler.after(context.reply, command, context)
        return context

    async def _write(self, handler: CommandHandler[..., Any], context: Context) -> Reply:
        """Carry a write out once, in one transaction with its ledger row; what the ledger knows is answered from there.

        A refusal is recorded, unless it says that nothing was applied and never will be.
        """
        envelope = context.envelope
        known: tuple[LedgerEntry, Answer] | None = None
        try:
            portions = None if handler.portions is None else handler.portions(envelope.command, context)
            context.begun = portions is not None and envelope.attempt > 1
            if envelope.idempotency_key is not None or envelope.attempt > 1:
                known = await _find(context)  # which spares the preparation
            if known is None:
                if envelope.refusal is not None:
                    raise EngramqError(envelope.refusal)
                prepared = () if handler.before is None else (await handler.before(envelope.command, context),)
                if portions is not None:
                    async for _ in portions:
                        context.begun = True
                carry_out = partial(_carry_out, handler, context, prepared)
                for _ in range(ENTRIES_LOST_MAX):
                    try:
                        return await context.store.write(envelope.namespace, carry_out, by_keys=handler.by_keys)
                    except _AlreadyInLedger:
                        context.forget()
                        known = await _find(context)
                    if known is not None:
                        break
                    # Else it was trimmed, or erased with its namespace, in between.
                else:
                    raise refuse(FaultCode.UNAVAILABLE, "The command's ledger row could not be read.")
        except EngramqError as refusal:
            if refusal.fault.code not in NOT_APPLIED:
                return await self._refuse(context, refusal.fault)
            if context.begun:
                raise ResultUnknown("a part of the command is done: another try does what is left") from refusal
            raise
        return await self._repeat(context, *known)

    async def _repeat(self, context: Context, entry: LedgerEntry, answer: Answer) -> Reply:
        """Return the answer that the ledger has; raises EngramqError when that is a refusal."""
        envelope = context.envelope
        ours = entry.command_id == UUID(envelope.id)
        if not ours and entry.fingerprint != envelope.fingerprint:
            error = "This idempotency_key was used for another request."
            stored = answer.reply.stored.id if isinstance(answer.reply, Stored) else UNSET
            conflict = refuse(FaultCode.IDEMPOTENCY_CONFLICT, error, memory_id=stored)
            return await self._refuse(context, conflict.fault)
        if answer.fault is not None:
            raise EngramqError(answer.fault)
        assert answer.reply is not None
        context.replayed = not ours
        if not ours and context.patience_s - (time.monotonic() - context.since) < TOLD_PENDING_S:
            await self._keep(context, entry.answer)
        return answer.reply

    async def _refuse(self, context: Context, fault: Fault) -> Reply:
        """Record the refusal and raise it; a late worker then finds that the command has ended."""
        envelope = context.envelope
        refusal = msgspec.structs.replace(fault, command_id=envelope.id)
        if envelope.references:
            refusal = add_references(refusal, envelope)
        answer = blank_for_ledger(Answer(id=envelope.id, fault=refusal))

        if not await self._keep(context, answer):  # another attempt at this very command has ended it
            entry = await _find(context)
            if entry is not None and entry[0].command_id == UUID(envelope.id):
                return await self._repeat(context, *entry)
        raise EngramqError(refusal)

    async def _keep(self, context: Context, answer: str) -> bool:
        """Record an answer for get_command; False when the command has ended already."""

        async def record(tx: Transaction) -> bool:
            tx.lease = context.lease
            return await ledger.keep(tx, context.envelope, answer)

        try:
            return await context.store.write(context.envelope.namespace, record)
        except EngramqError as problem:
            raise ResultUnknown("an answer was not recorded for get_command") from problem


async def _find(context: Context) -> tuple[LedgerEntry, Answer] | None:
    """Return what the ledger has of this command, or else of the first one with its idempotency key."""
    envelope = context.envelope

    async def find(tx: Transaction) -> tuple[LedgerEntry, Answer] | None:
        entry = await ledger.find(tx, UUID(envelope.id), envelope.principal.identity, envelope.idempotency_key)
        if entry is None:
            return None
        ours = entry.command_id == UUID(envelope.id)  # a refusal has no fingerprint
        same = envelope if ours or entry.fingerprint == envelope.fingerprint else None
        return entry, await restore_answer(tx, entry, same)

    return await context.store.read(envelope.namespace, find)


async def _read(
    handler: CommandHandler[..., Any], context: Context, prepared: tuple[Any, ...], tx: Transaction
) -> Reply:
    """Run the handler of a read; a rehearsal answers as the write would."""
    reply: Reply = await handler.run(tx, context.envelope.command, context, *prepared)
    return await add_previews(tx, reply, context.envelope) if isinstance(reply, WriteReply) else reply


async def _carry_out(
    handler: CommandHandler[..., Any], context: Context, prepared: tuple[Any, ...], tx: Transaction
) -> WriteReply:
    """Run a handler between the two halves of its ledger row; raises _AlreadyInLedger when that is there already."""
    envelope = context.envelope
    tx.lease, tx.writer = context.lease, envelope.principal.name
    insertion = await ledger.send_begin(tx, envelope)
    try:
        reply: WriteReply = await handler.run(tx, envelope.command, context, *prepared)
    except EngramqError:
        if await insertion.fetchone() is None:
            raise _AlreadyInLedger from None
        raise
    if await insertion.fetchone() is None:
        raise _AlreadyInLedger
    reply.command_id = envelope.id
    if envelope.references:
        reply = add_references(reply, envelope)
    reply = await add_previews(tx, reply, envelope)
    answer = blank_for_ledger(Answer(id=envelope.id, reply=reply))
    await ledger.send_end(tx, envelope, answer, subject(reply), announcement(reply))
    return reply
