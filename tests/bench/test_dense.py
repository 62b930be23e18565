"""The set of dense facts is whole, and its figures are worked out as by hand."""

import pytest

from bench.dense import HALVES, SET, figures
from bench.retrieval import read_lines


def test_the_figures_of_replies_are_as_by_hand() -> None:
    replies: list[tuple[list[str], list[str]]] = [
        (["a"], ["a"]),
        (["a", "b", "c", "d"], ["a", "b", "e", "f"]),
        ([], ["a"]),  # silent, though it is known
        ([], []),
        (["a", "b"], []),
    ]
    assert figures(replies) == pytest.approx(
        {
            "precision": (1 + 1 / 2 + 0 + 1 + 0) / 5,
            "precision_if_known": (1 + 1 / 2 + 0) / 3,
            "recall": (1 + 1 / 2 + 0) / 3,
            "exact": 2 / 5,
            "silent": 1 / 2,
            "hits": 7 / 5,
        }
    )


def test_each_question_expects_facts_of_its_half_that_its_filters_let_through() -> None:
    rows = read_lines(SET)
    facts = {row["key"]: row for row in rows if "key" in row}
    questions = [row for row in rows if "query" in row]
    assert [sum(row["half"] == half for row in questions) for half in HALVES] == [75, 75]
    assert [sum(row["half"] == half for row in facts.values()) for half in HALVES] == [30, 30]
    replaced = {row["replaces"] for row in facts.values() if "replaces" in row}
    assert len({(row["query"], row["project"]) for row in questions}) == len(questions)
    for question in questions:
        assert not replaced & {*question["expects"]}, question
        for fact in (facts[key] for key in question["expects"]):
            assert fact["half"] == question["half"], question
            assert question["project"] in ("*", fact.get("project", question["project"])), question
            assert {*question.get("tags", ())} <= {*fact.get("tags", ())}, question
