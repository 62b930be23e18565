"""Find the times that a question names: dates in their usual spellings, "two weeks ago", "last Friday". Pure; English.

A span is of whole days, both ends included, in the caller's zone. A time in a question lifts the memories from it,
and hides none; where the question asks of nothing else it decides, see `Question.is_only_of_time`.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Final, NamedTuple

from engramq.workers.search.spans import DAY, EVER, NEVER, DaySpan, DaySpans, Tense, is_year
from engramq.workers.search.time_parts import LOOKED_BACK, narrow, weekday_beside
from engramq.workers.search.time_rules import (
    COUNTED,
    DATES,
    FIXED,
    NUMBERS,
    OF_WEEKS,
    RULES_BY_START,
    TOKEN,
    shift_spans,
)  # fmt: skip
from engramq.workers.search.time_words import Match

_BEFORE: Final = re.compile(r"(?:\b(as\s+of|prior\s+to|[a-z]+)\s+)?(?:the\s+)?\Z", re.IGNORECASE)
_PAST: Final = re.compile(
    r"\b(?:did|was|were|had|happened|went|been|done|worked|said|told|last|since|ago)\b", re.IGNORECASE
)
_FUTURE: Final = re.compile(
    r"\b(?:will|shall|going\s+to|plan(?:s|ned)?|scheduled?|upcoming|due|have\s+to|need\s+to|next|coming|is|are|by)\b",
    re.IGNORECASE,
)
_DASHES: Final = frozenset("-–—")
_FROM: Final = frozenset(["between", "from"])
_TO: Final = frozenset(["and", "to", "until", "till", "through"])
_SIDES: Final = frozenset(["before", "prior to", "after", "following"])  # of a day, on which another is
_DIRECTIONS: Final = _FROM | _TO | _SIDES | {"as of", "since", "by"}
# "The Friday before the release" is none of this week; "the Friday after lunch" is.
_BESIDE_ELSE: Final = re.compile(
    r"\s+(?:before|prior\s+to|after|following)\b(?!\s+(?:breakfast|lunch|dinner|noon|school|work|\d))", re.IGNORECASE
)
_THE: Final = re.compile(r"\bthe\s+\Z", re.IGNORECASE)


class NamedTime(NamedTuple):
    """A time that a text names: where, by which word before it (since, until, between), and what it spans."""

    start: int  # of that word, if there is one
    end: int
    how: str
    spans: DaySpans
    dates: DaySpans  # as they are spelled out, by month and mostly day
    is_sure: bool  # neither a year nor a quarter alone, which may as well be the name of something
    is_next: bool  # to the time before: nothing else stands between
    is_of_week: bool  # a weekday or a weekend, which the day after it may choose
    needs_day: bool  # such a one that something else chooses


@dataclass(frozen=True, slots=True)
class Times:
    """The times that a text names; `rest` is the text without them. `dates`: those that it spells out.

    `are_sure`: any of them is more than a number that may be a year. `written`: single dates as the text has them.
    """

    spans: DaySpans
    rest: str
    dates: DaySpans
    tense: Tense
    are_sure: bool
    written: tuple[str, ...] = ()

    def hold(self, day: date) -> bool:
        """Say whether a day lies in one of the spans."""
        return any(span.holds(day) for span in self.spans)


def read_times(text: str, today: date | None) -> Times:
    """Return the times that a text names; None for today: those that it needs no calendar for."""
    tense = Tense(_PAST.search(text) is not None, _FUTURE.search(text) is not None)
    tense = tense if tense.past != tense.future else Tense(past=True, future=True)
    named = _choose_weekdays(_find_named(text, today, tense), today, tense)
    rest, end = [], 0
    for each in named:
        rest.append(text[end : each.start])
        end = each.end
    dates = tuple(span for each in named for span in each.dates)
    are_sure = any(each.is_sure for each in named)
    whole = [each for each in named if len(each.dates) == 1 and each.dates == each.spans and not each.how]
    written = tuple(text[each.start : each.end] for each in whole)
    return Times(_join(named, today, tense), " ".join([*rest, text[end:]]), dates, tense, are_sure, written)


def _choose_weekdays(named: Iterator[NamedTime], today: date | None, tense: Tense) -> list[NamedTime]:
    """Return times without those that only choose a weekday: "the Friday before Christmas" is one day."""
    chosen: list[NamedTime] = []
    for each in named:
        weekday = chosen[-1] if chosen and each.is_next and each.how in _SIDES and chosen[-1].is_of_week else None
        if weekday is None:
            chosen.append(each)
            continue
        like, is_before = weekday.spans[0], each.how in {"before", "prior to"}
        days = [day for span in each.spans for day in (span.around(today, tense) if today else (span,))]
        spans = tuple(weekday_beside(like, day, is_before=is_before) for day in days)
        chosen[-1] = weekday._replace(end=each.end, spans=spans, is_of_week=False, needs_day=False)
    return [each for each in chosen if not (each.needs_day or (each.is_of_week and each.how == "following"))]


def _join(named: Sequence[NamedTime], today: date | None, tense: Tense) -> DaySpans:
    """Return what the times of a text span together: ranges, and days of the year that stands elsewhere."""
    years = [span for each in named for span in each.spans if not each.how and is_year(span)]
    spans: list[DaySpan] = []
    for place, each in enumerate(named):
        before = named[place - 1] if place else None
        if before is not None and each.how in _TO and (before.how in _FROM or (each.is_next and each.how != "and")):
            pairs = zip(before.spans, each.spans, strict=False)
            are_days = not (before.dates or each.dates)
            ranges = [_range(_earlier(first, last) if are_days else first, last, today, tense) for first, last in pairs]
            spans[-len(before.spans) :] = ranges
            continue
        for span in each.spans:
            if span.every_year and years and not each.how:
                spans += [span.in_year(year.first.year) for year in years]
            elif not (years and is_year(span) and any(other.every_year for one in named for other in one.spans)):
                spans.append(_direct(each.how, span, today, tense))
    return tuple(spans)


def _find_named(text: str, today: date | None, tense: Tense) -> Iterator[NamedTime]:
    end = -1
    for token in TOKEN.finditer(text):
        start = token.start()
        if start < end or not (rules := RULES_BY_START.get("0" if token[0].isdigit() else token[0].lower())):
            continue
        for pattern, read in rules:
            if (found := pattern.match(text, start)) is None:
                continue
            before, word = _word_before(text, start)
            is_known = today is not None or read in FIXED
            if is_known and (read_spans := read(Match(found, today or EVER, tense, word))):
                first, spans = _beside(text, max(end, 0), start, read_spans, today, tense)
                if first < start:
                    start, (before, word) = first, _word_before(text, first)
                how = "to" if text[max(end, 0) : start].strip() in _DASHES else word if word in _DIRECTIONS else ""
                begin = before.start(1) if before and how and how == word else start
                is_next = end >= 0 and not text[end:begin].strip(" -–—")
                end, is_of_week = found.end(), read in OF_WEEKS
                yield NamedTime(
                    begin,
                    end,
                    how,
                    spans,
                    read_spans if read in DATES else (),
                    bool(how) or read not in NUMBERS,
                    is_next,
                    is_of_week,
                    is_of_week
                    and _THE.search(text, max(0, start - 8), start) is not None
                    and _BESIDE_ELSE.match(text, end) is not None,
                )
                break


def _word_before(text: str, start: int) -> tuple[re.Match[str] | None, str]:
    before = _BEFORE.search(text, max(0, start - 20), start)
    return before, " ".join((before[1] or "").lower().split()) if before else ""


def _beside(text: str, end: int, start: int, spans: DaySpans, today: date | None, tense: Tense) -> tuple[int, DaySpans]:
    """Return where a time begins with what counts from it or takes a part of it, and what is meant by both."""
    first, spans = narrow(text, start, spans, today, tense)
    counted = None if today is None else COUNTED.search(text, max(end, first - LOOKED_BACK), first)
    if counted is None or today is None or (shifted := shift_spans(counted, spans, today, tense)) == spans:
        return first, spans
    return counted.start(), shifted


def _range(first: DaySpan, last: DaySpan, today: date | None, tense: Tense) -> DaySpan:
    """Return what lies between two times, both included: "Dec 30 to Jan 2" goes over the end of a year."""
    if last.every_year and not first.every_year:
        year = first.first.year
        last = last.in_year(year if last.in_year(year).last >= first.first else year + 1)
    last = _dated(last, today, tense)
    if first.every_year:
        year = last.first.year
        first = first.in_year(year if first.in_year(year).first <= last.last else year - 1)
    return DaySpan(min(first.first, last.last), max(first.first, last.last))


def _earlier(first: DaySpan, last: DaySpan) -> DaySpan:
    """Return the day before the last: "between Monday and Wednesday" may begin in the week before."""
    days = (first.first - last.first).days
    is_week = 0 < days < 7 and first.first == first.last and last.first == last.last
    return DaySpan(first.first - 7 * DAY, first.last - 7 * DAY) if is_week else first


def _direct(how: str, span: DaySpan, today: date | None, tense: Tense) -> DaySpan:
    if how in {"as of", "until", "till", "by"}:
        last = _dated(span, today, tense).last
        return DaySpan(today if how == "by" and today is not None and today <= last else EVER, last)
    if how in {"before", "prior to"}:
        first = _dated(span, today, tense).first
        return DaySpan(EVER, first - DAY if first > EVER else first)
    if how == "since":
        return DaySpan(_dated(span, today, Tense(past=True, future=False)).first, NEVER)
    if how == "after":
        last = _dated(span, today, Tense(past=True, future=False)).last
        return DaySpan(last + DAY if last < NEVER else last, NEVER)
    return span


def _dated(span: DaySpan, today: date | None, tense: Tense) -> DaySpan:
    """Return a span of every year as one of a year: the last that has begun, unless the next is meant."""
    return span if today is None else span.around(today, tense)[0]
