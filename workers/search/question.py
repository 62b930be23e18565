"""Read what a question asks for beyond its topic (a time, a list, a person); weigh the words it shares. Pure.

It reads English; times in other languages too, see `foreign_times`.

A question in other words than the memory that answers it still shares a word with some memory, by chance: "early" with
who said no early. Such a word says nothing, however rare it is, and the vectors decide. Words are believed as far as
the best match has more of the question than chance would give it.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, tzinfo
from functools import cached_property
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from engramq.schemas.common_words import ASKING, GRAMMAR, QUESTION, TASKS
from engramq.workers.one_form import forms_in
from engramq.workers.search.foreign_times import english_times
from engramq.workers.search.spans import EVER, MONTHS, NEVER, WEEKDAYS, DaySpan
from engramq.workers.search.spellings import other_spellings
from engramq.workers.search.times import Times, read_times
from engramq.workers.search.writings import WrittenValue, writings_in

READ: Final = 2_000  # characters; no question is longer, and a pasted document is none

_WORD: Final = re.compile(r"\w+")
# Names are told by their capitals in English alone: other languages write other words so too.
_ENGLISH: Final = re.compile(
    r"\b(?:what|when|where|who|whose|why|how|which|did|does|do|is|are|were|has|have|would|could|should|the|of|to|and|"
    r"with|their|this|that|from|about)\b",
    re.IGNORECASE,
)
# Written with a capital, and nobody's name; what they say of a time, `times` reads.
_TIMES: Final = "Yesterday Today Tonight Tomorrow Last Next Ago Week Weekend Month Year Day Morning Night Recently Soon"
_NO_NAMES: Final = frozenset([*MONTHS, *WEEKDAYS, *_TIMES.split()])
_NAME: Final = re.compile(r"(?<=[a-z,;:'\"] )[A-ZÀ-ÖØ-Þ][\w-]+")
# A word with a number, an underscore or capitals inside, or of capitals alone: an identifier of something.
_IDENTIFIER: Final = re.compile(r"\w*[\d_]\w*|\b[A-Z]{2,}\b|\b[a-z]+[A-Z]\w*")
_SELF: Final = re.compile(r"\b(?:I|My|my|Me|me|mine)\b")
# Words of a question that asks for nothing but a time: of grammar, and for whatever there was.
_NO_TOPIC: Final = (
    "at being but by doing done during each else ever every go going gone got having here just made make many might "
    "now ours out over s t then these those through till until up upon went whatever while within yes"
)
_WHATEVER_WORDS: Final = (
    "activities activity agenda busy calendar day days decide decided diary discuss discussed entries entry event "
    "events finish finished happen happening happens journal learn learned learnt log look meet met month new news "
    "next note noted notes plan planned plans remind review saw schedule scheduled see stuff time took update updates "
    "week weekend work worked working year"
)
_WHATEVER: Final = ASKING.union(_WHATEVER_WORDS.split())
_OF_TIME_ALONE: Final = GRAMMAR | _WHATEVER | set(_NO_TOPIC.split())
# A number is a year where any of these stands beside it.
_BESIDE: Final = "any did does during had how in went was were what whatever when where which who whom why"
_BESIDE_A_YEAR: Final = _WHATEVER.union(_BESIDE.split())
# Somebody is told to do something: "go on, do all of it today". "Do I have anything today?" asks.
_TO_DO: Final = re.compile(
    r"\W*(?:(?:please|now|ok|okay|yes|so|and|then|just)\b\W*)*"
    r"(?:do\b(?!\s+(?:I|we|you|they)\b)|make\b(?!\s+(?:me|us|an?)\b)|(?:go|get)\b)"
    r"|.*\b(?:do|make|get|give|finish|plan|schedule|update|log|note|show|work\s+on)\s+"
    r"(?:(?:all|some|any)\s+(?:of\s+)?)?(?:it|this|that|these|those|them)\b(?!\s+(?:day|week|weekend|month|year|time)s?\b)",
    re.IGNORECASE | re.DOTALL,
)
_FIRST_WORD: Final = re.compile(
    r"\W*(?:(?:please|pls|now|ok|okay|so|and|then|just|(?:can|could|would|will) you)\W+)*(\w+)", re.IGNORECASE
)
_JOINING: Final = ("and", "or")  # before a name: it is asked about as much as the one before
NAMES: Final = 3  # in a question; more capitals are a title


@dataclass(frozen=True)
class Question:
    """A question as it was asked, and the time by which "last month" is read; None: it does not matter.

    `pasted`: names in what was pasted beside it, of which words alone know. The days of `asked_at` are those of its
    zone. `is_bounded`: a filter of the search says from when the answer is.
    """

    text: str
    asked_at: datetime | None = None
    pasted: tuple[str, ...] = ()
    is_bounded: bool = False

    def speaker_asked_about(self, speakers: Iterable[str]) -> tuple[str, ...]:
        """Return the one speaker whom the question is about, in each spelling; none when it names none.

        Of several it is the first, who says or does something to the others: "What did Ada tell Bob?". None when the
        first two are joined ("Ada and Bob"), nor in other languages, whose joining words are not known.
        """
        spellings: dict[str, list[str]] = {}
        for speaker in sorted(set(speakers)):
            if (name := _words(speaker)) and name in self._words:
                spellings.setdefault(name.strip(), []).append(speaker)
        asked = self._first_of(spellings) if len(spellings) > 1 else next(iter(spellings), None)
        return tuple(spellings[asked]) if asked else ()

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names in a question about others; none in one of who speaks of himself, where they are the topic.

        The first word is none: it is written with a capital anyway. Neither are days, months and abbreviations.
        """
        if _SELF.search(self._read) or not _ENGLISH.search(self._read):
            return ()
        capitals = dict.fromkeys(word.removesuffix("-") for word in _NAME.findall(self._read))
        names = tuple(word for word in capitals if word not in _NO_NAMES and not word.isupper())
        return names if len(names) <= NAMES else ()

    @cached_property
    def is_exact(self) -> bool:
        """Whether it names somebody or something that other words do not mean: a name, a number, an identifier."""
        named = _ENGLISH.search(self._read) and _NAME.search(self._read)
        return bool(named or _IDENTIFIER.search(self._read))

    @cached_property
    def is_task(self) -> bool:
        """Whether it wants something done: it may ask nothing of a memory."""
        return self._first_word in TASKS

    @property
    def asks(self) -> bool:
        """Whether it is a question by its first word or its mark; bare words are none."""
        return "?" in self._read or self._first_word in QUESTION

    @cached_property
    def telling(self) -> tuple[str, ...]:
        """The words that are none of grammar, in lower case."""
        return tuple(word for word in self._words.split() if word not in GRAMMAR)

    @property
    def length(self) -> int:
        """How many words it has."""
        return self._words.count(" ") - 1 if self._words else 0

    @property
    def words(self) -> str:
        """The text whose words are looked up: what is asked, and names pasted beside it."""
        return " ".join((self.text, *self.pasted))

    @property
    def names_a_date(self) -> bool:
        """Whether a day, a month, a year or another time is named."""
        return bool(self._times.spans)

    @cached_property
    def is_only_of_time(self) -> bool:
        """Whether nothing but a time is asked for: "What did I do yesterday?". Any memory of that time answers it."""
        times = self._times
        if not (times.spans or self.is_bounded) or _TO_DO.match(times.rest):
            return False
        words = _WORD.findall(times.rest.casefold())
        is_time = times.are_sure or not times.spans or not _BESIDE_A_YEAR.isdisjoint(words)
        return is_time and all(word in _OF_TIME_ALONE for word in words)

    @cached_property
    def days(self) -> tuple[DaySpan, ...]:
        """The days that a question asks for which is only of a time; none of others."""
        if not self.is_only_of_time:
            return ()
        today = None if self.asked_at is None else self.asked_at.date()
        spans = self._times.spans or (DaySpan(EVER, NEVER),)
        return (
            spans if today is None else tuple(each for span in spans for each in span.around(today, self._times.tense))
        )

    @property
    def last_day(self) -> date | None:
        """The last day of a time that is named and over; None where none is."""
        if self.asked_at is None or not self._times.spans:
            return None
        today = self.asked_at.date()
        last = max(each.last for span in self._times.spans for each in span.around(today, self._times.tense))
        return last if last < today else None

    @property
    def zone(self) -> str | None:
        """The name of the zone whose days the question means; None where it names no time."""
        return str(self._zone) if self.names_a_date or self.is_only_of_time else None

    def is_about(self, day: date | None) -> bool:
        """Whether a day lies in a time that the question names."""
        return day is not None and any(span.holds(day) for span in self.days or self._times.spans)

    def day_of(self, moment: datetime) -> date:
        """Return the day of a moment, in the caller's zone."""
        return moment.astimezone(self._zone).date()

    @cached_property
    def spellings(self) -> str:
        """The dates and numbers of the question in their other spellings; "" where there are none."""
        return " ".join(filter(None, (other_spellings(self._times.dates), *self._forms)))

    @cached_property
    def writings(self) -> tuple[WrittenValue, ...]:
        """The values of the question that others write otherwise, and how; dates have `spellings` instead."""
        return writings_in(self._read, self._forms, self._times.written)

    @cached_property
    def _forms(self) -> dict[str, str]:
        return forms_in(self._read)

    def _first_of(self, names: Iterable[str]) -> str | None:
        """Return the first of several names that the question holds, None when it is joined to the next."""
        if not _ENGLISH.search(self._read):
            return None
        longest_first = sorted(names, key=len, reverse=True)  # Ada Lovelace is not Ada
        matches = list(re.finditer(rf"\b(?:{'|'.join(map(re.escape, longest_first))})\b", self._words))
        first = matches[0]
        other = next((match for match in matches if match[0] != first[0]), None)
        if other is None:
            return first[0]
        between = self._words[first.end() : other.start()].split()
        return None if not between or between[-1] in _JOINING else first[0]

    @cached_property
    def _times(self) -> Times:
        return read_times(english_times(self._read), None if self.asked_at is None else self.asked_at.date())

    @property
    def _zone(self) -> tzinfo:
        return UTC if self.asked_at is None else self.asked_at.tzinfo or UTC

    @cached_property
    def _read(self) -> str:
        return self.text[:READ].strip()

    @cached_property
    def _words(self) -> str:
        return _words(self._read)

    @cached_property
    def _first_word(self) -> str:
        first = _FIRST_WORD.match(self._read)
        return first[1].casefold() if first else ""


def _words(text: str) -> str:
    """Return the words of a text in lower case, each between spaces; "" when there is none."""
    words = _WORD.findall(text.casefold())
    return f" {' '.join(words)} " if words else ""


Column: TypeAlias = NDArray[np.float64]

HALF_LENGTH: Final = 50.0  # different words of a memory that halve what a match counts
# The most that are counted: without it what one section of a handbook says would count less than a short memory's
# common words. With 300 a note of 27 KB came first for .42 of what it answers among 60 memories, with 150 for .74.
MOST_WORDS: Final = 150
# The share of what a question's words weigh that the best memory has: up to the first one word of several may be there
# by chance, from the second on the memory is about what was asked.
BY_CHANCE, ON_TOPIC = 0.5, 0.7
# The same in what one word weighs that a single memory has: no word weighs more, so that it takes two to be worth more.
ONE_WORD, TWO_WORDS = 1.0, 1.2


def by_share(lexical: Column, covered: Column, words: Column) -> Column:
    """Return lexical scores by the root of the share of the question that each memory has, and once more by its length.

    `covered`: shares, nan where there is none, which counts like all; `words`: different ones of each memory.
    """
    share = np.where(np.isnan(covered), 1.0, covered) / (1 + words / HALF_LENGTH)
    weighted: Column = lexical * np.sqrt(np.maximum(share, 0.0))
    return weighted


def trust(question: Question, covered: Column, worth: Column) -> float:
    """Return from 0 to 1 how far words are believed, by the best match among the candidates (nan: no match).

    `covered`: shares of the question's words; `worth`: 1.0 is a word that no other memory has. A question that names
    somebody, or holds a number or an identifier, is believed: such a word is no chance.
    """
    if question.is_exact:
        return 1.0
    share, best = _greatest(covered), _greatest(worth)
    return max(_between(share, BY_CHANCE, ON_TOPIC), _between(best, ONE_WORD, TWO_WORDS))


def _greatest(values: Column) -> float:
    known = values[~np.isnan(values)]
    return float(known.max()) if len(known) else 0.0


def _between(value: float, low: float, high: float) -> float:
    """Return where a value stands between two others: 0 at the low one and below, 1 at the high one and above."""
    return min(1.0, max(0.0, (value - low) / (high - low)))
