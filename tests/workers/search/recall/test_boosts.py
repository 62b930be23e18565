"""The pure part of what counts besides the match: links, usefulness, idle time. Bounded, and never against trust."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engramq.schemas.vocabulary import Origin, Sector
from engramq.workers.search.boosts import LINKS, RECENCY, SEED_AT_MOST, Boosted, Reached, Surroundings, Use, boost_best
from engramq.workers.search.question import Question
from engramq.workers.search.ranking import EQUAL_SCORES, Candidates, Measure, rank_by_score
from engramq.workers.sectors.decay import LINK_HALF_LIFE_HOURS
from tests.workers.search.recall.test_ranking import candidates_of, made_of, scores

QUESTION = Question("When did Ada move?")
NOW = 1e6  # active hours
NOTHING = Surroundings(hours=NOW, uses={}, links=[], linked=Candidates())
unit = st.floats(0, 1)


def link(seed: str, other: str, *, weight: float = 0.75, origin: Origin = Origin.AGENT, idle: float = 0.0) -> Reached:
    return Reached(seed, other, "supports", weight, origin, NOW - idle)


def with_boosts(candidates: Candidates, around: Surroundings) -> Boosted:
    measure = Measure.of(QUESTION, candidates)
    return boost_best(measure, rank_by_score(measure, candidates), around)


def around_of(
    links: list[Reached], linked: list[dict[str, Any]] | None = None, uses: dict[str, Use] | None = None
) -> Surroundings:
    return Surroundings(hours=NOW, uses=uses or {}, links=links, linked=made_of(linked or []))


@st.composite
def scenes(draw: st.DrawFn) -> tuple[Candidates, Surroundings]:
    """Some candidates, some linked memories that may be none of them, and what is known of all."""
    candidates = draw(candidates_of.filter(len))
    new = [f"n{number}" for number in range(draw(st.integers(0, 4)))]
    added = [{"ids": item, "trusted": draw(st.booleans())} for item in new]
    everybody = [*candidates.ids, *new]
    ids = st.sampled_from(everybody)
    links = draw(
        st.lists(
            st.builds(
                Reached, st.sampled_from(candidates.ids), ids, st.just("supports"), unit, st.sampled_from(Origin),
                st.floats(0, NOW),
            ),
            max_size=20,
        )
    )  # fmt: skip
    uses = {item: Use(draw(unit), draw(st.floats(0, 1e5))) for item in everybody}
    return candidates, Surroundings(hours=NOW, uses=uses, links=links, linked=made_of(added))


@given(scenes())
def test_lifts_are_bounded_and_all_parts_make_the_score(scene: tuple[Candidates, Surroundings]) -> None:
    candidates, around = scene
    found = with_boosts(candidates, around).ranked
    assert sorted(found.order) == list(range(len(found.candidates)))
    assert len(set(found.candidates.ids)) == len(found.candidates)
    most = LINKS * SEED_AT_MOST
    assert np.all((found.parts["links"] >= 0) & (found.parts["links"] <= most))
    assert np.all((found.parts["usefulness"] >= -0.6 - 1e-9) & (found.parts["usefulness"] <= 0.2 + 1e-9))
    assert np.all((found.parts["recency"] <= 0) & (found.parts["recency"] >= -RECENCY))
    for row in found.order:
        parts = [part for part in found.explained(row).values() if part is not None]
        assert math.fsum(parts) == pytest.approx(float(found.scores[row]), abs=1e-9 + len(found.order) * EQUAL_SCORES)


@given(scenes())
def test_no_untrusted_memory_lifts_a_trusted_one(scene: tuple[Candidates, Surroundings]) -> None:
    candidates, around = scene
    found = with_boosts(candidates, around).ranked
    several = (candidates, around.linked)
    sides = {item: trusted for some in several for item, trusted in zip(some.ids, some.trusted, strict=True)}
    allowed = [item for item in around.links if sides[item.seed] or not sides[item.other]]
    fewer = Surroundings(hours=NOW, uses=around.uses, links=allowed, linked=around.linked)
    assert scores(found) == scores(with_boosts(candidates, fewer).ranked)


@given(candidates_of)
def test_without_anything_around_nothing_changes(candidates: Candidates) -> None:
    measure = Measure.of(QUESTION, candidates)
    first = rank_by_score(measure, candidates)
    assert scores(boost_best(measure, first, NOTHING).ranked) == pytest.approx(scores(first))


NEAR_TIE = [{"lexical": 3.0, "similarity": 0.81}, {"lexical": 3.0, "similarity": 0.80}]
STRONG = {"lexical": 9.0, "similarity": 0.9}
OTHERS = [{"lexical": 0.0, "similarity": number / 100} for number in range(20)]


@pytest.mark.promise("CN-35")
def test_usefulness_and_idle_time_order_what_is_nearly_alike_and_a_strong_match_still_wins() -> None:
    candidates = made_of([{**each, "sector": Sector.EPISODIC} for each in (*NEAR_TIE, STRONG, *OTHERS)])
    near, tie, strong = candidates.ids[:3]

    def order(usefulness: list[float], idle: list[float]) -> list[str]:
        around = around_of([], uses=dict(zip(candidates.ids[:3], map(Use, usefulness, idle), strict=True)))
        return list(scores(with_boosts(candidates, around).ranked))[:3]

    assert order([0.75] * 3, [0.0] * 3) == [strong, near, tie]
    assert order([0.75, 0.95, 0.1], [0.0] * 3) == [strong, tie, near]
    assert order([0.25, 0.75, 0.1], [0.0] * 3) == [strong, tie, near]
    assert order([0.75] * 3, [5_000.0, 0.0, 1e6]) == [strong, tie, near]


def test_the_same_idle_time_counts_more_for_what_happened_than_for_how_to_do_things() -> None:
    procedural, episodic = ({**STRONG, "sector": sector} for sector in (Sector.PROCEDURAL, Sector.EPISODIC))
    candidates = made_of([procedural, episodic, *OTHERS])
    first, second = candidates.ids[:2]
    around = around_of([], uses=dict.fromkeys((first, second), Use(0.75, 300.0)))
    assert list(scores(with_boosts(candidates, around).ranked))[:2] == [first, second]


@pytest.mark.promise("CN-29")
def test_what_came_over_a_link_only_says_so() -> None:
    candidates = made_of([STRONG, *NEAR_TIE, *OTHERS])
    seed, near = candidates.ids[:2]
    unrelated, added = candidates.ids[3], "n"
    links = [link(seed, near), link(seed, unrelated), link(seed, added), link(seed, added, weight=0.5)]
    found = with_boosts(candidates, around_of(links, [{"ids": added, "similarity": 0.0}]))
    rows = {item: row for row, item in enumerate(found.ranked.candidates.ids)}
    assert {item: found.via.get(rows[item]) for item in (seed, near, unrelated, added)} == {
        seed: None, near: None, unrelated: links[1], added: links[2],
    }  # fmt: skip
    assert list(scores(found.ranked))[:4] == [seed, near, candidates.ids[2], added]


def test_a_link_counts_by_its_weight_its_last_use_and_what_made_it() -> None:
    candidates = made_of([STRONG, *OTHERS])
    seed, other = candidates.ids[0], candidates.ids[5]

    def boost(one: Reached) -> float:
        found = with_boosts(candidates, around_of([one])).ranked
        return float(found.parts["links"][found.candidates.ids.index(other)])

    full = boost(link(seed, other, weight=1.0))
    assert full > 0
    assert boost(link(seed, other, weight=0.5)) == pytest.approx(full / 2)
    assert boost(link(seed, other, weight=1.0, idle=LINK_HALF_LIFE_HOURS)) == pytest.approx(full / 2)
    assert boost(link(seed, other, weight=1.0, origin=Origin.CO_RETRIEVAL)) == pytest.approx(full / 4)
    assert boost(link(candidates.ids[1], other)) == 0  # what matches badly boosts nothing


def test_whoever_comes_in_over_a_link_says_so_even_when_the_match_is_no_better_than_others() -> None:
    candidates = made_of([STRONG, STRONG])
    seed, added = candidates.ids[0], "n"
    found = with_boosts(candidates, around_of([link(seed, added)], [{"ids": added}]))
    assert found.via == {2: link(seed, added)}


def test_a_trusted_memory_does_not_come_in_over_a_link_of_an_untrusted_one() -> None:
    candidates = made_of([{**STRONG, "trusted": False}, *OTHERS])
    seed = candidates.ids[0]
    linked = [{"ids": "n", "trusted": True}, {"ids": "m", "trusted": False}]
    around = around_of([link(seed, "n"), link(seed, "m")], linked)
    assert [item for item in with_boosts(candidates, around).ranked.candidates.ids if item in "nm"] == ["m"]
