"""The words that times are made of: months, numbers, units, and a match of them in a text. Pure; English."""

import re
from dataclasses import dataclass
from datetime import date
from typing import Final

from engramq.schemas.patterns import compile_late
from engramq.workers.search.number_words import ENGLISH
from engramq.workers.search.spans import LONG, MONTHS, WEEKDAYS, Tense

MONTH_NAME: Final = (
    r"(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|"
    r"Sept?(?:ember)?|Oct(?:ober)?|Nov(?:ember)?|Dec(?:ember)?)\b\.?"
)
MONTH: Final = rf"(?P<month>{MONTH_NAME})"
YEAR: Final = r"(?P<year>(?:19|20)\d\d)(?!\d|-\d)"
DAY_NUMBER: Final = (
    r"(?P<day>\d{1,2})(?P<th>st|nd|rd|th)?(?:\s*(?:-|–|to|until|through|and)\s*(?P<through>\d{1,2})(?:st|nd|rd|th)?)?"
)
WEEKDAY: Final = r"(?P<weekday>Mon|Tues?|Wed(?:nes)?|Thu(?:rs?)?|Fri|Sat(?:ur)?|Sun)(?P<full>day)?(?P<plural>s)?\b"
UNIT: Final = r"(?P<unit>minute|hour|day|weekend|week|fortnight|month|quarter|year)"
_TENS: Final = {"thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "ninety": 90, "hundred": 100}
# How many a word means, at least and at most.
COUNTS: Final = {word: count for count, word in enumerate((*ENGLISH, "twenty"))} | _TENS
AMOUNTS: Final = {word: (count, count) for word, count in COUNTS.items()} | {
    "a": (1, 1), "an": (1, 1), "couple": (2, 3), "few": (2, 5), "several": (3, 7),
}  # fmt: skip
MANY: Final = rf"(?:(?:a\s+|the\s+)?(?P<many>\d{{1,4}}|couple|few|several|{'|'.join(COUNTS)})(?:\s+of)?|(?P<one>an?))"
_GOES_ON: Final = (
    r"\s*(?:\Z|[?!,;:)]|\.(?!\d)|(?:and|or|to|until|at|in|with|did|do|was|were|I|we|you|they|he|she|what%s)\b)"
)
# After a time that is no part of a name: no noun follows.
NO_NOUN: Final = compile_late(_GOES_ON % "|is|are", re.IGNORECASE)
# The same for seasons and weekends, which begin more sentences; "this spring is under tension" is none.
GOES_ON: Final = compile_late(
    _GOES_ON
    % (
        "|when|while|for|on|about|because|how|where|who|why|my|our|but|so|before|prior|after|following|since|have|had|has"
        "|the|there|it"
    ),
    re.IGNORECASE,
)
_THE: Final = compile_late(r"\bthe\s+\Z", re.IGNORECASE)
ORDINALS: Final = ("first", "second", "third", "fourth")


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
    def has_article(self) -> bool:
        start = self.found.start()
        return _THE.search(self.found.string, max(0, start - 8), start) is not None

    @property
    def is_whole(self) -> bool:
        return len(self.found[0]) >= len(self.found.string.strip(" ?!.,"))


def read_amount(match: Match) -> tuple[int, int] | None:
    """Return how many are meant, at least and at most; None where that is no time that anybody names."""
    least, most = read_count(match)
    return (least, most) if most * LONG[read_unit(match)] < 40_000 else None


def read_count(match: Match) -> tuple[int, int]:
    text = (match["many"] or match["one"]).lower()
    return AMOUNTS[text] if text in AMOUNTS else (int(text), int(text))


def read_unit(match: Match) -> str:
    return match["unit"].lower()


def read_month(match: Match) -> int:
    """Return the number of a month. Raises ValueError where the rule read none: each month begins with nothing."""
    return [month[:3] for month in MONTHS].index(match["month"][:3].capitalize()) + 1


def read_weekday(match: Match) -> int:
    return find_weekday(match["weekday"])


def find_weekday(word: str) -> int:
    return next(place for place, day in enumerate(WEEKDAYS) if day.startswith(word[:3].capitalize()))
