"""What stays hidden when a memory is forgotten, rejected or erased: what it had replaced and nothing else replaces."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from itertools import chain
from typing import Final, TypedDict
from uuid import UUID

from engramq.schemas.records import MemoryPreview
from engramq.workers.db.queries import sql
from engramq.workers.db.transaction import Transaction
from engramq.workers.links.standing import replacements

BEHIND: Final = sql("behind")
HIDDEN: Final = sql("hidden_as_replaced")

HINT: Final = (
    "What this one had replaced stays hidden: still_hidden. restore_memory brings back what of it is right after all."
)
BEHIND_MAX: Final = 10_000  # that are told of one change

Behind = Mapping[UUID, Sequence[UUID]]


class Named(TypedDict, total=False):
    """The fields of a reply that tell what stays hidden."""

    still_hidden: list[MemoryPreview]
    hint: str


async def behind(tx: Transaction, going: Collection[UUID]) -> Behind:
    """Return, before memories go, what each had replaced."""
    found: dict[UUID, list[UUID]] = defaultdict(list)
    for row in await tx.rows(BEHIND, ids=list(going), limit=BEHIND_MAX):
        found[row["gone"]].append(row["id"])
    return found


async def still_hidden(tx: Transaction, ids: Collection[UUID]) -> list[UUID]:
    """Return, now that others have gone, which of these memories are hidden although nothing replaces them."""
    if not ids:
        return []
    hidden = [row["id"] for row in await tx.rows(HIDDEN, ids=sorted(ids))]
    replaced = await replacements(tx, hidden)
    return [one for one in hidden if one not in replaced]


async def hidden_behind(tx: Transaction, found: Behind) -> dict[UUID, list[UUID]]:
    """Return what of it stays hidden, by the memory behind which it was; of those behind which something does."""
    hidden = set(await still_hidden(tx, set(chain.from_iterable(found.values()))))
    left = {gone: [one for one in ids if one in hidden] for gone, ids in found.items()}
    return {gone: ids for gone, ids in left.items() if ids}


async def named_behind(tx: Transaction, found: Behind) -> Named:
    """Return what a reply says of that, the newest first."""
    return named({one for ids in (await hidden_behind(tx, found)).values() for one in ids})


def named(ids: Collection[UUID], limit: int = BEHIND_MAX) -> Named:
    """Return what a reply says of memories that stay hidden; previews are read later: see workers/replies.py."""
    still_hidden = [MemoryPreview(id=str(one), preview=None) for one in sorted(ids, reverse=True)[:limit]]
    return Named(still_hidden=still_hidden, hint=HINT) if ids else Named(still_hidden=[])
