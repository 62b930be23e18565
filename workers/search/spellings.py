"""Spell the dates of a question in the other usual ways, and find its words where a letter is wrong. Pure.

"March 15, 2024" is 2024-03-15, 15.03.2024 and 3/15/2024. How full text cuts such a spelling into words is its own
matter: each is given whole. Numbers have one form (`workers/one_form.py`), and other writings (`writings.py`).
"""

import re
from collections.abc import Container, Iterator, Sequence
from typing import Final

from engramq.workers.search.spans import DAY, MONTHS, DaySpan

LONG_WORD: Final = 6  # letters of a word that is still itself with one of them wrong: a house is no horse
AMONG_OTHERS: Final = 5  # the same where other words of the query agree
WRONG_WORDS: Final = 3  # at most: with more nobody means the same, and to compare hundreds would take seconds
READ: Final = 4_000  # characters of a memory, whose words are compared
SPELLED: Final = 8  # dates of a question
_WORD: Final = re.compile(r"\w+")


def have_misspelt(words: Sequence[str], texts: Sequence[str]) -> list[bool]:
    """Say of each text whether it has all of these words (in lower case), with a letter wrong in some that none has.

    A word that any of the texts has is spelled as it is meant: who asks for Maren Holt does not mean Maron Holt.
    """
    small = [text[:READ].casefold() for text in texts]
    unknown = _find_unknown(words, ["\n".join(small)])  # not even in a longer word: mostly that decides
    several = [] if unknown is None else [frozenset(_WORD.findall(text)) for text in small]
    if not several or not (unknown := _find_unknown(words, several)):
        return [False] * len(texts)
    return [
        all(word in each for word in words if word not in unknown)
        and all(any(_is_off_by_one(word, other) for other in each) for word in unknown)
        for each in several
    ]


def _find_unknown(words: Sequence[str], texts: Sequence[Container[str]]) -> list[str] | None:
    """Return the words that no text has; None where not all of these can be misspelt."""
    unknown = [word for word in words if not any(word in each for each in texts)]
    least = LONG_WORD if len(words) < 2 else AMONG_OTHERS
    can_be = len(unknown) <= WRONG_WORDS and all(len(word) >= least and word.isalpha() for word in unknown)
    return unknown if can_be else None


def _is_off_by_one(word: str, other: str) -> bool:
    if abs(len(word) - len(other)) > 1:
        return False
    pairs = enumerate(zip(word, other, strict=False))
    same = next((at for at, (mine, theirs) in pairs if mine != theirs), min(len(word), len(other)))
    mine, theirs = word[same:], other[same:]
    while mine and theirs and mine[-1] == theirs[-1]:
        mine, theirs = mine[:-1], theirs[:-1]
    return max(len(mine), len(theirs)) <= 1 or (len(mine) == 2 and mine == theirs[::-1])


def other_spellings(dates: Sequence[DaySpan]) -> str:
    """Return the other spellings of dates that were read in a text, "" for none."""
    return " ".join(dict.fromkeys(word for span in dates[:SPELLED] for word in _of_date(span)))


def _of_date(span: DaySpan) -> Iterator[str]:
    """Yield how a day or a month is written; of a span of days the first and the last."""
    first, month = span.first, MONTHS[span.first.month - 1]
    yield from (month, month[:3])
    if span.last - span.first >= 27 * DAY:
        if not span.every_year:
            yield from (f"{first:%Y-%m}", f"{first.month}/{first.year}", f"{first:%m/%Y}", str(first.year))
        return
    for day in dict.fromkeys((span.first, span.last)):
        yield from (str(day.day), f"{day.day:02}")
        days, months = (f"{day.day:02}", str(day.day)), (f"{day.month:02}", str(day.month))
        pairs = [(d, m) for d in dict.fromkeys(days) for m in dict.fromkeys(months)]
        if span.every_year:
            for d, m in pairs:
                yield from (f"{d}.{m}.", f"{m}/{d}")
            continue
        yield from (
            str(day.year),
            f"{day.year:04}-{day.month:02}-{day.day:02}",
            f"{day.year:04}/{day.month:02}/{day.day:02}",
        )
        for d, m in pairs:
            yield from (f"{d}.{m}.{day.year}", f"{m}/{d}/{day.year}", f"{d}/{m}/{day.year}")
