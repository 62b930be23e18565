"""Records that replies are made of: memories and their links, as a client reads them."""

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from schemas.vocabulary import (
    DEFAULT_SECTOR,
    Direction,
    MemorySource,
    MemoryState,
    Origin,
    Partition,
    Sector,
    SectorSource,
    Verification,
)


class Via(msgspec.Struct, frozen=True, kw_only=True):
    """The link over which a search result came: the memory at its other end."""

    memory_id: str
    relation: str
    weight: float


class Memory(msgspec.Struct, kw_only=True):
    """A memory as a client reads it; never the embedding. Times are RFC 3339 UTC text.

    `supersedes` is the memory that it replaced last (all of them are among its links). `score` and `similarity` are on
    ranked results only (similarity is null when no vector was compared); `explain` when the search asked for it;
    `truncated` when max_chars cut the content; `untrusted` and `warning` on untrusted memories only.
    """

    id: str
    external_id: str | None = None
    content: str
    confidence: float = 1.0
    source: MemorySource = MemorySource.EXTRACTED
    source_type: str | None = None
    speaker: str | None = None
    occurred_at: str | None = None
    thread: str | None = None
    position: int | None = None
    sector: Sector = DEFAULT_SECTOR
    sector_source: SectorSource | None = None
    partition: Partition = Partition.TRUSTED
    verification: Verification = Verification.UNVERIFIED
    state: MemoryState = MemoryState.PENDING
    usefulness: float = 0.5
    supersedes: str | None = None
    superseded_by: str | None = None
    promoted_at: str | None = None
    promoted_by: str | None = None
    metadata: dict[str, Any] = {}
    created_by: str
    created_at: str
    updated_at: str
    accessed_at: str | None = None
    score: float | UnsetType = UNSET
    similarity: float | UnsetType | None = UNSET
    via: Via | UnsetType = UNSET
    explain: dict[str, float | None] | UnsetType = UNSET
    truncated: bool | UnsetType = UNSET
    untrusted: bool | UnsetType = UNSET
    warning: str | UnsetType = UNSET


class Link(msgspec.Struct, frozen=True, kw_only=True):
    """A link as seen from one memory; `memory_id` is the other end, `direction` outgoing if this end declared it."""

    memory_id: str
    relation: str
    weight: float
    note: str | None
    origin: Origin
    direction: Direction
    reinforcement_count: int
