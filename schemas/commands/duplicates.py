"""Near-duplicates of a whole namespace: found in steps, put into groups, and merged by supersession.

Each command is short, so that whoever else uses the workers gets a turn in between. None of them is a tool.
"""

from typing import Annotated, ClassVar, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from engramq.schemas import limits
from engramq.schemas.commands.base import Command, Reply, WriteReply
from engramq.schemas.faults import invalid
from engramq.schemas.fields import MemoryId, UnitInterval
from engramq.schemas.records import MemoryPreview
from engramq.schemas.vocabulary import Partition, Scope, WorkerKind

Several = Annotated[tuple[MemoryId, ...], Meta(min_length=1, max_length=limits.DUPLICATES_COMPARED)]


class DuplicateGroup(msgspec.Struct, frozen=True, kw_only=True):
    """The memory that stays, and those that it stands for, with the similarity of each to it."""

    stays: MemoryId
    goes: Annotated[tuple[MemoryId, ...], Meta(min_length=1)]
    similarities: tuple[float, ...] = ()


class FindDuplicates(Command, frozen=True, kw_only=True, omit_defaults=True, tag="find_duplicates"):
    """Find the next few memories that are alike: of equal text, or by their vectors. `after` is where the last step
    ended, empty for the first one. `similarity`: the least cosine; left out, one that means the same with every model.
    """

    mailbox: ClassVar[WorkerKind] = WorkerKind.IMPORTS
    scope: ClassVar[Scope] = Scope.ADMIN

    by: Literal["text", "vector"]
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


class GroupDuplicates(Command, frozen=True, kw_only=True, omit_defaults=True, tag="group_duplicates"):
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


class MergeDuplicates(Command, frozen=True, kw_only=True, omit_defaults=True, tag="merge_duplicates"):
    """Supersede memories by those that stand for them, in one transaction. What is no duplicate any more is left."""

    mailbox: ClassVar[WorkerKind] = WorkerKind.IMPORTS
    scope: ClassVar[Scope] = Scope.ADMIN
    write: ClassVar[bool] = True

    groups: Annotated[tuple[DuplicateGroup, ...], Meta(min_length=1, max_length=limits.DUPLICATES_MERGED)]
    similarity: UnitInterval

    def check(self) -> None:
        """Refuse more memories than one transaction supersedes, and what would go twice, or go and stay."""
        goes = [one for group in self.groups for one in group.goes]
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
