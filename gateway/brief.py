"""Shorten a reply to what says something, and take contents out of it for callers who may not read them. Pure.

Left out are what is null or as documented by default below, and what orders or counts a result without saying more
(usefulness, accessed_at, score). Replies to writes do not repeat what their caller has just said.

A caller without the scope `read` gets ids, marks and numbers, without what others wrote: workers read no previews of
references for them. Texts of the call itself stay, since its caller knows them: a note, and properties of the graph.
The audit log is read with a scope of its own, and is left as it is.
"""

from collections.abc import Mapping
from typing import Any, Final, Literal, get_args, get_type_hints

import msgspec
from msgspec import UNSET, UnsetType

from engramq.gateway.budget import KEPT, KNOWN_BY, Body, holders_in
from engramq.schemas import commands, limits
from engramq.schemas.commands.base import Page
from engramq.schemas.commands.links import BatchLinked
from engramq.schemas.commands.memories import MoreNamed
from engramq.schemas.commands.surveys import Surveyed
from engramq.schemas.contents import Contents, change_contents, contents_of, preview_of
from engramq.schemas.digests import digest_of
from engramq.schemas.records import (
    Answered,
    Difference,
    Link,
    Memory,
    MemoryFields,
    MemoryPreview,
    ReferencedMemory,
    Words,
)
from engramq.schemas.vocabulary import MemoryState, Partition, SectorSource, StandingSource, Visibility

SIMILARITY_DIGITS: Final = 2
OF_RECORD: Final = {"content", "sector_source", "usefulness"}  # the fields of every memory in full
TELLING_NULLS: Final = frozenset({"similarity", "sector_source"})
SURE: Final = 0.7  # a sector told with this confidence, or with more, needs no mention
_SECONDS: Final = len("2026-01-31T09:00:00")


class BriefMemory(MemoryFields, kw_only=True, omit_defaults=True):
    """A memory in brief: a field that is not there is null or has the default shown here.

    `created_at` is to the second; `updated_at` is there where it differs, `created_by` where it is not the caller,
    `confidence` where it is less than 1, `sector_source` where it is neither `auto` nor null. Only a budget leaves out
    content and created_at, and says so in `omitted_fields`; of an update the content is left out too.
    """

    similarity: float | UnsetType | None = None
    omitted_fields: list[Words] | UnsetType = UNSET


class StoredMemory(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The unusual outcomes of a store."""

    id: str
    partition: Partition = Partition.TRUSTED
    state: MemoryState = MemoryState.ACTIVE
    expires_at: str | None = None
    standing: bool | None = None
    standing_source: StandingSource | None = None
    visibility: Visibility | UnsetType = UNSET
    evidence: Contents[list[dict[str, Any]]] = []
    differs_from: list[Difference] | UnsetType = UNSET


class SimilarMemory(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A similar memory: the beginning of its content."""

    id: str
    preview: Contents[str | None]
    similarity: float
    differs_from: list[Difference] | UnsetType = UNSET
    truncated: bool | UnsetType = UNSET


class _Brief(msgspec.Struct, kw_only=True):
    """The fields that any brief reply may have."""

    degraded: bool | UnsetType = UNSET
    notice: str | UnsetType = UNSET
    resolved_references: dict[str, ReferencedMemory] | UnsetType = UNSET


class BriefStored(_Brief, kw_only=True):
    """Stored, without what was sent."""

    status: Literal["stored"] = "stored"
    stored: StoredMemory
    similar_memories: list[SimilarMemory] = []
    command_id: str


class BriefMemories(_Brief, kw_only=True):
    """MemoryList in brief."""

    status: Literal["success"] = "success"
    memories: list[BriefMemory]
    count: int
    answered: Answered | UnsetType = UNSET
    left_out: int | UnsetType = UNSET
    hint: str | UnsetType = UNSET
    more: MoreNamed | UnsetType = UNSET
    standing: list[MemoryPreview] | UnsetType = UNSET
    next_cursor: str | UnsetType | None = UNSET


class BriefFound(_Brief, kw_only=True):
    """MemoryFound in brief."""

    memory: BriefMemory
    links: list[Link] | UnsetType = UNSET
    replaces: list[MemoryPreview] | UnsetType = UNSET
    part: int | UnsetType = UNSET
    parts: int | UnsetType = UNSET
    status: Literal["success"] = "success"


class BriefSuperseded(_Brief, kw_only=True):
    """Superseded in brief."""

    status: Literal["superseded"] = "superseded"
    old: BriefMemory
    new: BriefMemory
    still_resting_on: list[MemoryPreview] | UnsetType = UNSET
    still_resting_count: int | UnsetType = UNSET
    command_id: str


class BriefChanged(_Brief, kw_only=True):
    """MemoryChanged in brief: of an update without content and metadata."""

    status: Literal["updated", "restored"]
    memory: BriefMemory
    command_id: str


class BriefPromoted(_Brief, kw_only=True):
    """Promoted in brief."""

    status: Literal["promoted", "already_trusted"]
    memory: BriefMemory
    command_id: str


def _bare_form(page: type[Page]) -> type[msgspec.Struct]:
    """Return the form of a page within a small budget: of each item stays its id, and what else is KEPT and fits.

    For example of an EdgeList each edge with `edge_id`, and `relation` and `weight` as far as they fit.
    """
    whole = get_type_hints(page, include_extras=True)
    (item,) = get_args(whole[page.listed])
    types: dict[str, Any] = get_type_hints(item, include_extras=True)
    names = item.__struct_fields__
    fields: list[Any] = [(name, types[name]) for name in names if name in KNOWN_BY]
    fields += [(name, types[name] | UnsetType, UNSET) for name in names if name in KEPT - KNOWN_BY]
    fields += [("omitted_fields", list[str]), ("truncated", bool | UnsetType, UNSET)]
    said = {"__doc__": f"An item of {page.__name__} of which a small budget has left no more."}
    bare: Any = msgspec.defstruct(f"Bare{item.__name__}", fields, kw_only=True, omit_defaults=True, namespace=said)
    around = [
        (field.name, list[bare] if field.name == page.listed else whole[field.name], *_default_of(field))
        for field in msgspec.structs.fields(page)
    ]
    said = {"__doc__": f"{page.__name__} within a small budget."}
    return msgspec.defstruct(f"Bare{page.__name__}", around, kw_only=True, namespace=said)


def _default_of(field: msgspec.structs.FieldInfo) -> tuple[Any, ...]:
    """Return the default of a field, if it has one."""
    if field.default_factory is not msgspec.NODEFAULT:
        return (msgspec.field(default_factory=field.default_factory),)
    return () if field.default is msgspec.NODEFAULT else (field.default,)


# The form of other replies of which a small budget leaves little.
BARE_FORMS: Final[Mapping[type[msgspec.Struct], type[msgspec.Struct]]] = {
    page: _bare_form(page)
    for page in (commands.ProposalList, commands.EdgeList, commands.AuditList, commands.ContradictionList, Surveyed)
}

# The brief form of each reply that holds memories.
BRIEF_FORMS: Final[Mapping[type[msgspec.Struct], type[msgspec.Struct]]] = {
    commands.Stored: BriefStored,
    commands.MemoryList: BriefMemories,
    commands.MemoryFound: BriefFound,
    commands.Superseded: BriefSuperseded,
    commands.MemoryChanged: BriefChanged,
    commands.Promoted: BriefPromoted,
}


def brief_of(reply: commands.Reply, caller: str, *, digests: bool = False) -> msgspec.Struct:
    """Return the brief form of a reply for the principal of this name; the reply itself where it has none.

    `digests`: an untrusted memory gets what its verdict names.
    """
    form = BRIEF_FORMS.get(type(reply))
    if form is None or getattr(reply, "memory", reply) is None or getattr(reply, "status", "") == "not_found":
        return reply
    given: dict[str, Any] = {name: getattr(reply, name) for name in form.__struct_fields__ if hasattr(reply, name)}
    if isinstance(reply, commands.Stored):
        kept = {name: getattr(reply.stored, name) for name in StoredMemory.__struct_fields__}
        similar = [
            SimilarMemory(
                id=memory.id,
                preview=preview_of(memory.content, limits.PREVIEW_CHARS),
                similarity=round(memory.similarity or 0.0, SIMILARITY_DIGITS),
                differs_from=memory.differs_from,
            )
            for memory in reply.similar_memories
        ]
        return form(**given | {"stored": StoredMemory(**kept), "similar_memories": similar})
    for name, value in given.items():
        if isinstance(value, Memory):
            given[name] = _memory(value, caller, digests=digests)
        elif name == "memories":
            given[name] = [_memory(memory, caller, digests=digests) for memory in value]
    if given["status"] == "updated":
        brief: BriefMemory = given["memory"]
        brief.content, brief.metadata, brief.digest = UNSET, {}, UNSET
    return form(**given)


def _memory(memory: Memory, caller: str, *, digests: bool) -> BriefMemory:
    brief = BriefMemory(**{name: getattr(memory, name) for name in MemoryFields.__struct_fields__})
    if digests and memory.partition is Partition.UNTRUSTED:
        brief.digest = digest_of(memory)
    if memory.updated_at == memory.created_at:
        brief.updated_at = UNSET
    brief.created_at = f"{memory.created_at[:_SECONDS]}Z"
    if brief.created_by == caller:
        brief.created_by = UNSET
    if brief.confidence == 1.0:
        brief.confidence = UNSET
    if brief.sector_source is SectorSource.AUTO:
        brief.sector_source = None
    if brief.sector_confidence is not None and brief.sector_confidence >= SURE:
        brief.sector_confidence = None
    if brief.similarity:
        brief.similarity = round(brief.similarity, SIMILARITY_DIGITS)
    return brief


def omit_nulls(body: Body) -> Body:
    """Return a reply whose memories in full lack the fields that are null, but where null says something.

    A null `similarity` says that only words were compared, a null `sector_source` that no sector was chosen yet.
    """
    for memory in [holder for holder in holders_in(body) if holder.keys() >= OF_RECORD]:
        for name in [name for name, value in memory.items() if value is None and name not in TELLING_NULLS]:
            del memory[name]
    return body


def withhold_contents(reply: msgspec.Struct, command: object = None) -> tuple[msgspec.Struct, bool]:
    """Return a reply in brief without contents, and whether it had any; `command` is what was asked."""
    had_any = False

    def hide(node: msgspec.Struct) -> msgspec.Struct:
        nonlocal had_any
        asked: Any = command
        if isinstance(node, BatchLinked):  # each link of a batch has a note of its own
            links = getattr(command, "edges", ())
            asked = links[node.index] if node.index < len(links) else None
        kept = {
            name: _keep_sent(getattr(node, name), getattr(asked, name, UNSET), blank)
            for name, blank in contents_of(type(node)).items()
        }
        hidden = {name: value for name, value in kept.items() if value != getattr(node, name)}
        if isinstance(node, commands.QueryConnected) and (result := node.connect_result) is not None:
            note = result.get("note")
            if note is not None and note != getattr(command, "note", UNSET):
                hidden["connect_result"] = {**result, "note": None}
        had_any = had_any or bool(hidden)
        if hidden and isinstance(node, BriefMemory):
            hidden["omitted_fields"] = list(hidden)
        return msgspec.structs.replace(node, **hidden) if hidden else node

    return change_contents(reply, hide), had_any


def _keep_sent(value: Any, asked: Any, blank: Any) -> Any:
    """Return what of a field the caller has sent in the same words, else what stands there instead."""
    if isinstance(value, dict) and isinstance(asked, dict):
        return {key: part for key, part in value.items() if key in asked and asked[key] == part}
    return value if asked is not UNSET and msgspec.to_builtins(asked) == value else blank
