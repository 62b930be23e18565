"""Which links have to go so that no memory has more than it may: planned for every end before anything is deleted."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from engramq.schemas.vocabulary import DISPLACEABLE
from engramq.workers.links.rules import Link


@dataclass(frozen=True, slots=True)
class Displaced:
    """A link that has to go, and the end that is full."""

    end: UUID
    link: Link


@dataclass(frozen=True, slots=True)
class Full:
    """Nothing can be done: the links of this end are too many, and too few of them may go."""

    end: UUID


def displacement(
    links: Mapping[UUID, Sequence[Link]],
    keep: Mapping[UUID, int],
    *,
    lighter_than: float = math.inf,
    first_of: UUID | None = None,
) -> list[Displaced] | Full:
    """Return the fewest links of each end, in the order of the ends, that leave it with at most as many as it may keep.

    `similar` goes before `co_occurs`, and the lightest first; those of `first_of` before all others. Only links that
    are lighter than `lighter_than` go. A link that goes for one end is gone for the other too.
    """
    going: dict[UUID, Displaced] = {}
    for end, held in links.items():
        left = [link for link in held if link.id not in going] if going else held
        excess = len(left) - keep[end]
        if excess <= 0:
            continue
        able = [link for link in left if link.displaceable and link.weight < lighter_than]
        if len(able) < excess:
            return Full(end)
        able.sort(key=lambda link: (first_of not in link.pair, *_rank(link)))
        going |= {link.id: Displaced(end, link) for link in able[:excess]}
    return list(going.values())


def _rank(link: Link) -> tuple[int, float, UUID]:
    return [*DISPLACEABLE].index(link.relation), link.weight, link.id  # type: ignore[arg-type]  # a word of the list
