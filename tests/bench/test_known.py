"""What bench.known scores and makes: figures worked out by hand, and texts that are the same ones each time."""

from datetime import date, timedelta
from pathlib import Path

import pytest

from bench.known import SET, Told, expected, figures, part
from bench.known_sets import SET as SETS
from bench.known_sets import told
from bench.known_texts import LONG, handbook, meant
from bench.retrieval import Row, read_lines
from tools.relevance.lookups import ANSWERED, HELD, LEARNED, SHAPES, Lookup, holders, homes

ROWS = read_lines(SETS)


@pytest.mark.parametrize("file", [LEARNED, SET])
def test_each_home_is_asked_in_every_shape_for_memories_that_it_has(file: Path) -> None:
    for home in homes(file):
        assert len(home.memories) == 40
        assert {asked.shape for asked in home.asked} == {*SHAPES}
        for asked in home.asked:
            assert {*asked.expects} <= home.memories.keys()
            assert bool(asked.expects) == (asked.shape in ANSWERED), asked
            if asked.shape in HELD:
                assert {*holders(asked.query, home.memories.items())} <= {*asked.expects}, asked


def test_what_judges_has_nothing_of_what_is_learned_from() -> None:
    learned, judged = (
        {text for home in homes(file) for text in (*home.memories.values(), *(asked.query for asked in home.asked))}
        for file in (LEARNED, SET)
    )
    assert not learned & judged


@pytest.mark.parametrize(
    ("query", "text", "holds"),
    [
        ("Go", "We build with Go 1.24.", True),
        ("Go", "Please go home.", False),
        ("C#", "written in C# on Linux", True),
        ("4502", "HBR-4502: stops", True),
        ("450", "HBR-4502: stops", False),
        ("voucher", "Two vouchers are left.", True),
        ("Teodor Brandt", "Teodor is away.", False),
        ("10.20.3.4", "at 10.20.3.45", False),
    ],
)
def test_a_memory_holds_a_query_when_it_has_all_its_content_words(query: str, text: str, holds: bool) -> None:
    assert [*holders(query, [("key", text)])] == ["key"] * holds


def test_a_home_grows_and_what_holds_a_query_around_it_answers_too() -> None:
    home = homes(SET)[0]
    small, whole, large = (part(home, size) for size in (10, 40, 60))
    assert (len(small), len(whole), len(large)) == (10, 40, 60)
    assert small.items() <= whole.items() <= large.items()
    asked = {item.query: right for item, right in expected(home, {**whole, "filler/x": "Nobody found the skins."})}
    assert asked["skins"] == {"arcade/arc-902", "filler/x"}
    assert "beekeeping" not in {item.query for item, _ in expected(home, {**whole, "x": "We like beekeeping."})}


def test_figures_of_a_shape_are_as_by_hand() -> None:
    lookup = Lookup(home="h", query="q", shape="name", expects=("a",))
    items = [
        Told(lookup, frozenset("a"), ["a", "b"], "yes"),
        Told(lookup, frozenset("a"), ["b", "a"], "no"),
        Told(lookup, frozenset("a"), [], "no"),
        Told(lookup, frozenset("a"), ["b"], "unsure"),
    ]
    shares = {"with_hit": 0.75, "shown": 0.5, "first": 0.25, "yes": 0.25, "unsure": 0.25, "no": 0.5}
    assert figures(items) == {"n": 4, **shares, "denied": 1}
    assert "shown" not in figures([Told(lookup, frozenset(), [], "no")])


def test_figures_of_a_set_are_as_by_hand() -> None:
    reply: Row = {"memories": [{"external_id": "a"}, {"external_id": "b"}], "answered": "yes"}
    silent: Row = {"memories": [], "answered": "no"}
    pairs = [(reply, ["a"]), (reply, ["b"]), (silent, ["a"]), (silent, ["b"])]
    assert told(pairs) == {"n": 4, "right": 0.25, "shown": 0.5, "no": 0.5}


def test_each_question_of_the_diary_means_an_entry_on_whatever_day_it_is_asked() -> None:
    rows = [row for row in ROWS if row["set"] == "times"]
    questions = [row for row in rows if "query" in row]
    assert len(questions) >= 22
    for day in range(0, 1_500, 11):
        today = date(2026, 1, 1) + timedelta(day)
        assert [row["query"] for row in questions if not meant(row, rows, today)] == [], today


def test_long_notes_hold_each_answer_once() -> None:
    for name, chars in LONG:
        rows = [row for row in ROWS if row.get("of") == name.partition(",")[0]]
        text = handbook([(row["section"], row["text"]) for row in rows if "section" in row], chars)
        assert chars <= len(text) + 2_000 < 34_000
        for row in rows:
            if "answer" in row:
                assert text.count(row["answer"]) == 1, row
