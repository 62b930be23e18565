"""Add to the scores of the best candidates: links, usefulness, idle time. Pure.

Every boost is bounded and small beside a good match: it orders what is nearly alike, and brings in what an agent linked
to a good match. No untrusted memory boosts a trusted one. Links of similarity boost nothing: they repeat what the
vectors have said, and on LoCoMo even a tenth of the weight of others costs half a point of recall at 10.
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Final, NamedTuple

import msgspec
import numpy as np

from engramq.schemas.vocabulary import Origin
from engramq.workers.search.ranking import Candidates, Column, Measure, Ranked, order_candidates, total
from engramq.workers.sectors.decay import decay, link_decay

# The weight of each boost; 1.0 is about one standard deviation of the fused score.
LINKS: Final = 0.4  # of the score of the memory at the other end, by the link's weight
CO_RETRIEVED: Final = 0.1  # the same over a link that only tells what was found together
SEED_AT_MOST: Final = 4.0  # of that score
USEFULNESS: Final = 0.8  # by how far it is from neutral: -.6 to +.2
NEUTRAL_USEFULNESS: Final = 0.75  # of a memory of full confidence that nobody has judged: neither lifted nor lowered
RECENCY: Final = 0.2  # what a memory loses that has faded altogether


class Use(NamedTuple):
    """How useful a memory proved, and the active hours since it was stored or last found."""

    usefulness: float
    idle_hours: float


class Reached(NamedTuple):
    """A link from a good match, the seed, to another memory."""

    seed: str
    other: str
    relation: str
    weight: float
    origin: Origin
    used: float  # the active hour of its last use


class Surroundings(msgspec.Struct, frozen=True, kw_only=True):
    """The links and usage around the best candidates. `linked` are all ends of `links`, measured as candidates are.

    `uses`: of the best and of those linked to them, by their ids. `hours`: active hours of the namespace until now.
    """

    hours: float
    uses: Mapping[str, Use]
    links: list[Reached]
    linked: Candidates


@dataclass(frozen=True, slots=True, kw_only=True)
class Boosted:
    """A ranking with its boosts. `via` has, by row, the link that counts for more than all the rest of a score."""

    ranked: Ranked
    via: Mapping[int, Reached]


def boost_best(measure: Measure, first: Ranked, around: Surroundings) -> Boosted:
    """Rank anew, with the linked memories that were no candidates among the others."""
    links = _leading(first, around)
    candidates, parts = _add_reached(measure, first, around.linked, {link.other for link in links})
    rows = candidates.row_of
    over, best = _over_links(first, rows, links, around.hours)
    useful, recent = np.zeros(len(candidates)), np.zeros(len(candidates))
    for memory_id, use in around.uses.items():
        if (row := rows.get(memory_id)) is not None:
            useful[row] = USEFULNESS * (use.usefulness - NEUTRAL_USEFULNESS)
            recent[row] = RECENCY * (decay(candidates.sector[row], use.idle_hours) - 1.0)
    parts |= {"usefulness": useful, "recency": recent}
    rest = total(parts)
    ranked = order_candidates(candidates, rest + over, parts | {"links": over})
    added = range(len(first.candidates), len(candidates))
    return Boosted(
        ranked=ranked,
        via={row: link for row, link in best.items() if row in added or 0 < over[row] > rest[row]},
    )


def _leading(first: Ranked, around: Surroundings) -> list[Reached]:
    """Return the links that may be followed: none leads from an untrusted memory to a trusted one."""
    trusted = {
        memory_id: known.trusted[row]
        for known in (around.linked, first.candidates)
        for link in around.links
        for memory_id in (link.seed, link.other)
        if (row := known.row_of.get(memory_id)) is not None
    }
    return [link for link in around.links if trusted[link.seed] or not trusted[link.other]]


def _add_reached(
    measure: Measure, first: Ranked, linked: Candidates, reached: Set[str]
) -> tuple[Candidates, dict[str, Column]]:
    """Return the candidates followed by those that were reached and are none, and the parts of all their scores."""
    wanted = reached - first.candidates.row_of.keys()
    rows = [row for row, memory_id in enumerate(linked.ids) if memory_id in wanted]
    parts = dict(first.parts)
    if not rows:
        return first.candidates, parts
    added = linked.chosen(rows)
    own = measure.own_parts(added)
    nothing = np.zeros(len(rows))
    parts = {name: np.concatenate([column, own.get(name, nothing)]) for name, column in parts.items()}
    return first.candidates.joined(added), parts


def _over_links(
    first: Ranked, rows: Mapping[str, int], links: Sequence[Reached], hours: float
) -> tuple[Column, dict[int, Reached]]:
    """Return what links add to each score, and the link that does, of several the best one, though it be nothing."""
    over, best = np.zeros(len(rows)), dict[int, Reached]()
    for link in links:
        seed, other = rows[link.seed], rows[link.other]
        factor = CO_RETRIEVED if link.origin is Origin.CO_RETRIEVAL else LINKS
        score = min(max(float(first.scores[seed]), 0.0), SEED_AT_MOST)
        boost = factor * link.weight * link_decay(hours - link.used) * score
        if boost > over[other] or other not in best:
            over[other], best[other] = boost, link
    return over, best
