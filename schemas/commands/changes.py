"""Commands that change memories, each with its reply and its tool: replaced, updated, forgotten, restored, embedded."""

import re
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Final, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from engramq.schemas import fields, limits
from engramq.schemas.commands.base import Command, ExampleCall, Reply, Tool, ToolGuide, WriteCommand, WriteReply
from engramq.schemas.commands.memories import NewMemory, refuse_details
from engramq.schemas.evidence import Evidence
from engramq.schemas.faults import invalid
from engramq.schemas.limits import MEMORIES_PER_FOLLOW_UP
from engramq.schemas.records import Memory, MemoryPreview
from engramq.schemas.vocabulary import Scope, Sector, Thing, WorkerKind

# The subject of the guide's examples.
_STORE_TEA: Final = ExampleCall.of("store_memory", content="Ada prefers tea to coffee", speaker="Ada")
_HERE: Final = {"session": "meetings"}
_STORE_OLD: Final = ExampleCall.of("store_memory", content="The stand-up meeting is at 9:00 every day", **_HERE)
_STORE_NEW: Final = ExampleCall.of("store_memory", content="The stand-up meeting moved to 9:30 every day", **_HERE)
_SEARCH_OLD: Final = ExampleCall.of("search_memories", query="When is the stand-up meeting?", **_HERE)
_IT: Final = {"memory_id": "<stored.id>"}


class SupersedeMemory(WriteCommand, frozen=True, kw_only=True, tag="supersede_memory"):
    """Replace an old memory by a newer one."""

    old_memory_id: fields.MemoryReference
    new_memory_id: fields.MemoryReference


class Superseded(WriteReply, kw_only=True, tag="superseded"):
    """Both rows as they are now. `notice` tells what the caller may not expect, and the next step.

    `still_resting_on` cites the old one as its ground, of many the newest; `still_resting_count` is how many do.
    """

    status: Literal["superseded"] = "superseded"
    old: Memory
    new: Memory
    still_resting_on: list[MemoryPreview] | UnsetType = UNSET
    still_resting_count: int | UnsetType = UNSET
    notice: str | UnsetType = UNSET


SUPERSEDE_MEMORY: Final = Tool(
    parameters=SupersedeMemory,
    replies=(Superseded,),
    rest="POST /memories/{old_memory_id}/supersede",
    client_name="supersede",
    title="Supersede a memory",
    summary="Hide an old memory behind a newer one. Call it when a fact has changed or was wrong. If both are true, "
    "call connect. If nothing replaces it, call forget_memory. restore_memory undoes it.",
    example='supersede_memory(old_memory_id="<id>", new_memory_id="<id>")',
    detailed=True,
    core=("old_memory_id", "new_memory_id", "session"),
    ids=("old_memory_id", "new_memory_id"),
    destructive=True,
    idempotent=True,
    everyday=("old_memory_id", "new_memory_id", "session"),
    always_loaded=True,
    guide=ToolGuide(
        what="Replaces an old memory by a newer one: the old one leaves every search and list at once, but is kept.",
        when="A fact has changed, or was wrong and you have stored the right one.",
        when_not="Both are true: connect them (elaborates, contradicts). The old one should never have been stored: "
        "forget_memory. Only its speaker, date or sector is wrong: update_memory.",
        cost="One transaction, about 10 ms. restore_memory undoes it.",
        returns="old and new as they are now. Again with the same two: the same answer.",
        next="Nothing. already_superseded: the error names what replaced it; supersede that one.",
        before=(_STORE_OLD, _SEARCH_OLD, _STORE_NEW),
        example=ExampleCall.of("supersede_memory", old_memory_id="@recalled[0]", new_memory_id="@stored", **_HERE),
    ),
)


class UpdateMemory(WriteCommand, frozen=True, kw_only=True, tag="update_memory"):
    """Change what is said about a memory; its content is never edited."""

    memory_id: fields.MemoryReference
    sector: Annotated[Sector, Meta(description="Final: it stays")] | UnsetType = UNSET
    metadata: Annotated[dict[str, Any], Meta(description="Merged into what is there")] | UnsetType = UNSET
    confidence: fields.Confidence | UnsetType = UNSET
    speaker: fields.Speaker | UnsetType = UNSET
    occurred_at: fields.Occurrence | UnsetType = UNSET
    occurred_offset: fields.Offset | UnsetType = UNSET
    thread: fields.Thread | UnsetType = UNSET
    position: fields.ThreadPosition | UnsetType = UNSET
    add_tags: fields.Tags | UnsetType = UNSET
    remove_tags: fields.Tags | UnsetType = UNSET
    project: Annotated[fields.Name, Meta(description="Moves it there")] | UnsetType = UNSET
    valid_from: fields.ValidFrom | UnsetType = UNSET
    valid_until: fields.ValidUntil | UnsetType = UNSET
    expires_at: fields.ExpiresAt | UnsetType = UNSET
    standing: fields.Standing | UnsetType = UNSET
    visibility: fields.SeenBy | UnsetType = UNSET
    evidence: Annotated[Evidence, Meta(description="In place of what it cites")] | UnsetType = UNSET
    clear: (
        Annotated[
            tuple[fields.Name, ...],
            Meta(min_length=1, max_length=limits.CLEARED, description="Fields above, or keys of metadata, to empty"),
        ]
        | UnsetType
    ) = UNSET
    seen: fields.JudgedDigest | UnsetType = UNSET

    def check(self) -> None:
        """Refuse to set and to clear the same field, and a project, an interval, a citation that is none."""
        refuse_details(self)
        kept = next((name for name in _names(self.clear) if name in UNCLEARABLE), None)
        if kept is not None:
            raise invalid("clear", f"{kept} cannot be empty.", f"Clear {', '.join(CLEARABLE)}, or keys of metadata.")
        set_by = {"tags": "add_tags"}
        both = [name for name in self.cleared_fields() if getattr(self, set_by.get(name, name)) is not UNSET]
        if both:
            raise invalid("clear", f"{both[0]} is given and to be cleared.", "Leave one of them out.")

    def changes_times(self) -> bool:
        """Say whether it is about when the memory holds or expires."""
        given = any(getattr(self, name) is not UNSET for name in TIMES)
        return given or any(name in TIMES for name in self.cleared_fields())

    def cleared_fields(self) -> tuple[str, ...]:
        """Return the fields that are to be emptied."""
        return tuple(name for name in CLEARABLE if name in _names(self.clear))

    def cleared_keys(self) -> tuple[str, ...]:
        """Return the keys of metadata that are to be left out: every other name."""
        return tuple(dict.fromkeys(name for name in _names(self.clear) if name not in CLEARABLE))


ADDED_TAGS: Final = "Added tags:"
REMOVED_TAGS: Final = "Removed tags:"
_TAG: Final = r'"(?:[^"\\]|\\.)*"|[^",;]+'  # in quotation marks where it has one of the signs that end it
_RETAGGED: Final = re.compile(rf"({ADDED_TAGS}|{REMOVED_TAGS}) ((?:{_TAG})(?:, (?:{_TAG}))*)")


def describe_retagging(came: Sequence[str], went: Sequence[str]) -> str | None:
    """Return which tags came and which went as the reason of an entry in the audit log, None where none did."""
    changed = {ADDED_TAGS: came, REMOVED_TAGS: went}
    words = {
        said: [tag if re.fullmatch(r'[^",;]+', tag) else msgspec.json.encode(tag).decode() for tag in tags]
        for said, tags in changed.items()
    }
    return "; ".join(f"{said} {', '.join(tags)}" for said, tags in words.items() if tags) or None


def read_retagging(reason: str) -> dict[str, list[str]]:
    """Return the tags that came and those that went, by how such a reason begins."""
    return {
        said: [
            msgspec.json.decode(tag) if tag.startswith('"') else tag
            for tag in re.findall(rf"(?:\A|(?<=, ))(?:{_TAG})", tags)
        ]
        for said, tags in _RETAGGED.findall(reason)
    }


TIMES: Final = ("valid_from", "valid_until", "expires_at")
# What may be said of a memory, changed and emptied again, each in the column of its name.
DETAILS: Final = tuple(
    field.name
    for field in msgspec.structs.fields(NewMemory)
    if field.default is UNSET
    and field.name in UpdateMemory.__struct_fields__
    and field.name not in {"sector", "metadata", "visibility"}
)
CHANGEABLE: Final = tuple(
    name for name in UpdateMemory.__struct_fields__ if name not in {"memory_id", "clear", "seen", "visibility"}
)
CLEARABLE: Final = ("metadata", "tags", *(name for name in DETAILS if name not in fields.OFFSETS.values()))
# Fields of a memory that are never empty, or not the caller's to empty.
UNCLEARABLE: Final = frozenset(
    {"id", "content", "confidence", "sector", "external_id", "source", "source_type", "partition", "visibility"}
)


def _names(names: tuple[str, ...] | UnsetType) -> tuple[str, ...]:
    """Return names, none where there are none given."""
    return () if names is UNSET else names


class MemoryChanged(WriteReply, kw_only=True, tag="memory_changed"):
    """The memory after an update or a restoration; memory is null, with `what` and `hint`, when it was not found.

    `notice` tells what keeps it hidden all the same, and the next step; or that nothing has changed.
    """

    status: Literal["updated", "restored", "not_found"]
    memory: Memory | None = None
    notice: str | UnsetType = UNSET
    what: Thing | UnsetType = UNSET
    hint: str | UnsetType = UNSET


UPDATE_MEMORY: Final = Tool(
    parameters=UpdateMemory,
    replies=(MemoryChanged,),
    rest="PATCH /memories/{memory_id}",
    client_name="update",
    title="Update a memory",
    summary="Correct what is said about a memory, not its content: date, speaker, sector. Call it when that is wrong. "
    "For new content call store_memory, then supersede_memory.",
    example='update_memory(memory_id="<id>", sector="episodic")',
    detailed=True,
    ids=("memory_id",),
    destructive=True,
    idempotent=True,
    everyday=(
        *("memory_id", "sector", "metadata", "speaker", "occurred_at", "add_tags", "remove_tags", "valid_until"),
        *("standing", "clear", "session"),
    ),
    guide=ToolGuide(
        what="Changes what is said about a memory: sector, metadata (merged), confidence, speaker, date, thread. "
        "clear empties fields and leaves out keys of metadata. valid_until ends a fact that nothing replaces. "
        "visibility shared lets everybody see what is private; private takes that back unless others built on it.",
        when="The content is right and its description is not. A sector given here is final.",
        when_not="The content is wrong or has changed: store_memory, then supersede_memory. Content is never edited.",
        cost="One audited transaction, about 10 ms; no embedding.",
        returns="memory after the change, or not_found; a notice where it says all of this already and is unchanged.",
        next="Nothing.",
        before=(_STORE_TEA,),
        example=ExampleCall.of("update_memory", **_IT, metadata={"cups": 3}),
    ),
)


class ForgetMemory(WriteCommand, frozen=True, kw_only=True, tag="forget_memory"):
    """Archive a memory, or erase it for good."""

    memory_id: fields.MemoryReference
    reason: fields.Note | UnsetType = UNSET
    erase: Annotated[bool, Meta(description="Takes an id, no reference")] = False


class Forgotten(WriteReply, kw_only=True, tag="forgotten"):
    """Whether the memory is archived, erased, or was never there, which `what` says.

    `still_resting_on` cites it as its ground, of many the newest; `still_resting_count` is how many do.
    Also what a replay gets whose memory was erased since. `still_hidden` is what it had replaced and nothing replaces
    now; `hint` says what to do about that, or where to look.
    """

    status: Literal["archived", "erased", "not_found"]
    id: str
    what: Thing | UnsetType = UNSET
    still_hidden: list[MemoryPreview] | UnsetType = UNSET
    still_resting_on: list[MemoryPreview] | UnsetType = UNSET
    still_resting_count: int | UnsetType = UNSET
    hint: str | UnsetType = UNSET


FORGET_MEMORY: Final = Tool(
    parameters=ForgetMemory,
    replies=(Forgotten,),
    rest="DELETE /memories/{memory_id}",
    client_name="forget",
    title="Forget a memory",
    summary="Hide a memory, or with erase remove it for good. Call it when asked to forget, or nothing replaces what "
    "is wrong. If something newer does, call supersede_memory. restore_memory undoes hiding.",
    example='forget_memory(memory_id="@recalled[0]")',
    bounded=True,
    core=("memory_id", "reason", "erase", "session"),
    ids=("memory_id",),
    destructive=True,
    idempotent=True,
    everyday=("memory_id", "erase", "session"),
    guide=ToolGuide(
        what="Hides a memory from every search and list; with erase it is removed for good, everywhere.",
        when="It is wrong and nothing replaces it. Erase: it holds what must not be kept, such as a password.",
        when_not="Something newer replaces it: supersede_memory keeps the history.",
        cost="One transaction, about 10 ms. To erase takes an id, no reference; another's memory, the admin scope.",
        returns="archived, erased or not_found, and the id. still_hidden: what it had replaced, and nothing replaces "
        "now.",
        next="Archived by mistake: restore_memory. Erased cannot be undone. One of still_hidden is right after all: "
        "restore_memory.",
        before=(_STORE_TEA,),
        example=ExampleCall.of("forget_memory", **_IT, reason="Ada was joking"),
    ),
)


class RestoreMemory(WriteCommand, frozen=True, kw_only=True, tag="restore_memory"):
    """Undo an archive or a supersession."""

    memory_id: fields.MemoryReference
    reason: fields.Note | UnsetType = UNSET


RESTORE_MEMORY: Final = Tool(
    parameters=RestoreMemory,
    replies=(MemoryChanged,),
    rest="POST /memories/{memory_id}/restore",
    client_name="restore",
    title="Restore a memory",
    summary="Bring back a memory that was archived or superseded. Call it when it was hidden by mistake, or what "
    "replaced it is wrong. An erased one is gone. For a rejected one call verify_memory.",
    example='restore_memory(memory_id="<id>")',
    detailed=True,
    ids=("memory_id",),
    idempotent=True,
    guide=ToolGuide(
        what="Brings back a memory that was archived or superseded, or has expired.",
        when="It was hidden by mistake, or the newer one turned out wrong.",
        when_not="It was erased: it is gone. It is rejected: verify_memory decides that.",
        cost="One transaction, about 10 ms.",
        returns="restored with the memory, or not_found.",
        next="If the newer one was wrong: forget_memory. degree_limit: its links count again, and the memory named has "
        "no room; disconnect one of that one's links first.",
        before=(_STORE_TEA, ExampleCall.of("forget_memory", **_IT)),
        example=ExampleCall.of("restore_memory", **_IT, reason="it was right after all"),
    ),
)


class EmbedPending(Command, frozen=True, kw_only=True, tag="embed_pending"):
    """Give pending memories their vectors; sent by workers, never by a client. Ids of one namespace."""

    mailbox: ClassVar[WorkerKind] = WorkerKind.IMPORTS
    scope: ClassVar[Scope] = Scope.ADMIN

    memory_ids: tuple[str, ...]


class PendingEmbedded(Reply, kw_only=True, tag="pending_embedded"):
    """How many of them became active."""

    status: Literal["success"] = "success"
    activated: int


class ClassifySectors(Command, frozen=True, kw_only=True, tag="classify_sectors"):
    """Tell the sectors of memories that have none; sent by workers, never by a client. Ids of one namespace."""

    mailbox: ClassVar[WorkerKind] = WorkerKind.SECTORS
    scope: ClassVar[Scope] = Scope.ADMIN
    gathered: ClassVar[bool] = True

    memory_ids: tuple[str, ...]

    def joined(self, other: Command) -> Command | None:
        """Return one command for the memories of both, unless they are too many."""
        assert isinstance(other, ClassifySectors)
        ids = self.memory_ids + other.memory_ids
        return None if len(ids) > MEMORIES_PER_FOLLOW_UP else ClassifySectors(memory_ids=ids)


class SectorsClassified(Reply, kw_only=True, tag="sectors_classified"):
    """How many of them have a sector now that had none."""

    status: Literal["success"] = "success"
    classified: int
