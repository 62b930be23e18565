"""What words, speakers and times of a question say: which of them count, how much, and what span they mean (TI-5)."""

import re
from datetime import date
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engramq.workers.search.question import Question, by_share
from engramq.workers.search.spellings import have_misspelt
from engramq.workers.search.times import read_times
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
        np.array([lexical] * 2), np.array(sorted((one, other))), np.array([words] * 2, dtype=np.float64)
    )
    assert 0 <= lower <= higher <= lexical


SPOKEN = ["Ada", "Bob", "Ada Lovelace", "ada", "", "?"]


@pytest.mark.parametrize(
    ("text", "asked_about"),
    [
        ("What did ADA's cat eat?", ("Ada", "ada")), ("What did Adam eat?", ()), ("", ()), ("What did she eat?", ()),
        ("What did Ada tell Bob?", ("Ada", "ada")), ("What did Bob tell Ada about Ada's cat?", ("Bob",)),
        ("What does Bob think of Ada's and Cleo's shop?", ("Bob",)), ("Did Bob meet Ada Lovelace?", ("Bob",)),
        ("What did Ada Lovelace write?", ("Ada Lovelace",)), ("Did Ada Lovelace meet Ada?", ("Ada Lovelace",)),
        ("What do Ada and Bob like?", ()), ("Was it Ada or Bob?", ()), ("What do Ada, Bob and Cleo like?", ()),
        ("Where are Ada's and Bob's keys?", ()), ("What is Ada & Bob?", ()),
        ("Was hat Bob der Ada erzählt?", ()),  # in other languages nobody knows which words join
        ("Was hat Bob erzählt?", ("Bob",)),
    ],
)  # fmt: skip
def test_of_several_speakers_the_first_is_asked_about_unless_it_is_joined_to_the_next(
    text: str, asked_about: tuple[str, ...]
) -> None:
    assert Question(text).speaker_asked_about(SPOKEN) == asked_about


names = st.text("abAB é?.*(", max_size=5)


@given(st.lists(names, max_size=5), st.lists(names | st.sampled_from(["and", "did", "to"]), max_size=8))
def test_whatever_names_there_are_one_speaker_is_asked_about_or_none(speakers: list[str], words: list[str]) -> None:
    question = Question(" ".join(words))
    found = question.speaker_asked_about(speakers)
    assert found == question.speaker_asked_about(reversed(speakers))
    assert set(found) <= set(speakers)
    for item in found:  # alone it is found too, and so is every spelling
        assert question.speaker_asked_about([item]) == (item,)
    assert len({tuple(re.findall(r"\w+", item.casefold())) for item in found}) <= 1


def test_what_the_first_speaker_said_stands_before_the_same_by_another() -> None:
    candidates = made_of([{"lexical": 1.0, "speaker": "Ada"}, {"lexical": 1.0, "speaker": "Bob"}])
    assert ranked("What did Ada tell Bob about the kettle?", candidates).order == [0, 1]
    assert ranked("What did Bob tell Ada about the kettle?", candidates).order == [1, 0]
    assert "speaker" not in ranked("What do Ada and Bob say about the kettle?", candidates).parts


NOW = date(2024, 3, 13)  # a Wednesday
moments = st.dates(date(1900, 1, 1), date(2099, 12, 31))


def about(text: str, day: str) -> bool:
    return read_times(text, NOW).hold(date.fromisoformat(day))


@pytest.mark.promise("TI-5")
@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        ("What happened in May 2023?", "2023-05-31", "2023-06-01"),
        ("What happened in May?", "2019-05-07", "2019-04-30"),
        ("What happened in May, back in 2023?", "2023-05-07", "2022-05-07"),
        ("the summer of 2023", "2023-06-01", "2023-01-01"),
        ("on 7 May 2023", "2023-05-07", "2023-05-08"),
        ("on May 7th, 2023", "2023-05-07", "2023-05-06"),
        ("on the 7th of May", "2020-05-07", "2020-05-08"),
        ("on 2023-05-07", "2023-05-07", "2023-05-08"),
        ("last month", "2024-02-29", "2024-03-01"),
        ("this month", "2024-03-01", "2024-02-29"),
        ("what did Ada say last week", "2024-03-04", "2024-03-11"),
        ("last year", "2023-12-31", "2024-01-01"),
        ("yesterday", "2024-03-12", "2024-03-13"),
        ("3 days ago", "2024-03-10", "2024-03-11"),
        ("a month ago", "2024-02-01", "2024-03-01"),
        ("Where did she live as of November 2023?", "2020-01-01", "2023-12-01"),
        ("before May 2023", "2023-04-30", "2023-05-01"),
        ("since May", "2024-03-01", "2023-04-30"),  # the last one that has begun
        ("after 7 May 2023", "2023-05-08", "2023-05-07"),
        ("between May and July 2023", "2023-07-31", "2023-08-01"),
        ("from 2023-05-01 to 2023-05-03", "2023-05-03", "2023-05-04"),
    ],
)
def test_a_time_in_a_question_spans_what_it_says(text: str, inside: str, outside: str) -> None:
    assert about(text, inside)
    assert not about(text, outside)


@pytest.mark.parametrize(
    "text", ["", "May I come in?", "What may come?", "31 February", "they march", "12023-05", "??"]
)
def test_what_is_no_time_spans_nothing(text: str) -> None:
    assert read_times(text, NOW).spans == ()


@given(st.text(max_size=80), moments, moments)
def test_no_text_is_too_odd(text: str, now: date, day: date) -> None:
    times = read_times(text, now)
    for span in times.spans:
        assert span.first <= span.last
    times.hold(day)


ROWS = "since|May|7|7th|2023|last|month|ago|3|days|and|between|to|as of|before|2023-05-07|December|29 February|20-13-40"
words = st.sampled_from(ROWS.split("|"))


@given(st.lists(words, max_size=9).map(" ".join), moments, moments)
def test_no_row_of_times_is_too_odd(text: str, now: date, day: date) -> None:
    read_times(text, now).hold(day)


@pytest.mark.parametrize(
    ("query", "text", "is_spelled"),
    [
        ("Kyotto flights", "Flights to Kyoto are booked", True), ("physiotherpist", "Physiotherapist: Ines", True),
        ("the fetaure flag", "Feature flag new_pdf", True), ("permitt", "The permit ends", True),
        ("sourdogh hydration", "Sourdough in the fridge", False), ("horse", "The house", False),
        ("Orsni badge", "Badge of Orsini", True),
        ("ORD-44712", "ORD-44713", False), ("what is it", "It is nothing", False), ("abcdef", "abcfed", False),
    ],
)  # fmt: skip
def test_a_letter_that_is_wrong_in_a_long_word_hides_nothing(query: str, text: str, is_spelled: bool) -> None:
    assert have_misspelt(Question(query).telling, [text, "Something else"]) == [is_spelled, False]


def test_a_word_that_stands_in_a_hit_is_spelled_as_it_is_meant() -> None:
    words = Question("Mareen Holt badges").telling
    assert have_misspelt(words, ["Maren Holt has the badge", "Mareen Holt left"]) == [False, False]
    assert have_misspelt(words, ["Maren Holt has the badge"]) == [True]
    assert have_misspelt(["kyotto", "flightz", "bookked", "septembr"], ["kyoto flights booked september"]) == [False]
    assert have_misspelt(["kyotto", "flightz", "bookked"], ["kyoto flights booked september"]) == [True]
    assert have_misspelt(Question("the badge").telling, ["Maren Holt has the badge"]) == [False]
