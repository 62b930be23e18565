"""The rules by which times are read: patterns, and what each means on a certain day. Pure; English.

A rule that finds no time (31 February, "10/12 tests pass") returns nothing. What a day or a month without a year means
hangs on the tense of the question: what was, what will be, else either.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from typing import Final, TypeAlias

from engramq.workers.search import spans
from engramq.workers.search.spans import DAY, LONG, MONTHS, WEEKDAYS, Span, Spans, Tense, by_tense, month_after, period

_MONTH: Final = (
    r"(?P<month>Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|"
    r"Sept?(?:ember)?|Oct(?:ober)?|Nov(?:ember)?|Dec(?:ember)?)\b\.?"
)
_YEAR: Final = r"(?P<year>(?:19|20)\d\d)(?!\d|-\d)"
_DAY: Final = (
    r"(?P<day>\d{1,2})(?P<th>st|nd|rd|th)?(?:\s*(?:-|–|to|until|through|and)\s*(?P<through>\d{1,2})(?:st|nd|rd|th)?)?"
)
_WEEKDAY: Final = r"(?P<weekday>Mon|Tues?|Wed(?:nes)?|Thu(?:rs?)?|Fri|Sat(?:ur)?|Sun)(?P<full>day)?(?P<plural>s)?\b"
_UNIT: Final = r"(?P<unit>minute|hour|day|weekend|week|fortnight|month|quarter|year)"
_NUMBERS: Final = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
)  # fmt: skip
# How many a word means, at least and at most.
_AMOUNTS: Final = {word: (count, count) for count, word in enumerate(_NUMBERS)} | {
    "a": (1, 1), "an": (1, 1), "couple": (2, 3), "few": (2, 5), "several": (3, 7),
}  # fmt: skip
_MANY: Final = (
    rf"(?:(?:a\s+|the\s+)?(?P<many>\d{{1,4}}|couple|few|several|{'|'.join(_NUMBERS)})(?:\s+of)?|(?P<one>an?))"
)
_ORDINALS: Final = ("first", "second", "third", "fourth")

# Words before a date that may as well be a fraction, and before a short name of a month.
_BEFORE_DATES: Final = "on since until till before after by in during from between am vom of for due"
_DATING: Final = frozenset(_BEFORE_DATES.split())
_EARLY: Final = "in since until till during last this next early mid late of"
_BEFORE_MONTHS: Final = frozenset(_EARLY.split())
_DOING: Final = frozenset(("do", "did", "done", "happened", "happening", "happens", "happen"))
# What follows "May" where that is a verb.
_VERB: Final = re.compile(r"\s+(?:I|we|you|they|he|she|it|be|have|not|also|the|this|that)\b", re.IGNORECASE)
_NUMBERED: Final = re.compile(r"\d(?:st|nd|rd|th)?\s+(?:of\s+)?\Z", re.IGNORECASE)
_NO_NOUN: Final = re.compile(
    r"\s*(?:\Z|[?!,;:)]|\.(?!\d)|(?:and|or|to|until|at|in|with|did|do|was|were|is|are|I|we|you|they|he|she|what)\b)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Match:
    """A match of a rule. `before`: the word before it, in lower case. `asked_on`: for rules that are not FIXED."""

    found: re.Match[str]
    asked_on: date
    tense: Tense
    before: str

    def __getitem__(self, name: str) -> str:
        """Return what a group found; "" where it found nothing, or the rule has no such group."""
        return self.found.groupdict().get(name) or ""

    def number(self, name: str) -> int:
        """Return the number that a group found, 0 where it found none."""
        return int(self[name] or 0)

    @property
    def year(self) -> int | None:
        text = self["year"] or self["year_"]
        return None if not text else int(text) + (0 if len(text) > 2 else 2000 if int(text) < 50 else 1900)

    @property
    def text(self) -> str:
        return self.found[0]

    @property
    def after(self) -> str:
        return self.found.string[self.found.end() : self.found.end() + 20]

    @property
    def is_whole(self) -> bool:
        return len(self.found[0]) >= len(self.found.string.strip(" ?!.,"))


def _amount(match: Match) -> tuple[int, int] | None:
    """Return how many are meant, at least and at most; None where that is no time that anybody names."""
    text = (match["many"] or match["one"]).lower()
    least, most = _AMOUNTS[text] if text in _AMOUNTS else (int(text), int(text))
    return (least, most) if most * LONG[_unit(match)] < 40_000 else None


def _unit(match: Match) -> str:
    return match["unit"].lower()


def _read_day(match: Match) -> Spans:
    """Read a date of numbers: 2026-11-23, 23.11.2026, 11/23/2026, or 23/11/2026 where only that can be meant."""
    return spans.days_of(match.year, match.number("m"), match.number("d"))


def _read_slashed(match: Match) -> Spans:
    """Read 11/23 and 11/23/2026; 3/4/2026 is both a day in March and one in April."""
    one, other, year = match.number("m"), match.number("d"), match.year
    if year is None and not (match.before in _DATING | _DOING or match.is_whole):
        return ()
    return (*spans.days_of(year, one, other), *(spans.days_of(year, other, one) if one != other else ()))


def _read_dotted(match: Match) -> Spans:
    """Read 23.11. in a sentence that goes on, or after "on"; 3.11 is a version."""
    return (
        spans.days_of(None, match.number("m"), match.number("d")) if match.before in _DATING or match.is_whole else ()
    )


def _read_month_day(match: Match) -> Spans:
    month, day, year = _month(match), match.number("day"), match.year
    sure = match["th"] or year or match.before in _DATING or match["month"][:1].isupper()
    return spans.days_of(year, month, day, match.number("through") or None) if sure else ()


def _read_month(match: Match) -> Spans:
    """Read a month alone. May and March are verbs too, Jan is a name, and others are written with a capital."""
    name, year = match["month"], match.year
    if _NUMBERED.search(match.found.string, max(0, match.found.start() - 12), match.found.start()):
        return ()  # 31 February
    dating = match.before in _BEFORE_MONTHS
    if year is None and not (dating and (name[:1].isupper() or match.before != "of")):
        is_full = name.capitalize() in MONTHS
        if name.lower() in {"may", "march", "mar", "jan"} and (
            not name[:1].isupper() or not is_full or _VERB.match(match.after) or match.found.start() == 0
        ):
            return ()
        if not is_full and not name[:1].isupper():
            return ()
        if name.lower() == "march" and re.match(r"\s+on\b", match.after):
            return ()
    if year is not None and not name[:1].isupper() and name.lower() in {"may", "march"} and not dating:
        return ()
    return spans.months_of(year, _month(match))


def _read_numbered_month(match: Match) -> Spans:
    """Read 2026-11 and 11/2026."""
    return spans.months_of(match.year, match.number("m"))


def _month(match: Match) -> int:
    name = match["month"][:3].capitalize()
    return next(number for number, month in enumerate(MONTHS, 1) if month.startswith(name))


def _read_quarter(match: Match) -> Spans:
    number = match["q"] or str(_ORDINALS.index(match["nth"].lower()) + 1)
    return spans.months_of(match.year, 3 * int(number) - 2, 3)


def _read_week(match: Match) -> Spans:
    """Read week 47, by the calendar of ISO 8601; without a year it is the last that has begun, or the next."""
    number, year = match.number("w"), match.year
    try:
        if year is not None:
            monday = date.fromisocalendar(year, number, 1)
            return (Span(monday, monday + 6 * DAY),)
        weeks = [date.fromisocalendar(match.asked_on.isocalendar().year + add, number, 1) for add in (-1, 0, 1)]
    except ValueError:
        return ()
    begun = max(monday for monday in weeks if monday <= match.asked_on)
    coming = min(monday for monday in weeks if monday + 6 * DAY >= match.asked_on)
    return by_tense(Span(begun, begun + 6 * DAY), Span(coming, coming + 6 * DAY), match.tense)


def _read_near(match: Match) -> Spans:
    text = re.sub(r"\s+", " ", match.text.lower())
    ahead = next((days for word, days in _NEAR.items() if word in text), 0)
    return (Span(match.asked_on + ahead * DAY, match.asked_on + ahead * DAY),)


def _read_which(match: Match) -> Spans:
    """Read last week, this month, next year; "the past week" is the last seven days."""
    today, unit, which = match.asked_on, _unit(match), match["which"].lower()
    if which == "past" and unit == "weekend":
        return (period("weekend", today, -1 if today.weekday() < 5 else 0),)
    if which == "past" or not LONG[unit]:
        return (Span(today - LONG[unit] * DAY, today),)
    if unit == "day" and which not in {"this", "next"}:
        return ()  # "the last day of the trip"
    ahead = {"this": 0, "current": 0, "last": -1, "previous": -1}.get(which, 1)
    return (period(unit, today, ahead),)


def _read_next_but_one(match: Match) -> Spans:
    return (period(_unit(match), match.asked_on, -2 if match["but"].lower().startswith("before") else 2),)


def _read_weekend(match: Match) -> Spans:
    """Read "the weekend": the last one that has begun, or the next."""
    this = period("weekend", match.asked_on, 0)
    begun = this if this.first <= match.asked_on else period("weekend", match.asked_on, -1)
    return by_tense(begun, this, match.tense)


def _read_rolling(match: Match) -> Spans:
    """Read the last three days, the next two weeks, the last 24 hours: up to today, or from it."""
    amount = _amount(match)
    if amount is None:
        return ()
    unit, count = _unit(match), amount[1]
    days = LONG[unit] * count if LONG[unit] else -(-count // (24 if unit == "hour" else 1440))
    if match["which"].lower() in {"next", "coming", "following"}:
        return (Span(match.asked_on, match.asked_on + days * DAY),)
    return (Span(match.asked_on - days * DAY, match.asked_on),)


def _read_ago(match: Match) -> Spans:
    """Read "three days ago", "two weeks ago", "a year ago"."""
    amount = _amount(match)
    if amount is None:
        return ()
    unit, (least, most) = _unit(match), amount
    if not LONG[unit]:
        return (Span(match.asked_on - (most // 24 + 1) * (unit == "hour") * DAY, match.asked_on),)
    return (spans.away(unit, match.asked_on, -most, -least),)


def _read_ahead(match: Match) -> Spans:
    """Read "in three days", but not how long something took."""
    amount = _amount(match)
    if amount is None or not match.tense.future or not LONG[_unit(match)]:
        return ()
    return (spans.away(_unit(match), match.asked_on, *amount),)


def _read_weekday(match: Match) -> Spans:
    """Read on Monday, last Friday, this Thursday, Friday of next week; every Monday and on Mondays are none."""
    today, which = match.asked_on, match["which"].lower()
    week = match["week"].lower()
    if match["plural"] or match.before in {"every", "each", "any"} or which in {"every", "each"}:
        return ()
    is_full = match["full"] or which or week or match.before in {"on", "since", "until", "by", "before", "after"}
    if not is_full:
        return ()
    name = match["weekday"][:3].capitalize()
    number = next(place for place, day in enumerate(WEEKDAYS) if day.startswith(name))
    if week or which in {"this", "next"}:
        first = period("week", today, {"this": 0, "last": -1}.get(week or which, 1)).first
        return (Span(first + number * DAY, first + number * DAY),)
    begun, coming = today - (today.weekday() - number) % 7 * DAY, today + (number - today.weekday()) % 7 * DAY
    if which in {"last", "past", "previous"}:
        begun = coming = begun - 7 * DAY if begun == today else begun
    elif which in {"coming", "upcoming"}:
        begun = coming = coming + 7 * DAY if coming == today else coming
    return by_tense(Span(begun, begun), Span(coming, coming), match.tense)


def _read_day_of_month(match: Match) -> Spans:
    """Read "the 20th": of this month or of the one before or after, as the tense wants; the 20th floor is none."""
    today, day = match.asked_on, match.number("day")
    if not 1 <= day <= 31 or not _NO_NOUN.match(match.after):
        return ()
    which = match["which"].lower()
    ahead = [{"last": -1, "next": 1}.get(which, 0)] if which else range(-2, 3)
    months = [month_after(today, add) for add in ahead]
    days = [span.first for month in months for span in spans.days_of(month.year, month.month, day)]
    begun, coming = [each for each in days if each <= today], [each for each in days if each >= today]
    if not begun or not coming:
        return tuple(Span(each, each) for each in days)
    return by_tense(Span(begun[-1], begun[-1]), Span(coming[0], coming[0]), match.tense)


def _read_year(match: Match) -> Spans:
    year = match.number("year")
    return (Span(date(year, 1, 1), date(year, 12, 31)),)


_NEAR: Final = {"before yesterday": -2, "after tomorrow": 2, "yesterday": -1, "last night": -1, "tomorrow": 1}

DATES: Final = (_read_month, _read_day, _read_slashed, _read_dotted, _read_month_day, _read_numbered_month)
NUMBERS: Final = (_read_year, _read_quarter)
FIXED: Final = (*DATES, *NUMBERS, _read_week)
Reader: TypeAlias = Callable[[Match], Spans]
Rule: TypeAlias = tuple[re.Pattern[str], Reader]
_OPTIONAL_YEAR: Final = rf"(?:,?\s*(?:of\s+|in\s+)?{_YEAR})?"
_OTHER_YEAR: Final = r"(?:\s*[,/-]?\s*(?:of\s+|in\s+)?(?P<year_>(?:19|20)\d\d)\b)?"
_ALONE: Final = r"(?<![\w./-])"  # no part of a path, a version, an identifier
_MONTH_WORDS: Final = " ".join(f"{month} {month[:3]}" for month in MONTHS).lower() + " sept"
_WEEKDAY_WORDS: Final = "".join(f"{day} {day}s {day[:3]} " for day in WEEKDAYS).lower() + "tues wednes thur thurs"
_UNIT_WORDS: Final = "day week weekend month quarter year"
_SIDES: Final = "last past previous this current next coming upcoming following every each"
_WHICH_UNIT: Final = r"(?P<which>last|past|previous|this|current|next|coming|upcoming)"
_WHICH_DAY: Final = r"(?P<which>last|past|previous|this|next|coming|upcoming|every|each)"
_NUMBER_WORDS: Final = f"0 a an the couple few several {' '.join(_NUMBERS)}"
_ISO_YEAR: Final = rf"{_ALONE}(?P<year>(?:19|20)\d\d)"
_NEAR_DAYS: Final = (
    r"day\s+before\s+yesterday|day\s+after\s+tomorrow|yesterday|today|tomorrow|tonight|last\s+night|"
    r"this\s+(?:morning|afternoon|evening)"
)
_WEEK: Final = r"(?:(?:calendar\s+)?(?:week|wk|KW|CW)\s*(?:no\.?\s*|number\s+|#)?|W(?=\d\d\b))(?P<w>\d\d?)"
# Each rule with the words that it begins with, 0: a number. The first that finds a time at a place counts.
_RULES: Final = (
    ("0", rf"{_ISO_YEAR}(?P<sep>[-/])(?P<m>\d\d?)(?P=sep)(?P<d>\d\d?)(?!\d)", _read_day),
    ("0", rf"{_ALONE}(?P<d>\d\d?)(?P<sep>[.-]) ?(?P<m>\d\d?)(?P=sep) ?(?P<year>(?:19|20)\d\d)(?!\.?\d)", _read_day),
    ("0", rf"{_ALONE}(?P<m>\d\d?)/(?P<d>\d\d?)(?:/(?P<year>(?:19|20)?\d\d))?(?![\w/%])", _read_slashed),
    ("0", rf"{_ALONE}(?P<m>\d\d?)/(?P<year>(?:19|20)\d\d)(?![\w/])", _read_numbered_month),
    ("0", rf"{_ALONE}(?P<d>\d\d?)\.(?P<m>\d\d?)\.(?![\d.])(?!\Z)(?!\s+[A-Z])", _read_dotted),
    ("0", rf"{_ISO_YEAR}-?W(?P<w>\d\d)\b", _read_week),
    ("0", rf"{_ISO_YEAR}[-/ ]?Q(?P<q>[1-4])\b", _read_quarter),
    ("0", rf"{_ISO_YEAR}-(?P<m>0[1-9]|1[0-2])(?![\w-])", _read_numbered_month),
    ("0", rf"{_ALONE}(?<!:){_DAY}[\s-]+(?:of\s+)?{_MONTH}(?:(?:,?\s*(?:of\s+)?|-){_YEAR})?", _read_month_day),
    ("w week wk kw cw calendar", rf"{_ALONE}{_WEEK}\b{_OTHER_YEAR}(?!\s+of\b)", _read_week),
    ("q", rf"{_ALONE}Q(?P<q>[1-4])\b{_OTHER_YEAR}", _read_quarter),
    (" ".join(_ORDINALS), rf"(?P<nth>{'|'.join(_ORDINALS)})\s+quarter\b{_OTHER_YEAR}", _read_quarter),
    (_MONTH_WORDS, rf"{_ALONE}{_MONTH}\s+(?:the\s+)?{_DAY}(?!\d|[.:]\d|%){_OPTIONAL_YEAR}", _read_month_day),
    (_MONTH_WORDS, rf"{_ALONE}{_MONTH}{_OPTIONAL_YEAR}", _read_month),
    ("day yesterday today tomorrow tonight last this", rf"(?:{_NEAR_DAYS})\b", _read_near),
    (_UNIT_WORDS, rf"{_UNIT}\s+(?P<but>before\s+last|after\s+next)\b", _read_next_but_one),
    ("last this next", rf"(?P<week>last|this|next)\s+week(?:'s)?\s+(?:on\s+)?{_WEEKDAY}", _read_weekday),
    (_SIDES, rf"(?P<which>last|past|previous|next|coming|following)\s+{_MANY}\s+{_UNIT}s?\b", _read_rolling),
    (_SIDES, rf"{_WHICH_UNIT}\s+{_UNIT}\b", _read_which),
    ("weekend", r"weekend\b", _read_weekend),
    (_NUMBER_WORDS, rf"{_MANY}\s+{_UNIT}s?\s+(?:ago|back)\b", _read_ago),
    ("in", rf"in\s+{_MANY}\s+{_UNIT}s?\b", _read_ahead),
    (_NUMBER_WORDS, rf"{_MANY}\s+{_UNIT}s?\s+from\s+now\b", _read_ahead),
    (
        f"{_SIDES} {_WEEKDAY_WORDS}",
        rf"(?:{_WHICH_DAY}\s+)?{_WEEKDAY}(?:\s+(?:of\s+|in\s+)?(?P<week>last|this|next)\s+week\b)?",
        _read_weekday,
    ),
    (
        "the",
        rf"the\s+(?P<day>\d\d?)(?:st|nd|rd|th)\b(?!\s+(?:of\s+)?{_MONTH})(?:\s+of\s+(?P<which>this|last|next)\s+month)?",
        _read_day_of_month,
    ),
    ("0", rf"{_ALONE}{_YEAR}(?!\w|\.\d)", _read_year),
)
TOKEN: Final = re.compile(r"\d+|[a-z]+", re.IGNORECASE | re.ASCII)
RULES_BY_START: Final[dict[str, list[Rule]]] = {}
for _starts, _pattern, _read in _RULES:
    for _start in dict.fromkeys(_starts.split()):
        RULES_BY_START.setdefault(_start, []).append((re.compile(_pattern, re.IGNORECASE | re.ASCII), _read))
