"""Commands that carry many records."""

from typing import Annotated, Any, ClassVar, Final, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from engramq.schemas import limits
from engramq.schemas.commands.base import Command, Reply, WriteReply
from engramq.schemas.commands.memories import NewMemory
from engramq.schemas.commands.tool import Items, Step, Tool, ToolGuide
from engramq.schemas.faults import Fault, invalid
from engramq.schemas.fields import UnitInterval
from engramq.schemas.records import ImportRun
from engramq.schemas.vocabulary import (
    Absence,
    MemorySource,
    OnDuplicate,
    ReceiptStatus,
    Scope,
    Verification,
    WorkerKind,
)

RowIdentity = Annotated[bytes, Meta(min_length=limits.IDENTITY_BYTES, max_length=limits.IDENTITY_BYTES)]


class ImportRecord(NewMemory, frozen=True, kw_only=True, omit_defaults=True):
    """What a row of an import says: what it leaves out has no default here, so that an update leaves it alone."""

    confidence: UnitInterval | UnsetType = UNSET  # type: ignore[assignment]  # wider than NewMemory's: see `memory`
    source: MemorySource | UnsetType = UNSET  # type: ignore[assignment]
    verification: Verification | UnsetType = UNSET  # type: ignore[assignment]

    @property
    def given(self) -> dict[str, Any]:
        """What the row names."""
        return {name: value for name in self.__struct_fields__ if (value := getattr(self, name)) is not UNSET}

    @property
    def memory(self) -> NewMemory:
        """The memory that the row is where there is none yet."""
        return NewMemory(**self.given)


class ImportBatch(Command, frozen=True, kw_only=True, omit_defaults=True, tag="import_batch"):
    """Store many memories of one namespace in one transaction. Rows have been validated at the door.

    `identities`: by what each record is known again, whatever batch and principal brings it; () when by nothing but the
    command's idempotency key.
    """

    mailbox: ClassVar[WorkerKind] = WorkerKind.IMPORTS
    scope: ClassVar[Scope] = Scope.WRITE
    write: ClassVar[bool] = True

    records: Annotated[tuple[ImportRecord, ...], Meta(min_length=1, max_length=limits.IMPORT_ROWS)]
    on_duplicate: OnDuplicate = OnDuplicate.SKIP
    identities: tuple[RowIdentity, ...] = ()

    def check(self) -> None:
        """Raise EngramqError for identities that are not one for each record."""
        if self.identities and len(self.identities) != len(self.records):
            raise invalid("identities", f"{len(self.identities)} identities for {len(self.records)} records.")


class Receipt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What became of one row: the memory it is, or why it was refused.

    `absence`: why the memory of a row that was imported before is not to be found; a changed one too may be hidden.
    """

    index: int
    status: ReceiptStatus
    memory_id: str | UnsetType = UNSET
    absence: Absence | UnsetType = UNSET
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


class ImportRow(ImportRecord, frozen=True, kw_only=True, omit_defaults=True):
    """One record of ImportMemories; `fault` when the door has refused it already, and then nothing else."""

    content: str = ""  # wider than NewMemory's: a row with a fault has none
    fault: Fault | UnsetType = UNSET


class ImportMemories(Command, frozen=True, kw_only=True, omit_defaults=True, tag="import_memories"):
    """Keep many memories in one transaction. They get their vectors later; a bad one is a receipt."""

    mailbox: ClassVar[WorkerKind] = WorkerKind.IMPORTS
    scope: ClassVar[Scope] = Scope.WRITE
    write: ClassVar[bool] = True

    records: Annotated[
        tuple[ImportRow, ...],
        Meta(min_length=1, max_length=limits.IMPORT_ROWS, description="At most 1000, each as store_memory takes it"),
    ]
    on_duplicate: Annotated[OnDuplicate, Meta(description="Of external_id")] = OnDuplicate.SKIP


class MemoriesImported(WriteReply, kw_only=True, tag="memories_imported"):
    """How many rows are safe (stored, updated, or there already) and how many were refused.

    `receipts`, in the order of the rows, and their counts are for get_command. `kept_apart`: new memories that the
    router put into untrusted. `notice` tells what the caller may not expect.
    """

    later: ClassVar[frozenset[str]] = frozenset({"receipts", "stored", "updated", "skipped"})

    status: Literal["accepted"] = "accepted"
    accepted: int
    rejected: int
    stored: int | UnsetType = UNSET
    updated: int | UnsetType = UNSET
    skipped: int | UnsetType = UNSET
    receipts: list[Receipt] | UnsetType = UNSET
    kept_apart: int | UnsetType = UNSET
    notice: str | UnsetType = UNSET


IMPORT_MEMORIES: Final = Tool(
    parameters=ImportMemories,
    replies=(MemoriesImported,),
    rest="POST /memories/import",
    client_name="import_many",
    title="Import memories",
    summary="Keep many facts at once. Call it to bring over notes or logs. For one fact call store_memory. A "
    "bad row stops no other: get_command tells which were rejected.",
    example='import_memories(records=[{"content": "Ada prefers tea"}])',
    batches={"records": Items(taken=ImportRecord, kept=ImportRow, listed=False)},
    reports=True,
    destructive=True,
    guide=ToolGuide(
        what="Keeps up to 1,000 memories in one call, all that are right in one transaction. Each is found by its "
        "words at once, and by meaning once it has its vector, which follows in the background, as do links.",
        when="You bring over what is written elsewhere: notes, a chat log, the facts of another memory.",
        when_not="One fact, or a few: store_memory shows what is similar and takes @stored. A file: the operator's "
        "`engramq import` reads it, whatever its size, and knows its rows again.",
        cost="About a second for 1,000 new rows, five where all change; the model works in the background. A receipt "
        "has 100 characters.",
        returns="accepted and rejected, in rows, and command_id. accepted rows are safe: stored, updated, or there "
        "already.",
        next="rejected is not 0: get_command shows a receipt for each row, with its index, and field and error of a "
        "rejected one. Send those again, corrected. external_id makes that safe: on_duplicate skip leaves a known one "
        "alone, update writes what the row names.",
        example=Step(
            tool="import_memories",
            arguments={
                "records": [
                    {"content": "Ada prefers tea to coffee", "speaker": "Ada", "external_id": "notes-1"},
                    {"content": "The stand-up meeting is at 9:30", "external_id": "notes-2", "tags": ["meetings"]},
                    {"content": " ", "external_id": "notes-3"},
                ]
            },
        ),
    ),
)


class ListImports(Command, frozen=True, kw_only=True, omit_defaults=True, tag="list_imports"):
    """Ask how the newest imports get on: this principal's, or with the scope admin everybody's. The page sends it."""

    mailbox: ClassVar[WorkerKind] = WorkerKind.RECALL


class ImportList(Reply, kw_only=True, tag="imports"):
    """The newest runs first, of the batches that the ledger keeps. `at` is the database's clock.

    `waiting_for_vectors`: memories of the namespace that are found by their words only, until a model has read them.
    """

    status: Literal["success"] = "success"
    runs: list[ImportRun]
    waiting_for_vectors: int
    at: str
