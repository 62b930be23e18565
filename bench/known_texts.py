"""Texts for `bench.known_sets`: days and numbers as people spell them, pastes, notes of templates, long notes."""

import random
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, timedelta
from typing import Any, Final

from tools.relevance import fillers

SEED: Final = 37
NOTES: Final = 300  # of all templates
WEEK: Final = timedelta(7)
# Long notes: their names, and about how many characters they have.
LONG: Final = (("handbook, short", 0), ("handbook, long", 27_000), ("minutes, short", 0))
SPELLINGS: Final[Mapping[str, tuple[str, ...]]] = {
    "date": ("%Y-%m-%d", "%-d %B %Y", "%B %-d, %Y", "%d.%m.%Y", "%-m/%-d/%Y"),
    "number": ("", ",", ".", " "),
}

Row = dict[str, Any]


def spelled(value: str | int, form: str) -> str:
    """Return a day (ISO) or a number in one of SPELLINGS."""
    if isinstance(value, int):
        return f"{value:,}".replace(",", form)
    return date.fromisoformat(value).strftime(form)


_DAY_IN_TEXT: Final = re.compile(r"\{(-?\d+):")


class _Day:
    """A day, which a template formats as it likes."""

    def __init__(self, day: date) -> None:
        self._day = day

    def __format__(self, form: str) -> str:
        day = self._day
        if form == "quarter":
            return f"Q{(day.month + 2) // 3}"
        if form == "ordinal":
            ending = "th" if day.day in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(day.day % 10, "th")
            return f"{day.day}{ending}"
        return day.strftime(form)


class _Days(dict[str, _Day]):
    """Days by how many they lie after today."""

    def __init__(self, today: date) -> None:
        super().__init__()
        self._today = today

    def __missing__(self, name: str) -> _Day:
        return _Day(self._today + timedelta(int(name)))


def spelled_with_days(text: str, today: date) -> str:
    """Return a text with its days in it: `{-4:%A}` is the weekday of four days ago."""
    return text.format_map(_Days(today))


def spans(name: str, today: date) -> tuple[date, date]:
    """Return the first and the last day that are meant; two numbers are days after today."""
    monday = today - timedelta(today.weekday())
    match name.split():
        case ["last", "weekend"]:
            return monday - timedelta(2), monday - timedelta(1)
        case ["last", "week"]:
            return monday - WEEK, monday - timedelta(1)
        case ["next", "week"]:
            return monday + WEEK, monday + WEEK + timedelta(6)
        case ["last", "month"]:
            last = today.replace(day=1) - timedelta(1)
            return last.replace(day=1), last
        case ["quarter", "of", days]:
            day = today + timedelta(int(days))
            first = date(day.year, (day.month - 1) // 3 * 3 + 1, 1)
            return first, (first + timedelta(100)).replace(day=1) - timedelta(1)
        case ["week", "of", days]:
            day = today + timedelta(int(days))
            first = day - timedelta(day.weekday())
            return first, first + timedelta(6)
        case [first_day, last_day]:
            return today + timedelta(int(first_day)), today + timedelta(int(last_day))
    raise ValueError(name)


def meant(query: Row, rows: Iterable[Row], today: date) -> list[str]:
    """Return the keys of the memories that a query means: those of its days, by themselves or by what they say."""
    if "expects" in query:
        return list(query["expects"])
    days = [spans(name, today) for name in query["spans"]]
    told = {row["key"]: row.get("day", _DAY_IN_TEXT.search(row["content"])) for row in rows if "key" in row}
    dates = {key: today + timedelta(day if isinstance(day, int) else int(day[1])) for key, day in told.items() if day}
    return [key for key, day in dates.items() if any(first <= day <= last for first, last in days)]


_MODULES: Final = ("api", "cache", "codec", "db", "events", "jobs", "locks", "pool", "retry", "router", "tasks", "wire")
_WORDS: Final = ("accept", "batch", "commit", "dispatch", "encode", "flush", "handle", "load", "merge", "poll", "read",
                 "render", "resolve", "send", "split", "store", "sync", "write")  # fmt: skip
_LEVELS: Final = ("DEBUG", "INFO", "INFO", "INFO", "WARN", "ERROR")
_SENTENCES: Final = (
    "Thank you for the quick reply.", "I have talked to the others and they agree.", "See the figures below.",
    "We should look at it again after the holidays.", "Please tell me if anything is missing.",
    "The attachment has the latest state.", "I am out of the office on Thursday.", "Let us keep it simple for now.",
    "The second part will follow later.", "As far as I know nothing else depends on it.",
)  # fmt: skip


def _trace(chance: random.Random) -> str:
    module, word = chance.choice(_MODULES), chance.choice(_WORDS)
    line, inner = chance.randint(10, 900), f"{word}_{chance.choice(_MODULES)}"
    return f'  File "/srv/app/{module}/{word}.py", line {line}, in {inner}\n    return self._{word}(item, {line})'


def _diff(chance: random.Random) -> str:
    module, word, other = chance.choice(_MODULES), chance.choice(_WORDS), chance.choice(_WORDS)
    number = chance.randint(1, 400)
    return (
        f"@@ -{number},4 +{number},5 @@ def {word}(self):\n     found = self.{module}.{word}()\n"
        f"-    {other}(found)\n+    {other}(found, limit={number})\n     return found"
    )


def _log(chance: random.Random) -> str:
    month, day, hour, minute = (chance.randint(least, most) for least, most in ((1, 12), (1, 28), (0, 23), (0, 59)))
    stamp = f"2026-{month:02}-{day:02}T{hour:02}:{minute:02}:07Z"
    said = f"{chance.choice(_WORDS)} of {chance.choice(_MODULES)} took {chance.randint(1, 9_000)} ms"
    return f"{stamp} {chance.choice(_LEVELS)} {chance.choice(_MODULES)}[{chance.randint(100, 9_999)}]: {said}"


_PASTES: Final[Mapping[str, tuple[str, Callable[[random.Random], str]]]] = {
    "trace": ("Traceback (most recent call last):", _trace),
    "diff": ("diff --git a/app/main.py b/app/main.py", _diff),
    "mail": ("On Tuesday Ursel wrote:", lambda chance: "> " + " ".join(chance.sample(_SENTENCES, 3))),
    "log": ("", _log),
}


def paste(kind: str, chars: int, seed: int) -> str:
    """Return a trace, diff, mail or log of about so many characters, the same one for the same seed."""
    chance = random.Random(f"{SEED}/{kind}/{chars}/{seed}")
    head, line = _PASTES[kind]
    lines = [head] if head else []
    while sum(map(len, lines)) + len(lines) < chars:
        lines.append(line(chance))
    if kind == "trace":
        lines.append(f"RuntimeError: {chance.choice(_WORDS)} failed after {chance.randint(2, 9)} attempts")
    return "\n".join(lines)


def notes(templates: Sequence[str]) -> list[Row]:
    """Return notes of these templates, of other people, days and numbers each, none of which contradicts another."""
    chance = random.Random(SEED)
    made = []
    for number in range(NOTES):
        day = date(2024, 1, 3) + timedelta(3 * number)
        numbers = {"amount": (1_100, 9_900), "hour": (5, 11), "hour2": (13, 21), "score": (3, 20), "minutes": (9, 70)}
        values = {
            **{name: chance.randint(*bounds) for name, bounds in numbers.items()},
            "n": number,
            "date": f"{day:%-d %B %Y}",
            "weather": chance.choice(("fog", "hail", "rain", "snow", "storm", "sun")),
            "state": chance.choice(("broken", "dented", "dirty", "lost", "noisy", "stuck")),
        }
        content = templates[number % len(templates)].format_map(fillers.Slots(fillers.draws(chance), values))
        made.append({"key": f"note-{number}", "content": content})
    return made


def handbook(sections: Sequence[tuple[str, str]], chars: int) -> str:
    """Return a note of these sections (title and what it says), padded to about so many characters."""
    room = max(0, chars - sum(len(title) + len(text) for title, text in sections)) // len(sections)
    own = iter(fillers.texts(10 + 30 * len(sections))[10:])
    parts = []
    for title, text in sections:
        before, after = [next(own)], [next(own), next(own)]
        while len(" ".join((*before, *after))) < room:
            (before if len(before) <= len(after) else after).append(next(own))
        parts.append(f"## {title}\n{' '.join([*before, text, *after])}")
    return "\n\n".join(parts)
