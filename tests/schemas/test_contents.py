"""Which fields hold what somebody wrote: a forgotten mark hides too much, never too little."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET, UnsetType

from engramq.schemas import records
from engramq.schemas.contents import CUT, Contents, contents_of, fields_holding, preview_of
from engramq.schemas.records import AuditEntry, Link, Memory, MemoryFields


class Unmarked(MemoryFields, kw_only=True):
    """A memory with a field that nobody has marked."""

    scent: str | None = None
    scents: list[str] = []
    weather: str | UnsetType = UNSET


class Answered(msgspec.Struct):
    """What is no record: its texts are engramq's unless they are marked."""

    hint: str
    note: Contents[str]
    size: int = 0


def test_the_contents_of_a_memory_are_what_its_author_chose() -> None:
    expected: dict[str, Any] = {
        "external_id": None,
        "content": "",
        "source_type": None,
        "speaker": None,
        "thread": None,
        "tags": [],
        "project": None,
        "metadata": {},
    }
    assert expected.items() <= contents_of(Memory).items()


def test_a_text_without_a_mark_is_contents_of_a_record() -> None:
    more = {name: blank for name, blank in contents_of(Unmarked).items() if name not in contents_of(MemoryFields)}
    assert more == {"scent": None, "scents": [], "weather": UNSET}


def test_a_text_without_a_mark_is_engramqs_own_elsewhere() -> None:
    assert contents_of(Answered) == {"note": ""}


def test_ids_times_and_labels_are_no_contents() -> None:
    assert contents_of(Link) == {"preview": None, "note": None}
    assert contents_of(AuditEntry) == {}
    assert set(fields_holding(AuditEntry, "time")) == {"at"}


def test_every_mark_is_of_a_kind_that_is_known() -> None:
    kinds = ("id", "time", "principal", "label", "words", "audited")
    structs: list[Any] = [kind for kind in vars(records).values() if isinstance(kind, msgspec.StructMeta)]
    marked = {name for struct in structs for kind in kinds for name in fields_holding(struct, kind)}
    assert {"id", "created_at", "created_by", "relation", "warning", "old"} <= marked


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
