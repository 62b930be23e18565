"""Pairs of memories that searches find together: counted where they are linked, else noted until they are to be."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from engramq.schemas import limits
from engramq.schemas.vocabulary import LINK_WEIGHTS, Origin, Relation
from engramq.workers.db.queries import sql
from engramq.workers.db.transaction import Transaction
from engramq.workers.links.rules import LinkRules, Pair
from engramq.workers.links.snapshot import columns_of
from engramq.workers.links.writer import AutomaticLink, write_automatic

COUNT: Final = sql("count_co_retrieved")
NOTE: Final = sql("note_co_retrieved")
FORGET: Final = sql("forget_co_retrieved")
TRIM: Final = sql("trim_co_retrieved")
COMMIT_WITHOUT_WAITING: Final = sql("commit_without_waiting")

KEPT_DAYS: Final = 90
TRIMMED_AT_ONCE: Final = 5_000


@dataclass(slots=True)
class Together:
    """How often a pair was found together, and in which instances of sessions."""

    times: int = 0
    instances: set[str] = field(default_factory=set)


async def note_pairs(tx: Transaction, pairs: Mapping[Pair, Together]) -> list[Pair]:
    """Note that pairs were found together; return those that have been often enough to be linked."""
    await tx.send(COMMIT_WITHOUT_WAITING)
    ordered = sorted(pairs)
    seen = [(pair, instance) for pair in ordered for instance in sorted(pairs[pair].instances)]
    noted = await tx.send(
        NOTE,
        **columns_of([pair for pair, _ in seen]),
        instances=[instance for _, instance in seen],
        enough=limits.CO_RETRIEVALS,
    )
    # Last, since it locks links: who erases a memory holds the memory and goes on to its links.
    await tx.send(COUNT, **columns_of(ordered), times=[pairs[pair].times for pair in ordered])
    return [(row["low_id"], row["high_id"]) for row in await noted.rows() if row["ripe"]]


async def link_pairs(tx: Transaction, pairs: Collection[Pair], *, rules: LinkRules) -> None:
    """Link pairs as far as they may be and there is room; what cannot be linked now begins anew."""
    weight = LINK_WEIGHTS[Relation.CO_OCCURS]
    links = [AutomaticLink(low, high, Relation.CO_OCCURS, weight, Origin.CO_RETRIEVAL) for low, high in pairs]
    await write_automatic(tx, links, rules=rules)
    await tx.send(FORGET, **columns_of(pairs))


async def trim(tx: Transaction) -> int:
    """Forget old pairs, at most TRIMMED_AT_ONCE; return how many."""
    row = await tx.row(TRIM, days=KEPT_DAYS, limit=TRIMMED_AT_ONCE)
    return 0 if row is None else int(row["trimmed"])
