"""Previews: one line, never longer than asked, cut at a word, and the content itself where it fits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engramq.schemas.contents import CUT, preview_of


@pytest.mark.parametrize(
    ("text", "preview"),
    [
        ("The release is on May 4th", "The release is on…"),
        ("The release is on May", "The release is on May"),
        ("  two\n\n\tlines \n", "two lines"),
        ("twenty characters ok!", "twenty characters ok!"),
        ("unbroken" * 9, "unbrokenunbrokenunbr…"),
        ("a " + "unbroken" * 9, "a unbrokenunbrokenun…"),
        ("exactly twenty chars one", "exactly twenty chars…"),
        ("", ""),
    ],
)
def test_a_preview_is_one_line_cut_at_a_word(text: str, preview: str) -> None:
    assert preview_of(text, 21) == preview


@given(st.text(), st.integers(2, 40))
def test_no_preview_is_longer_than_its_limit_or_invents_anything(text: str, limit: int) -> None:
    preview, line = preview_of(text, limit), " ".join(text.split())
    assert len(preview) <= limit
    assert preview == line if len(line) <= limit else line.startswith(preview.removesuffix(CUT))
