"""Whom a question is about, of the speakers that it names, and what that counts."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engramq.workers.search.question import Question
from tests.workers.search.recall.test_ranking import made_of, ranked

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
