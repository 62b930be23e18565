"""What is told as a standing wish by the shipped weights, with a vector and by the words alone."""

import pytest

from engramq.workers.sectors.wishes import WishModel, is_general

WISHES = (
    "Always list the allergens when I ask about dishes.",
    "From now on use spaces in this project.",
    "I prefer trains over planes.",
    "Never send anything without asking me.",
    "Please always answer in Italian.",
    "The user prefers short replies.",
)
NONE = (
    "I have never been to Italy.",
    "Which one do you prefer?",
    "My brother always burns the toast.",
    "Can you send me the file?",
    "They call me every week about insurance.",
    "Does the landlord prefer cash?",
)


@pytest.mark.promise("PR-6")
def test_words_alone_tell_plain_wishes_from_what_looks_like_one() -> None:
    model = WishModel.load()
    assert model.are_wishes(WISHES, None) == [True] * len(WISHES)
    assert model.are_wishes(NONE, None) == [False] * len(NONE)


@pytest.mark.parametrize(
    ("content", "general"),
    [
        ("Always answer in Italian.", True),
        ("Please use tabs.", True),
        ("Always give the unit when I ask about sizes.", False),
        ("I prefer trains over planes.", False),
    ],
)
def test_a_wish_about_how_to_answer_is_general_unless_it_names_an_occasion(content: str, general: bool) -> None:
    assert is_general(content) is general
