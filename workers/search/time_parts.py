"""Parts of times, and times counted from others: early May, the week of the 9th, a day before Friday. Pure; English."""

import re
from datetime import date
from typing import Final

from engramq.schemas.patterns import compile_late
from engramq.workers.search.spans import (
    DAY,
    EVER,
    LONG,
    NEVER,
    DaySpan,
    DaySpans,
    Tense,
    away,
)
from engramq.workers.search.time_words import find_weekday

PART_DAYS: Final = 28  # a shorter time has no early or late part
# What share of a time each word means, generously: nobody counts the days of "late October".
_PARTS: Final = {
    "early": (0.0, 0.4), "beginning": (0.0, 0.25), "start": (0.0, 0.25), "mid": (0.3, 0.7), "middle": (0.3, 0.7),
    "late": (0.6, 1.0), "end": (0.75, 1.0), "first half": (0.0, 0.496), "second half": (0.496, 1.0),
}  # fmt: skip
_PART: Final = compile_late(
    r"\b(?:the\s+)?(?:(early|mid|late)(?:\s+in)?[\s-]+|(beginning|start|middle|end|(?:first|second)\s+half)\s+of\s+)"
    r"(?:the\s+)?\Z",
    re.IGNORECASE,
)
_WEEK_OF: Final = compile_late(r"\b(?:the\s+)?week\s+(of|beginning|starting)\s+(?:on\s+)?(?:the\s+)?\Z", re.IGNORECASE)
_WEEKDAY: Final = compile_late(
    r"\b(Mon|Tue|Wed|Thu|Fri|Sat|Sun)(?:s|nes|rs?|ur)?(?:day)?\.?,?\s+(?:the\s+)?\Z", re.IGNORECASE
)
_BEFORE: Final = compile_late(r"\b(?:before|prior\s+to)\s+\Z", re.IGNORECASE)
_COUNTED: Final = (
    r"\b(?P<the>the\s+)?(?:{many}\s+)?{unit}s?\s+(?P<side>before|after|following|prior\s+to)\s+(?:the\s+)?\Z"
)
LOOKED_BACK: Final = 48  # characters before a time


def counted_pattern(many: str, unit: str) -> re.Pattern[str]:
    """Return what stands before a time from which others are counted, by how numbers and units are written."""
    return compile_late(_COUNTED.format(many=many, unit=unit), re.IGNORECASE)


def narrow(text: str, start: int, spans: DaySpans, today: date | None, tense: Tense) -> tuple[int, DaySpans]:
    """Return where a time begins with "early", "the week of" or "Monday the" before it, and what is meant by both."""
    looked_at = max(0, start - LOOKED_BACK)
    if found := _PART.search(text, looked_at, start):
        word = " ".join((found[1] or found[2]).lower().split())
        if word == "end" and _BEFORE.search(text, looked_at, found.start()):
            return found.start(), tuple(DaySpan(span.last, span.last, span.every_year) for span in spans)
        return found.start(), tuple(_part(span, *_PARTS[word]) for span in spans)
    if today is None or any(span.first != span.last for span in spans):
        return start, spans
    days = [each.first for span in spans for each in span.around(today, tense)]
    if found := _WEEK_OF.search(text, looked_at, start):
        first_days = [day - day.weekday() * DAY if found[1].lower() == "of" else day for day in days]
        return found.start(), tuple(DaySpan(day, day + 6 * DAY) for day in first_days)
    if found := _WEEKDAY.search(text, looked_at, start):
        named = [day for day in days if day.weekday() == find_weekday(found[1])]
        return found.start(), tuple(DaySpan(day, day) for day in named or days)
    return start, spans


def shift_span(unit: str, amount: tuple[int, int], span: DaySpan, *, is_before: bool, is_whole: bool) -> DaySpan:
    """Return the time so many units before or after another; `is_whole`: all that lies between, "the 3 days before"."""
    least, most = amount
    base = span.first if is_before else span.last
    if is_whole:
        days = most * LONG[unit] * DAY
        return DaySpan(base - days, base - DAY) if is_before else DaySpan(base + DAY, base + days)
    return away(unit, base, -most, -least) if is_before else away(unit, base, least, most)


def weekday_beside(like: DaySpan, day: DaySpan, *, is_before: bool) -> DaySpan:
    """Return the last weekday or weekend before a day, or the first after it, of the same kind as another."""
    days = like.last - like.first
    if is_before:
        last = day.first - ((day.first - like.last).days % 7 or 7) * DAY
        return DaySpan(last - days, last)
    first = day.last + ((like.first - day.last).days % 7 or 7) * DAY
    return DaySpan(first, first + days)


def _part(span: DaySpan, begin: float, end: float) -> DaySpan:
    days = (span.last - span.first).days + 1
    if span.first == EVER or span.last == NEVER or days < PART_DAYS:
        return span
    first, last = span.first + round(days * begin) * DAY, span.first + (round(days * end) - 1) * DAY
    return DaySpan(first, last, span.every_year)


def nth_of(month: DaySpan, number: int, what: str, weekday: int | None) -> DaySpans:
    """Return the first, second or (-1) last day, week, weekend or day of the week of a month; nothing where none is."""
    if weekday is None and what == "day":
        found = month.last if number < 0 else month.first + number * DAY
        return (DaySpan(found, found),)
    if weekday is None and what == "week":
        first = month.last - 6 * DAY if number < 0 else month.first + 7 * number * DAY
        return (DaySpan(first, first + 6 * DAY),)
    wanted = 5 if weekday is None else weekday  # a weekend begins on Saturday
    earliest = month.first + (wanted - month.first.weekday()) % 7 * DAY
    latest = month.last - (month.last.weekday() - wanted) % 7 * DAY
    first = latest if number < 0 else earliest + 7 * number * DAY
    return (DaySpan(first, first + DAY if weekday is None else first),) if first <= month.last else ()
