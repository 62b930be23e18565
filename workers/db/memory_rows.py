"""Lock and read rows of memories, make records of them, and previews of one line.

Nodes, edges and links have such a line, their preview, too.
"""

import math
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from copy import copy
from datetime import datetime
from enum import StrEnum
from functools import lru_cache
from sys import getsizeof
from typing import Any, Final, Generic, NamedTuple, TypedDict, TypeVar
from uuid import UUID
from weakref import WeakSet

import msgspec

from engramq.schemas import limits
from engramq.schemas.contents import fields_holding, preview_of
from engramq.schemas.evidence import kept_evidence
from engramq.schemas.fields import OFFSETS, or_none
from engramq.schemas.ids import format_time
from engramq.schemas.records import GraphPreview, Memory, MemoryPreview
from engramq.schemas.vocabulary import (
    DEFAULT_SECTOR,
    UNTRUSTED_WARNING,
    MemorySource,
    MemoryState,
    Partition,
    Sector,
    SectorSource,
    StandingSource,
    Verification,
    Visibility,
)
from engramq.workers.db.transaction import Jsonb, LookupResult, Row, Transaction, loads

R = TypeVar("R")

SECTOR_DIGITS: Final = 2
USEFULNESS_DIGITS: Final = 9

# What of a record stands in a column of its name; times are text in records, and words are of a vocabulary.
_COLUMNS: Final = tuple(
    field.name
    for field in msgspec.structs.fields(Memory)
    if field.default is not msgspec.UNSET and field.name != "usefulness"
)
_TIMES: Final = frozenset(fields_holding(Memory, "time"))
_ENUMS: Final[Mapping[str, type[StrEnum]]] = {
    "source": MemorySource,
    "sector": Sector,
    "sector_source": SectorSource,
    "standing_source": StandingSource,
    "partition": Partition,
    "verification": Verification,
    "state": MemoryState,
}

# Between writes to rows of one page that no index is to notice: the room of the former versions is won back once no
# transaction of that time is left.
BETWEEN_TURNS_S: Final = 0.1
BEGINNING_CHARS: Final = 4 * limits.PREVIEW_CHARS  # of a content, to make its preview of: white space shrinks

KNOWN_BYTES: Final = 4_000  # of a memory, as JSON, that is kept to be shown again: metadata may have 64 KB
# Bytes of Python's for one of JSON, measured on CPython 3.11: 2 to 3 of a memory without content and metadata, 4 to 16
# of metadata, where objects in objects take the most.
ROW_FACTOR: Final = 3
METADATA_FACTOR: Final = 16

END_CHARS: Final = 60  # of each end, which may be the content of a memory


async def lock(tx: Transaction, *ids: UUID) -> dict[UUID, Row]:
    """Lock those of these memories that exist, in canonical order, and return what decides about them."""
    return {row["id"]: row for row in await tx.rows("lock_memories", ids=sorted(ids))}


async def read_memories(tx: Transaction, ids: Sequence[UUID]) -> dict[UUID, Memory]:
    """Return the memories of this namespace with these ids, whatever their state."""
    return {row["id"]: memory_record(row) for row in await tx.rows("memories_by_id", ids=list(ids))}


def memory_record(row: Mapping[str, Any]) -> Memory:
    """Return the memory that a row of the columns in the fragment `memory_columns` is."""
    values: dict[str, Any] = {}
    for name in _COLUMNS:
        match row[name]:
            case str() as text if name in _ENUMS:
                values[name] = _ENUMS[name](text)
            case datetime() as moment:
                values[name] = format_time(moment, row[OFFSETS[name]] if name in OFFSETS else None)
            case UUID() as known:
                values[name] = str(known)
            case other:
                values[name] = other
    if row["sector_confidence"] is not None:
        values["sector_confidence"] = round(row["sector_confidence"], SECTOR_DIGITS)
    if row["standing"] is None:  # it was looked at, and is nothing that anybody has to be told
        values["standing_source"] = None
    return Memory(
        **values
        | {"sector": values["sector"] or DEFAULT_SECTOR, "tags": row["tags"] or [], "evidence": row["evidence"] or []},
        visibility=msgspec.UNSET if row["owner"] is None else Visibility.PRIVATE,
        usefulness=usefulness(row["confidence"], row["helped"], row["hindered"]),
        **warn_of(row["partition"] == Partition.UNTRUSTED),
    )


def details_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is said of a memory as its columns take it, None where nothing is."""
    values = {name: or_none(value) for name, value in given.items()}
    if values.get("evidence") is not None:
        values["evidence"] = Jsonb(kept_evidence(values["evidence"]))
    return values


def mark_visibility(memories: list[Memory]) -> list[Memory]:
    """Return memories that stand beside each other, each with who sees it where any is private."""
    if any(memory.visibility is Visibility.PRIVATE for memory in memories):
        for memory in memories:
            memory.visibility = memory.visibility or Visibility.SHARED
    return memories


def visible_now(partitions: Iterable[Partition]) -> dict[str, Any]:
    """Return the parameters of the fragment `visible` for what these partitions show unless asked otherwise."""
    return {"partitions": list(partitions), "include_superseded": False, "as_of": None}


class JsonRow(msgspec.Struct):
    """The columns of the fragment `memory_columns`, as JSON has them."""

    id: str
    version: str
    metadata: msgspec.Raw


def _read_json(name: str) -> tuple[str, Any]:
    return name, datetime | None if name in _TIMES else Any


_json_row: Final = msgspec.defstruct(
    "MemoryJsonRow",
    [_read_json(name) for name in (*_COLUMNS, "owner", *OFFSETS.values(), "helped", "hindered") if name != "metadata"],
    bases=(JsonRow,),
)


class _Used(NamedTuple):
    id: str
    accessed_at: datetime | None
    helped: float
    hindered: float


class _Visible(msgspec.Struct, Generic[R]):
    rows: list[R] | None
    known: list[_Used] | None


_visible: Final[msgspec.json.Decoder[_Visible[Any]]] = msgspec.json.Decoder(_Visible[_json_row])  # type: ignore[valid-type]


class Known(NamedTuple):
    """A memory as it was read, the version of its rows, and about what it takes in memory."""

    version: str
    memory: Memory
    size_bytes: int


class KnownMemories:
    """The memories that were read last, `most` bytes of them; `visible_by_id` sends again only what has changed."""

    def __init__(self, most: int = 0) -> None:
        self._most = most
        self.size_bytes = 0
        self._known: OrderedDict[str, Known] = OrderedDict()
        if most:
            _kept.add(self)

    def __len__(self) -> int:
        return len(self._known)

    def of(self, ids: Iterable[str]) -> dict[str, Known]:
        """Return those of these memories that are known."""
        return {memory_id: self._known[memory_id] for memory_id in ids if memory_id in self._known}

    def read(self, answer: LookupResult, known: Mapping[str, Known]) -> dict[str, Memory]:
        """Return the memories of an answer to `visible_by_id`, asked with `known`; callers own them, not contents."""
        if answer is None:
            return {}
        visible, memories = _visible.decode(answer), dict[str, Memory]()
        for row in visible.rows or ():
            memory = memories[row.id] = memory_from_json(row)
            if self._most and (length := len(msgspec.json.encode(memory))) <= KNOWN_BYTES:
                self.forget(row.id)
                self._known[row.id] = kept = Known(row.version, copy(memory), _size_of(memory, length, row.metadata))
                self.size_bytes += kept.size_bytes
        for used in visible.known or ():
            memory = memories[used.id] = copy(known[used.id].memory)
            memory.accessed_at = None if used.accessed_at is None else format_time(used.accessed_at)
            memory.usefulness = usefulness(memory.confidence, used.helped, used.hindered)
            if used.id in self._known:
                self._known.move_to_end(used.id)
        while self.size_bytes > self._most:
            self.forget(next(iter(self._known)))
        return memories

    def forget(self, memory_id: str) -> None:
        """Keep a memory no longer."""
        if (known := self._known.pop(memory_id, None)) is not None:
            self.size_bytes -= known.size_bytes


_kept: Final[WeakSet[KnownMemories]] = WeakSet()
_forgetting: Final[list[Callable[[], None]]] = []


def when_erased(forget: Callable[[], None]) -> None:
    """Have what a module remembers of texts forgotten whenever some are erased."""
    _forgetting.append(forget)


def forget_erased(ids: Iterable[str] = ()) -> None:
    """Take memories that are erased out of what this process remembers.

    Others do so without ids when they see the mark of an erasure (`queue/erasures.py`), and drop each copy of a
    namespace where rows are gone.
    """
    for memory_id in ids:
        for known in _kept:
            known.forget(memory_id)
    for forget in _forgetting:
        forget()


def _size_of(memory: Memory, json_bytes: int, metadata: msgspec.Raw) -> int:
    """Return about how many bytes a memory takes."""
    in_metadata = len(bytes(metadata))
    rest = json_bytes - in_metadata - len(memory.content.encode())
    return getsizeof(memory.content) + METADATA_FACTOR * in_metadata + ROW_FACTOR * max(0, rest)


def memory_from_json(row: JsonRow) -> Memory:
    """Return the memory that such a row is."""
    metadata = bytes(row.metadata)
    return memory_record({**msgspec.structs.asdict(row), "metadata": {} if metadata == b"{}" else loads(metadata)})


class Warned(TypedDict, total=False):
    """The fields that mark an untrusted memory, or a link of one; trusted ones have none."""

    untrusted: bool
    warning: str


def warn_of(untrusted: bool) -> Warned:
    """Return those fields."""
    return Warned(untrusted=True, warning=UNTRUSTED_WARNING) if untrusted else Warned()


def similarity(distance: float) -> float:
    """Return the cosine similarity, from -1 to 1, that belongs to a cosine distance."""
    return max(-1.0, min(1.0, 1.0 - distance)) if math.isfinite(distance) else 0.0


@lru_cache(maxsize=1_024)  # most memories have one confidence, and nobody judged them
def usefulness(confidence: float, helped: float, hindered: float) -> float:
    """Return the mean of a Beta posterior with the prior (.5 + confidence, 1.5 - confidence), as replies show it."""
    return round((0.5 + confidence + helped) / (2.0 + helped + hindered), USEFULNESS_DIGITS)


async def previews(tx: Transaction, ids: Sequence[UUID], partitions: Collection[Partition]) -> list[MemoryPreview]:
    """Return previews of these memories, in this order; null of what is gone or in none of these partitions."""
    if not ids:
        return []
    rows = await tx.rows(
        "memory_beginnings", ids=list(ids), partitions=list(partitions), beginning_chars=BEGINNING_CHARS
    )
    beginnings: dict[UUID, str] = {row["id"]: row["beginning"] for row in rows}
    return [
        MemoryPreview(
            id=str(memory_id),
            preview=preview_of(beginnings[memory_id], limits.PREVIEW_CHARS) if memory_id in beginnings else None,
        )
        for memory_id in ids
    ]


async def node_previews(tx: Transaction, ids: Sequence[UUID]) -> list[GraphPreview]:
    """Return `label: name` of nodes, in this order; null of what is gone."""
    rows = await tx.rows("node_titles", ids=list(ids)) if ids else []
    return _order_previews(
        ids, {row["id"]: preview_of(f"{row['label']}: {row['name']}", 2 * END_CHARS) for row in rows}
    )


async def edge_previews(tx: Transaction, ids: Sequence[UUID]) -> list[GraphPreview]:
    """Return `source --RELATION--> target` of edges and links, in this order; null of what is gone."""
    rows = await tx.rows("edge_ends", ids=list(ids), beginning_chars=4 * END_CHARS) if ids else []
    titles = {
        row["id"]: " ".join(
            (
                preview_of(row["source"], END_CHARS),
                f"--{preview_of(row['relation'], END_CHARS)}-->",
                preview_of(row["target"], END_CHARS),
            )
        )
        for row in rows
    }
    return _order_previews(ids, titles)


def _order_previews(ids: Sequence[UUID], titles: dict[UUID, str]) -> list[GraphPreview]:
    return [GraphPreview(id=str(each), preview=titles.get(each)) for each in ids]
