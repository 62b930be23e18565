"""Many new memories in one transaction."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from msgspec import UNSET

from engramq.schemas.vocabulary import Partition, Verification
from engramq.workers.db.errors import Again
from engramq.workers.db.queries import sql
from engramq.workers.db.transaction import Transaction
from engramq.workers.memories.change import fits
from engramq.workers.memories.store import Draft, columns_of

KNOWN: Final = sql("known_external_ids")
WITH_EXTERNAL_IDS: Final = sql("with_external_ids")
INSERT_MANY: Final = sql("insert_memories")
REPLACE: Final = sql("replace_memory")
FORGET_SIMILARITY_LINKS: Final = sql("forget_similarity_links")

# Rows of one statement: what the event loop needs to write them down is then about 10 ms.
ROWS_AT_ONCE: Final = 100


@dataclass(frozen=True, slots=True)
class Standing:
    """A memory that has an external id already; locked."""

    id: UUID
    partition: Partition
    verification: Verification
    content: str
    metadata: dict[str, Any]


async def known(tx: Transaction, external_ids: Sequence[str]) -> set[str]:
    """Return those of these external ids that are taken."""
    if not external_ids:
        return set()
    return {row["external_id"] for row in await tx.rows(KNOWN, external_ids=list(external_ids))}


async def standing(tx: Transaction, external_ids: Sequence[str]) -> dict[str, Standing]:
    """Lock the memories that have these external ids, and return them by external id."""
    if not external_ids:
        return {}
    rows = await tx.rows(WITH_EXTERNAL_IDS, external_ids=list(external_ids))
    return {
        row["external_id"]: Standing(
            row["id"], Partition(row["partition"]), Verification(row["verification"]), row["content"], row["metadata"]
        )
        for row in rows
    }


async def insert_all(tx: Transaction, drafts: Sequence[Draft]) -> list[UUID]:
    """Make memories, whose external ids have to be different, and return their ids in the order given.

    Raises Again when somebody took one of the external ids in between.
    """
    rows = [{**columns_of(draft), **_vector(draft)} for draft in drafts]
    # All importers take external ids in one order, so that two of them cannot wait for each other.
    ordered = sorted(rows, key=lambda row: row["external_id"] or "")
    for start in range(0, len(ordered), ROWS_AT_ONCE):
        part = ordered[start : start + ROWS_AT_ONCE]
        columns: dict[str, Any] = {name: [row[name] for row in part] for name in part[0]}
        made = await tx.rows(INSERT_MANY, **columns | {"created_by": part[0]["created_by"]})
        if len(made) != len(part):
            raise Again
    return [row["id"] for row in rows]


async def replace(tx: Transaction, found: Standing, draft: Draft) -> bool:
    """Let a standing memory be what the draft says; False when its metadata would grow too large."""
    columns = columns_of(draft)
    if not fits(found.metadata, columns["metadata"].obj):
        return False
    # Without a vector for now the one that it has goes on, if it is of the same content.
    same = found.content == draft.memory.content
    keep = draft.embedding is None and same
    vector = {"embedding": draft.embedding and draft.embedding.half, "model_id": _vector(draft)["model_id"]}
    await tx.send(REPLACE, **columns | vector | {"id": found.id, "keep_vector": keep})
    if not same:
        await tx.send(FORGET_SIMILARITY_LINKS, id=found.id)
    return True


def external_ids(drafts: Sequence[Draft]) -> list[str]:
    """Return the external ids that drafts have, each once."""
    return sorted({draft.memory.external_id for draft in drafts if draft.memory.external_id is not UNSET})


def _vector(draft: Draft) -> dict[str, Any]:
    embedding = draft.embedding
    return {
        "embedding": None if embedding is None else embedding.text,
        "model_id": None if embedding is None else embedding.model_id,
    }
