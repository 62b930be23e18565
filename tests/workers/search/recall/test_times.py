"""How times in questions are read: a table of what people write, and of what looks like a time and is none."""

from datetime import date, datetime
from typing import Final
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engramq.workers.search.question import Question
from engramq.workers.search.spans import DaySpan
from engramq.workers.search.times import read_times

TODAY: Final = date(2026, 11, 28)  # a Saturday
# What is asked on that day, days that it means, and days that it does not mean.
READ: Final = (
    ("What did I do yesterday?", "2026-11-27", "2026-11-28 2026-11-26"),
    ("what did I do today", "2026-11-28", "2026-11-27"),
    ("What is on tomorrow?", "2026-11-29", "2026-11-28"),
    ("the day before yesterday", "2026-11-26", "2026-11-27 2026-11-25"),
    ("day after tomorrow", "2026-11-30", "2026-11-29"),
    ("What did I do three days ago?", "2026-11-25", "2026-11-24 2026-11-26"),
    ("3 days ago", "2026-11-25", "2026-11-24"),
    ("a couple of days ago", "2026-11-26 2026-11-25", "2026-11-24 2026-11-27"),
    ("a few days ago", "2026-11-25", "2026-11-28"),
    ("a fortnight ago", "2026-11-12 2026-11-14", "2026-11-20 2026-11-28"),
    ("two weeks ago", "2026-11-11 2026-11-17", "2026-11-09 2026-11-18"),
    ("a couple of weeks ago", "2026-11-04 2026-11-17", "2026-11-03 2026-11-20"),
    ("a month ago", "2026-10-15 2026-11-10", "2026-10-01 2026-11-20"),
    ("three months back", "2026-08-20 2026-09-08", "2026-08-01 2026-09-30"),
    ("one year ago", "2025-10-20 2025-12-31", "2025-06-01 2026-02-01"),
    ("two months ago", "2026-09-15 2026-10-10", "2026-09-01 2026-10-20"),
    ("What is due in two weeks?", "2026-12-09 2026-12-15", "2026-12-07 2026-12-16"),
    ("What will be in a month?", "2026-12-20 2027-01-10", "2026-12-01 2027-01-20"),
    ("2 years ago", "2024-02-01", "2025-01-01"),
    ("in the last 3 days", "2026-11-25 2026-11-28", "2026-11-24 2026-11-29"),
    ("the past 2 weeks", "2026-11-14 2026-11-28", "2026-11-13"),
    ("the past week", "2026-11-21 2026-11-28", "2026-11-20"),
    ("over the past month", "2026-11-01", "2026-10-20"),
    ("last week", "2026-11-16 2026-11-22", "2026-11-23 2026-11-15"),
    ("this week", "2026-11-23 2026-11-29", "2026-11-22"),
    ("next week", "2026-11-30 2026-12-06", "2026-11-29"),
    ("last month", "2026-10-01 2026-10-31", "2026-11-01"),
    ("next month", "2026-12-31", "2026-11-30"),
    ("this year", "2026-01-01", "2025-12-31"),
    ("last year", "2025-12-31", "2026-01-01"),
    ("this quarter", "2026-10-01 2026-12-31", "2026-09-30"),
    ("last quarter", "2026-07-01 2026-09-30", "2026-10-01"),
    ("next quarter", "2027-01-01", "2026-12-31"),
    ("next 2 weeks", "2026-11-28 2026-12-12", "2026-12-13 2026-11-27"),
    ("What did I do on Monday?", "2026-11-23", "2026-11-30 2026-11-24"),
    ("What happened last Friday?", "2026-11-27", "2026-11-20"),
    ("what did we do this Thursday?", "2026-11-26", "2026-11-19"),
    ("anything on Friday?", "2026-11-27 2026-12-04", "2026-11-26"),
    ("What will I do on Tuesday?", "2026-12-01", "2026-11-24"),
    ("next Friday", "2026-12-04", "2026-11-27"),
    ("Tuesday of last week", "2026-11-17", "2026-11-24"),
    ("last week Tuesday", "2026-11-17", "2026-11-24"),
    ("What did I do last weekend?", "2026-11-21 2026-11-22", "2026-11-28"),
    ("What did I do at the weekend?", "2026-11-28", "2026-11-27"),
    ("this weekend", "2026-11-28 2026-11-29", "2026-11-21"),
    ("next weekend", "2026-12-05", "2026-11-28"),
    ("What happened since Monday?", "2026-11-23 2026-11-28", "2026-11-22"),
    ("What happened on 2026-11-23?", "2026-11-23", "2026-11-22"),
    ("on 23.11.2026", "2026-11-23", "2026-11-22"),
    ("What did I do on 23.11.?", "2026-11-23", "2026-11-22"),
    ("what happened on 11/23?", "2026-11-23", "2026-11-22"),
    ("What did I do 11/23?", "2026-11-23", "2026-11-22"),
    ("11/23/2026", "2026-11-23", "2025-11-23"),
    ("23/11/2026", "2026-11-23", "2025-11-23"),
    ("Nov 23", "2026-11-23 2025-11-23", "2026-11-22"),
    ("23 Nov", "2026-11-23", "2026-11-22"),
    ("on the 23rd of November", "2026-11-23", "2026-11-22"),
    ("November 23rd", "2026-11-23", "2026-11-22"),
    ("23rd November 2025", "2025-11-23", "2026-11-23"),
    ("November 23, 2026", "2026-11-23", "2025-11-23"),
    ("nov 23 2026", "2026-11-23", "2025-11-23"),
    ("23-Nov-2026", "2026-11-23", "2025-11-23"),
    ("2026/11/23", "2026-11-23", "2026-11-22"),
    ("What did I do on the 20th?", "2026-11-20", "2026-10-20 2026-12-20"),
    ("the 20th of last month", "2026-10-20", "2026-11-20"),
    ("What happened in Q3?", "2026-07-01 2026-09-30", "2026-10-01"),
    ("Q3 2025", "2025-07-01", "2026-07-01"),
    ("third quarter of 2025", "2025-09-30", "2026-07-01"),
    ("the last quarter of 2025", "2025-10-01 2025-12-31", "2025-09-30 2026-07-01"),
    ("the last quarter of last year", "2025-10-01 2025-12-31", "2025-09-30 2026-07-01"),
    ("What did we sell in the first quarter?", "2026-01-01 2026-03-31", "2026-04-01"),
    ("What happened in the last hour?", "2026-11-28", "2026-11-26"),
    ("2026-Q1", "2026-03-31", "2026-04-01"),
    ("What happened in week 47?", "2026-11-16 2026-11-22", "2026-11-23"),
    ("KW 47", "2026-11-16", "2026-11-15"),
    ("2026-W47", "2026-11-22", "2026-11-23"),
    ("week 3 of 2025", "2025-01-13", "2026-01-13"),
    ("in the last 24 hours", "2026-11-27 2026-11-28", "2026-11-26"),
    ("this morning", "2026-11-28", "2026-11-27"),
    ("last night", "2026-11-27", "2026-11-26"),
    ("in October", "2026-10-01 2025-10-31", "2026-11-01"),
    ("in oct", "2026-10-01", "2026-11-01"),
    ("Oct 2025", "2025-10-01", "2026-10-01"),
    ("October of 2025", "2025-10-01", "2026-10-01"),
    ("in may", "2026-05-05", "2026-06-01"),
    ("between May and July 2023", "2023-07-31 2023-05-01", "2023-08-01"),
    ("May to July 2024", "2024-05-01 2024-06-15 2024-07-31", "2024-04-30 2024-08-01"),
    ("March to May 2025: what was released", "2025-03-01 2025-04-15 2025-05-31", "2025-02-28 2025-06-01"),
    ("May and June", "2026-05-05 2026-06-06", "2026-07-01"),
    ("What happened dec 30 to jan 2?", "2025-12-30 2026-01-02", "2025-12-29 2026-01-03 2026-07-01"),
    ("What happened apr 28 to may 3?", "2026-04-28 2026-05-03", "2026-04-27 2026-05-04"),
    ("What happened may 2025", "2025-05-05", "2025-04-30 2025-06-01"),
    ("nov 23", "2026-11-23", "2026-11-22"),
    ("the minutes of 11/23", "2026-11-23", "2026-11-22"),
    ("What did I do Friday night?", "2026-11-27", "2026-11-20"),
    ("from Nov 3 to Nov 5", "2026-11-04", "2026-11-06"),
    ("What happened from Dec 30 to Jan 2?", "2025-12-30 2026-01-02", "2025-12-29 2026-01-03 2026-07-01"),
    ("from Dec 30, 2024 to Jan 2", "2024-12-31 2025-01-02", "2025-01-03 2024-06-01"),
    ("What happened March 31 to April 2?", "2026-03-31 2026-04-01 2026-04-02", "2026-03-30 2026-04-03"),
    ("2026-03-31 - 2026-04-02", "2026-04-01", "2026-04-03"),
    ("between Monday and Wednesday", "2026-11-24 2026-12-01", "2026-11-26 2026-11-29"),
    ("Monday and Wednesday", "2026-11-23 2026-11-25", "2026-11-24"),
    ("29 February", "2024-02-29", "2025-02-28"),
    ("What happened in February?", "2024-02-29 2026-02-28", "2026-03-01"),
    ("29.02.2025", "", "2025-02-28 2025-03-01"),
    ("November 3-5", "2026-11-03 2026-11-05", "2026-11-06"),
    ("3 to 5 November 2026", "2026-11-04", "2026-11-06"),
    ("before May 2023", "2023-04-30", "2023-05-01"),
    ("after 7 May 2023", "2023-05-08", "2023-05-07"),
    ("since yesterday", "2026-11-27 2026-11-28", "2026-11-26"),
    ("what is due by Friday?", "2026-12-04 2026-11-29", "2026-12-05 2026-11-27"),
    ("in three days I will fly", "2026-12-01", "2026-11-30"),
    ("two weeks from now", "2026-12-09", "2026-12-01"),
    ("the week before last", "2026-11-09", "2026-11-16"),
    ("2026-10", "2026-10-31", "2026-11-01"),
    ("the summer of 2023", "2023-06-01 2023-08-31", "2023-01-01 2023-09-01"),
    ("What did we do last summer?", "2026-07-01", "2026-05-31 2025-07-01"),
    ("last winter", "2025-12-01 2026-02-28", "2026-12-01"),
    ("winter 2025", "2025-01-01 2025-12-31 2026-02-28", "2025-06-01"),
    ("What happened in autumn?", "2026-09-01 2025-11-30", "2026-12-01"),
    ("What did we do in the fall?", "2026-09-01 2026-11-30 2025-10-10", "2026-08-31 2026-12-01"),
    ("in fall", "2026-10-10", "2026-08-31"),
    ("What must be done by fall?", "2026-11-30 2026-11-28", "2026-11-27"),
    ("early fall", "2026-09-10", "2026-11-10"),
    ("Where did we stay in winter there?", "2026-01-10 2025-12-10", "2026-03-01"),
    ("late fall", "2026-11-20", "2026-09-10"),
    ("in Spring?", "2026-04-04", "2026-06-01"),
    ("What did we do in Spring?", "2026-04-04", "2026-06-01"),
    ("What did we do in spring?", "2026-04-04", "2026-06-01"),
    ("in Winter?", "2026-01-10 2025-12-10", "2026-03-01"),
    ("two winters ago", "2024-12-01 2025-02-28", "2025-12-01 2024-11-30"),
    ("two summers ago", "2025-06-01", "2026-06-01"),
    ("What must I do before winter?", "2026-11-30 2026-11-01", "2026-12-01"),
    ("after winter", "2026-03-01", "2026-02-28"),
    ("late winter", "2026-02-20 2027-02-20", "2025-12-10 2026-12-05"),
    ("What did we do last summer when we moved?", "2026-07-01", "2025-07-01"),
    ("fall 2024", "2024-11-30", "2024-08-31"),
    ("early November 2026", "2026-11-05", "2026-11-20"),
    ("mid-October", "2026-10-15", "2026-10-05 2026-10-28"),
    ("What happened at the end of October?", "2026-10-31 2026-10-25", "2026-10-10"),
    ("before the end of May 2025", "2025-05-30", "2025-06-01"),
    ("since early May", "2026-05-01 2026-11-28", "2026-04-30"),
    ("by the end of the month", "2026-11-30", "2026-12-01"),
    ("first half of 2025", "2025-01-01 2025-06-30", "2025-07-01"),
    ("H2 2025", "2025-07-01", "2025-06-30"),
    ("2025-H1", "2025-06-30", "2025-07-01"),
    ("the first Monday of October", "2026-10-05", "2026-10-12 2026-11-23"),
    ("the last Friday in October", "2026-10-30", "2026-10-23"),
    ("the last day of March 2025", "2025-03-31", "2025-03-30"),
    ("last day of the month", "2026-11-30", "2026-01-31"),
    ("the first Monday of the month", "2026-11-02", "2026-01-05 2027-01-04"),
    ("the last Friday of the month", "2026-11-27", "2026-01-30"),
    ("second week of last month", "2026-10-08 2026-10-14", "2026-10-15 2026-11-10"),
    ("the week of November 11", "2026-11-09 2026-11-15", "2026-11-16"),
    ("week beginning 2026-11-09", "2026-11-15", "2026-11-08"),
    ("Monday the 23rd", "2026-11-23", "2026-12-23"),
    ("Monday, November 23", "2026-11-23", "2025-11-23 2026-11-30"),
    ("on Mon 23 Nov 2026", "2026-11-23", "2026-11-30"),
    ("the Friday before last", "2026-11-20", "2026-11-27"),
    ("the Friday before Christmas", "2025-12-19 2026-12-18", "2026-11-27 2026-12-04 2025-12-18"),
    ("the Monday after Christmas 2025", "2025-12-29", "2026-11-23 2026-11-30 2026-01-05"),
    ("the weekend before Christmas 2025", "2025-12-20 2025-12-21", "2026-11-28 2025-12-23 2025-12-14"),
    ("What did we do the Sunday after Halloween?", "2026-11-01", "2026-11-22 2026-11-08 2026-11-28"),
    ("the Monday after May 5, 2026", "2026-05-11", "2026-05-06 2026-11-23"),
    ("the Monday following May 5, 2026", "2026-05-11", "2026-05-05 2026-11-23"),
    ("since the Friday before Christmas 2025", "2025-12-19 2026-11-28", "2025-12-18"),
    ("between the Friday before Christmas 2025 and 2026-01-02", "2025-12-19 2026-01-02", "2025-12-18 2026-01-03"),
    ("What happened on Friday before the meeting?", "2026-11-27", "2026-11-20"),
    ("What was agreed the Friday after lunch?", "2026-11-27", "2026-11-20"),
    ("two Fridays ago", "2026-11-20", "2026-11-27"),
    ("three weeks ago on Tuesday", "2026-11-03", "2026-11-24 2026-11-07"),
    ("a week ago today", "2026-11-21", "2026-11-20 2026-11-28"),
    ("What happened on the day after Nov 23?", "2026-11-24", "2026-11-23 2026-11-25"),
    ("two days before 2026-03-01", "2026-02-27", "2026-02-26 2026-02-28"),
    ("the 3 days before May 3, 2026", "2026-04-30 2026-05-02", "2026-05-03 2026-04-29"),
    ("three days before yesterday", "2026-11-24", "2026-11-23 2026-11-26"),
    ("a week after 2026-11-09", "2026-11-16", "2026-11-09 2026-11-25"),
    ("What did we decide prior to June 2025?", "2025-05-31", "2025-06-01"),
    ("What happened between Monday and Wednesday last week?", "2026-11-16 2026-11-18", "2026-11-19 2026-11-23"),
    ("the night before last", "2026-11-26", "2026-11-27"),
    ("twenty days ago", "2026-11-08", "2026-11-09"),
    ("in the last thirty days", "2026-10-29", "2026-10-28"),
    ("in the last fortnight", "2026-11-28 2026-11-14", "2026-11-13"),
    ("half a year ago", "2026-05-28", "2026-11-01 2025-11-28"),
    ("a year and a half ago", "2025-05-28", "2025-11-28"),
    ("Nov '25", "2025-11-01", "2026-11-01"),
    ("20261123", "2026-11-23", "2026-11-22"),
    ("11-23-2026", "2026-11-23", "2026-11-22"),
    ("What did I do on Christmas Eve?", "2025-12-24", "2025-12-25"),
    ("last Halloween", "2026-10-31", "2025-10-31"),
    ("New Year's Eve 2024", "2024-12-31", "2025-01-01"),
)  # fmt: skip
NO_TIMES: Final = (
    "May I come in?",
    "When may I go?",
    "When May I leave?",
    "they march on",
    "March on Washington",
    "the March on Washington",
    "wait a second",
    "the second deploy",
    "Python 3.11",
    "Python 3.11.",
    "We use 3.11. It works",
    "10/12 tests pass",
    "3/4 of users",
    "the 20th century",
    "the 3rd attempt",
    "the 20th floor",
    "version 1.2.26",
    "10.12.2024.1 is up",
    "port 8080",
    "What does Jan like?",
    "every Monday",
    "on Mondays",
    "weekends",
    "12023-05",
    "31 February",
    "2026-13-45",
    "HTTP/2",
    "24/7 support",
    "a week",
    "took three days",
    "done in 3 days",
    "two days of work",
    "ticket 47",
    "A4",
    "Sun Microsystems",
    "sat down",
    "wed in haste",
    "the last day of school",
    "last name",
    "next steps",
    "this commit",
    "24 hours",
    "0.28.0",
    "v2026.11",
    "e.g. 1/2 cup",
    "192.168.10.12",
    "the last commit",
    "week of tests",
    "mar the finish",
    "I sep the file",
    "dec 0x11",
    "what may come?",
    "week days",
    "the spring in the mattress",
    "How do I configure beans in Spring?",
    "What is new in spring?",
    "in spring boot we use",
    "use spring-security by spring",
    "in winter coats",
    "the last fall from the ladder",
    "the last fall",
    "before the fall",
    "the next fall detection sensor",
    "this spring is under tension",
    "current spring configuration",
    "fall back to IPv4",
    "summer school",
    "first half of the file",
    "the end of the day",
    "by the end of it",
    "mid-air",
    "early adopters",
    "the H1 tag",
    "H2 in memory database",
    "20260230",
    "took half a year",
    "two Fridays",
    "the day before the release",
    "prior to merging",
    "the following Monday",
    "the Friday before the release",
    "the weekend after the offsite",
    "Christmas party budget",
    "first quarter of the game",
    "the last quarter mile",
    "What was the last minute change?",
    "the next day shipping option",
    "the next day",
    "the last week of the project",
    "Who is August?",
    "What does April do?",
    "What did April do?",
    "they march 2000 miles",
    "may 5 people come?",
    "Feb 30",
    "Feb 30, 2025",
    "29 February 2025",
    "30 Feb 2025",
    "the ratio of 3/4",
    "for 3/4 of users",
    "Black Friday",
    "What did I buy on Good Friday?",
    "Friday night lights",
    "weekend shift",
    "thirty minutes",
)  # fmt: skip


@pytest.mark.promise("KN-6")
@pytest.mark.parametrize(("text", "inside", "outside"), READ)
def test_a_time_is_read_as_people_mean_it(text: str, inside: str, outside: str) -> None:
    times = read_times(text, TODAY)
    assert [day for day in inside.split() if not times.hold(date.fromisoformat(day))] == []
    assert [day for day in outside.split() if times.hold(date.fromisoformat(day))] == []


@pytest.mark.promise("KN-6")
@pytest.mark.parametrize("text", NO_TIMES)
def test_what_only_looks_like_a_time_is_none(text: str) -> None:
    assert read_times(text, TODAY).spans == ()


STARTS: Final = (
    "in|on|the|last|next|this|past|3|two|a couple of|days|weeks|ago|Monday|weekend|11/23|23.11.|2026-11-23|May|Q3|"
    "early|end of|first|summer|winter 1999|half a|day|after|week of|H1 2025|Christmas|before last|hundred|"
    "Fridays ago|year|"
    "week 53|and|since|before|between|20th|from now|29 February|0"
)


@given(
    st.lists(st.sampled_from(STARTS.split("|")), max_size=9).map(" ".join), st.dates(date(1900, 1, 1), date(2100, 1, 1))
)
def test_no_row_of_words_is_too_odd(text: str, today: date) -> None:
    for span in (
        *read_times(text, today).spans,
        *Question(text, datetime(today.year, today.month, today.day, tzinfo=ZoneInfo("Asia/Tokyo"))).days,
    ):
        assert span.first <= span.last


@pytest.mark.parametrize(
    ("text", "is_only"),
    [
        ("What did I do yesterday?", True), ("what happened last week", True), ("anything on Friday?", True),
        ("2026-11-23", True), ("What's on my calendar tomorrow?", True), ("What did we work on in Q3?", True),
        ("What did Ada do yesterday?", False), ("Why was checkout down in October?", False), ("What did I do?", False),
        ("", False), ("the deploy of last Friday", False),
        ("What did I do since Monday?", True), ("what happened after Nov 20", True), ("anything before March?", True),
        ("What did I do between Monday and Wednesday?", True), ("since yesterday", True), ("as of yesterday", True),
        ("who did I meet yesterday?", True), ("what did I do from Monday through Wednesday?", True),
        ("where did I go last week?", True), ("after the offsite yesterday", False), ("since 2024", True),
        ("2024", False), ("1984", False), ("2026-03-15", True), ("Q3 2026", False), ("2024 to do", False),
        ("What happened in 2024?", True), ("notes of 2024", True), ("port 1984", False),
        ("do it today", False), ("go on, do all of it today", False), ("make it now, today please", False),
        ("can you finish this by Friday", False), ("ok, now do all of that today", False),
        ("do I have anything today?", True), ("What did we do that day, 2026-03-15?", True),
        ("What did I do on Monday the 23rd?", True), ("what happened two days before Nov 23", True),
        ("what did we do in early May?", True), ("the rent before the end of May", False),
    ],
)  # fmt: skip
@pytest.mark.promise("KN-6")
def test_a_question_that_holds_little_but_a_time_is_told_from_others(text: str, is_only: bool) -> None:
    assert Question(text, datetime(2026, 11, 28, 12, tzinfo=ZoneInfo("UTC"))).is_only_of_time is is_only


@pytest.mark.promise("KN-6")
def test_a_day_of_leap_years_is_the_last_or_the_next_there_is() -> None:
    day, month = (
        Question(f"What did I do {when}?", datetime(2026, 11, 28, tzinfo=ZoneInfo("UTC"))).days
        for when in ("on 29 February", "in February")
    )
    assert day == (DaySpan(date(2024, 2, 29), date(2024, 2, 29)),)
    assert month == (DaySpan(date(2026, 2, 1), date(2026, 2, 28)),)


@pytest.mark.promise("KN-6")
def test_today_is_a_day_of_the_zone() -> None:
    late = datetime(2026, 11, 28, 23, 30, tzinfo=ZoneInfo("UTC"))
    days = [Question("What did I do today?", late.astimezone(ZoneInfo(zone))).days for zone in ("UTC", "Asia/Tokyo")]
    assert days == [
        (DaySpan(date(2026, 11, 28), date(2026, 11, 28)),),
        (DaySpan(date(2026, 11, 29), date(2026, 11, 29)),),
    ]


@pytest.mark.promise("KN-7")
@pytest.mark.parametrize(
    ("text", "spelled"),
    [
        ("on March 15, 2024", "2024-03-15|15.03.2024|3/15/2024|March|15"),
        ("on 2024-03-15", "March|Mar|15.3.2024|3/15/2024"),
        ("15.03.2024", "2024-03-15|March|3/15/2024"),
        ("on 23 Nov", "November|23.11.|11/23"),
        ("in October 2026", "2026-10|10/2026"),
        ("at 3 pm", "15:00|3pm|3 p.m."),
        ("3:30pm", "15:30|3:30 pm"),
        ("18:00", "6 pm|6pm|18 Uhr"),
        ("7:50", "07:50|7:50 am"),
        ("07:50", "7:50|7:50am|7:50 am"),
        ("12 am", "00:00|0:00"),
    ],
)
def test_dates_and_times_of_day_are_spelled_in_the_other_ways(text: str, spelled: str) -> None:
    question = Question(text)
    spellings = {question.spellings, *(way for writing in question.writings for way in writing.others)}
    assert [spelling for spelling in spelled.split("|") if not any(spelling in each for each in spellings)] == []


@pytest.mark.parametrize(
    "text",
    [
        "Where does Ada live?",
        "Python 3.11",
        "in 2024",
        "port 80",
        "yesterday",
        "v1.2.3",
        "10.20.30.42",
        "I am 5",
        "3:2",
        "25:00",
    ],
)
def test_what_has_one_spelling_gets_no_other(text: str) -> None:
    assert Question(text, datetime(2026, 11, 28, 12, tzinfo=ZoneInfo("UTC"))).spellings == ""
