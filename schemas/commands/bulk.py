"""Commands that carry many records."""

from typing import Annotated, ClassVar, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from engramq.schemas import limits
from engramq.schemas.commands.base import Command, WriteReply
from engramq.schemas.commands.memories import NewMemory
from engramq.schemas.vocabulary import OnDuplicate, ReceiptStatus, Scope, WorkerKind


class ImportBatch(Command, frozen=True, kw_only=True, omit_defaults=True, tag="import_batch"):
    """Store many memories of one namespace in one transaction. Rows have been validated at the door."""

    mailbox: ClassVar[WorkerKind] = WorkerKind.IMPORTS
    scope: ClassVar[Scope] = Scope.WRITE
    write: ClassVar[bool] = True

    records: Annotated[tuple[NewMemory, ...], Meta(min_length=1, max_length=limits.IMPORT_ROWS)]
    on_duplicate: OnDuplicate = OnDuplicate.SKIP


class Receipt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What became of one row: the memory it is, or why it was refused."""

    index: int
    status: ReceiptStatus
    memory_id: str | UnsetType = UNSET
    field: str | UnsetType = UNSET
    error: str | UnsetType = UNSET


class BatchImported(WriteReply, kw_only=True, tag="batch_imported"):
    """A receipt for each row, in order, and their counts."""

    status: Literal["success"] = "success"
    receipts: list[Receipt]
    stored: int
    updated: int
    skipped: int
    rejected: int
    degraded: bool | UnsetType = UNSET
