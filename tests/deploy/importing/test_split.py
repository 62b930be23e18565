"""A text that is too long for one memory: refused with a hint, or split into memories of one thread."""

import itertools
from typing import Any

import pytest

from engramq.deploy.importing.exports import LeftOut
from engramq.deploy.importing.records import Rejection, UncheckedRow
from engramq.deploy.importing.rows import CheckedRow, check_rows
from engramq.deploy.local.hooks.turns import split
from engramq.schemas import limits

LONG = "\n\n".join(f"Paragraph {number}. " + "It says a little more. " * 30 for number in range(120))


def rows(*said: dict[str, Any], splitting: bool = True) -> list[CheckedRow]:
    made = checked(*said, splitting=splitting)
    assert all(isinstance(item, CheckedRow) for item in made), made
    return [item for item in made if isinstance(item, CheckedRow)]


def checked(*said: dict[str, Any], splitting: bool = True) -> list[CheckedRow | Rejection | LeftOut]:
    given = [UncheckedRow(number, dict(values)) for number, values in enumerate(said, start=1)]
    return list(check_rows(given, "tenant", one_namespace=False, split=splitting))


def test_without_the_option_a_long_text_is_rejected_with_a_hint() -> None:
    (rejected,) = checked({"content": LONG}, splitting=False)
    assert isinstance(rejected, Rejection)
    assert (rejected.line, rejected.field) == (1, "content")
    assert "--split" in rejected.reason


def test_a_long_text_becomes_memories_of_one_thread_in_order() -> None:
    made = rows({"content": "short"}, {"content": LONG, "speaker": "Ana", "tags": ["a"]})
    assert [row.line for row in made] == [1, 2, 2, 2]
    short, *parts = [row.record for row in made]
    assert (short.content, short.thread or None, short.position or None) == ("short", None, None)
    assert [part.position for part in parts] == [0, 1, 2]
    assert len({part.thread for part in parts}) == 1
    assert {(part.speaker, part.tags) for part in parts} == {("Ana", ("a",))}
    assert all(len(part.content) <= limits.CONTENT_CHARS for part in parts)
    assert "\n\n".join(part.content for part in parts).split() == LONG.split()
    assert all(part.content.startswith("Paragraph") for part in parts)
    assert len({row.identity for row in made}) == 4


def test_the_same_text_is_split_into_the_same_rows_and_another_into_a_thread_of_its_own() -> None:
    first, again = rows({"content": LONG}), rows({"content": "other"}, {"content": LONG})[1:]
    assert [row.identity for row in first] == [row.identity for row in again]
    other = rows({"content": LONG + "!"})
    assert other[0].record.thread != first[0].record.thread


def test_a_row_names_thread_position_and_external_id_of_its_parts() -> None:
    said = {"content": LONG, "thread": "book", "position": "7", "external_id": "chapter"}
    made = [row.record for row in rows(said)]
    assert [(item.thread, item.position, item.external_id) for item in made] == [
        ("book", 7 + number, f"chapter#{number + 1}") for number in range(3)
    ]
    known = rows({"content": LONG, "external_id": "chapter"})
    edited = rows({"content": "Now " + LONG, "external_id": "chapter"})
    assert [row.record.thread for row in known] == [row.record.thread for row in edited]
    assert [row.identity for row in known] == [row.identity for row in edited]


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ({"content": LONG, "confidence": 7}, "confidence"),
        ({"content": LONG, "nonsense": 7}, "nonsense"),
        ({"content": LONG + "\0"}, "content"),
        ({"content": " " * 40_000}, "content"),
        ({"content": LONG, "position": limits.POSITION_MAX}, "position"),
        ({"content": LONG, "external_id": "x" * limits.NAME_CHARS}, "external_id"),
    ],
)
def test_a_row_with_a_fault_is_rejected_once_and_as_a_whole(said: dict[str, Any], field: str) -> None:
    (rejected,) = checked(said)
    assert isinstance(rejected, Rejection)
    assert rejected.field == field


def test_white_space_around_a_text_is_no_reason_to_split_it() -> None:
    (row,) = rows({"content": "short" + " " * limits.CONTENT_CHARS})
    assert row.record.content == "short"


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("aaaa bbbb. cccc dddd", ["aaaa bbbb.", "cccc dddd"]),
        ("aaaaaaa\n\nb. ccccccccc", ["aaaaaaa", "b. ccccccccc"]),
        ("aaaa bbbb cccc dddd", ["aaaa bbbb", "cccc dddd"]),
        ("あああああああ。いいいいいいいい", ["あああああああ。", "いいいいいいいい"]),
        ("x" * 30, ["x" * 12, "x" * 12, "x" * 6]),
        ("  aa  ", ["aa"]),
        ("", []),
    ],
)
def test_a_text_is_cut_where_it_hurts_least(text: str, parts: list[str]) -> None:
    assert list(split(text, 12)) == parts


def test_nothing_but_white_space_is_lost() -> None:
    words = [f"{'word' * (1 + number % 9)}{'.' if number % 5 == 0 else ''}" for number in range(400)]
    text = "".join(itertools.chain.from_iterable(zip(words, itertools.cycle([" ", "\n", "  \n\n "]), strict=False)))
    assert " ".join(split(text, 100)).split() == text.split()
