"""Cursors cannot be forged, changed or used for another list."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engramq.gateway.cursors import seal_cursor, unseal_cursor
from engramq.schemas.commands import ListRecentMemories, SurveyMemories
from engramq.schemas.envelope import Envelope, Principal
from engramq.schemas.faults import EngramqError
from engramq.schemas.vocabulary import MemoryState, Partition, Sector, Verification

SECRET = b"s" * 32
LIST = ListRecentMemories(partitions=(Partition.TRUSTED, Partition.UNTRUSTED), sectors=(Sector.SEMANTIC,))
POSITION = "2026-01-31T09:00:00.000000Z 0190b6a1-8c1e-7d2a-9f00-3c5b7e9d1a42"
NARROWER = {
    "states": (MemoryState.ARCHIVED,),
    "verifications": (Verification.REJECTED,),
    "thread": "t",
    "source_type": "research",
    "created_by": "bob",
    "external_id": "x",
}


def listed(namespace: str, command: ListRecentMemories | SurveyMemories) -> Envelope:
    return Envelope(id="c", namespace=namespace, principal=Principal(name="me"), command=command)


def seal(position: str, secret: bytes, namespace: str, command: ListRecentMemories) -> str:
    return seal_cursor(position, secret, listed(namespace, command))


def unseal(cursor: str, secret: bytes, namespace: str, command: ListRecentMemories | SurveyMemories) -> str:
    asked = msgspec.structs.replace(command, cursor=cursor)
    position: str = unseal_cursor(listed(namespace, asked), secret).cursor  # type: ignore[attr-defined]
    return position


CURSOR = seal(POSITION, SECRET, "ns", LIST)


def test_a_cursor_gives_its_position_back_to_the_same_list() -> None:
    other_order = ListRecentMemories(
        partitions=(Partition.UNTRUSTED, Partition.TRUSTED), sectors=(Sector.SEMANTIC,), limit=3, cursor=CURSOR
    )
    assert unseal(CURSOR, SECRET, "ns", LIST) == POSITION
    assert unseal(CURSOR, SECRET, "ns", other_order) == POSITION
    assert len(CURSOR) <= 512


def test_what_is_not_said_is_the_same_as_its_default() -> None:
    cursor = seal("p", SECRET, "ns", ListRecentMemories())
    said = ListRecentMemories(partitions=(Partition.TRUSTED,), include_superseded=False, limit=10)
    assert unseal(cursor, SECRET, "ns", said) == "p"


@pytest.mark.promise("OV-13")
def test_a_cursor_is_of_no_use_elsewhere() -> None:
    elsewhere: list[tuple[bytes, str, ListRecentMemories | SurveyMemories]] = [
        (b"t" * 32, "ns", LIST),
        (SECRET, "ns2", LIST),
        (SECRET, "ns", ListRecentMemories()),
        (SECRET, "ns", ListRecentMemories(partitions=LIST.partitions)),
        (SECRET, "ns", ListRecentMemories(partitions=LIST.partitions, sectors=())),
        (SECRET, "ns", ListRecentMemories(partitions=LIST.partitions, sectors=LIST.sectors, include_superseded=True)),
        *((SECRET, "ns", msgspec.structs.replace(LIST, **{name: value})) for name, value in NARROWER.items()),
        (SECRET, "ns", SurveyMemories(topic="x")),
    ]
    assert [where for where in elsewhere if name_refused(CURSOR, *where) != "cursor"] == []


def name_refused(
    cursor: str, secret: bytes = SECRET, namespace: str = "ns", command: ListRecentMemories | SurveyMemories = LIST
) -> str:
    """Return the field that the refusal of a cursor names, nothing where it is taken."""
    try:
        unseal(cursor, secret, namespace, command)
    except EngramqError as refusal:
        fault = refusal.fault
        return str(fault.field) if "cursor was not given out for this list" in fault.error else fault.error
    return ""


def test_no_changed_character_goes_unnoticed() -> None:
    spelling = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_=+/ \n"
    changed = [
        CURSOR[:place] + other + CURSOR[place + 1 :]
        for place in range(len(CURSOR))
        for other in spelling
        if other != CURSOR[place]
    ]
    for end in range(len(CURSOR)):
        changed += [CURSOR[:end], CURSOR + CURSOR[:end] + "="]
    assert [cursor for cursor in changed if not name_refused(cursor)] == []


@given(text=st.text(max_size=200))
def test_other_texts_are_no_cursors(text: str) -> None:
    with pytest.raises(EngramqError):
        unseal(text, SECRET, "ns", LIST)
