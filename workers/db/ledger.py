"""Keep the ledger: a command's row commits with its effect and its answer, so that the effect happens once."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from engramq.schemas.commands import Command
from engramq.schemas.envelope import Envelope, PrincipalId
from engramq.schemas.vocabulary import WebhookEvent
from engramq.workers.db.transaction import Jsonb, Sent, Transaction


@dataclass(frozen=True, slots=True)
class Announcement:
    """The event of a command for webhooks; `memory_id` is the memory whose content goes along where a webhook wants it.

    `data` holds ids and words of the vocabulary, nothing that anybody wrote.
    """

    event: WebhookEvent
    data: Mapping[str, Any]
    memory_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """A command that has ended; `command` is its word on the wire, `answer` the text that was kept of its answer."""

    command_id: UUID
    command: str
    principal: PrincipalId
    fingerprint: str
    answer: str


async def send_begin(tx: Transaction, envelope: Envelope) -> Sent:
    """Insert the command's id, and its idempotency key, for this transaction.

    The query has no row when either is taken. It waits for another transaction that is about to take it.
    """
    return await tx.send("ledger_begin", **_identity(envelope))


async def send_end(
    tx: Transaction, envelope: Envelope, answer: str, memory_id: UUID | None, announced: Announcement | None
) -> None:
    """Keep the answer of a command that this transaction has inserted, and the memory that it is about.

    Its event goes to the outbox of the webhooks that want it, in the same statement.
    """
    about = _outbox_values(envelope, announced)
    await tx.send("ledger_end", command_id=UUID(envelope.id), answer=answer, memory_id=memory_id, **about)


async def announce(tx: Transaction, envelope: Envelope, announced: Announcement) -> None:
    """Announce a part of a command to the webhooks that want it."""
    await tx.send("tell_webhooks", **_outbox_values(envelope, announced))


async def drop_announcements(tx: Transaction, memory_id: UUID) -> None:
    """Drop the announcements of a memory that no webhook has received yet."""
    await tx.send("drop_announcements", id=memory_id)


def _outbox_values(envelope: Envelope, announced: Announcement | None) -> dict[str, Any]:
    if announced is None:
        return {"event": None, "told": None, "told_of": None}
    told = {**announced.data, "principal": envelope.principal.name, "command_id": envelope.id}
    return {"event": announced.event.value, "told": Jsonb(told), "told_of": announced.memory_id}


async def keep(tx: Transaction, envelope: Envelope, answer: str) -> bool:
    """Keep the answer of a command that has no effect of its own; False when the command has ended already.

    It is a refusal, or the answer of an earlier command with the same idempotency key, as it stands in the ledger.
    """
    return await tx.row("ledger_keep", **_identity(envelope), answer=answer) is not None


async def find(
    tx: Transaction, command_id: UUID, principal: PrincipalId | None = None, key: str | None = None
) -> LedgerEntry | None:
    """Return what became of a command of this namespace, or else of the first one with this principal's key."""
    whose = principal or PrincipalId("")
    row = await tx.row(
        "ledger_find",
        command_id=command_id,
        principal=whose.name,
        principal_untrusted=whose.untrusted,
        idempotency_key=key,
    )
    if row is None:
        return None
    owner = PrincipalId(row["principal"], row["principal_untrusted"])
    return LedgerEntry(row["command_id"], row["command"], owner, row["fingerprint"], row["answer"])


async def blank(
    tx: Transaction, wrote: type[Command], field: str, about: Collection[UUID], values: Mapping[str, Any]
) -> None:
    """Put other values into the stored answers of the commands that wrote something; their `field` has its id."""
    if about:
        command, names = wrote.__struct_config__.tag, [str(written_id) for written_id in about]
        await tx.send("ledger_blank", command=command, field=field, names=names, blank=Jsonb(dict(values)))


def _identity(envelope: Envelope) -> dict[str, Any]:
    principal = envelope.principal.identity
    return {
        "command_id": UUID(envelope.id),
        "principal": principal.name,
        "principal_untrusted": principal.untrusted,
        "command": envelope.command.__struct_config__.tag,  # the word by which it is known on the wire
        "idempotency_key": envelope.idempotency_key,
        "fingerprint": envelope.fingerprint,
        "attempt": envelope.attempt,
    }
