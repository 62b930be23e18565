"""Where sentences end."""

import pytest

from engramq.schemas.pastes import read_prompt
from engramq.schemas.sentences import sentence_starts, sentences_of
from engramq.workers.upkeep.pieces import pieces_of


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("One ends. Two asks? Three!", ["One ends.", "Two asks?", "Three!"]),
        ("Version 3.14 of pool.py is out. Take it.", ["Version 3.14 of pool.py is out.", "Take it."]),
        ("Ask Dr. Okafor about C. S. Lewis. Then go.", ["Ask Dr. Okafor about C. S. Lewis.", "Then go."]),
        ("Name it (e.g. by its id). Done.", ["Name it (e.g. by its id).", "Done."]),
        ('He said "no." Then he left.', ['He said "no."', "Then he left."]),
        ("first line\nsecond line", ["first line", "second line"]),
        ("\u96e8\u3002\u5098\u3002", ["\u96e8\u3002", "\u5098\u3002"]),
        ("Wait... what?", ["Wait...", "what?"]),
        ("", []),
        (" \n ", []),
    ],
)  # fmt: skip
def test_a_sentence_ends_with_a_mark_before_a_blank(text: str, sentences: list[str]) -> None:
    assert sentences_of(text) == sentences


def test_a_part_of_a_text_begins_where_it_is_begun() -> None:
    text = "Left out. One. Two. Left out."
    assert [text[start:19] for start in sentence_starts(text, 10, 19)] == ["One. Two.", "Two."]


def test_numbers_and_names_stay_whole_in_what_a_model_reads() -> None:
    text = "Take 1.24.3 of it from Dr. Okafor at 10.0.0.7. " * 40
    assert "".join(pieces_of(text)).replace(" ", "") == text.replace(" ", "")
    assert all("1.24.3 of it from Dr. Okafor at 10.0.0.7." in piece for piece in pieces_of(text))


def test_a_question_after_a_paste_keeps_its_abbreviations() -> None:
    trace = "Traceback (most recent call last):\n" + '  File "app.py", line 3, in run\n    fail()\n' * 12
    assert read_prompt(f"{trace}\nWhat did Dr. Okafor say of it?").asked == "What did Dr. Okafor say of it?"
