"""What the words of a question say about the memories that it is after, beyond their topic. Pure; English."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Final

from engramq.workers.search.times import Span, is_about, spans_in

# Full text stems these and finds them in memories that say when something was.
TIME_WORDS: Final = (
    "yesterday today tonight tomorrow last next ago week weekend month year day morning night monday tuesday wednesday "
    "thursday friday saturday sunday recently soon"
)
READ: Final = 2_000  # characters; no question is longer, and a pasted document is none

_ASKS_WHEN: Final = re.compile(
    r"\W*(?:since |until |by )?(?:when\b|(?:what|which) (?:date|day|week|month|year|time)\b|how long ago\b)",
    re.IGNORECASE,
)
_WORD: Final = re.compile(r"\w+")
# Names are told by their capitals in English alone: other languages write other words so too.
_ENGLISH: Final = re.compile(
    r"\b(?:what|when|where|who|whose|why|how|which|did|does|do|is|are|were|has|have|the|of|to)\b", re.IGNORECASE
)
_NAME: Final = re.compile(r"(?<=[a-z,;:'\"] )[A-ZÀ-ÖØ-Þ][\w-]+")
_SELF: Final = re.compile(r"\b(?:I|My|my|Me|me|mine)\b")
NAMES: Final = 3  # in a question; more capitals are a title


@dataclass(frozen=True)
class Question:
    """A question as it was asked, and when: by that is told which month was the last; None: nobody cares."""

    text: str
    asked_at: datetime | None = None

    @cached_property
    def asks_when(self) -> bool:
        """Whether the answer is a time."""
        return _ASKS_WHEN.match(self._read) is not None

    def only_speaker_of(self, speakers: Iterable[str]) -> tuple[str, ...]:
        """Return the one speaker that the question names, in each spelling; none when it names none or several."""
        named = [one for one in sorted(set(speakers)) if (name := _words(one)) and name in self._words]
        return tuple(named) if len({_words(one) for one in named}) == 1 else ()

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names in a question about others; none in one of who speaks of himself, where they are the topic.

        The first word is none: it is written with a capital anyway.
        """
        if _SELF.search(self._read) or not _ENGLISH.search(self._read):
            return ()
        found = tuple(dict.fromkeys(one.removesuffix("-") for one in _NAME.findall(self._read)))
        return found if len(found) <= NAMES else ()

    @property
    def names_a_date(self) -> bool:
        """Whether a day, a month, a year or another time is named."""
        return bool(self._spans)

    def is_about(self, moment: datetime | None) -> bool:
        """Whether a moment lies in a time that the question names."""
        return moment is not None and is_about(moment, self._spans)

    @cached_property
    def _spans(self) -> tuple[Span, ...]:
        return spans_in(self._read, self.asked_at)

    @cached_property
    def _read(self) -> str:
        return self.text[:READ].strip()

    @cached_property
    def _words(self) -> str:
        return _words(self._read)


def _words(text: str) -> str:
    """Return the words of a text in lower case, each between spaces; "" when there is none."""
    found = _WORD.findall(text.casefold())
    return f" {' '.join(found)} " if found else ""
