"""DaySpans of whole days: of one year or of every. Pure."""

from calendar import isleap, monthrange
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Final, NamedTuple, TypeAlias

MONTHS: Final = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
WEEKDAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
EVER, NEVER = date.min, date.max
ANY_YEAR: Final = 2000  # in which spans of every year are kept: it has a 29 February
LEAP_YEARS_APART: Final = 8  # at most
DAY: Final = timedelta(days=1)
LONG: Final = {
    "minute": 0, "hour": 0, "day": 1, "week": 7, "weekend": 7, "fortnight": 14, "month": 30, "quarter": 91, "year": 365,
}  # fmt: skip


# The days of a unit, and those to each side of a day that is so many units away: a speaker of "two weeks ago" counts
# from today, and means neither a calendar week nor one day. Other units, and several years, are those of the calendar.
ABOUT: Final = {"week": (7.0, 3), "fortnight": (14.0, 3), "month": (30.44, 15), "year": (365.25, 45)}


class Tense(NamedTuple):
    """Whether a question may be about what was, and about what will be."""

    past: bool
    future: bool


@dataclass(frozen=True, slots=True)
class DaySpan:
    """From its first day to its last. `every_year`: the same part of any year."""

    first: date
    last: date
    every_year: bool = False

    def holds(self, day: date) -> bool:
        """Say whether a day lies in it."""
        if not self.every_year:
            return self.first <= day <= self.last
        return self.first <= day.replace(year=ANY_YEAR) <= self.last

    def in_year(self, year: int) -> "DaySpan":
        """Return it in a year, if it is of every year."""
        return DaySpan(_in_year(self.first, year), _in_year(self.last, year)) if self.every_year else self

    def around(self, today: date, tense: Tense) -> tuple["DaySpan", ...]:
        """Return it as the last that has begun, the next, or both, as the tense wants."""
        if not self.every_year:
            return (self,)
        before = (
            self.in_year(today.year - ago) for ago in range(LEAP_YEARS_APART + 1) if self._is_in(today.year - ago)
        )
        after = (self.in_year(today.year + add) for add in range(LEAP_YEARS_APART + 1) if self._is_in(today.year + add))
        begun = next(span for span in before if span.first <= today)
        coming = next(span for span in after if span.last >= today)
        return by_tense(begun, coming, tense)

    def _is_in(self, year: int) -> bool:
        """Say whether a year has its first day, which may be 29 February."""
        return isleap(year) or (self.first.month, self.first.day) != (2, 29)


def _in_year(day: date, year: int) -> date:
    return day.replace(year=year, day=min(day.day, monthrange(year, day.month)[1]))


DaySpans: TypeAlias = tuple[DaySpan, ...]


def by_tense(begun: DaySpan, coming: DaySpan, tense: Tense) -> DaySpans:
    """Return what has begun, what comes, or both, by what a question may be about."""
    if begun == coming or not tense.future:
        return (begun,)
    return (coming,) if not tense.past else (begun, coming)


def is_year(span: DaySpan) -> bool:
    """Say whether a span is a whole year or more, and ends."""
    return span.last - span.first > timedelta(days=363) and span.first != EVER and span.last != NEVER


def days_of(year: int | None, month: int, day: int, through: int | None = None) -> DaySpans:
    """Return the span of a day, or of some, of one year or of every; nothing where there is no such day."""
    try:
        first = date(year or ANY_YEAR, month, day)
        last = first if through is None else first.replace(day=through)
    except ValueError:
        return ()
    return (DaySpan(first, last, every_year=year is None),) if first <= last else ()


def months_of(year: int | None, month: int, count: int = 1) -> DaySpans:
    """Return so many months, of one year or of every."""
    if not 1 <= month <= 12:
        return ()
    first = date(year or ANY_YEAR, month, 1)
    return (DaySpan(first, month_after(first, count) - DAY, every_year=year is None),)


def month_after(first: date, count: int) -> date:
    """Return the first day of the month so many months after one."""
    year, month = divmod(first.year * 12 + first.month - 1 + count, 12)
    return date(min(max(year, 1), 9999), month + 1, 1)


def period(unit: str, today: date, ahead: int) -> DaySpan:
    """Return the day, week, month, quarter or year so many after the one that has today in it."""
    if unit in {"minute", "hour", "day"}:
        return DaySpan(today + ahead * DAY, today + ahead * DAY)
    if unit in {"week", "fortnight", "weekend"}:
        monday = today + (7 * ahead * (2 if unit == "fortnight" else 1) - today.weekday()) * DAY
        return DaySpan(monday + 5 * DAY if unit == "weekend" else monday, monday + 6 * DAY)
    count = {"month": 1, "quarter": 3, "year": 12}[unit]
    first = date(today.year, (today.month - 1) // count * count + 1, 1)
    first = month_after(first, count * ahead)
    return DaySpan(first, month_after(first, count) - DAY)


def away(unit: str, today: date, first: int, last: int) -> DaySpan:
    """Return what is from so many units after today to so many: "two weeks ago" is the week around that day."""
    if unit not in ABOUT or (unit == "year" and max(abs(first), abs(last)) > 1):
        return DaySpan(period(unit, today, first).first, period(unit, today, last).last)
    days, around = ABOUT[unit]
    return DaySpan(today + (round(first * days) - around) * DAY, today + (round(last * days) + around) * DAY)
