"""Commands on the chain of the audit log: check it, prove what was done, and show by which key. None is a tool."""

from typing import Annotated, ClassVar, Final, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from engramq.schemas import limits
from engramq.schemas.commands.base import Command, Reply
from engramq.schemas.faults import invalid
from engramq.schemas.fields import Identifier
from engramq.schemas.receipts import SignedReceipt
from engramq.schemas.vocabulary import Scope, Thing

RECEIPT_ENTRIES: Final = 100  # of one receipt; a purge has an entry for each memory
CHECKED_AT_ONCE: Final = 1_000


class MakeReceipt(Command, frozen=True, kw_only=True, tag="make_receipt"):
    """Prove what one command did, or that something was erased: by its id, for any principal."""

    scope: ClassVar[Scope] = Scope.ADMIN

    command_id: Annotated[Identifier, Meta(description="All that one write did")] | UnsetType = UNSET
    erased: Annotated[Identifier, Meta(description="Id of what was erased")] | UnsetType = UNSET

    def check(self) -> None:
        """Refuse both, and neither."""
        if (self.command_id is UNSET) is (self.erased is UNSET):
            raise invalid("command_id", "A receipt is of one command, or of one thing that was erased.", "Give one id.")


class ReceiptMade(Reply, kw_only=True, tag="receipt_made"):
    """A receipt; None when the audit log has no such entry. `namespace`: whose log was looked at."""

    status: Literal["success", "not_found"] = "success"
    namespace: str = ""
    receipt: SignedReceipt | None = None
    what: Thing | UnsetType = UNSET
    hint: str | UnsetType = UNSET


class VerifyAudit(Command, frozen=True, kw_only=True, tag="verify_audit"):
    """Walk the chain of the audit log, some places at a time."""

    scope: ClassVar[Scope] = Scope.ADMIN

    after: Annotated[int, Meta(ge=0, le=limits.POSITION_MAX, description="The place to go on behind")] = 0
    limit: Annotated[int, Meta(ge=1, le=CHECKED_AT_ONCE)] = CHECKED_AT_ONCE


class ChainBreak(msgspec.Struct, frozen=True, kw_only=True):
    """The first place at which the chain does not hold; `audit_id` is null where the place itself is missing."""

    place: int
    audit_id: int | None
    problem: str


class AuditVerified(Reply, kw_only=True, tag="audit_verified"):
    """How many places hold, and of how many entries words were erased since.

    `unchained`: entries still without a place, counted at the end. `broken`: where the chain does not hold; nothing is
    looked at behind it. `next_after`: where to go on, None at the end.
    """

    status: Literal["success"] = "success"
    places: int
    erased: int
    unchained: int = 0
    broken: ChainBreak | None = None
    next_after: int | None = None


class ReceiptKey(Command, frozen=True, kw_only=True, tag="receipt_key"):
    """Ask by which key receipts are signed."""


class ReceiptKeyShown(Reply, kw_only=True, tag="receipt_key_shown"):
    """The installation's public key for receipts, Ed25519, in hex."""

    status: Literal["success"] = "success"
    public_key: str
