"""Passages are whole sentences that bear on a question; parts are always the same, and together the text (KN-9)."""

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engramq.schemas.passages import GAP, PART_CHARS, WHOLE_CHARS, Passages, words_of
from tests.scenarios.handbook import FILLER, HANDBOOK, MINUTES, handbook_of, minutes

pytestmark = pytest.mark.promise("KN-9")

_SOME = (
    "Ada sails. ",
    "line\n",
    "# Boats\n",
    "- item\n",
    "```\n",
    "\n\n",
    "x" * 900,
    '"\\',
    "\u6c34\u306e\u3002",
    "\x01",
    "\u0130. ",
)
PIECES = st.sampled_from(_SOME)
TEXTS = st.lists(PIECES, max_size=120).map("".join)


@pytest.mark.parametrize("chars", [5_500, 12_000, 28_000])
@pytest.mark.parametrize("room", [300, 600])
def test_the_sentence_that_answers_is_in_the_passage(chars: int, room: int) -> None:
    for text, asked in ((handbook_of(chars), HANDBOOK), (minutes(), MINUTES)):
        for question, answer in asked:
            passage = Passages(text, words_of(question)).within(room)
            assert answer in passage, question
            assert len(passage) <= room


def test_a_passage_is_made_of_whole_sentences_with_marks_where_some_are_left_out() -> None:
    text = f"Dr. Okafor fixed it. {' '.join(FILLER)} The keel came from Porto, e.g. by ship. {' '.join(FILLER)}"
    passage = Passages(text, words_of("keel from Porto")).within(160)
    assert passage.startswith(f"{GAP} ")
    assert passage.endswith(f" {GAP}")
    assert "The keel came from Porto, e.g. by ship." in passage
    told = [each for piece in passage.split(GAP) for each in (piece.strip(),) if each]
    assert all(each in text and each[-1] == "." for each in told)
    assert Passages(text, words_of("who is Okafor?")).within(100).startswith("Dr. Okafor fixed it. ")


def test_lines_of_lists_tables_and_code_stay_whole() -> None:
    lines = [f"- item {number}. It is of wood. It is old." for number in range(40)]
    passage = Passages("\n".join(lines), words_of("item 17")).within(120)
    assert lines[17] in passage.splitlines()
    code = "\n".join(["Run this:", "```", *(f"step_{number}()  # or. not" for number in range(40)), "```", "Done."])
    assert "step_17()  # or. not" in Passages(code, words_of("step 17")).within(60).splitlines()


def test_a_sentence_that_is_longer_than_the_room_is_cut_around_the_words() -> None:
    passage = Passages(f"{'and so on ' * 40}the keel came from Porto {'and on ' * 40}", words_of("keel Porto")).within(
        80
    )
    assert "keel came from Porto" in passage
    assert passage.startswith(GAP)
    assert passage.endswith(GAP)


def test_words_are_compared_by_their_stems_and_pairs_of_letters() -> None:
    assert words_of("How are the backups tested, and by WHOM?") == ("backup", "test")
    long = f"{' '.join(FILLER)} The defibrillators hang in the hall. {' '.join(FILLER)}"
    assert "in the hall" in Passages(long, words_of("Where is the defibrillator?")).within(60)
    text = f"{' '.join(FILLER)} \u6771\u4eac\u306e\u5bbf\u306f\u9752\u3044\u3002 {' '.join(FILLER)}"
    assert "\u9752\u3044" in Passages(text, words_of("\u6771\u4eac\u306e\u5bbf\u306f\u4f55\u8272\uff1f")).within(60)


@given(TEXTS, st.sampled_from(["Ada sails", "", "item", "\u6c34\u306e"]), st.integers(0, 700))
def test_no_passage_is_longer_than_its_room_and_parts_are_the_text(text: str, question: str, room: int) -> None:
    passages = Passages(text, words_of(question))
    assert len(passages.within(room)) <= room
    if len(text) <= room:
        assert passages.within(room) == text
    assert "".join(passages.parts) == text
    assert 1 <= passages.part <= len(passages.parts)
    most = WHOLE_CHARS if len(passages.parts) == 1 else PART_CHARS
    assert all(len(json.dumps(part, ensure_ascii=False)) - 2 <= most for part in passages.parts)
    assert all(passages.parts) or text == ""


def test_a_text_without_pieces_has_parts() -> None:
    blank = "  \n" * 4_000
    assert "".join(Passages(blank).parts) == blank
    assert Passages(blank, ("sea",)).part == 1
    assert len(Passages(blank, ("sea",)).within(100)) == 100
    assert Passages(blank, ("sea",)).sentence(100, 100) == ""


def test_the_words_at_both_ends_of_a_long_question_count() -> None:
    words = words_of(" ".join(f"word{number}" for number in range(5_000)))
    assert len(words) == 64
    assert (words[0], words[-1]) == ("word0", "word4999")


def test_many_headings_and_words_are_weighed_in_time_that_grows_with_the_text() -> None:
    words = words_of(" ".join(f"word{number}" for number in range(5_000)))
    text = "".join(f"# {words[number % 64]}\n\n{words[number % 7]} is here.\n\n" for number in range(2_000))
    started = time.process_time()
    assert Passages(text, words).within(600)
    assert time.process_time() - started < 1
