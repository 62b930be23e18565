from datetime import UTC, datetime

import pytest

from engramq.workers.embedders.openai import seconds_to_wait

NOON = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        ("7", 7.0),
        ("0.25", 0.25),
        ("-3", 0.0),
        ("Sat, 21 Nov 2026 12:00:30 GMT", 30.0),
        ("Sat, 21 Nov 2026 11:00:00 GMT", 0.0),
        ("soon", None),
        ("nan", None),
        ("inf", None),
        ("", None),
    ],
)
def test_both_forms_are_read_and_nonsense_is_ignored(value: str | None, expected: float | None) -> None:
    assert seconds_to_wait(value, NOON) == expected
