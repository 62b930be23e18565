"""Times in a question: what they span (TI-5)."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engramq.workers.search.times import is_about, spans_in

NOW = datetime(2024, 3, 13, 15, tzinfo=UTC)  # a Wednesday
moments = st.datetimes(datetime(1900, 1, 1), datetime(2099, 12, 31), timezones=st.just(UTC))  # noqa: DTZ001


def about(text: str, day: str) -> bool:
    return is_about(datetime.fromisoformat(day).replace(tzinfo=UTC), spans_in(text, NOW))


@pytest.mark.promise("TI-5")
@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        ("What happened in May 2023?", "2023-05-31", "2023-06-01"),
        ("What happened in May?", "2019-05-07", "2019-04-30"),
        ("What happened in May, back in 2023?", "2023-05-07", "2022-05-07"),
        ("the summer of 2023", "2023-01-01", "2024-01-01"),
        ("on 7 May 2023", "2023-05-07", "2023-05-08"),
        ("on May 7th, 2023", "2023-05-07", "2023-05-06"),
        ("on the 7th of May", "2020-05-07", "2020-05-08"),
        ("on 2023-05-07", "2023-05-07", "2023-05-08"),
        ("last month", "2024-02-29", "2024-03-01"),
        ("this month", "2024-03-01", "2024-02-29"),
        ("what did Ada say last week", "2024-03-04", "2024-03-11"),
        ("last year", "2023-12-31", "2024-01-01"),
        ("yesterday", "2024-03-12", "2024-03-13"),
        ("3 days ago", "2024-03-10", "2024-03-11"),
        ("a month ago", "2024-02-01", "2024-03-01"),
        ("Where did she live as of November 2023?", "2020-01-01", "2023-12-01"),
        ("before May 2023", "2023-04-30", "2023-05-01"),
        ("since May", "2024-03-01", "2023-04-30"),  # the last one that has begun
        ("after 7 May 2023", "2023-05-08", "2023-05-07"),
        ("between May and July 2023", "2023-07-31", "2023-08-01"),
        ("from 2023-05-01 to 2023-05-03", "2023-05-03", "2023-05-04"),
    ],
)
def test_a_time_in_a_question_spans_what_it_says(text: str, inside: str, outside: str) -> None:
    assert about(text, inside)
    assert not about(text, outside)


@pytest.mark.parametrize(
    "text", ["", "May I come in?", "What may come?", "31 February", "they march", "12023-05", "??"]
)
def test_what_is_no_time_spans_nothing(text: str) -> None:
    assert spans_in(text, NOW) == ()


@given(st.text(max_size=80), moments, moments)
def test_no_text_is_too_odd(text: str, now: datetime, moment: datetime) -> None:
    for span in spans_in(text, now):
        assert span.begin < span.end
    is_about(moment, spans_in(text, now))


ROWS = "since|May|7|7th|2023|last|month|ago|3|days|and|between|to|as of|before|2023-05-07|December|29 February|20-13-40"
words = st.sampled_from(ROWS.split("|"))


@given(st.lists(words, max_size=9).map(" ".join), moments, moments)
def test_no_row_of_times_is_too_odd(text: str, now: datetime, moment: datetime) -> None:
    is_about(moment, spans_in(text, now))
