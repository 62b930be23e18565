"""The rows of one import, and which of them are there already: by their external id, or by their identity."""

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final
from uuid import UUID

from msgspec import UNSET, UnsetType

from engramq.schemas.commands import ImportRecord, Receipt
from engramq.schemas.faults import EngramqError
from engramq.schemas.vocabulary import Absence, OnDuplicate, Partition, ReceiptStatus, Verification
from engramq.workers.db.queries import sql
from engramq.workers.db.transaction import Transaction
from engramq.workers.memories.imported_rows import GoneIn, absence_of, gone_in
from engramq.workers.memories.quotas import Allowance
from engramq.workers.memories.store import Draft

TAKEN: Final = sql("known_external_ids")
WITH_EXTERNAL_IDS: Final = sql("with_external_ids")


@dataclass(frozen=True, slots=True)
class Known:
    """A memory that has an external id already; locked. `absence`: why it is not to be found; UNSET when it is."""

    id: UUID
    partition: Partition
    verification: Verification
    created_by: str
    absence: Absence | UnsetType
    content: str
    metadata: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Row:
    """A record and the memory that it is where there is none yet; `identity`: by which it is known for good."""

    record: ImportRecord
    draft: Draft
    identity: bytes | None

    @property
    def name(self) -> str | bytes | None:
        """By what another row says the same."""
        return self.identity if self.record.external_id is UNSET else self.record.external_id


@dataclass(frozen=True, slots=True)
class Batch:
    """The rows of one import that may be written, by their index, and receipts for the others.

    `degraded`: some had to go without a vector.
    """

    on_duplicate: OnDuplicate
    rows: dict[int, Row]
    refused: list[Receipt]
    degraded: bool = False

    @property
    def external_ids(self) -> list[str]:
        """The external ids of the rows, each once."""
        return sorted({row.record.external_id for row in self.rows.values() if row.record.external_id is not UNSET})

    @property
    def identities(self) -> list[bytes]:
        """The identities of the rows."""
        return [row.identity for row in self.rows.values() if row.identity is not None]


@dataclass(slots=True)
class Sorted:
    """Which rows are new, which say again what another row or a known memory said, and which are over a quota."""

    new: dict[int, Row] = field(default_factory=dict)
    again: dict[int, int] = field(default_factory=dict)  # index -> index of the row that made the memory
    known: dict[int, Known] = field(default_factory=dict)
    refused: list[Receipt] = field(default_factory=list)  # there is no room for them


async def known_already(tx: Transaction, batch: Batch) -> set[int]:
    """Return the rows, by index, that need no vector, since nothing will be written of them."""
    taken = set[str]()
    if batch.external_ids:
        taken = {row["external_id"] for row in await tx.rows(TAKEN, external_ids=batch.external_ids)}
    out = out_of(batch, taken, await gone_in(tx, batch.identities))
    skipped = taken if batch.on_duplicate is OnDuplicate.SKIP else set()
    return out.keys() | {index for index, row in batch.rows.items() if row.record.external_id in skipped}


async def known(tx: Transaction, external_ids: Sequence[str]) -> dict[str, Known]:
    """Lock the memories that have these external ids, and return them by external id."""
    if not external_ids:
        return {}
    rows = await tx.rows(WITH_EXTERNAL_IDS, external_ids=list(external_ids))
    return {
        row["external_id"]: Known(
            row["id"],
            Partition(row["partition"]),
            Verification(row["verification"]),
            row["created_by"],
            absence_of(row),
            row["content"],
            row["metadata"],
        )
        for row in rows
    }


def out_of(batch: Batch, taken: Container[str], before: Mapping[bytes, GoneIn]) -> dict[int, GoneIn]:
    """Return the rows, by index, that went in before and stay out.

    Where an external id is `taken` the memory that has it decides.
    """
    return {
        index: found
        for index, row in batch.rows.items()
        if row.identity is not None
        and row.record.external_id not in taken
        and (found := before.get(row.identity)) is not None
        and found.stays_out_of(row.draft.partition)
    }


def sort(batch: Batch, known_ones: Mapping[str, Known], out: Container[int], allowance: Allowance) -> Sorted:
    """Tell the new rows, which take their room, from those that say again what is there; without what stays `out`."""
    rows, first_with = Sorted(), dict[str | bytes, int]()
    for index, row in batch.rows.items():
        external_id = row.record.external_id
        if index in out:
            continue
        if external_id is not UNSET and external_id in known_ones:
            rows.known[index] = known_ones[external_id]
        elif row.name is not None and row.name in first_with:
            rows.again[index] = first_with[row.name]
        elif (refused := over_quota(index, partial(allowance.take, row.draft.memory))) is not None:
            rows.refused.append(refused)
        else:
            rows.new[index] = row
            if row.name is not None:
                first_with[row.name] = index
    return rows


def over_quota(index: int, take: Callable[[], None]) -> Receipt | None:
    """Take room for a row; return its receipt when there is none."""
    try:
        take()
    except EngramqError as refusal:
        return rejected(index, "content", f"{refusal.fault.error} {refusal.fault.recovery}")
    return None


def rejected(index: int, name: str, error: str) -> Receipt:
    """Return the receipt of a row that does not go in, for what its field `name` says."""
    return Receipt(index=index, status=ReceiptStatus.REJECTED, field=name, error=error)


def made_known(draft: Draft, memory_id: UUID) -> Known:
    """Return what is known of a memory that this batch has made."""
    memory = draft.memory
    metadata = {} if memory.metadata is UNSET else memory.metadata
    return Known(memory_id, draft.partition, memory.verification, draft.created_by, UNSET, memory.content, metadata)
