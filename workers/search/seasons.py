"""Seasons and holidays in questions: last summer, winter 2025, in the fall, Christmas Eve. Pure; English.

Seasons are those of the north, by whole months. Their names are also verbs, coils and a framework: without a year they
are times only where no noun follows ("in winter coats"), and a word before them says so.
"""

import re
from datetime import date
from typing import Final

from engramq.workers.search.spans import DAY, DaySpan, DaySpans, Tense, by_tense, days_of, month_after, months_of
from engramq.workers.search.time_words import GOES_ON, NO_NOUN, Match, read_count

SEASONS: Final = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}  # the first month of each
HOLIDAYS: Final = {
    "christmas": ((12, 24), (12, 26)), "christmas eve": ((12, 24),) * 2, "christmas day": ((12, 25),) * 2,
    "boxing day": ((12, 26),) * 2, "new year's eve": ((12, 31),) * 2, "new year's day": ((1, 1),) * 2,
    "halloween": ((10, 31),) * 2, "valentine's day": ((2, 14),) * 2,
}  # fmt: skip
_DURING: Final = frozenset(("in", "during", "over", "since"))
_PARTS: Final = frozenset(("early", "late"))
_BEFORE_FALL: Final = _DURING | _PARTS | {"by"}  # until the fall, before and after it: of somebody
_BEFORE_SEASONS: Final = _BEFORE_FALL | {"until", "before", "after"}
_AHEAD: Final = re.compile(r"\b(?:will|shall|must|plan(?:s|ned)?|scheduled?|due|going\s+to)\b", re.IGNORECASE)
_OURS: Final = re.compile(r"\b(?:I|we)\b", re.IGNORECASE)
_COUNTED_MOST: Final = 100  # years back


def read_season(match: Match) -> DaySpans:
    """Read last summer, winter 2025, in autumn, late in the fall."""
    name, which, year = match["season"].lower(), match["which"].lower(), match.year
    if year is not None:
        return _season_of(name, year)
    if not GOES_ON.match(match.after):
        return ()
    if which:  # "the last fall" is one from a ladder
        return () if name == "fall" and match.has_article else (_season_beside(name, match.asked_on, which),)
    if not _is_time(match, name):
        return ()
    if name != "winter" or match.before in _DURING:
        return _season_of(name, None)
    if match.before in _PARTS:
        this = _season_beside(name, match.asked_on, "this")
        begun = this if this.first <= match.asked_on else _season_beside(name, match.asked_on, "last")
        return by_tense(begun, this, match.tense)
    return (_season_beside(name, match.asked_on, "last" if match.before == "after" else "this"),)


def _is_time(match: Match, name: str) -> bool:
    """Say whether the words before the name of a season make it a time, for which Spring needs a tense too."""
    before, is_small = match.before, match["season"].islower()
    if before not in (_BEFORE_FALL if name == "fall" else _BEFORE_SEASONS) or not (is_small or before in _DURING):
        return False
    if name != "spring" or match.has_article or before in _PARTS:
        return True
    text = match.found.string
    is_bare = len(text.split()) <= 2
    return (
        is_bare
        or (match.tense.past and not match.tense.future)
        or _AHEAD.search(text) is not None
        or (is_small and _OURS.search(text) is not None)
    )


def read_seasons_ago(match: Match) -> DaySpans:
    """Read "two winters ago"."""
    least, most = read_count(match)
    if most > _COUNTED_MOST:
        return ()
    first = _season_beside(match["season"].lower(), match.asked_on, "last").first
    return tuple(_season_from(month_after(first, 12 * (1 - ago))) for ago in range(max(1, least), most + 1))


def read_holiday(match: Match) -> DaySpans:
    """Read Christmas, New Year's Eve 2025, last Halloween; a Christmas party is none."""
    name, which = re.sub(r"\s+", " ", match["holiday"].lower().replace("\u2019", "'")), match["which"].lower()
    if match.year is None and not NO_NOUN.match(match.after):
        return ()
    (month, day), (_, last) = HOLIDAYS[name]
    found = days_of(match.year, month, day, last)
    tenses = {"last": Tense(past=True, future=False), "next": Tense(past=False, future=True)}
    return found if which not in tenses else found[0].around(match.asked_on, tenses[which])


def _season_of(name: str, year: int | None) -> DaySpans:
    """Return a season of a year or of every; a winter of a year is the one that ends in it and the one that begins."""
    month = SEASONS[name]
    if month < 12:
        return months_of(year, month, 3)
    return (*months_of(year, 1, 2), *months_of(year, month, 3 if year else 1))


def _season_beside(name: str, today: date, which: str) -> DaySpan:
    """Return the last season of a name, the next, or the one of this year."""
    all_years = [_season_from(date(today.year + add, SEASONS[name], 1)) for add in (-2, -1, 0, 1)]
    if which in {"last", "past", "previous"}:
        return max((span for span in all_years if span.last < today), key=lambda span: span.first)
    if which in {"next", "coming", "upcoming"}:
        return min((span for span in all_years if span.first > today), key=lambda span: span.first)
    return next((span for span in all_years if span.holds(today)), all_years[2])


def _season_from(first: date) -> DaySpan:
    return DaySpan(first, month_after(first, 3) - DAY)
