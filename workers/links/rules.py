"""Decide what asserting a link does to it, and which links make room for it. Pure."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final
from uuid import UUID

from msgspec import UNSET

from engramq.schemas.commands import LinkRequest
from engramq.schemas.faults import FaultCode, refuse
from engramq.schemas.ids import Pair, pair_of
from engramq.schemas.vocabulary import (
    DISPLACEABLE,
    LINK_WEIGHTS,
    OTHER_LINK_WEIGHT,
    IfExists,
    LinkAction,
    Origin,
    Relation,
)

DIGITS: Final = 9  # of computed weights


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkRules:
    """The settings of links: how many a memory may have, and what asserting one again adds to its weight."""

    cap: int
    delta: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredLink:
    """A link between two memories, as it is stored or will be."""

    id: UUID
    pair: Pair
    declared_from: UUID | None
    relation: str
    weight: float
    origin: Origin
    note: str | None = None
    reinforcement_count: int = 0

    @property
    def asserted(self) -> bool:
        """Whether an agent stands behind it."""
        return self.origin is Origin.AGENT

    @property
    def displaceable(self) -> bool:
        """Whether it may have to make room for another."""
        return not self.asserted and self.relation in DISPLACEABLE

    def other(self, end: UUID) -> UUID:
        """Return the end that is not this one."""
        low, high = self.pair
        return high if end == low else low


def default_weight(relation: str) -> float:
    """Return what a link of this relation weighs unless a weight is given."""
    return LINK_WEIGHTS.get(relation, OTHER_LINK_WEIGHT)


def clamp(weight: float) -> float:
    """Return the weight that can be stored: from 0 to 1."""
    return min(1.0, max(0.0, weight))


def assert_new(new_id: UUID, source: UUID, target: UUID, request: LinkRequest) -> StoredLink:
    """Return the new link that an agent asks for."""
    relation = Relation.SIMILAR.value if request.relation is UNSET else request.relation
    return StoredLink(
        id=new_id,
        pair=pair_of(source, target),
        declared_from=source,
        relation=relation,
        weight=default_weight(relation) if request.weight is UNSET else clamp(request.weight),
        origin=Origin.AGENT,
        note=None if request.note is UNSET else request.note,
    )


def assert_again(
    existing: StoredLink, request: LinkRequest, delta: float, *, quoted: bool = True
) -> tuple[LinkAction, StoredLink]:
    """Return what an agent's request makes of the link that is there; what it changes becomes the agent's.

    Raises EngramqError: `edge_exists`, `relation_conflict`; `quoted`: they may quote its relation.
    """
    other_relation = request.relation is not UNSET and request.relation != existing.relation
    match request.if_exists:
        case IfExists.ERROR:
            raise refuse(FaultCode.EDGE_EXISTS, f"{_describe(existing, quoted)} is there already.")
        case IfExists.SKIP:
            return LinkAction.SKIPPED, existing
        case IfExists.UPDATE:
            return LinkAction.UPDATED, _change(existing, request)
        case IfExists.REINFORCE if not other_relation:
            stronger = replace(existing, weight=raise_weight(existing.weight, delta))
            return LinkAction.REINFORCED, _change(
                replace(stronger, reinforcement_count=existing.reinforcement_count + 1), request, weight=False
            )
        case IfExists.REINFORCE if existing.displaceable:
            assert request.relation is not UNSET
            return LinkAction.UPDATED, _change(replace(existing, weight=default_weight(request.relation)), request)
        case _:
            raise refuse(
                FaultCode.RELATION_CONFLICT,
                f"{_describe(existing, quoted)} has another relation than {request.relation!r}.",
            )


def raise_weight(weight: float, by: float) -> float:
    """Return a weight made heavier, at most 1."""
    return min(1.0, round_weight(weight + by))


def round_weight(weight: float) -> float:
    """Return a computed weight without the noise of binary fractions."""
    return round(weight, DIGITS)


def _change(link: StoredLink, request: LinkRequest, *, weight: bool = True) -> StoredLink:
    return replace(
        link,
        origin=Origin.AGENT,
        relation=link.relation if request.relation is UNSET else request.relation,
        note=link.note if request.note is UNSET else request.note,
        weight=clamp(request.weight) if weight and request.weight is not UNSET else link.weight,
    )


def _describe(link: StoredLink, quoted: bool) -> str:
    low, high = link.pair
    return f"The link {link.relation!r} between {low} and {high}" if quoted else f"The link between {low} and {high}"


@dataclass(frozen=True, slots=True)
class Displaced:
    """A link that has to go, and the end that is full."""

    end: UUID
    link: StoredLink


@dataclass(frozen=True, slots=True)
class Full:
    """Nothing can be done: the links of this end are too many, and too few of them may go."""

    end: UUID


def displacement(
    links: Mapping[UUID, Sequence[StoredLink]],
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


def _rank(link: StoredLink) -> tuple[int, float, UUID]:
    return [*DISPLACEABLE].index(link.relation), link.weight, link.id  # type: ignore[arg-type]  # a word of the list
