"""Read the times of day in a text, by either clock and in words, and write each in the other ways. Pure."""

import re
from collections.abc import Iterator
from itertools import zip_longest
from typing import Final, NamedTuple

from engramq.schemas.patterns import compile_late
from engramq.workers.search.number_words import small_number, value_of

_CLOCK: Final = compile_late(
    r"(?<![\w.,:/-])(\d{1,2})(?:[:.](\d\d))?(?:\s?([ap])\.?m\b\.?|\s?Uhr\b(?: (\d\d)\b)?"
    r"|\s?h\s?(\d\d)(?! ?(?:(?:m(?:in\w*)?|de)(?![a-zà-ÿ])|d['\u2019]))(?!\w)|(?<=:\d\d)(?![\w:/-]|[.,]\d))",
    re.IGNORECASE | re.ASCII,
)
_AT: Final = compile_late(r"\b(?:à|vers|dès|at|um|gegen|las) \Z", re.IGNORECASE)  # else 2h30 is how long it takes
_SAID: Final = compile_late(
    r"\b(?:(half|quarter|Viertel) (past|to|nach|vor) |(halb) |(?=[^\W_]+ o['\u2019]clock))([0-9]{1,2}|[^\W\d_]{2,7})"
    r"(?: (?:o['\u2019]clock|Uhr))?\b(?![:.]?\d)",
    re.IGNORECASE,
)
_MINUTES: Final = {"half": 30, "quarter": 15, "viertel": 15}


class TimeOfDay(NamedTuple):
    """A time as it stands in a text, the hours of 24 that it may mean, and its minute."""

    own: str
    hours: tuple[int, ...]
    minute: int


def times_in(text: str) -> Iterator[TimeOfDay]:
    """Yield the times of day of a text."""
    if any(character.isdigit() for character in text):
        for found in _CLOCK.finditer(text):
            hour, minute, half = int(found[1]), int(found[2] or found[4] or found[5] or 0), (found[3] or "").lower()
            is_german = half == "a" and text[: found.start()].lower().endswith("um ")  # um 5 am Bahnhof
            if hour > (12 if half else 24) or minute > 59 or (half and not hour) or is_german:
                continue
            if found[5] and not _AT.search(text, max(0, found.start() - 8), found.start()):
                continue
            yield TimeOfDay(found[0], (hour % 12 + 12 * (half == "p") if half else hour,), minute)
    for found in _SAID.finditer(text):
        hour = int(found[4]) if found[4].isdecimal() else value_of(found[4].lower()) or 0
        if not 0 < hour <= 12:
            continue
        minute = 30 if found[3] else _MINUTES.get((found[1] or "").lower(), 0)
        is_before = found[3] or (found[2] or "").lower() in {"to", "vor"}
        if is_before:
            hour, minute = hour - 1, 60 - minute
        yield TimeOfDay(found[0], (hour % 12 + 12, hour % 12), minute)


def ways_of_time(time: TimeOfDay) -> tuple[str, ...]:
    """Return how a time is written by both clocks and said in words, the usual ways of each hour first."""
    ways = zip_longest(*(_ways(hour, time.minute) for hour in time.hours))
    return tuple(dict.fromkeys(way for each in ways for way in each if way is not None))


def _ways(hour: int, minute: int) -> Iterator[str]:
    """Yield each way that is no small number alone: "am" is no word of an index, so 7 am is a 7."""
    short, side = (hour - 1) % 12 + 1, "pm" if 12 <= hour < 24 else "am"
    yield f"{hour}:{minute:02}"
    if minute == 0:
        yield from (f"{short}{side}", f"{short} {side}" if side == "pm" else f"{short} a.m.", f"{hour} Uhr")
        yield from (f"{short} {side[0]}.m.", f"{hour:02}:00")
        yield from (f"{short} o'clock", f"{small_number(short)} o'clock")
        return
    yield from (f"{short}:{minute:02}{side}", f"{short}:{minute:02} {side}", f"{hour:02}:{minute:02}")
    if minute == 30:
        yield from (f"half past {small_number(short)}", f"halb {small_number(short % 12 + 1, german=True)}")
    yield from (f"{hour}h{minute:02}", f"{hour} h {minute:02}")  # French
