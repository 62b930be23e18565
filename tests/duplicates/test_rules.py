"""Which texts say the same, and which memory stays. Pure."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import numpy as np
import pytest

from engramq.gateway.cli.alike import Sets, packed, transactions
from engramq.schemas.commands import DuplicateGroup
from engramq.schemas.vocabulary import Verification
from engramq.workers.memories.duplicate_rules import Compared, groups, said, says_the_same, unit

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
SAME = "Anna prefers tea in the long mornings of winter"


def memory(number: int, content: str = SAME, angle: float = 0.0, **changes: Any) -> Compared:
    """Return a memory whose vector stands at this angle, in degrees; the higher its number the newer."""
    known: dict[str, Any] = {
        "id": UUID(int=number),
        "kind": "facts",
        "said": said(content),
        "vector": unit(np.array([np.cos(np.radians(angle)), np.sin(np.radians(angle))], dtype=np.float32)),
        "verification": Verification.UNVERIFIED,
        "created_at": BEGAN + timedelta(days=number),
        "kept": False,
        "is_told": True,
        "is_telling": True,
    }
    return Compared(**known | changes)


def numbers(memories: Sequence[Compared], least: float = 0.95) -> dict[int, list[int]]:
    return {one.stays.id.int: [goes.id.int for goes, _ in one.goes] for one in groups(memories, least)}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The deploy runs on Friday.", "The deploys run on Friday"),
        ("Our deploy runs on Friday", "the deploy runs on friday!"),
        ("Anna said that she likes tea", "Anna likes tea, she said to me yesterday evening"),
        ("The build fails when the disk is full", "When the disk is full the build fails on every runner"),
        ("Die Katze schläft auf dem Sofa", "Die Katze schläft auf dem Sofa."),
        ("The limit is 1,000 rows", "A limit of 1,000 rows holds"),
    ],
)
def test_texts_that_differ_in_nothing_that_vectors_are_blind_to(one: str, other: str) -> None:
    assert says_the_same(said(one), said(other))
    assert says_the_same(said(other), said(one))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The server has 16 GB", "The server has 32 GB"),
        ("The meeting is on 2026-01-31", "The meeting is on 2026-01-30"),
        ("It froze at -5 degrees", "It froze at 5 degrees"),
        ("Release v2 is stable", "Release v3 is stable"),
        ("The cache is warm", "The cache is not warm"),
        ("It does work offline", "It doesn't work offline"),
        ("Ask Anna about the keys of the house", "Ask Petra from next door about the keys"),
        ("Anna prefers tea in the morning", "Peter prefers tea in the morning"),
        ("She prefers tea in the morning", "She prefers coffee in the morning"),
        ("The flag is enabled by default", "The flag is disabled by default"),
        ("Lunch is before the talk", "Lunch is after the talk"),
        ("Anna reports to Petra", "Petra reports to Anna"),
    ],
)
def test_texts_that_say_different_things_however_near_they_are(one: str, other: str) -> None:
    assert not says_the_same(said(one), said(other))
    assert not says_the_same(said(other), said(one))


def test_what_is_vouched_for_stays_then_what_is_kept_then_the_newest() -> None:
    assert numbers([memory(1), memory(2), memory(3)]) == {3: [2, 1]}
    assert numbers([memory(1, kept=True), memory(2), memory(3)]) == {1: [3, 2]}
    verified = memory(1, verification=Verification.VERIFIED)
    assert numbers([verified, memory(2), memory(3, kept=True)]) == {1: [2]}
    assert numbers([verified, memory(2, verification=Verification.APPROVED)]) == {2: [1]}


def test_each_that_goes_is_alike_to_the_one_that_stays() -> None:
    """Four in a row, each near the next: the ends are not near each other."""
    row = [memory(number, f"{SAME} {'!' * number}", angle=10.0 * number) for number in range(1, 5)]
    assert numbers(row, least=0.98) == {4: [3], 2: [1]}
    assert numbers(row, least=0.80) == {4: [3, 2, 1]}
    assert numbers(row, least=0.999) == {}


def test_memories_of_different_kinds_models_or_of_short_texts_stay_apart() -> None:
    assert numbers([memory(1), memory(2, kind="turns")]) == {}
    near = [memory(1, f"{SAME}!"), memory(2)]
    assert numbers(near) == {2: [1]}
    assert numbers([memory(1, f"{SAME}!", vector=None), memory(2)]) == {}
    assert numbers([memory(1, f"{SAME}!", is_telling=False), memory(2)]) == {}
    assert numbers([memory(1, vector=None, is_telling=False), memory(2)]) == {2: [1]}
    assert numbers([memory(1, is_told=False), memory(2)]) == {}


def test_ids_that_are_alike_through_others_are_one_set() -> None:
    sets = Sets()
    for ids in (("a", "b"), ("d", "c"), ("e", "f", "g"), ("b", "c"), ("a", "d")):
        sets.join(ids)
    assert sets.all() == [["a", "b", "c", "d"], ["e", "f", "g"]]
    assert len(sets) == 7


def test_sets_are_asked_for_together_and_large_ones_in_pieces() -> None:
    sets = [list("ab"), list("cde"), list("fghijkl"), list("mn")]
    assert [["".join(one) for one in some] for some in packed(sets, 5)] == [["ab", "cde"], ["fghij"], ["kl", "mn"]]
    assert list(packed([list("abcdef")], 5)) == [[list("abcde")]]  # the last one waits for the next round
    assert list(packed([], 5)) == []


def test_what_stays_goes_in_a_later_transaction_only() -> None:
    wanted = [
        DuplicateGroup(stays="b", goes=("a",)),
        DuplicateGroup(stays="c", goes=("b",)),
        DuplicateGroup(stays="z", goes=tuple("defgh")),
    ]
    found = [[(one.stays, "".join(one.goes)) for one in some] for some in transactions(wanted, 3)]
    assert found == [[("b", "a")], [("c", "b")], [("z", "def")], [("z", "gh")]]
