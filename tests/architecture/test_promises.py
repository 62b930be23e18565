"""Every promise has a test that names it, and every named promise exists."""

from tools.promises import evidence, promises

ALL = {promise.number: promise for family in promises().values() for promise in family}


def test_every_promise_that_is_kept_has_a_test() -> None:
    named = evidence()
    assert [number for number, promise in ALL.items() if not promise.is_later and number not in named] == []


def test_every_named_promise_exists() -> None:
    assert sorted(set(evidence()) - set(ALL)) == []


def test_each_number_and_each_sentence_stand_once() -> None:
    sentences = [promise.sentence for promise in ALL.values()]
    assert len(set(sentences)) == len(sentences) == sum(len(family) for family in promises().values())
    assert all(sentence.endswith(".") for sentence in sentences)
