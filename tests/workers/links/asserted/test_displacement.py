"""The plan of what has to go, for any links of any ends."""

from collections.abc import Mapping, Sequence
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from engramq.schemas.ids import pair_of
from engramq.schemas.vocabulary import Origin, Relation
from engramq.workers.links.rules import Full, StoredLink, displacement

ENDS = [UUID(int=number) for number in range(1, 5)]
OTHERS = [UUID(int=number) for number in range(1, 9)]
RANK = [Relation.SIMILAR, Relation.CO_OCCURS]


@st.composite
def held_links(draw: st.DrawFn) -> dict[UUID, list[StoredLink]]:
    """Return the links of some memories; one between two of them is in the list of both."""
    ends = draw(st.lists(st.sampled_from(ENDS), min_size=1, unique=True))
    pairs = draw(st.sets(st.tuples(st.sampled_from(ends), st.sampled_from(OTHERS)).map(lambda ends: pair_of(*ends))))
    links = [
        StoredLink(
            id=UUID(int=100 + number),
            pair=pair,
            declared_from=None,
            relation=draw(st.sampled_from([*RANK, "supports", "mine"])),
            weight=draw(st.sampled_from([0.1, 0.5, 0.9])),
            origin=draw(st.sampled_from([Origin.SIMILARITY, Origin.SIMILARITY, Origin.AGENT])),
        )
        for number, pair in enumerate(sorted(pairs))
        if pair[0] != pair[1]
    ]
    return {end: [link for link in links if end in link.pair] for end in ends}


def weakest_first(links: Sequence[StoredLink]) -> list[tuple[int, float]]:
    return [(RANK.index(Relation(link.relation)), link.weight) for link in links]


@given(held_links(), st.integers(0, 4), st.sampled_from([0.5, 0.9, 2.0]), st.sampled_from([None, *ENDS]))
def test_the_plan_is_enough_and_takes_only_what_may_go(
    held: Mapping[UUID, list[StoredLink]], keep: int, lighter_than: float, first_of: UUID | None
) -> None:
    plan = displacement(held, dict.fromkeys(held, keep), lighter_than=lighter_than, first_of=first_of)
    able = {end: [link for link in links if link.displaceable and link.weight < lighter_than]
            for end, links in held.items()}  # fmt: skip
    stuck = [end for end, links in held.items() if len(links) - len(able[end]) > keep]
    if isinstance(plan, Full):
        assert plan.end in stuck
        return
    assert stuck == []
    going = {item.link.id for item in plan}
    assert len(going) == len(plan)
    assert all(item.link in able[item.end] for item in plan)
    for end, links in held.items():
        assert len([link for link in links if link.id not in going]) <= keep
        # Nothing goes that need not go.
        assert len([item for item in plan if item.end == end]) <= max(0, len(links) - keep)
    assert all(item.end in item.link.pair for item in plan)


@given(held_links(), st.integers(0, 4))
def test_the_weakest_go_first_and_those_of_a_returning_memory_before_all(
    held: Mapping[UUID, list[StoredLink]], keep: int
) -> None:
    (end, links), *_ = held.items()
    for first_of in (None, *OTHERS):
        plan = displacement({end: links}, {end: keep}, first_of=first_of)
        if isinstance(plan, Full):
            continue
        assert len(plan) == max(0, len(links) - keep)
        gone = [item.link for item in plan]
        stays = [link for link in links if link.displaceable and link not in gone]
        for group in (True, False):
            chosen = weakest_first([link for link in gone if (first_of in link.pair) is group])
            left = weakest_first([link for link in stays if (first_of in link.pair) is group])
            assert not chosen or not left or max(chosen) <= min(left)
        if any(first_of in link.pair for link in stays):
            assert all(first_of in link.pair for link in gone)
