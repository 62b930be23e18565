"""Carry out the commands about commands: what became of one, what was done, and whether anybody answers."""

import re
from typing import Final
from uuid import UUID

import msgspec
from msgspec import UNSET

from engramq.schemas.codec import fault_body, reply_body
from engramq.schemas.commands import AuditList, CommandReport, GetCommand, ListAudit, Ping, Pong
from engramq.schemas.envelope import Answer
from engramq.schemas.ids import parse_uuid
from engramq.schemas.vocabulary import CommandStatus
from engramq.workers.checks import WorkerChecks
from engramq.workers.db import ledger
from engramq.workers.db.audit import entries
from engramq.workers.db.database import DatabaseHealth
from engramq.workers.db.transaction import Transaction
from engramq.workers.db.viewers import EVERYTHING
from engramq.workers.replies import restore_answer
from engramq.workers.runner import Context, handles, handles_without_transaction
from engramq.workers.trust import is_admin

_ID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_UNKNOWN: Final = CommandReport(status=CommandStatus.UNKNOWN)


@handles_without_transaction(GetCommand)
async def get_command(command: GetCommand, context: Context) -> CommandReport:
    """Say what became of a command: the ledger knows what has ended, the mailboxes what has not."""
    namespace, principal = context.envelope.namespace, context.envelope.principal
    ended = await _report_ended(command.command_id, context)
    if ended is not None:
        return ended
    asked_by = None if is_admin(principal) else principal.identity
    found = await context.inspection.find(command.command_id, namespace, asked_by)
    if isinstance(found, Answer):
        answer = msgspec.json.encode(found).decode()
        private = await context.store.read(namespace, lambda tx: _names_private(tx, answer))
        return _UNKNOWN if private else _report(found)
    if found is None:  # it may have ended between the two looks
        return await _report_ended(command.command_id, context) or _UNKNOWN
    return CommandReport(status=CommandStatus.RUNNING if found else CommandStatus.PENDING)


@handles_without_transaction(Ping)
async def ping(command: Ping, context: Context) -> Pong:
    """Answer with what was sent, and if asked with what the database refuses and what else is wrong."""
    health = await context.store.health() if command.database else DatabaseHealth()
    checks = await context.services[WorkerChecks].look() if command.checks and health.reads else []
    return Pong(payload=command.payload, refused=health.refused, reads=health.reads, checks=checks)


@handles(ListAudit)
async def list_audit(tx: Transaction, command: ListAudit, _context: Context) -> AuditList:
    """List what was done; a cursor is the id of the entry before which to go on."""
    target, by = (None if text is UNSET else parse_uuid(text) for text in (command.target, command.command_id))
    if (target is None) is not (command.target is UNSET) or (by is None) is not (command.command_id is UNSET):
        return AuditList(entries=[], next_cursor=None)  # no id is like that
    found = await entries(tx, command, target, by, command.limit + 1)
    shown = found[: command.limit]
    return AuditList(entries=shown, next_cursor=str(shown[-1].id) if len(found) > len(shown) else None)


async def _report_ended(command_id: str, context: Context) -> CommandReport | None:
    """Return the report on a command that the ledger knows, None on others; `unknown` on somebody else's."""
    wanted = parse_uuid(command_id)
    if wanted is None:
        return None

    async def find(tx: Transaction) -> CommandReport | None:
        entry = await ledger.find(tx, wanted)
        if entry is None:
            return None
        principal = context.envelope.principal
        if principal.identity != entry.principal and not is_admin(principal):
            return _UNKNOWN
        if principal.identity != entry.principal and await _names_private(tx, entry.answer):
            return _UNKNOWN  # administrators read nothing of what is private to others, nor that it is there
        return _report(await restore_answer(tx, entry))

    return await context.store.read(context.envelope.namespace, find)


async def _names_private(tx: Transaction, answer: str) -> bool:
    """Say whether an answer names a memory or a link that is private to somebody else."""
    ids, reader = [UUID(found) for found in set(_ID.findall(answer))], tx.viewer.owner
    async with tx.seeing(EVERYTHING):
        row = await tx.row("private_among", ids=ids, reader=reader)
    return row is not None and bool(row["private"])


def _report(answer: Answer) -> CommandReport:
    """Return the report on a command that has ended, its answer as its caller would read it."""
    if answer.fault is not None:
        return CommandReport(status=CommandStatus.FAILED, reply=fault_body(answer.fault))
    assert answer.reply is not None
    return CommandReport(status=CommandStatus.DONE, reply=reply_body(answer.reply))
