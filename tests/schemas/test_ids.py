"""Ids sort in the order of their making, and a malformed one is simply unknown."""

import threading
from datetime import UTC, datetime, timedelta, timezone
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engramq.schemas.ids import format_time, parse_time, parse_uuid, uuid7


def test_ids_are_uuid7_and_sort_in_the_order_of_their_making() -> None:
    before_ms = int(datetime.now(UTC).timestamp() * 1000)
    ids = [uuid7() for _ in range(10_000)]
    assert ids == sorted(ids)
    assert len(set(ids)) == len(ids)
    first = UUID(ids[0])
    assert (first.version, first.variant) == (7, "specified in RFC 4122")
    assert 0 <= (first.int >> 80) - before_ms < 5_000


def test_ids_of_several_threads_are_all_different() -> None:
    found: list[str] = []
    threads = [threading.Thread(target=lambda: found.extend(uuid7() for _ in range(2_000))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert len(set(found)) == 8_000


@given(st.uuids())
def test_canonical_text_is_parsed(value: UUID) -> None:
    assert parse_uuid(str(value)) == value
    assert parse_uuid(str(value).upper()) == value


@pytest.mark.parametrize(
    "text",
    ["", "x", "{01890a5d-ac96-774b-bcce-b302099a8057}", "01890a5dac96774bbcceb302099a8057", "urn:uuid:x", "٣" * 32],
)
def test_anything_else_is_no_id(text: str) -> None:
    assert parse_uuid(text) is None


@given(st.text())
def test_no_text_breaks_the_parser(text: str) -> None:
    assert parse_uuid(text) is None or len(text) == 36


def test_times_are_utc_with_microseconds_and_z() -> None:
    moment = datetime(2026, 1, 31, 10, 0, tzinfo=timezone(timedelta(hours=1)))
    assert format_time(moment) == "2026-01-31T09:00:00.000000Z"


@given(st.datetimes(timezones=st.just(UTC)))
def test_times_come_back_equal(moment: datetime) -> None:
    assert datetime.fromisoformat(format_time(moment)) == moment


def test_what_operators_write_is_a_date_or_a_time_with_a_zone() -> None:
    assert parse_time("2026-01-31") == datetime(2026, 1, 31, tzinfo=UTC)
    assert parse_time("2026-01-31", end_of_day=True) == datetime(2026, 1, 31, 23, 59, 59, 999_999, tzinfo=UTC)
    for text in ("2026-01-31T09:00:00+02:00", "2026-01-31T07:00:00Z"):
        assert parse_time(text, end_of_day=True) == datetime(2026, 1, 31, 7, tzinfo=UTC)


@pytest.mark.parametrize("text", ["", "yesterday", "2026-01-31T09:00:00", "2026-13-01", "0001-01-01T00:00:00+05:00"])
def test_other_times_are_refused_saying_what_is_expected(text: str) -> None:
    with pytest.raises(ValueError, match="a date"):
        parse_time(text)
