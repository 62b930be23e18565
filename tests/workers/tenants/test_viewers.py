"""Whose private rows a transaction sees: ranges of owners, by the bytes of their names."""

import pytest

from engramq.schemas.envelope import PrincipalId
from engramq.schemas.limits import NAME_CHARS
from engramq.schemas.vocabulary import APART
from engramq.workers.db.viewers import EVERYTHING, PUBLIC, Viewer, principal_of

LAST_NAME = "\U0010ffff" * NAME_CHARS
PRINCIPALS = [PrincipalId(name, untrusted=untrusted) for name in ("ada", LAST_NAME) for untrusted in (False, True)]


@pytest.mark.parametrize("principal", PRINCIPALS, ids=lambda each: f"{each.name[:3]}-{each.untrusted}")
def test_an_owner_is_its_principal_alone_and_within_everything(principal: PrincipalId) -> None:
    viewer = Viewer.of(principal)
    assert viewer.owner_first == viewer.owner_last == viewer.owner
    assert viewer.owner is not None
    assert principal_of(viewer.owner) == principal
    assert EVERYTHING.owner_first < viewer.owner < EVERYTHING.owner_last


def test_trusted_and_untrusted_of_one_name_own_different_rows() -> None:
    assert len({Viewer.of(principal).owner for principal in PRINCIPALS}) == len(PRINCIPALS)


@pytest.mark.parametrize("name", [f"ada{APART}untrusted", f"{APART}", "a\0da"])
def test_a_name_that_no_door_lets_in_owns_nothing(name: str) -> None:
    assert Viewer.of(PrincipalId(name)) == PUBLIC


def test_neither_everybody_nor_everything_owns_a_row() -> None:
    assert Viewer("", "") == PUBLIC
    assert PUBLIC.owner is EVERYTHING.owner is None
    assert Viewer("ada", "".join("ada")).owner == "ada"
    assert Viewer("a", "b").owner is Viewer("b", "a").owner is None
