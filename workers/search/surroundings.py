"""What lies around the best candidates of a search, asked for in one go."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from engramq.schemas.vocabulary import Origin
from engramq.workers.db.lookups import array
from engramq.workers.db.memory_rows import usefulness
from engramq.workers.db.queries import sized_sql, sql
from engramq.workers.db.transaction import Answer, Lookup, Transaction
from engramq.workers.db.vectors import NOTHING_COMPARED, Embedding
from engramq.workers.search.boosts import Facts, Reached, Surroundings
from engramq.workers.search.candidates import Filters, one_by_one
from engramq.workers.search.question import TIME_WORDS, Question
from engramq.workers.search.ranking import Candidates

AROUND: Final = sql("search_around")
LINKED: Final = "search_linked"
VISIBLE_BY_ID: Final = sql("visible_by_id")
NO_VECTOR: Final = 1  # dimensions that the query is made for when there is no vector to compare

# Measures memories that were no candidates: those of some ids that the search may find.
Measuring = Callable[[Sequence[str]], Awaitable[Candidates]]


class _Link(NamedTuple):
    seed: str
    other: str
    relation: str
    weight: float
    origin: Origin
    used: float  # the active hour of its last use


class _Usage(NamedTuple):
    id: str
    helped: float
    hindered: float
    last_active_hours: float


class _Around(msgspec.Struct):
    hours: float
    links: list[_Link] | None
    usage: list[_Usage] | None


_NEVER_USED: Final = _Usage("", 0.0, 0.0, 0.0)
_around: Final = msgspec.json.Decoder(_Around)
_linked: Final = msgspec.json.Decoder(Candidates)


def around_lookup(best: Sequence[str], seeds: Sequence[str]) -> Lookup:
    """Ask for what lies around the `best` candidates, with the links of the `seeds` among them; see `surroundings`."""
    return Lookup(AROUND, {"best": array(best), "seeds": array(seeds)})


def visible_lookup(ids: Sequence[str], filters: Filters) -> Lookup:
    """Ask for those memories that are still to be shown; see `rows_from_json`."""
    return Lookup(
        VISIBLE_BY_ID,
        {
            "ids": array(ids),
            "partitions": array(filters.partitions),
            **one_by_one(filters.partitions),
            "include_superseded": filters.include_superseded,
            "as_of": filters.as_of,
        },
    )


async def surroundings(
    around: Answer, candidates: Candidates, best: Sequence[str], measuring: Measuring
) -> Surroundings:
    """Read the answer to `around_lookup`; measure the linked memories that are no candidates."""
    assert around is not None
    found = _around.decode(around)
    links, usage, hours = found.links or [], {one.id: one for one in found.usage or ()}, found.hours
    rows = {one: place for place, one in enumerate(candidates.ids)}
    others = list(dict.fromkeys(link.other for link in links))
    linked = candidates.chosen([rows[one] for one in others if one in rows])
    if missing := [one for one in others if one not in rows]:
        linked = linked.joined(await measuring(missing))
    reachable = set(linked.ids)
    known = candidates.chosen([rows[one] for one in best])
    besides = reachable.difference(best)
    known = known.joined(linked.chosen([place for place, one in enumerate(linked.ids) if one in besides]))
    return Surroundings(
        facts=_facts(known, usage, hours),
        links=[
            Reached(link.seed, link.other, link.relation, link.weight, link.origin, hours - link.used)
            for link in links
            if link.other in reachable
        ],
        linked=linked,
    )


async def measured_by_key(
    tx: Transaction, question: Question, embedding: Embedding | None, filters: Filters, ids: Sequence[str]
) -> Candidates:
    """Measure memories in the database; see Measuring."""
    row = await tx.row(
        sized_sql(LINKED, NO_VECTOR if embedding is None else embedding.dimensions),
        **filters.values,
        **one_by_one(filters.partitions),
        dates=question.names_a_date,
        time_words=TIME_WORDS if question.asks_when else None,
        **(NOTHING_COMPARED if embedding is None else embedding.compared),
        ids=array(ids),
    )
    assert row is not None
    return _linked.decode(row["candidates"])


def _facts(known: Candidates, usage: Mapping[str, _Usage], hours: float) -> Facts:
    used = [usage.get(one, _NEVER_USED) for one in known.ids]
    return Facts(
        ids=known.ids,
        usefulness=[
            usefulness(confidence, one.helped, one.hindered)
            for confidence, one in zip(known.confidence, used, strict=True)
        ],
        sector=known.sector,
        idle_hours=[
            hours - max(stored, one.last_active_hours) for stored, one in zip(known.active_hours, used, strict=True)
        ],
    )
