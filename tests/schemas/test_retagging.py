"""The reason of an entry in the audit log tells which tags came and went, whatever signs are in them."""

from hypothesis import given
from hypothesis import strategies as st

from engramq.schemas.commands.changes import ADDED_TAGS, REMOVED_TAGS, describe_retagging, read_retagging

TAGS = st.lists(
    st.one_of(st.sampled_from(["a", "a; b", "a, b", 'a "b"', '"a', "Removed tags: b", "; Removed tags: b", "\\"]),
              st.text(min_size=1).map(str.strip).filter(bool)),
    max_size=4,
)  # fmt: skip


@given(came=TAGS, went=TAGS)
def test_tags_are_read_as_they_were_told(came: list[str], went: list[str]) -> None:
    told = describe_retagging(came, went)
    changed = {ADDED_TAGS: came, REMOVED_TAGS: went}
    assert read_retagging(told or "") == {said: tags for said, tags in changed.items() if tags}


def test_a_plain_tag_stands_as_it_is() -> None:
    assert describe_retagging(["knee", "a, b"], []) == 'Added tags: knee, "a, b"'
