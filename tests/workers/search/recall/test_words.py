"""What shared words say: much where they are no chance, nothing where one word is in a memory by chance."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engramq.workers.search.question import Question, by_share
from tests.workers.search.recall.test_ranking import made_of, ranked

OTHER: dict[str, Any] = {"similarity": 0.1}
MEANT = {"similarity": 0.6}
shares = st.floats(0, 1)


def order(text: str, match: dict[str, Any]) -> list[int]:
    """Rank a memory with this match (row 0), one that is meant (row 1), and others that are neither."""
    several = made_of([{"similarity": 0.35, "words": 8, "lexical": 4.0} | match, MEANT, *[OTHER] * 30])
    return list(ranked(text, several).order)


@pytest.mark.parametrize(
    ("covered", "worth", "first"),
    [
        (0.3, 0.9, 1),  # one word of several: chance
        (0.5, 1.0, 1),
        (0.75, 0.9, 0),  # nearly all of the question
        (0.4, 1.3, 0),  # two rare words of many
    ],
)
def test_one_word_of_several_moves_nothing_and_two_rare_ones_do(covered: float, worth: float, first: int) -> None:
    assert order("what happens early in the day", {"covered": covered, "worth": worth})[0] == first


@pytest.mark.parametrize("text", ["What did Robert do early that day?", "early E1042", "build of ERR_LOCK", "early 7"])
def test_a_name_a_number_and_an_identifier_are_no_chance(text: str) -> None:
    assert order(text, {"covered": 0.3, "worth": 0.9})[0] == 0


@pytest.mark.parametrize("text", ["what did we do early", "Who is up early?", "Was macht Ben früh am Tag?", ""])
def test_questions_without_any_are_not_exact(text: str) -> None:
    """Capitals are names in English alone: German writes nouns so."""
    assert not Question(text).is_exact


def test_where_nothing_has_a_vector_words_decide_whatever_they_are() -> None:
    by_words = made_of([{"lexical": score, "covered": 0.2, "worth": 0.5} for score in (1.0, 3.0, 2.0)])
    assert ranked("what happens early", by_words).order == [1, 2, 0]


def test_what_has_no_vector_yet_is_known_by_its_words() -> None:
    match = {"lexical": 4.0, "covered": 0.3, "worth": 0.9}
    several = made_of([match | {"similarity": None}, match | {"similarity": 0.1}, MEANT, *[OTHER] * 30])
    words = ranked("what happens early", several).parts["lexical"]
    assert words[0] > 1
    assert words[1] == 0


@given(st.floats(0, 100), shares, shares, st.integers(0, 500))
def test_the_greater_share_of_a_question_is_never_worth_less(
    lexical: float, one: float, other: float, words: int
) -> None:
    lower, higher = by_share(
        np.array([lexical] * 2), np.array(sorted((one, other))), np.array([words] * 2, dtype=np.float64), 0.5
    )
    assert 0 <= lower <= higher <= lexical
