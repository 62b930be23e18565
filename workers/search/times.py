"""Find the times that a question names: days, months, years, ranges, and such as "two weeks ago". Pure; English.

A time in a question lifts the memories from it, and hides none. A span has its first instant in it, and its last not.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

MONTHS: Final = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
EVER: Final = datetime.min.replace(tzinfo=UTC)
NEVER: Final = datetime.max.replace(tzinfo=UTC)

# May and March are verbs too: as months they are capitalised, and May does not begin the question.
_SURE: Final = "|".join(month for month in MONTHS if month not in {"May", "March"})
_MONTH: Final = rf"(?:(?<!^)\bMay\b|\bMarch\b|\b(?i:{_SURE})\b)"
_YEAR: Final = r"\b(?:19|20)\d\d\b"
_DAY: Final = r"\b\d{1,2}(?:st|nd|rd|th)?\b"
_UNIT: Final = r"(?:day|week|month|year)"
_TIME: Final = re.compile(
    rf"""(?:\b(?P<how>(?i:as\ of|since|after|before|until|till|by|between|from|and|to))\s+(?:the\s+)?)?
    (?: (?P<iso>\b(?:19|20)\d\d-\d\d-\d\d\b)
      | (?P<day>{_DAY})\s+(?:of\s+)?(?P<month>{_MONTH})(?:,?\s+(?P<year>{_YEAR}))?
      | (?P<month_>{_MONTH})\s+(?P<day_>{_DAY})(?:,?\s+(?P<year_>{_YEAR}))?
      | (?P<only>{_MONTH})(?:,?\s+(?:of\s+)?(?P<of>{_YEAR}))?
      | (?P<bare>{_YEAR})(?!-\d)
      | \b(?P<which>(?i:last|this|past))\s+(?P<unit>(?i:{_UNIT}))\b
      | \b(?P<many>\d{{1,3}}|(?i:an?))\s+(?P<units>(?i:{_UNIT}))s?\s+(?i:ago)\b
      | \b(?P<name>(?i:yesterday|today))\b )""",
    re.ASCII | re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Span:
    """From `begin` until `end`, which is excluded. `every_year`: the same part of any year."""

    begin: datetime
    end: datetime
    every_year: bool = False

    def holds(self, moment: datetime) -> bool:
        """Say whether a moment lies in it."""
        if not self.every_year:
            return self.begin <= moment < self.end
        if (moment.month, moment.day) == (2, 29):
            moment -= timedelta(days=1)
        return self.begin <= moment.replace(year=self.begin.year) < self.end


def spans_in(text: str, now: datetime | None) -> tuple[Span, ...]:
    """Return the spans that a question names; None for now: those that it needs no clock for."""
    named = list(_named(text, now))
    years = [span for how, span in named if not how and _is_year(span)]
    spans: list[Span] = []
    for place, (how, span) in enumerate(named):
        before = named[place - 1] if place else None
        if before is not None and before[0] in {"between", "from"} and how in {"and", "to", "until", "till"}:
            begin = before[1] if not before[1].every_year else _in_year(before[1], span.begin.year)
            spans[-1] = Span(begin.begin, _dated(span, now).end)
        elif span.every_year and years and how is None:
            spans += [_in_year(span, year.begin.year) for year in years]
        elif not (years and _is_year(span) and any(other.every_year for _, other in named)):
            spans.append(_directed(how, span, now))
    return tuple(spans)


def is_about(moment: datetime, spans: Sequence[Span]) -> bool:
    """Say whether a moment lies in one of the spans."""
    utc = moment.astimezone(UTC)
    return any(span.holds(utc) for span in spans)


def _named(text: str, now: datetime | None) -> Iterator[tuple[str | None, Span]]:
    for match in _TIME.finditer(text):
        span = _absolute(match) or _relative(match, now)
        if span is not None:
            yield (match["how"] or "").lower() or None, span


def _absolute(match: re.Match[str]) -> Span | None:
    if match["iso"]:
        year, month, day = map(int, match["iso"].split("-"))
        return _days(year, month, day, every_year=False)
    if match["bare"]:
        return Span(_first(int(match["bare"])), _first(int(match["bare"]) + 1))
    name = match["month"] or match["month_"] or match["only"]
    if not name:
        return None
    month = MONTHS.index(name.capitalize()) + 1
    year_text = match["year"] or match["year_"] or match["of"]
    year = int(year_text) if year_text else LEAP_FREE
    if match["only"]:
        return Span(_first(year, month), _next_month(year, month), every_year=not year_text)
    day = int((match["day"] or match["day_"]).rstrip("stndrh"))
    return _days(year, month, day, every_year=not year_text)


LEAP_FREE: Final = 2001  # the year in which spans of every year are kept


def _relative(match: re.Match[str], now: datetime | None) -> Span | None:
    if now is None:
        return None
    today = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    if match["name"]:
        begin = today - timedelta(days=match["name"].lower() == "yesterday")
        return Span(begin, begin + timedelta(days=1))
    if match["which"] is None and match["units"] is None:
        return None
    if match["units"]:
        count = 1 if match["many"].lower() in {"a", "an"} else int(match["many"])
        return _unit(match["units"].lower(), today, count)
    return _unit(match["unit"].lower(), today, 0 if match["which"].lower() == "this" else 1)


def _unit(unit: str, today: datetime, back: int) -> Span:
    """Return the day, week, month or year so many before the one that has today in it."""
    if unit == "day":
        begin = today - timedelta(days=back)
        return Span(begin, begin + timedelta(days=1))
    if unit == "week":
        begin = today - timedelta(days=today.weekday() + 7 * back)
        return Span(begin, begin + timedelta(days=7))
    if unit == "year":
        return Span(_first(today.year - back), _first(today.year - back + 1))
    year, month = divmod(today.year * 12 + today.month - 1 - back, 12)
    return Span(_first(year, month + 1), _next_month(year, month + 1))


def _days(year: int, month: int, day: int, *, every_year: bool) -> Span | None:
    try:
        begin = datetime(year, month, day, tzinfo=UTC)
    except ValueError:  # there is no such day
        return None
    return Span(begin, begin + timedelta(days=1), every_year)


def _directed(how: str | None, span: Span, now: datetime | None) -> Span:
    if how in {"as of", "until", "till", "by"}:
        return Span(EVER, _dated(span, now).end)
    if how == "before":
        return Span(EVER, _dated(span, now).begin)
    if how == "since":
        return Span(_dated(span, now).begin, NEVER)
    if how == "after":
        return Span(_dated(span, now).end, NEVER)
    return span


def _dated(span: Span, now: datetime | None) -> Span:
    """Return a span of every year as the last one that has begun."""
    if not span.every_year or now is None:
        return span
    this = _in_year(span, now.astimezone(UTC).year)
    return this if this.begin <= now else _in_year(span, this.begin.year - 1)


def _in_year(span: Span, year: int) -> Span:
    if not span.every_year:
        return span
    begin = span.begin.replace(year=year)
    end = _next_month(year, begin.month) if span.end - span.begin > timedelta(days=1) else begin + timedelta(days=1)
    return Span(begin, end)


def _is_year(span: Span) -> bool:
    return span.end - span.begin > timedelta(days=364) and span.begin != EVER and span.end != NEVER


def _first(year: int, month: int = 1) -> datetime:
    return datetime(year, month, 1, tzinfo=UTC)


def _next_month(year: int, month: int) -> datetime:
    return _first(year + month // 12, month % 12 + 1)
