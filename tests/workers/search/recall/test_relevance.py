"""The judge of hits: what moves a relevance, and what is shown of a reply."""

from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engramq.schemas.records import Memory
from engramq.schemas.vocabulary import Origin, Partition, Sector
from engramq.workers.embedders.calibration import Calibration
from engramq.workers.search.boosts import Boosted, Reached
from engramq.workers.search.question import Question
from engramq.workers.search.ranking import Candidates, Measure, rank_by_score
from engramq.workers.search.relevance import INPUTS, KINDS, LEAST_EXPECTED, SHARE_AMONG_FACTS, Judge, learned
from engramq.workers.search.search import SearchResult, apply_relevance

CURVE = Calibration(15.0, -7.7)
chances = st.lists(st.floats(0, 1), max_size=20)


def candidates(*cosines: float | None, covered: float | None = 0.8, untrusted: int = 0) -> Candidates:
    """Return memories that differ by their cosines, the last ones untrusted."""
    count = len(cosines)
    fields: dict[str, Any] = {
        "ids": [f"{number:04}" for number in range(count)],
        "trusted": [number < count - untrusted for number in range(count)],
        "lexical": [None if covered is None else 4.0 * covered] * count,
        "covered": [covered] * count,
        "worth": [covered] * count,
        "similarity": list(cosines),
        "meaning": list(cosines),
        "thread": [None] * count,
        "position": [None] * count,
        "speaker": [None] * count,
        "asks": [False] * count,
        "tells_of_day": [False] * count,
        "tells_self": [False] * count,
        "words": [8] * count,
        "sector": [Sector.SEMANTIC] * count,
        "confidence": [1.0] * count,
        "active_hours": [0.0] * count,
    }
    return Candidates(**fields)


ASKED = "Where is the spare key kept?"


def judge_of(
    found: Candidates, curve: Calibration | None = CURVE, *, narrowed: bool = False, asked: str = ASKED
) -> Judge:
    measure = Measure.of(Question(asked), found)
    return Judge.of(measure, rank_by_score(measure, found), curve, narrowed=narrowed)


def test_the_weights_that_are_shipped_were_learned_from_these_inputs() -> None:
    assert learned().inputs == list(INPUTS)
    assert len(set(INPUTS)) == len(INPUTS)


def test_what_is_near_and_has_the_words_is_likelier_than_what_is_neither() -> None:
    near, far = judge_of(candidates(0.75, 0.2, 0.2, 0.15)), judge_of(candidates(0.05, 0.04, 0.03, covered=None))
    assert near.chances([0])[0] > near.chances([3])[0]
    assert near.trusted.expected > far.trusted.expected
    assert shown_of(candidates(0.05, 0.04, 0.03, covered=None)).answered == "no"


def test_without_a_curve_or_vectors_words_alone_are_read() -> None:
    for alone in (judge_of(candidates(0.7, 0.2), None), judge_of(candidates(None, None))):
        assert not alone.trusted.inputs([0, 1])[:, [INPUTS.index("q_cosine"), INPUTS.index("cosine_below")]].any()
        assert all(0 <= chance <= 1 for chance in alone.chances([0, 1]))


def test_a_long_memory_is_as_near_as_the_nearest_of_its_pieces() -> None:
    whole = candidates(0.15, 0.2, 0.1, covered=0.4)
    pieces = msgspec.structs.replace(whole, meaning=[0.7, 0.2, 0.1])
    assert judge_of(pieces).chances([0])[0] > judge_of(whole).chances([0])[0]
    nearest = INPUTS.index("q_cosine")
    assert judge_of(pieces).trusted.inputs([0])[0, nearest] == judge_of(candidates(0.7)).trusted.inputs([0])[0, nearest]


@pytest.mark.parametrize(
    ("text", "asks", "is_task", "length"),
    [
        ("Where is my marmalade kept?", True, False, 5),
        ("jam jars", False, False, 2),
        ("Please fix the login of the shop", False, True, 7),
        ("ok, could you write a test?", True, True, 6),
        ("which jam did we buy", True, False, 5),
        ("?", True, False, 0),
        ("", False, False, 0),
    ],
)
def test_the_form_of_a_question_is_read(text: str, asks: bool, is_task: bool, length: int) -> None:
    question = Question(text)
    assert (question.asks, question.is_task, question.length) == (asks, is_task, length)


SIDES = {True: Partition.TRUSTED, False: Partition.UNTRUSTED}


def hits_of(found: Candidates) -> list[tuple[int, Memory]]:
    at = "2026-01-05T09:00:00.000000Z"
    return [
        (
            row,
            Memory(id=known, content="x", created_by="a", created_at=at, updated_at=at, partition=SIDES[bool(trusted)]),
        )
        for row, (known, trusted) in enumerate(zip(found.ids, found.trusted, strict=True))
    ]


def shown_of(found: Candidates, floor: float | None = None, *, narrowed: bool = False) -> SearchResult:
    """Return what a search shows that finds these."""
    judge = judge_of(found, narrowed=narrowed)
    ranking = Boosted(ranked=judge.everything.ranked, via={})
    return apply_relevance(hits_of(found), ranking, judge, floor, explain=False)


def test_what_is_untrusted_moves_nothing_that_is_said_of_what_is_trusted() -> None:
    alone, beside = judge_of(candidates(0.6, 0.4, 0.3)), judge_of(candidates(0.6, 0.4, 0.3, 0.9, 0.95, untrusted=2))
    assert beside.chances([0, 1, 2]) == alone.chances([0, 1, 2])
    assert beside.trusted.expected == alone.trusted.expected
    for cosines in ((0.6, 0.4, 0.3), (0.35, 0.2, 0.12), (0.3, 0.1, 0.05)):
        planted = shown_of(candidates(*cosines, 0.97, covered=0.5, untrusted=1))
        ids = {memory.id for memory in shown_of(candidates(*cosines, covered=0.5)).memories}
        assert {memory.id for memory in planted.memories} - {"0003"} == ids


def test_no_untrusted_memory_says_how_a_word_of_the_question_is_spelled() -> None:
    for untrusted in (0, 1):
        found = candidates(*[0.05, 0.04][: 1 + untrusted], covered=None, untrusted=untrusted)
        hits, judge = hits_of(found), judge_of(found, asked="Kyotto flights")
        for (_, memory), content in zip(hits, ("Flights to Kyoto are booked", "Kyotto"), strict=False):
            memory.content = content
        ranking = Boosted(ranked=judge.everything.ranked, via={})
        shown = apply_relevance(hits, ranking, judge, None, explain=False)
        assert [memory.content for memory in shown.memories] == ["Flights to Kyoto are booked"]


def test_what_untrusted_ones_answer_is_shown_beside_trusted_ones_that_do_not() -> None:
    found = shown_of(candidates(0.02, 0.01, 0.9, covered=None, untrusted=1))
    assert [memory.id for memory in found.memories] == ["0002"]
    assert found.answered == "unsure"


@pytest.mark.promise("KN-2")
def test_what_a_reply_says_follows_from_what_it_shows() -> None:
    sure = candidates(0.8, 0.2, 0.1)
    assert shown_of(sure).answered == "yes"
    nothing = shown_of(sure, floor=1.0)
    assert (nothing.answered, nothing.left_out) == ("no", 3)
    assert nothing.best_left_out == max(shown_of(sure, floor=0.0).memories, key=relevance_of).relevance
    assert shown_of(candidates(0.05, 0.04, covered=None), floor=0.0).answered == "unsure"


def relevance_of(memory: Memory) -> float:
    assert isinstance(memory.relevance, float)
    return memory.relevance


@pytest.mark.promise("KN-1")
@given(st.lists(st.floats(-1, 1), min_size=1, max_size=20))
def test_what_holds_every_word_is_shown_however_unlikely_it_is(cosines: list[float]) -> None:
    found = candidates(*cosines, covered=0.1)
    found.covered[-1] = 1.0
    shown = shown_of(found)
    assert found.ids[-1] in [memory.id for memory in shown.memories]
    assert shown.named == 1


@given(chances, st.none() | st.floats(0, 1))
def test_what_is_asked_for_is_the_floor_and_else_a_part_of_the_best(several: list[float], asked: float | None) -> None:
    judge = judge_of(candidates(*[0.5] * max(1, len(several))))
    shown = judge.shown(range(len(several)), several, asked)
    if asked is not None:
        assert shown == [round(chance, 2) >= asked or chance >= asked for chance in several]
    elif several and judge.trusted.expected >= LEAST_EXPECTED:
        assert shown[several.index(max(several))]


@pytest.mark.promise("KN-4")
def test_a_filter_shows_the_best_of_what_it_leaves() -> None:
    unlikely = candidates(0.12, 0.05, covered=0.2)
    assert judge_of(unlikely, narrowed=True).chances([0]) >= judge_of(unlikely).chances([0])
    assert "0000" in [memory.id for memory in shown_of(unlikely, narrowed=True).memories]


def test_what_says_the_same_as_the_best_is_shown_beside_it() -> None:
    judge = judge_of(candidates(0.61, 0.54, 0.5))
    assert judge.shown([0, 1, 2], [0.43, 0.17, 0.17], None) == [True, True, False]
    assert judge.shown([0, 1, 2], [0.43, 0.17, 0.17], 0.2) == [True, False, False]


def test_who_asks_for_what_was_replaced_sees_what_replaced_it_too() -> None:
    judge = judge_of(candidates(0.8, 0.5, 0.4))
    assert SHARE_AMONG_FACTS * 0.8 > 0.2
    assert judge.shown([0, 1, 2], [0.8, 0.2, 0.03], None) == [True, False, False]
    assert replace(judge, history=True).shown([0, 1, 2], [0.8, 0.2, 0.03], None) == [True, True, True]


@pytest.mark.promise("KN-3")
def test_of_what_bears_on_a_task_more_is_shown_than_of_what_answers_a_question() -> None:
    chances, task = [0.8, 0.3, 0.03], "Write a mail to the bank. What is the address?"
    found = candidates(0.8, 0.5, 0.3)
    assert judge_of(found).shown([0, 1, 2], chances, None) == [True, False, False]
    assert judge_of(found, asked=task).shown([0, 1, 2], chances, None) == [True, True, False]


def test_of_several_facts_that_are_alike_none_is_left_out() -> None:
    found = candidates(0.71, 0.70, 0.69, 0.65, 0.60, 0.3, 0.25, 0.2, 0.1)
    found.covered[5:] = found.lexical[5:] = np.nan
    assert [memory.id for memory in shown_of(found).memories] == [f"{place:04}" for place in range(5)]


def test_a_hit_over_a_link_is_as_relevant_as_the_hit_that_it_is_linked_to() -> None:
    found = candidates(0.75, 0.1, 0.1)
    judge = judge_of(found)
    link = Reached("0000", "0001", "supports", 1.0, Origin.AGENT, 0.0)
    ranking = Boosted(ranked=judge.everything.ranked, via={1: link})
    hits = hits_of(found)
    shown = apply_relevance(hits, ranking, judge, 0.0, explain=True)
    assert shown.left_out == 0
    seed, linked, other = shown.memories
    assert seed.relevance == linked.relevance != other.relevance
    assert isinstance(seed.relevance_of, dict)
    assert set(seed.relevance_of) == set(KINDS)
    assert np.isfinite(list(seed.relevance_of.values())).all()
    assert apply_relevance(hits, ranking, judge, 1.0, explain=False).left_out == 3


def test_a_hit_that_others_are_linked_to_is_counted_once_among_what_names_it() -> None:
    found = candidates(0.75, 0.1, 0.1)
    found.covered[[0, 2]] = 1.0
    judge = judge_of(found)
    link = Reached("0000", "0001", "supports", 1.0, Origin.AGENT, 0.0)
    ranking = Boosted(ranked=judge.everything.ranked, via={1: link})
    shown = apply_relevance(hits_of(found)[:2], ranking, judge, 0.0, explain=False)
    assert (shown.named, shown.unshown) == (2, 1)


@pytest.mark.promise("KN-1")
def test_a_time_alone_lifts_what_is_from_then_and_hides_nothing_that_has_the_words() -> None:
    found, then = candidates(0.3, 0.3, 0.3, 0.3), date(2026, 3, 15)
    found.covered[:], found.tells_of_day[0] = [0.0, 0.0, 1.0, 0.2], True
    found.day = [then, then, date(2026, 1, 1), date(2026, 1, 1)]
    measure = Measure.of(Question("2026-03-15", datetime(2026, 11, 28, tzinfo=UTC)), found)
    judge = Judge.of(measure, rank_by_score(measure, found), CURVE)
    told, stored, named, other = judge.chances(range(4))
    assert (told, stored) == (0.9, 0.5)
    assert 0 < named < 1
    assert 0 < other < 1
    assert judge.shown(range(4), [told, stored, named, other], None) == [True, True, True, False]
