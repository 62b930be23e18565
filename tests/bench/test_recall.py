"""The gate of ranking: a change stays if it helps on one of three corpora and harms none."""

import pytest

from bench.recall import CORPORA, LINES, compared, read, verdict

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
