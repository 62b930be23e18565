"""How others write the values of a question (KN-7)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engramq.workers.one_form import forms_in
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
        ("zwei Dutzend Eier", "24 Eier"), ("a sum of 90k", "90000"), ("der Zug mit zwanzig Wagen", "20 Wagen"),
        ("at half past nine", "9:30|21:30|9:30am|9:30pm"), ("um halb acht", "7:30|19:30"),
        ("à 9h30", "9:30|9 h 30|9:30am"), ("à 21 h 15", "21:15|21h15|9:15pm"), ("at 9:45", "9h45"),
        ("à 9h30 demain", "9:30"), ("vers 9h30 mardi", "9:30"), ("dès 9h30 samedi", "9:30"), ("À 9 h 30 même", "9:30"),
        ("at 9pm", "21:00|21 Uhr|9 p.m.|nine o'clock"), ("um 14 Uhr", "14:00|2pm"), ("six o'clock", "6am|18:00|6 pm"),
        ("at 19:45", "7:45pm|7:45 pm"), ("a loop of 1500 m", "1.5km|1500 metres"), ("2 GB of it", "2000MB|2 gigabytes"),
        ("lasts 90 minutes", "1.5 hours|90 min|1.5 h"), ("2,5 kg of it", "2500g|2.5kg"), ("ran 24h", "24 hours"),
        ("two weeks", "14 days|2 weeks"), ("Node v20", "Node 20"),
        ("30 km/h", "30 kph|30 kmh"), ("at .0003", "0.0003|3e-4"), ("at 3e-4", "0.0003|.0003"), ("90 euros", "90 EUR"),
        ("chapter IV", "chapter 4"), ("chapter 4", "chapter IV"), ("firmware v2.0", "2.0|2.0.0"),
        ("node20", "node 20"), ("Q3 2025", "third quarter 2025"), ("third quarter of 2025", "Q3 2025"),
        ("five percent", "5 percent|5 Prozent"), ("15 %", "15 percent|15 Prozent"), ("call 030 123456", "30123456"),
        ("zwei Dutzend Eier", "vierundzwanzig Eier"), ("zwei Millionen Leser", "2000000"),
        ("zweihundert Leute", "200"), ("2 GB of it", "2048MB"), ("2048 MB of it", "2GB"), ("512 MB of it", "0.5GB"),
        ("the third floor", "3rd floor"), ("the 3rd floor", "third floor"), ("the 20th century", "twentieth century"),
        ("im 3. Stock", "dritten Stock|dritter Stock"), ("the 21st century", "twenty first century"),
        ("the 42nd floor", "forty second floor"), ("a ninety second clip", "90"),
        ("im 21. Jahrhundert", "einundzwanzigste Jahrhundert"),
    ],
)  # fmt: skip
def test_a_value_is_asked_for_as_others_write_it(asked: str, ways: str) -> None:
    assert set(ways.split("|")) - ways_of(asked) == set()


@pytest.mark.promise("KN-7")
@pytest.mark.parametrize(
    "asked",
    [
        "on 2029-03-04", "in Nov 2026", "finished second", "the 90s", "a 5G network", "half a million", "a few hundred",
        "V8", "USA", "U.S. tax", "the elf archer", "Route 2 C", "um 5 am Bahnhof", "halb \u00b2\u00b3",
        "\u017fecond quarter 2025",
        "Where does Ada live?", "what happened in 2024", "one of them", "Mix the eggs", "host 10.20.30.42", "ENG-123",
        "a commit 9f8e7d6", "the port :8080", "I am here", "Will it rain?", "a hundredth", "WHERE IS THE KEY",
    ],
)  # fmt: skip
def test_what_is_no_value_has_no_other_writing(asked: str) -> None:
    assert Question(asked).writings == ()


@pytest.mark.promise("KN-7")
@pytest.mark.parametrize(
    ("asked", "wrong"),
    [
        ("cost 300.000 Euro", "300 EUR"), ("loop 1.500 km", "1.5km"), ("2.5 million people", "1000000"),
        ("the choir of 350", "three hundred"), ("shift 07:00", "7 am"), ("lunch at 12:45", "quarter to one"),
        ("players 11", "elf"), ("jars 12", "dozen"), ("90 people", "ninety"),
        ("How long is a film that lasts 2h30?", "2:30"), ("dure 2h30", "2:30"), ("à 2h30 de route", "2:30"),
        ("à 2h 15 min", "2:15"), ("at 6h30m", "6:30"), ("walked 2 h 15 min", "2:15"), ("a 6h 30m run", "6:30"),
        ("500 MB of it", "0.488281GB"), ("a third cup", "3rd cup"), ("twenty third floor", "3rd floor"),
        ("die dritte Klasse", "3. Klasse"), ("my 2nd boat", "second boat"), ("has 3. stock is low", "dritte stock"),
        ("Er kam als 3. Danach ging er", "dritte Danach"), ("Er wohnt im 3. Danach kommt", "dritten Danach"),
        ("Es sind 3. Leider", "dritte Leider"), ("the 13rd floor", "thirteenth floor"), ("the 3th one", "third one"),
        ("a twenty third floor", "zwanzig third"), ("a twenty-third floor", "20 third"), ("21th floor", "twenty first"),
    ],
)  # fmt: skip
def test_a_writing_means_nothing_else(asked: str, wrong: str) -> None:
    assert wrong not in ways_of(asked)


def test_a_long_row_of_numbers_is_no_number() -> None:
    rows = (",".join(f"{number:03}" for number in range(100, 500)), "9" * 1_900, "1.000" * 380, "one hundred " * 160)
    assert [len(writings_in(text := f"rooms {row}", forms_in(text))) <= VALUES for row in rows] == [True] * 4


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


@given(st.lists(st.sampled_from(PARTS.split("|")) | st.text(max_size=5), max_size=60), st.sampled_from([" ", "", ","]))
def test_no_row_of_values_is_too_odd(parts: list[str], between: str) -> None:
    found = writings_in(text := between.join(parts), forms_in(text))
    assert len(found) <= VALUES
    for writing in found:
        assert 0 < len(writing.others) <= WAYS
        assert writing.own not in writing.others
