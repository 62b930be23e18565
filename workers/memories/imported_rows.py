"""Rows of imports known again by their identity, for good: also when their memory was forgotten or erased."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from msgspec import UNSET, UnsetType

from engramq.schemas.vocabulary import Absence, Partition
from engramq.workers.db.queries import sql
from engramq.workers.db.transaction import Row, Transaction

FIND: Final = sql("imported_rows")
FORGET: Final = sql("forget_imported_rows")


@dataclass(frozen=True, slots=True)
class GoneIn:
    """A row that went in before: the memory that it became.

    `partition`: where the memory is, or was. `absence`: why it is not to be found; UNSET when it is.
    """

    memory_id: UUID
    partition: Partition
    absence: Absence | UnsetType

    def stays_out_of(self, partition: Partition) -> bool:
        """Say whether the row is not to go in once more.

        An erased untrusted memory is no reason to keep a trusted row out: else whoever imports a file first, and is
        not trusted, would decide what others cannot import.
        """
        erased_untrusted = self.absence is Absence.ERASED and self.partition is Partition.UNTRUSTED
        return not (erased_untrusted and partition is Partition.TRUSTED)


def absence_of(row: Row) -> Absence | UnsetType:
    """Return what the column `absence` of a row says; UNSET for null."""
    return UNSET if row["absence"] is None else Absence(row["absence"])


async def gone_in(tx: Transaction, identities: Sequence[bytes]) -> dict[bytes, GoneIn]:
    """Return what became of those of these rows that went in before, by identity."""
    if not identities:
        return {}
    rows = await tx.rows(FIND, digests=list(identities))
    return {
        bytes(row["digest"]): GoneIn(row["memory_id"], Partition(row["partition"]), absence_of(row)) for row in rows
    }


async def let_in_again(tx: Transaction, identities: Sequence[bytes]) -> None:
    """Forget that rows went in."""
    if identities:
        await tx.send(FORGET, digests=sorted(identities))
