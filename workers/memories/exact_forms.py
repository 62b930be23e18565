"""Say whether two sentences differ in how a value is written alone. Pure.

Two forms are the same if each has one reading: 10 GB is 10GB, 1,200,000 is 1200000. A group of three digits behind a
point or a comma may be a fraction. Leading zeros and the code of a country are part of a value, and "k" may be 1,024.
`one_form.py` writes all of these as one, since a question finds more so; here a difference would be lost.
"""

import re
from collections.abc import Callable
from typing import Final

from engramq.schemas.patterns import compile_late
from engramq.workers.one_form import HARDWARE

_BLANK: Final = "[ \u00a0\u202f]"
_POWERS: Final = {"t": 3, "m": 6}  # of ten, by the first letter of thousand, tausend, Tsd; million, Mio
_MEASURED: Final = compile_late(
    rf"(?<=\d){_BLANK}(?=(?:°[CF]|[kKMGT]i?B|[mcµ]?l|[kmµ]?g|[kcm]m|[nmµ]s|[kMG]?Hz|k?Wh|lbs?)\b)"
)
# Two groups of three digits or more; of one alone where no fraction is written so.
_GROUPED: Final = compile_late(
    r"(?<![\w.,+])(?<!\d[ '_\u00a0\u202f\u2019])[1-9]\d{0,2}"
    r"(?:(?:,\d{3}){2,}|(?:\.\d{3}){2,}|(?: \d{3}){2,}|(?:['_\u00a0\u202f\u2019]\d{3})+)"
    r"(?![\w'\u2019]|[.,]\d{3}|[ \u00a0\u202f]\d)"
)
_COUNTED: Final = compile_late(
    rf"(?<![\w.,+-])(?<!\d{_BLANK})(0|[1-9]\d{{0,5}})(?:[.,](\d\d?))?{_BLANK}?"
    r"(thousand|tausend|Tsd|Mio|[Mm]illion(?:s|en)?)\b"
)
# Numbers that are dialled or copied as they stand: in groups or not, their digits are the same.
_DIALLED: Final = compile_late(
    rf"(?<![\w.,:/+-])(?:\+[1-9](?:{_BLANK}?[(-]?\d[)]?){{6,14}}|0[1-9]\d{{0,3}}(?:{_BLANK}\d+)+"
    rf"|\(?[1-9]\d\d\)?[ -]\d{{3}}[ -]\d{{4}}|\d{{4}}(?:{_BLANK}\d{{4}}){{3}})(?![\w/]|[ .,:-]\d)"
)
_ACCOUNT: Final = compile_late(rf"\b[A-Z]{{2}}\d\d(?:{_BLANK}[0-9A-Z]{{4}}){{2,7}}(?:{_BLANK}[0-9A-Z]{{1,3}})?\b")
_DIGITS_DIALLED: Final = range(7, 17)  # fewer or more behind a zero may be a list


def are_same_values(first: str, other: str) -> bool:
    """Say whether two sentences are surely the same except in blanks, grouping and words of their numbers."""
    return _write_exactly(first) == _write_exactly(other)


def join_groups(text: str) -> str:
    """Return a text with numbers in one piece that are surely grouped by thousands."""
    return _GROUPED.sub(_join_digits, text)


def _write_exactly(text: str) -> str:
    if any(character.isdigit() for character in text):
        for pattern, write in _WRITERS:
            text = pattern.sub(write, text)
    return text


def _join_all(found: re.Match[str]) -> str:
    return re.sub(r"[\W_]", "", found[0])


def _join_digits(found: re.Match[str]) -> str:
    return re.sub(r"\D", "", found[0])


def _join_dialled(found: re.Match[str]) -> str:
    """Join a number that is dialled; (0) is dialled in some countries and left out in others."""
    digits = _join_digits(found)
    if len(digits) not in _DIGITS_DIALLED or "(0)" in found[0]:
        return found[0]
    return f"+{digits}" if found[0].startswith("+") else digits


def _count(found: re.Match[str]) -> str:
    """Write 1.2 million as 1200000."""
    part = found[2] or ""
    return str(int(found[1] + part) * 10 ** (_POWERS[found[3][0].lower()] - len(part)))


_WRITERS: Final[tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], str]], ...]] = (
    (_ACCOUNT, _join_all), (HARDWARE, _join_all), (_GROUPED, _join_digits), (_DIALLED, _join_dialled),
    (_COUNTED, _count), (_MEASURED, lambda _: ""),
)  # fmt: skip
