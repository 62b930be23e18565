"""Prove what was done: make receipts, check the chain of the audit log, and keep it up.

Receipts are signed by a key that follows from the installation's, as the secrets of webhooks do.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import UNSET

from engramq.schemas import commands
from engramq.schemas.faults import FaultCode, missing, refuse
from engramq.schemas.ids import parse_uuid
from engramq.schemas.receipts import SignedReceipt, exact_time
from engramq.schemas.settings import Settings, SettingsError
from engramq.schemas.vocabulary import Thing
from engramq.workers.db import audit_chain, namespaces
from engramq.workers.db.database import Store
from engramq.workers.db.namespaces import Looks
from engramq.workers.db.transaction import Transaction
from engramq.workers.runner import Context, handles, handles_without_transaction
from engramq.workers.trust import require_admin
from engramq.workers.webhooks.sending import signing_key

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

EXTEND_EVERY_S: Final = 15.0
BATCHES: Final = 10  # of entries without a place, that one receipt waits for


@handles_without_transaction(commands.MakeReceipt)
async def make_receipt(command: commands.MakeReceipt, context: Context) -> commands.ReceiptMade:
    """Sign what a command did, or how something was erased. Entries that have no place yet get one first."""
    command.check()
    require_admin(context.envelope.principal, "A receipt")
    of_command, of_erased = (
        None if text is UNSET else parse_uuid(text) for text in (command.command_id, command.erased)
    )
    wanted = of_command or of_erased
    store, namespace = context.store, context.envelope.namespace
    none = commands.ReceiptMade(status="not_found", namespace=namespace, **missing(Thing.AUDIT_ENTRY))
    if wanted is None:
        return none
    read = audit_chain.of_erased if of_command is None else audit_chain.of_command
    chained = await store.read(namespace, lambda tx: read(tx, wanted, commands.RECEIPT_ENTRIES))
    for _ in range(BATCHES):
        if chained.entries or not await store.write(namespace, audit_chain.extend):
            break
    if not chained.entries:
        chained = await store.read(namespace, lambda tx: read(tx, wanted, commands.RECEIPT_ENTRIES))
    if not chained.entries:
        return none
    key = _private_key(context.settings)
    receipt = SignedReceipt(
        namespace=namespace,
        made_at=exact_time(datetime.now(UTC)),
        proven=chained.entries,
        omitted=chained.total - len(chained.entries),
        public_key=_public_key(key),
    )
    signed = msgspec.structs.replace(receipt, signature=key.sign(receipt.signed_bytes()).hex())
    return commands.ReceiptMade(namespace=namespace, receipt=signed)


@handles(commands.VerifyAudit)
async def verify_audit(tx: Transaction, command: commands.VerifyAudit, context: Context) -> commands.AuditVerified:
    """Check some places of the chain."""
    require_admin(context.envelope.principal, "Checking the audit log")
    return await audit_chain.verified(tx, command.after, command.limit)


@handles_without_transaction(commands.ReceiptKey)
async def receipt_key(_command: commands.ReceiptKey, context: Context) -> commands.ReceiptKeyShown:
    """Show by which key receipts are signed."""
    return commands.ReceiptKeyShown(public_key=_public_key(_private_key(context.settings)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Chaining:
    """Gives new entries of the audit log their places; one per process."""

    store: Store

    async def run(self) -> None:
        """Look where something changed of late."""
        for namespace in await namespaces.find_changed(self.store, Looks.ANY):
            await self.store.apart(namespace, self._extend(namespace), None)

    async def _extend(self, namespace: str) -> None:
        while await self.store.write(namespace, audit_chain.extend):
            pass


def _private_key(settings: Settings) -> "Ed25519PrivateKey":
    """Raises EngramqError with `unavailable` where the installation has no key."""
    try:
        key = signing_key(settings)
    except SettingsError as problem:
        raise refuse(FaultCode.UNAVAILABLE, str(problem), recovery="Give all workers the same key.") from None
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # noqa: PLC0415 - for receipts alone

    return Ed25519PrivateKey.from_private_bytes(key.derive(b"engramq receipts"))


def _public_key(key: "Ed25519PrivateKey") -> str:
    return key.public_key().public_bytes_raw().hex()
