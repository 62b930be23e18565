"""The rules by which times are read: patterns, and what each means on a certain day. Pure; English.

A rule that finds no time (31 February, "10/12 tests pass") returns nothing. A day or a month without a year is read by
the tense of the question: what was, what will be, else either.
"""

import re
from collections.abc import Callable
from datetime import date
from typing import Final, TypeAlias

from engramq.schemas.patterns import compile_late
from engramq.workers.search import spans, time_parts
from engramq.workers.search.seasons import SEASONS, read_holiday, read_season, read_seasons_ago
from engramq.workers.search.spans import (
    DAY,
    LONG,
    MONTHS,
    WEEKDAYS,
    DaySpan,
    DaySpans,
    Tense,
    by_tense,
    month_after,
    period,
)
from engramq.workers.search.time_words import (
    COUNTS,
    DAY_NUMBER,
    GOES_ON,
    MANY,
    MONTH,
    MONTH_NAME,
    NO_NOUN,
    ORDINALS,
    UNIT,
    WEEKDAY,
    YEAR,
    Match,
    find_weekday,
    read_amount,
    read_count,
    read_month,
    read_unit,
    read_weekday,
)  # fmt: skip

# Words before a date that may as well be a fraction, and before a short name of a month.
_BEFORE_DATES: Final = "on since until till before after by in during from between am vom of for due"
_DATING: Final = frozenset(_BEFORE_DATES.split())
_EARLY: Final = "in since until till during last this next early mid late of"
_BEFORE_MONTHS: Final = frozenset(_EARLY.split())
_OF_THIS: Final = compile_late(
    r"\b(?:by|until|till|before|at|since|the)\s+(?:the\s+)?(?:end|beginning|start|middle)\s+of\s+(?:the\s+)?\Z",
    re.IGNORECASE,
)
_DAY_FOLLOWS: Final = compile_late(
    rf"\.?,?\s+(?:the\s+)?(?:\d\d?(?:st|nd|rd|th)\b|\d\d?\.?\s+(?:of\s+)?{MONTH_NAME}|{MONTH_NAME}\s+\d"
    r"|\d{4}-\d\d|\d\d?[./]\d)",
    re.IGNORECASE | re.ASCII,
)
_DOING: Final = frozenset(("do", "did", "done", "happened", "happening", "happens", "happen"))
# What follows "May" where that is a verb.
_VERB: Final = compile_late(r"\s+(?:I|we|you|they|he|she|it|be|have|not|also|the|this|that)\b", re.IGNORECASE)
_VERBS: Final = frozenset(("may", "march", "mar"))
_WHO_IS: Final = compile_late(r"\bwho(?:\s+is|\s+was|['\u2019]s)\s+\Z", re.IGNORECASE)
_OF_YEAR: Final = compile_late(r"\s+of\s+(?:the|this|last|next)\s+year\b", re.IGNORECASE)
_OF: Final = compile_late(r"\s+of\b", re.IGNORECASE)
_TO_MONTH: Final = compile_late(rf"\s*(?:to|until|through|and|-|–)\s*{MONTH_NAME}", re.IGNORECASE)
_FROM_DAY: Final = compile_late(
    rf"\b{MONTH_NAME}\s+\d\d?(?:st|nd|rd|th)?\s*(?:to|until|through|-|–)\s*\Z", re.IGNORECASE
)
# Days that some months lack, and what stands before a year that is of such a day.
_LAST_DAYS: Final = compile_late(r"\s+(?:the\s+)?(?:29|3[01])(?:st|th)?\b(?![.:]\d|%)", re.IGNORECASE)
_MONTH_BEFORE: Final = compile_late(
    rf"\b{MONTH_NAME}(?:\s+(?:the\s+)?\d\d?(?:st|nd|rd|th)?)?,?\s*(?:of\s+|in\s+)?\Z", re.IGNORECASE
)
# "Black Friday" is another day each year, as Easter is.
_NAMED_DAYS: Final = frozenset(
    ("black", "good", "cyber", "easter", "ash", "palm", "holy", "maundy", "shrove", "fat", "super", "whit", "casual")
)
_NIGHT: Final = compile_late(r"\s+(?:night|evening|morning|afternoon)\b", re.IGNORECASE)
_NUMBERED: Final = compile_late(r"\d(?:st|nd|rd|th)?\s+(?:of\s+)?\Z", re.IGNORECASE)


def shift_spans(found: re.Match[str], days: DaySpans, asked_on: date, tense: Tense) -> DaySpans:
    """Return what is so many days, weeks or months before or after other times, by a match of COUNTED."""
    match = Match(found, asked_on, tense, "")
    amount = (1, 1) if not (match["many"] or match["one"]) else read_amount(match)
    is_counted = match["many"] or match["one"] or match["the"]
    if amount is None or not is_counted or not LONG[read_unit(match)]:
        return days
    is_before = match["side"].lower() not in {"after", "following"}
    is_whole = bool(match["the"]) and (read_unit(match) != "day" or bool(match["many"]))
    all_days = (each for day in days for each in day.around(asked_on, tense))
    return tuple(
        time_parts.shift_span(read_unit(match), amount, each, is_before=is_before, is_whole=is_whole)
        for each in all_days
    )


def _read_day(match: Match) -> DaySpans:
    """Read a date of numbers: 2026-11-23, 23.11.2026, 11/23/2026, or 23/11/2026 where only that can be meant."""
    year, month, day = match.year, match.number("m"), match.number("d")
    return spans.days_of(year, month, day) or (spans.days_of(year, day, month) if match["sep"] == "-" else ())


def _read_slashed(match: Match) -> DaySpans:
    """Read 11/23 and 11/23/2026; 3/4/2026 is both a day in March and one in April."""
    one, other, year = match.number("m"), match.number("d"), match.year
    if year is None and (not _is_dated(match, _DATING | _DOING - {"in"}) or _OF.match(match.after)):
        return ()  # 3/4 of users
    return (*spans.days_of(year, one, other), *(spans.days_of(year, other, one) if one != other else ()))


def _read_dotted(match: Match) -> DaySpans:
    """Read 23.11. in a sentence that goes on, or after "on"; 3.11 is a version."""
    return spans.days_of(None, match.number("m"), match.number("d")) if _is_dated(match, _DATING) else ()


def _is_dated(match: Match, words: frozenset[str]) -> bool:
    """Say whether one of these words before two numbers makes them a date; "the ratio of 3/4" is none."""
    if match.before == "of" and max(match.number("m"), match.number("d")) <= 12:
        return False
    return match.before in words or match.is_whole


def _read_month_day(match: Match) -> DaySpans:
    month, day, year = read_month(match), match.number("day"), match.year
    is_sure = bool(match["th"] or year) or match.before in _DATING or match["month"][:1].isupper()
    if not is_sure:  # "dec 30 to jan 2", but not "may 5 people come"
        text, start = match.found.string, match.found.start()
        is_range = _TO_MONTH.match(match.after) or _FROM_DAY.search(text, max(0, start - 24), start)
        is_no_verb = match["month"].lower() not in _VERBS and NO_NOUN.match(match.after)
        is_sure = bool(is_range or is_no_verb)
    return spans.days_of(year, month, day, match.number("through") or None) if is_sure else ()


def _read_month(match: Match) -> DaySpans:
    """Read a month alone; 31 February is none, and the number makes the month none either."""
    name, text, start = match["month"], match.found.string, match.found.start()
    if _NUMBERED.search(text, max(0, start - 12), start) or (match.year is None and _LAST_DAYS.match(match.after)):
        return ()
    if match.year is None:
        return spans.months_of(None, read_month(match)) if _is_month(match) else ()
    is_verb = name.islower() and name in _VERBS and match.before not in _BEFORE_MONTHS
    return () if is_verb and not NO_NOUN.match(match.after) else spans.months_of(match.year, read_month(match))


def _is_month(match: Match) -> bool:
    """Say whether a name without a day or a year is a month: May and March are verbs, Jan, April and August names."""
    name, text, start = match["month"], match.found.string, match.found.start()
    is_full, is_capital = name.capitalize() in MONTHS, name[:1].isupper()
    if match.before in {"did", "does"} or _WHO_IS.search(text, max(0, start - 12), start):
        return False
    if match.before in _BEFORE_MONTHS and (is_capital or match.before != "of"):
        return True
    if not (is_full or is_capital):
        return False
    if name.lower() not in _VERBS | {"jan"}:
        return True
    if not (is_full and is_capital) or _VERB.match(match.after):
        return False
    if start == 0 and not _TO_MONTH.match(match.after):
        return False
    return name != "March" or re.match(r"\s+on\b", match.after) is None


def _read_numbered_month(match: Match) -> DaySpans:
    """Read 2026-11 and 11/2026."""
    return spans.months_of(match.year, match.number("m"))


def _read_quarter(match: Match) -> DaySpans:
    """Read Q3, the third quarter, the last quarter of 2025; that of a game, and a quarter mile, are none."""
    nth, year = match["nth"].lower(), match.year
    if nth and year is None and not _OF_YEAR.match(match.after) and (nth == "last" or not NO_NOUN.match(match.after)):
        return ()
    number = match.number("q") or (4 if nth == "last" else ORDINALS.index(nth) + 1)
    return spans.months_of(year, 3 * number - 2, 3)


def _read_half(match: Match) -> DaySpans:
    """Read H1 2025."""
    return spans.months_of(match.year, 6 * match.number("h") - 5, 6)


def _read_week(match: Match) -> DaySpans:
    """Read week 47, by the calendar of ISO 8601; without a year it is the last that has begun, or the next."""
    number, year = match.number("w"), match.year
    try:
        if year is not None:
            monday = date.fromisocalendar(year, number, 1)
            return (DaySpan(monday, monday + 6 * DAY),)
        weeks = [date.fromisocalendar(match.asked_on.isocalendar().year + add, number, 1) for add in (-1, 0, 1)]
    except ValueError:
        return ()
    begun = max(monday for monday in weeks if monday <= match.asked_on)
    coming = min(monday for monday in weeks if monday + 6 * DAY >= match.asked_on)
    return by_tense(DaySpan(begun, begun + 6 * DAY), DaySpan(coming, coming + 6 * DAY), match.tense)


def _read_near(match: Match) -> DaySpans:
    text = re.sub(r"\s+", " ", match.text.lower())
    ahead = next((days for word, days in _NEAR.items() if word in text), 0)
    return (DaySpan(match.asked_on + ahead * DAY, match.asked_on + ahead * DAY),)


def _read_which(match: Match) -> DaySpans:
    """Read last week, this month, next year; "the past week" is the last seven days.

    "The last week of the trip" is none, nor are "the last minute change" and "the next day shipping".
    """
    today, unit, which = match.asked_on, read_unit(match), match["which"].lower()
    is_adjective = unit in {"minute", "hour", "day"} or (unit == "quarter" and match.has_article)
    if _OF.match(match.after) or (is_adjective and not NO_NOUN.match(match.after)):
        return ()
    if which == "past" and unit == "weekend":
        return (period("weekend", today, -1 if today.weekday() < 5 else 0),)
    if which == "past" or not LONG[unit] or (unit == "fortnight" and which in {"last", "previous"}):
        return (DaySpan(today - LONG[unit] * DAY, today),)
    if unit == "day" and which != "this":
        return ()  # of what is told: "the next day"
    ahead = {"this": 0, "current": 0, "last": -1, "previous": -1}.get(which, 1)
    return (period(unit, today, ahead),)


def _read_next_but_one(match: Match) -> DaySpans:
    return (period(read_unit(match), match.asked_on, -2 if match["but"].lower().startswith("before") else 2),)


def _read_part_of_this(match: Match) -> DaySpans:
    """Read "by the end of the month", of the one that it is; `narrow` takes the part."""
    start = match.found.start()
    is_part = _OF_THIS.search(match.found.string, max(0, start - 30), start)
    return (period(read_unit(match), match.asked_on, 0),) if is_part else ()


def _read_nth(match: Match) -> DaySpans:
    """Read the first Monday of October, the last day of March 2025, the second week of last month."""
    today, which = match.asked_on, match["which"].lower()
    months: DaySpans = (period("month", today, {"last": -1, "next": 1}.get(which, 0)),)
    if match["month"]:
        months = tuple(
            each for span in spans.months_of(match.year, read_month(match)) for each in span.around(today, match.tense)
        )
    number = -1 if match["nth"].lower() == "last" else ORDINALS.index(match["nth"].lower())
    weekday = read_weekday(match) if match["weekday"] else None
    return tuple(day for month in months for day in time_parts.nth_of(month, number, match["what"].lower(), weekday))


def _read_weekend(match: Match) -> DaySpans:
    """Read "the weekend": the last one that has begun, or the next; a weekend shift is none."""
    if not GOES_ON.match(match.after):
        return ()
    this = period("weekend", match.asked_on, 0)
    begun = this if this.first <= match.asked_on else period("weekend", match.asked_on, -1)
    return by_tense(begun, this, match.tense)


def _read_rolling(match: Match) -> DaySpans:
    """Read the last three days, the next two weeks, the last 24 hours: up to today, or from it."""
    amount = read_amount(match)
    if amount is None:
        return ()
    unit, count = read_unit(match), amount[1]
    days = LONG[unit] * count if LONG[unit] else -(-count // (24 if unit == "hour" else 1440))
    if match["which"].lower() in {"next", "coming", "following"}:
        return (DaySpan(match.asked_on, match.asked_on + days * DAY),)
    return (DaySpan(match.asked_on - days * DAY, match.asked_on),)


def _read_ago(match: Match) -> DaySpans:
    """Read "three days ago", "half a year ago", "a week and a half ago", "two weeks ago on Friday"."""
    if match["half"]:
        return _away_by_halves(match["half"].lower(), match.asked_on, 0)
    amount = read_amount(match)
    if amount is None:
        return ()
    unit, (least, most) = read_unit(match), amount
    if match["more"] or match["more_"]:
        return _away_by_halves(unit, match.asked_on, most)
    if unit == "week" and (day := match["on"].lower()):
        base = match.asked_on - 7 * most * DAY
        if (ahead := {"today": 0, "yesterday": -1, "tomorrow": 1}.get(day)) is None:
            ahead = find_weekday(day) - base.weekday()
        return (DaySpan(base + ahead * DAY, base + ahead * DAY),)
    if not LONG[unit]:
        return (DaySpan(match.asked_on - (most // 24 + 1) * (unit == "hour") * DAY, match.asked_on),)
    return (spans.away(unit, match.asked_on, -most, -least),)


def _away_by_halves(unit: str, today: date, whole: int) -> DaySpans:
    """Return the time so many units and a half ago."""
    smaller, count = {"year": ("month", 12), "month": ("week", 4), "week": ("day", 7)}.get(unit, ("day", 1))
    ago = whole * count + count // 2
    return (spans.away(smaller, today, -ago, -ago),)


def _read_ahead(match: Match) -> DaySpans:
    """Read "in three days", but not how long something took."""
    amount = read_amount(match)
    if amount is None or not match.tense.future or not LONG[read_unit(match)]:
        return ()
    return (spans.away(read_unit(match), match.asked_on, *amount),)


def _read_weekday(match: Match) -> DaySpans:
    """Read on Monday, last Friday, the Friday before last, Friday of next week; on Mondays, Monday the 9th are none."""
    today, which = match.asked_on, match["which"].lower()
    week = match["week"].lower()
    if match["plural"] or match.before in {"every", "each", "any"} | _NAMED_DAYS or which in {"every", "each"}:
        return ()
    if _DAY_FOLLOWS.match(match.found.string, match.found.end()):
        return ()  # the day itself says more
    is_dated = which or match.before in _DATING
    if not is_dated and (night := _NIGHT.match(match.after)) and not NO_NOUN.match(match.after, night.end()):
        return ()  # "Friday night lights"
    but = match["but"].lower()
    is_full = match["full"] or which or week or but or match.before in {"on", "since", "until", "by", "before", "after"}
    if not is_full:
        return ()
    number = read_weekday(match)
    if week or which in {"this", "next"}:
        first = period("week", today, {"this": 0, "last": -1}.get(week or which, 1)).first
        return (DaySpan(first + number * DAY, first + number * DAY),)
    begun, coming = today - (today.weekday() - number) % 7 * DAY, today + (number - today.weekday()) % 7 * DAY
    if which in {"last", "past", "previous"}:
        begun = coming = begun - 7 * DAY if begun == today else begun
    elif which in {"coming", "upcoming"}:
        begun = coming = coming + 7 * DAY if coming == today else coming
    elif but.startswith("before"):
        begun = coming = begun - (14 if begun == today else 7) * DAY
    elif but:
        begun = coming = coming + (14 if coming == today else 7) * DAY
    return by_tense(DaySpan(begun, begun), DaySpan(coming, coming), match.tense)


def _read_weekdays_ago(match: Match) -> DaySpans:
    """Read "two Fridays ago"."""
    least, most = read_count(match)
    today = match.asked_on
    if most > 500:  # as many weeks as nobody counts
        return ()
    begun = today - ((today.weekday() - read_weekday(match)) % 7 or 7) * DAY
    return tuple(DaySpan(day, day) for day in (begun - 7 * (ago - 1) * DAY for ago in range(least, most + 1)))


def _read_day_of_month(match: Match) -> DaySpans:
    """Read "the 20th": of this month or of the one before or after, as the tense wants; the 20th floor is none."""
    today, day = match.asked_on, match.number("day")
    if not 1 <= day <= 31 or not NO_NOUN.match(match.after):
        return ()
    which = match["which"].lower()
    ahead = [{"last": -1, "next": 1}.get(which, 0)] if which else range(-2, 3)
    months = [month_after(today, add) for add in ahead]
    days = [span.first for month in months for span in spans.days_of(month.year, month.month, day)]
    begun, coming = [each for each in days if each <= today], [each for each in days if each >= today]
    if not begun or not coming:
        return tuple(DaySpan(each, each) for each in days)
    return by_tense(DaySpan(begun[-1], begun[-1]), DaySpan(coming[0], coming[0]), match.tense)


def _read_year(match: Match) -> DaySpans:
    """Read a year; that of 29 February 2025 is none."""
    year, start = match.number("year"), match.found.start()
    if _MONTH_BEFORE.search(match.found.string, max(0, start - 30), start):
        return ()
    return (DaySpan(date(year, 1, 1), date(year, 12, 31)),)


_NEAR: Final = {
    "before yesterday": -2,
    "night before last": -2,
    "after tomorrow": 2,
    "yesterday": -1,
    "last night": -1,
    "tomorrow": 1,
}

DATES: Final = (_read_month, _read_day, _read_slashed, _read_dotted, _read_month_day, _read_numbered_month)
OF_WEEKS: Final = (_read_weekday, _read_weekend)
NUMBERS: Final = (_read_year, _read_quarter, _read_half)
FIXED: Final = (*DATES, *NUMBERS, _read_week)
ReadDays: TypeAlias = Callable[[Match], DaySpans]
Rule: TypeAlias = tuple[re.Pattern[str], ReadDays]
_OPTIONAL_YEAR: Final = rf"(?:,?\s*(?:of\s+|in\s+)?{YEAR})?"
_OTHER_YEAR: Final = r"(?:\s*[,/-]?\s*(?:of\s+|in\s+)?(?P<year_>(?:19|20)\d\d)\b)?"
_ALONE: Final = r"(?<![\w./-])"  # no part of a path, a version, an identifier
_ALONE_OR_MID: Final = r"(?<![\w./])(?<!(?<!mid)-)"
_SHORT_YEAR: Final = r"(?:\s*['\u2019](?P<year_>\d\d)\b)?"
_MONTH_WORDS: Final = " ".join(f"{month} {month[:3]}" for month in MONTHS).lower() + " sept"
_WEEKDAY_WORDS: Final = "".join(f"{day} {day}s {day[:3]} " for day in WEEKDAYS).lower() + "tues wednes thur thurs"
_UNIT_WORDS: Final = "day week weekend month quarter year"
_HOLIDAYS: Final = (
    r"(?:(?P<which>last|this|next)\s+)?(?P<holiday>Christmas\s+(?:Eve|Day)|Christmas|Boxing\s+Day|Halloween"
    r"|New\s+Year['\u2019]s\s+(?:Eve|Day)|Valentine['\u2019]s\s+Day)\b"
)
_HALF_AGO: Final = r"half\s+an?\s+(?P<half>year|month|week|day|hour)"
_AND_A_HALF: Final = r"and\s+a\s+half"
_SO_MANY: Final = rf"{MANY}\s+(?P<more>{_AND_A_HALF}\s+)?{UNIT}s?(?P<more_>\s+{_AND_A_HALF})?"
_ON_DAY: Final = f"today|yesterday|tomorrow|{'|'.join(WEEKDAYS)}"
_BUT_ONE: Final = r"(?P<but>before\s+last|after\s+next)"
_NTH: Final = rf"(?P<nth>last|{'|'.join(ORDINALS)})\s+(?:(?P<what>day|weekend|week)|{WEEKDAY})\s+(?:of|in)\s+"
_SIDES: Final = "last past previous this current next coming upcoming following every each"
_WHICH_UNIT: Final = r"(?P<which>last|past|previous|this|current|next|coming|upcoming)"
_WHICH_DAY: Final = r"(?P<which>last|past|previous|this|next|coming|upcoming|every|each)"
_NUMBER_WORDS: Final = f"0 a an the couple few several {' '.join(COUNTS)}"
_ISO_YEAR: Final = rf"{_ALONE}(?P<year>(?:19|20)\d\d)"
_NEAR_DAYS: Final = (
    r"day\s+before\s+yesterday|night\s+before\s+last|day\s+after\s+tomorrow|yesterday|today|tomorrow|tonight|last\s+night|"
    r"this\s+(?:morning|afternoon|evening)"
)
_WEEK: Final = r"(?:(?:calendar\s+)?(?:week|wk|KW|CW)\s*(?:no\.?\s*|number\s+|#)?|W(?=\d\d\b))(?P<w>\d\d?)"
# Each rule with the words that it begins with, 0: a number. The first that finds a time at a place counts.
_RULES: Final = (
    ("0", rf"{_ISO_YEAR}(?P<sep>[-/])(?P<m>\d\d?)(?P=sep)(?P<d>\d\d?)(?!\d)", _read_day),
    ("0", rf"{_ALONE}(?P<d>\d\d?)(?P<sep>[.-]) ?(?P<m>\d\d?)(?P=sep) ?(?P<year>(?:19|20)\d\d)(?!\.?\d)", _read_day),
    ("0", rf"{_ISO_YEAR}(?P<m>0[1-9]|1[0-2])(?P<d>[0-3]\d)(?!\w)", _read_day),
    ("0", rf"{_ALONE}(?P<m>\d\d?)/(?P<d>\d\d?)(?:/(?P<year>(?:19|20)?\d\d))?(?![\w/%])", _read_slashed),
    ("0", rf"{_ALONE}(?P<m>\d\d?)/(?P<year>(?:19|20)\d\d)(?![\w/])", _read_numbered_month),
    ("0", rf"{_ALONE}(?P<d>\d\d?)\.(?P<m>\d\d?)\.(?![\d.])(?!\Z)(?!\s+[A-Z])", _read_dotted),
    ("0", rf"{_ISO_YEAR}-?W(?P<w>\d\d)\b", _read_week),
    ("0", rf"{_ISO_YEAR}[-/ ]?Q(?P<q>[1-4])\b", _read_quarter),
    ("0", rf"{_ISO_YEAR}-(?P<m>0[1-9]|1[0-2])(?![\w-])", _read_numbered_month),
    ("0", rf"{_ALONE}(?<!:){DAY_NUMBER}[\s-]+(?:of\s+)?{MONTH}(?:(?:,?\s*(?:of\s+)?|-){YEAR})?", _read_month_day),
    ("w week wk kw cw calendar", rf"{_ALONE}{_WEEK}\b{_OTHER_YEAR}(?!\s+of\b)", _read_week),
    ("0", rf"{_ISO_YEAR}[-/ ]?H(?P<h>[12])\b", _read_half),
    ("h", rf"{_ALONE}H(?P<h>[12])\s*[,/-]?\s*(?:of\s+|in\s+)?{YEAR}", _read_half),
    (
        f"last {' '.join(ORDINALS)}",
        rf"{_NTH}(?:{MONTH}{_OPTIONAL_YEAR}|(?:(?P<which>last|this|next)|the)\s+month\b)",
        _read_nth,
    ),
    ("q", rf"{_ALONE}Q(?P<q>[1-4])\b{_OTHER_YEAR}", _read_quarter),
    (f"last {' '.join(ORDINALS)}", rf"(?P<nth>last|{'|'.join(ORDINALS)})\s+quarter\b{_OTHER_YEAR}", _read_quarter),
    (_MONTH_WORDS, rf"{_ALONE}{MONTH}\s+(?:the\s+)?{DAY_NUMBER}(?!\d|[.:]\d|%){_OPTIONAL_YEAR}", _read_month_day),
    (_MONTH_WORDS, rf"{_ALONE_OR_MID}{MONTH}{_SHORT_YEAR}{_OPTIONAL_YEAR}", _read_month),
    ("day night yesterday today tomorrow tonight last this", rf"(?:{_NEAR_DAYS})\b", _read_near),
    (_UNIT_WORDS, rf"{UNIT}\s+{_BUT_ONE}\b", _read_next_but_one),
    ("last this next", rf"(?P<week>last|this|next)\s+week(?:'s)?\s+(?:on\s+)?{WEEKDAY}", _read_weekday),
    (_SIDES, rf"(?P<which>last|past|previous|next|coming|following)\s+{MANY}\s+{UNIT}s?\b", _read_rolling),
    (_SIDES, rf"{_WHICH_UNIT}\s+{UNIT}\b", _read_which),
    ("weekend", r"weekend\b", _read_weekend),
    ("week month quarter year", r"(?P<unit>week|month|quarter|year)\b", _read_part_of_this),
    (
        f"{_SIDES} {' '.join(SEASONS)}",
        rf"(?:{_WHICH_UNIT}\s+)?(?P<season>{'|'.join(SEASONS)})\b(?:\s+(?:of\s+)?{YEAR})?",
        read_season,
    ),
    ("last this next christmas boxing halloween new valentine", rf"{_HOLIDAYS}{_OPTIONAL_YEAR}", read_holiday),
    (
        f"half {_NUMBER_WORDS}",
        rf"(?:{_HALF_AGO}|{_SO_MANY})\s+(?:ago|back)\b(?:\s+(?:on\s+)?(?P<on>{_ON_DAY})\b)?",
        _read_ago,
    ),
    (_NUMBER_WORDS, rf"{MANY}\s+{WEEKDAY}\s+(?:ago|back)\b", _read_weekdays_ago),
    (_NUMBER_WORDS, rf"{MANY}\s+(?P<season>{'|'.join(SEASONS)})s\s+(?:ago|back)\b", read_seasons_ago),
    ("in", rf"in\s+{MANY}\s+{UNIT}s?\b", _read_ahead),
    (_NUMBER_WORDS, rf"{MANY}\s+{UNIT}s?\s+from\s+now\b", _read_ahead),
    (
        f"{_SIDES} {_WEEKDAY_WORDS}",
        rf"(?:{_WHICH_DAY}\s+)?{WEEKDAY}(?:\s+(?:(?:of\s+|in\s+)?(?P<week>last|this|next)\s+week|{_BUT_ONE})\b)?",
        _read_weekday,
    ),
    (
        "the",
        rf"the\s+(?P<day>\d\d?)(?:st|nd|rd|th)\b(?!\s+(?:of\s+)?{MONTH})(?:\s+of\s+(?P<which>this|last|next)\s+month)?",
        _read_day_of_month,
    ),
    ("0", rf"{_ALONE}{YEAR}(?!\w|\.\d)", _read_year),
)
COUNTED: Final = time_parts.counted_pattern(MANY, UNIT)
TOKEN: Final = compile_late(r"\d+|[a-z]+", re.IGNORECASE | re.ASCII)
RULES_BY_START: Final[dict[str, list[Rule]]] = {}
for _starts, _pattern, _read in _RULES:
    _rule = compile_late(_pattern, re.IGNORECASE | re.ASCII), _read
    for _start in dict.fromkeys(_starts.split()):
        RULES_BY_START.setdefault(_start, []).append(_rule)
