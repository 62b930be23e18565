"""Commands on many memories: imports, a project's new name, near-duplicates found, grouped and merged.

Those on duplicates are short, so that other callers of the workers get a turn in between; they are no tools.
"""

import hashlib
from typing import Annotated, Any, ClassVar, Final, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from engramq.schemas import limits
from engramq.schemas.commands.base import Command, ExampleCall, Items, Reply, Tool, ToolGuide, WriteCommand, WriteReply
from engramq.schemas.commands.memories import NewMemory
from engramq.schemas.evidence import Sha256
from engramq.schemas.faults import EngramqError, Fault, invalid
from engramq.schemas.fields import MemoryId, Name, UnitInterval, refuse_control_characters
from engramq.schemas.records import ImportRun, MemoryPreview
from engramq.schemas.vocabulary import (
    EVERY_PROJECT,
    Absence,
    MemorySource,
    OnDuplicate,
    Partition,
    ReceiptStatus,
    Scope,
    Verification,
    WorkerKind,
)


class Original(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The memory that a row was exported from, and the digest of its text then; `edited`: the row says another text."""

    memory_id: MemoryId
    sha256: Sha256
    edited: bool = False

    def is_of(self, text: str) -> bool:
        """Say whether this is the text that was exported, however an editor ends its lines."""
        return self.sha256 == text_digest(text)


def text_digest(text: str) -> str:
    """Return the digest of a text, by which it is known again in whatever form editors leave its ends."""
    return hashlib.sha256(text.strip().replace("\r\n", "\n").encode("utf-8", "surrogatepass")).hexdigest()


RowIdentity = Annotated[bytes, Meta(min_length=limits.IDENTITY_BYTES, max_length=limits.IDENTITY_BYTES)]


class ImportRecord(NewMemory, frozen=True, kw_only=True):
    """The fields of a row of an import: a field that is left out has no default here, so an update leaves it alone."""

    confidence: UnitInterval | UnsetType = UNSET  # type: ignore[assignment]  # wider than NewMemory's: see `memory`
    source: MemorySource | UnsetType = UNSET  # type: ignore[assignment]
    verification: Verification | UnsetType = UNSET  # type: ignore[assignment]

    @property
    def given(self) -> dict[str, Any]:
        """The fields that the row names."""
        return {name: value for name in self.__struct_fields__ if (value := getattr(self, name)) is not UNSET}

    @property
    def memory(self) -> NewMemory:
        """The memory that the row is where there is none yet."""
        return NewMemory(**self.given)


class ImportBatch(WriteCommand, frozen=True, kw_only=True, tag="import_batch"):
    """Store many memories of one namespace in one transaction.

    `identities`: by what each record is known again, whatever batch and principal brings it; () when by nothing but the
    command's idempotency key. `originals`: which memory each was exported from; () when none was.
    """

    mailbox: ClassVar[WorkerKind] = WorkerKind.IMPORTS
    scope: ClassVar[Scope] = Scope.ADMIN

    records: Annotated[tuple[ImportRecord, ...], Meta(min_length=1, max_length=limits.IMPORT_ROWS)]
    on_duplicate: OnDuplicate = OnDuplicate.SKIP
    identities: Annotated[tuple[RowIdentity, ...], Meta(max_length=limits.IMPORT_ROWS)] = ()
    originals: Annotated[tuple[Original | None, ...], Meta(max_length=limits.IMPORT_ROWS)] = ()

    def check(self) -> None:
        """Raise EngramqError for lists that have not one entry for each record, and for a record that is no memory."""
        for name, given in (("identities", self.identities), ("originals", self.originals)):
            if given and len(given) != len(self.records):
                raise invalid(name, f"{len(given)} {name} for {len(self.records)} records.")
        for index, record in enumerate(self.records):
            try:
                record.check()
                if record.metadata and len(msgspec.json.encode(record.metadata)) > limits.METADATA_BYTES:
                    raise invalid("metadata", f"metadata is larger than {limits.METADATA_BYTES} bytes of JSON.")
            except EngramqError as refusal:
                fault = refusal.fault
                raise invalid(f"records[{index}].{fault.field}", fault.error, fault.recovery) from None


class Receipt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The outcome of one row: the id of its memory, or why it was refused.

    `absence`: why the memory of a row that was imported before is not to be found; a changed one too may be hidden.
    """

    index: int
    status: ReceiptStatus
    memory_id: str | UnsetType = UNSET
    absence: Absence | UnsetType = UNSET
    field: str | UnsetType = UNSET
    error: str | UnsetType = UNSET


class BatchImported(WriteReply, kw_only=True, tag="batch_imported"):
    """A receipt for each row, in order, and their counts.

    `kept_to_author`: new memories that nobody else sees, since they may correct one that nobody else sees. `corrected`:
    memories that a row which was exported from them has replaced.
    """

    status: Literal["success"] = "success"
    receipts: list[Receipt]
    stored: int
    updated: int
    skipped: int
    rejected: int
    kept_to_author: int | UnsetType = UNSET
    corrected: int | UnsetType = UNSET
    degraded: bool | UnsetType = UNSET


class ImportRow(ImportRecord, frozen=True, kw_only=True):
    """One record of ImportMemories; `fault` when the door has refused it already, and then nothing else."""

    content: str = ""  # wider than NewMemory's: a row with a fault has none
    fault: Fault | UnsetType = UNSET


class ImportMemories(WriteCommand, frozen=True, kw_only=True, tag="import_memories"):
    """Keep many memories in one transaction. They get their vectors later; a bad one is a receipt."""

    mailbox: ClassVar[WorkerKind] = WorkerKind.IMPORTS

    records: Annotated[
        tuple[ImportRow, ...],
        Meta(min_length=1, max_length=limits.IMPORT_ROWS, description="At most 1000, each as store_memory takes it"),
    ]
    on_duplicate: Annotated[OnDuplicate, Meta(description="For a known external_id")] = OnDuplicate.SKIP


class MemoriesImported(WriteReply, kw_only=True, tag="memories_imported"):
    """How many rows are safe (stored, updated, or there already) and how many were refused.

    `rejected_rows` says why the first of these were.

    `receipts`, in the order of the rows, and their counts are for get_command. `kept_apart`: new memories that the
    router put into untrusted; `kept_to_author`: those that may correct one that nobody else sees, and are so too.
    `notice` tells what the caller may not expect.
    """

    later: ClassVar[frozenset[str]] = frozenset({"receipts", "stored", "updated", "skipped"})

    status: Literal["accepted"] = "accepted"
    accepted: int
    rejected: int
    rejected_rows: list[Receipt] | UnsetType = UNSET
    stored: int | UnsetType = UNSET
    updated: int | UnsetType = UNSET
    skipped: int | UnsetType = UNSET
    receipts: list[Receipt] | UnsetType = UNSET
    kept_apart: int | UnsetType = UNSET
    kept_to_author: int | UnsetType = UNSET
    notice: str | UnsetType = UNSET


IMPORT_MEMORIES: Final = Tool(
    parameters=ImportMemories,
    replies=(MemoriesImported,),
    rest="POST /memories/import",
    client_name="import_many",
    title="Import memories",
    summary="Keep many facts at once. Call it to bring over notes. For one call store_memory. A bad row stops no "
    "other: get_command tells which were rejected.",
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
        example=ExampleCall.of(
            "import_memories",
            records=[
                {"content": "Ada prefers tea to coffee", "speaker": "Ada", "external_id": "notes-1"},
                {"content": "The stand-up meeting is at 9:30", "external_id": "notes-2", "tags": ["meetings"]},
                {"content": " ", "external_id": "notes-3"},
            ],
        ),
    ),
)


class ListImports(Command, frozen=True, kw_only=True, tag="list_imports"):
    """Ask how the newest imports get on: this principal's, or with the scope admin everybody's. The page sends it."""


class ImportList(Reply, kw_only=True, tag="imports"):
    """The newest runs first, of the batches that the ledger keeps. `at` is the database's clock.

    `waiting_for_vectors`: memories of the namespace that are found by their words only, until a model has read them.
    """

    status: Literal["success"] = "success"
    runs: list[ImportRun]
    waiting_for_vectors: int
    at: str


Several = Annotated[tuple[MemoryId, ...], Meta(min_length=1, max_length=limits.DUPLICATES_COMPARED)]


class DuplicateGroup(msgspec.Struct, frozen=True, kw_only=True):
    """The memory that stays, and those that it stands for, with the similarity of each to it."""

    stays: MemoryId
    goes: Annotated[tuple[MemoryId, ...], Meta(min_length=1)]
    similarities: tuple[float, ...] = ()


class RenameProject(WriteCommand, frozen=True, kw_only=True, tag="rename_project"):
    """Call a project something else; with `merge` put it into one that has memories already. No tool of an agent's."""

    scope: ClassVar[Scope] = Scope.ADMIN

    old_name: Name
    new_name: Name
    merge: bool = False

    def check(self) -> None:
        """Refuse what stands for all projects, and the same name twice."""
        for name, value in (("old_name", self.old_name), ("new_name", self.new_name)):
            if value == EVERY_PROJECT:
                raise invalid(name, f"{name} {EVERY_PROJECT!r} stands for all projects; name one.")
        if self.old_name == self.new_name:
            raise invalid("new_name", "new_name is what the project is called already.")
        refuse_control_characters(new_name=self.new_name)


class ProjectRenamed(WriteReply, kw_only=True, tag="project_renamed"):
    """How many memories and tokens are of the new name that were of the old one."""

    status: Literal["renamed"] = "renamed"
    project: str
    memory_count: int
    token_count: int


class FindDuplicates(Command, frozen=True, kw_only=True, tag="find_duplicates"):
    """Find the next few memories that are alike: of equal text, or by their vectors. `after` is where the last step
    ended, empty for the first one. `similarity`: the least cosine; left out, one that means the same with every model.
    """

    mailbox: ClassVar[WorkerKind] = WorkerKind.IMPORTS
    scope: ClassVar[Scope] = Scope.ADMIN

    by: Annotated[Literal["text", "vector"], Meta(extra_json_schema={"type": "string"})]
    after: Annotated[str, Meta(max_length=limits.NAME_CHARS)] = ""
    partition: Partition | UnsetType = UNSET
    similarity: UnitInterval | UnsetType = UNSET


class DuplicatesFound(Reply, kw_only=True, tag="duplicates_found"):
    """Ids of memories that are alike, at least two in each; how many were looked at, where the next step begins (null:
    there is none), and the least cosine that counted.

    `digests`, by text: 16 bytes for each memory, by id; those of memories of one kind and of equal text are equal.
    """

    status: Literal["success"] = "success"
    alike: list[tuple[str, ...]]
    digests: dict[str, bytes] | UnsetType = UNSET
    looked_at: int
    next: str | None
    similarity: float


class GroupDuplicates(Command, frozen=True, kw_only=True, tag="group_duplicates"):
    """Say which of memories would stay, and which of them each would stand for. Changes nothing.

    Memories of one item are compared with each other; those of different items are not.
    """

    mailbox: ClassVar[WorkerKind] = WorkerKind.IMPORTS
    scope: ClassVar[Scope] = Scope.ADMIN

    alike: Annotated[tuple[Several, ...], Meta(min_length=1, max_length=limits.DUPLICATES_COMPARED)]
    similarity: UnitInterval
    preview: bool = False

    def check(self) -> None:
        """Refuse more memories than one step compares."""
        if sum(map(len, self.alike)) > limits.DUPLICATES_COMPARED:
            raise invalid("alike", f"These are more than {limits.DUPLICATES_COMPARED} memories.", "Ask in parts.")


class DuplicatesGrouped(Reply, kw_only=True, tag="duplicates_grouped"):
    """The groups, the memory that stays first; what is in none of them stands for itself."""

    status: Literal["success"] = "success"
    groups: list[DuplicateGroup]
    previews: list[MemoryPreview] | UnsetType = UNSET


class MergeDuplicates(WriteCommand, frozen=True, kw_only=True, tag="merge_duplicates"):
    """Supersede memories by those that stand for them, in one transaction.

    Memories that are no longer duplicates stay.
    """

    mailbox: ClassVar[WorkerKind] = WorkerKind.IMPORTS
    scope: ClassVar[Scope] = Scope.ADMIN

    groups: Annotated[tuple[DuplicateGroup, ...], Meta(min_length=1, max_length=limits.DUPLICATES_MERGED)]
    similarity: UnitInterval

    def check(self) -> None:
        """Refuse more memories than one transaction supersedes, and what would go twice, or go and stay."""
        goes = [memory_id for group in self.groups for memory_id in group.goes]
        if len(goes) > limits.DUPLICATES_MERGED:
            raise invalid("groups", f"These are more than {limits.DUPLICATES_MERGED} memories.", "Merge in parts.")
        stays = {group.stays for group in self.groups}
        if len(set(goes)) < len(goes) or not stays.isdisjoint(goes):
            raise invalid("groups", "A memory goes twice, or goes and stays.", "Name each once.")


class DuplicatesMerged(WriteReply, kw_only=True, tag="duplicates_merged"):
    """How many memories are superseded now by this command, and which were left since they are no duplicates now."""

    status: Literal["success"] = "success"
    merged: int
    left: list[str]
