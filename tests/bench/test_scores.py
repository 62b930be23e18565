"""The figures of the benchmarks of retrieval and their gate, worked out by hand on small made-up sets."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.dense import HALVES, SET, figures
from bench.recall import CORPORA, LINES, compared, read, verdict
from bench.retrieval import by_namespace, drop_fields, read_lines, score

IDS = [f"d{number}" for number in range(60)]


def test_a_ranking_is_scored_as_by_hand() -> None:
    figures = score(["d9", "d1", "d9", "d8", "d2"], {"d1", "d2", "d3"})
    # Places 1 and 3 (from 0) of the ranking without its repetition.
    gained = 1 / math.log2(3) + 1 / math.log2(5)
    best = 1 + 1 / math.log2(3) + 1 / 2
    expected = {"R@5": 2 / 3, "R@10": 2 / 3, "R@20": 2 / 3, "R@50": 2 / 3, "nDCG@10": gained / best, "MRR": 1 / 2}
    assert figures == pytest.approx(expected, abs=1e-12)


@given(st.permutations(IDS), st.sets(st.sampled_from(IDS), min_size=1))
def test_figures_lie_between_0_and_1_and_a_perfect_ranking_has_1(ranking: list[str], evidence: set[str]) -> None:
    figures = score(ranking, evidence)
    assert all(0 <= figure <= 1 + 1e-12 for figure in figures.values())
    assert figures["R@5"] <= figures["R@10"] <= figures["R@20"] <= figures["R@50"]
    perfect = score(sorted(ranking, key=lambda memory: memory not in evidence), evidence)
    assert perfect["nDCG@10"] == pytest.approx(1)
    assert perfect["MRR"] == 1
    assert all(figures[name] <= perfect[name] + 1e-12 for name in figures)


def test_what_is_withheld_is_not_imported_and_positions_go_with_their_thread() -> None:
    row = {"namespace": "n", "external_id": "x", "content": "c", "speaker": "s", "thread": "t", "position": 1}
    assert drop_fields([row], frozenset({"speaker"})) == [{**{k: v for k, v in row.items() if k != "speaker"}}]
    assert drop_fields([row], frozenset({"thread"})) == [
        {"namespace": "n", "external_id": "x", "content": "c", "speaker": "s"}
    ]
    assert by_namespace([row, {**row, "namespace": "m"}]) == {"n": [row], "m": [{**row, "namespace": "m"}]}


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


QUESTIONS = [f"q{number}" for number in range(100)]


def bounds(gained: int, lost: int) -> tuple[float, float]:
    """Return the interval of a change by which so many of 100 questions are answered, and so many no longer."""
    before = {qid: {"R@10": float(place >= 50)} for place, qid in enumerate(QUESTIONS)}
    after = before | {qid: {"R@10": 1.0} for qid in QUESTIONS[:gained]}
    after |= {qid: {"R@10": 0.0} for qid in QUESTIONS[len(QUESTIONS) - lost :]}
    ahead = compared(after, before, QUESTIONS)
    assert ahead["R@10"] == pytest.approx((gained - lost) / len(QUESTIONS))
    return ahead["low"], ahead["high"]


@pytest.mark.promise("PR-8")
def test_a_change_stays_that_helps_on_one_corpus_and_harms_none() -> None:
    better, worse, mixed, same = bounds(12, 0), bounds(0, 12), bounds(3, 4), bounds(0, 0)
    assert verdict({"a": better, "b": same, "c": mixed}) == {"helps": ["a"], "harms": [], "stays": True}
    assert verdict({"a": better, "b": better, "c": worse}) == {"helps": ["a", "b"], "harms": ["c"], "stays": False}
    assert verdict({"a": mixed, "b": same, "c": same}) == {"helps": [], "harms": [], "stays": False}


@pytest.mark.promise("PR-8")
def test_the_page_shows_all_three_corpora_with_and_without_metadata() -> None:
    runs = {(line["corpus"], bool(line["withheld"])) for line in read([LINES]) if line["measure"] == "overall"}
    assert runs == {(corpus, plain) for corpus in CORPORA for plain in (False, True)}
    assert len(CORPORA) == 3
