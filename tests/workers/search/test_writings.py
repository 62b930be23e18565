"""How others write the values of a question (KN-7)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engramq.workers.search.number_words import read_count, spell_count
from engramq.workers.search.question import Question
from engramq.workers.search.writings import VALUES, WAYS, writings_in


def ways_of(text: str) -> set[str]:
    return {way for writing in Question(text).writings for way in writing.others}


@pytest.mark.promise("KN-7")
@pytest.mark.parametrize(
    ("asked", "ways"),
    [
        ("the choir of 300", "three hundred|dreihundert"), ("two hundred and fifty jars", "250"),
        ("Eier: 24", "zwei Dutzend|two dozen|vierundzwanzig"), ("zwei Dutzend Eier", "24 Eier"),
        ("the sum of 90k", "90000|ninety thousand"), ("der Zug mit zwanzig Wagen", "20 Wagen"),
        ("at half past nine", "9:30|21:30|halb zehn"), ("um halb acht", "7:30|19:30|half past seven"),
        ("at 19:45", "quarter to eight|Viertel vor acht|7:45 pm"), ("at 9pm", "21:00|21 Uhr|9 p.m.|nine o'clock"),
        ("um 14 Uhr", "14:00|2pm"), ("six o'clock", "6am|18:00|6 o'clock"),
        ("a loop of 1500 m", "1.5km|1500 metres"), ("lasts 90 minutes", "1.5 hours|90 min|1.5 h"),
        ("2 GB of it", "2000MB|2 gigabytes"), ("2,5 kg of it", "2500g|2.5kg"), ("two weeks", "14 days|2 weeks"),
        ("30 km/h", "30 kph|30 kmh"), ("220 degrees", "220C"), ("at .0003", "0.0003|3e-4"), ("at 3e-4", "0.0003|.0003"),
        ("chapter IV", "chapter 4|chapter four"), ("Louis 14", "Louis XIV"), ("the 3rd", "third|dritten"),
        ("im 3. Stock", "dritten Stock"),
        ("firmware v2.0", "2.0.0|firmware 2"), ("Node v20", "Node 20"), ("node20", "node 20"),
        ("Q3 2025", "third quarter 2025"), ("third quarter of 2025", "Q3 2025"), ("90 euros", "90 EUR"),
        ("five percent", "5 percent|5 Prozent"), ("15 %", "fifteen percent|15 Prozent"), ("the USA", "U.S.A."),
        ("a U.N. envoy", "UN"), ("call 030 123456", "30123456"),
    ],
)  # fmt: skip
def test_a_value_is_asked_for_as_others_write_it(asked: str, ways: str) -> None:
    assert set(ways.split("|")) - ways_of(asked) == set()


@pytest.mark.promise("KN-7")
@pytest.mark.parametrize(
    "asked",
    [
        "on 2029-03-04", "in Nov 2026", "finished second",
        "Where does Ada live?", "what happened in 2024", "one of them", "Mix the eggs", "host 10.20.30.42", "ENG-123",
        "a commit 9f8e7d6", "the port :8080", "I am here", "Will it rain?", "a hundredth", "WHERE IS THE KEY",
    ],
)  # fmt: skip
def test_what_is_no_value_has_no_other_writing(asked: str) -> None:
    assert Question(asked).writings == ()


@pytest.mark.promise("KN-7")
@pytest.mark.parametrize(
    "asked", ["4 people", "two people", "chapter 5", "im 3. Stock", "sat at table seven", "0.3", "v2"]
)
def test_no_writing_is_a_small_number_alone(asked: str) -> None:
    assert not [way for way in ways_of(asked) if way.isdigit()]


@given(st.integers(2, 999_999))
def test_a_number_that_is_spelled_is_read_again(number: int) -> None:
    for spelled in spell_count(number):
        assert read_count(spelled.lower().split()) == number


PARTS = "300|two|hundred|and|half|past|9|:30|pm|1.5|km|%|€|Q3|2025|IV|third|3.|v2|.0|Dutzend|halb|acht|Uhr|U.S.|-|,|0"


@given(st.lists(st.sampled_from(PARTS.split("|")), max_size=30), st.sampled_from([" ", ""]))
def test_no_row_of_values_is_too_odd(parts: list[str], between: str) -> None:
    found = writings_in(between.join(parts))
    assert len(found) <= VALUES
    for writing in found:
        assert 0 < len(writing.others) <= WAYS
        assert writing.own not in writing.others
