"""Write numbers and measures in the one form that the index has of each. Pure.

The index has a memory's own words, and beside them one form of what people write in several ways (`other_words` and
`other_numbers` in schema.sql). A question asks for this form, and for its own words as other spellings.
"""

import re
from collections.abc import Callable
from typing import Final, TypeAlias

DIALLED: Final = range(7, 20)  # digits of a number that is set in groups to be dialled or copied
_MAGNITUDES: Final = {
    "k": 3, "thousand": 3, "tausend": 3, "tsd": 3, "m": 6, "mio": 6, "million": 6, "millions": 6, "millionen": 6,
    "bn": 9, "billion": 9,
}  # fmt: skip
_MAGNITUDE: Final = re.compile(
    r"(?<![\w.,])(\d{1,6}(?:[.,]\d{1,3})?)(?:([kKM])|\s?(thousand|tausend|Tsd|Mio|[Mm]illion(?:s|en)?|bn|[Bb]illion))\b"
)
_MEASURE: Final = re.compile(
    r"(?<![\w.,])(\d{1,9})(?:[.,](\d{1,3}))?"
    r"(?: ?°([CF])| ([kKMGT]i?B|[mcµ]?l|[kmµ]?g|[kcm]?m|[nmµ]s|[kMG]?Hz|k?Wh|lbs?))\b"
)
# Groups of three digits with one separator between them; then a fraction.
_GROUPED: Final = re.compile(
    r"(?<![\w.,+])(\d{1,3}(?:(?:,\d{3}){1,4}|(?:\.\d{3}){1,4}|(?:[' _\u00a0\u202f\u2019]\d{3}){1,4}))"
    r"(?:[.,](\d{1,2}))?(?!\w|[.,]\d)"
)
_PADDED: Final = re.compile(r"(?<![\w.,:/-])0+([1-9]\d{1,18}|(?<=00)[1-9])\b")
_BANK: Final = re.compile(r"\b[A-Za-z]{2}\d\d (?:\d{4}|[A-Za-z]{4})(?: \d{4}){2,6}(?: \d{1,3})?\b")
_HARDWARE: Final = re.compile(r"\b[0-9A-Fa-f]{2}(?:[:-][0-9A-Fa-f]{2}){5}\b")
_DIALLED_NUMBER: Final = re.compile(r"(?<![\w.,:/-])[+(]?\d[\d ()/.+-]{5,24}\d(?!\w)")
_DATED: Final = re.compile(r"\d\d?[./-]\d\d?[./-](?:\d\d){1,2}(?!\d)|\d{4}[./-]\d\d?(?!\d)|\d+(?:\.\d+){3}")
_ABROAD: Final = re.compile(r"\(?(?:\+|00)[1-9]")
# How many digits the code of a country has (ITU-T E.164): three unless it begins so.
_CODES: Final = re.compile(r"[17]|2[07]|3[0-469]|4[013-9]|5[1-8]|6[0-6]|8[1246]|9[0-58]|\d{3}")


def in_one_form(text: str) -> tuple[str, list[str]]:
    """Return a text with its numbers as the index has them, and what stood in their place.

    A number in groups is known whole: its groups alone would find those of others.
    """
    replaced: list[str] = []
    if not any(character.isdigit() for character in text):
        return text, replaced
    for pattern, write in _WRITERS:

        def rewrite(found: re.Match[str], write: Writer = write) -> str:
            form = write(found)
            if form != found[0] and write not in _WHOLE:
                replaced.append(found[0])
            return form

        text = pattern.sub(rewrite, text)
    return text, replaced


def _write_joined(found: re.Match[str]) -> str:
    joined = re.sub(r"[ :-]", "", found[0])
    return joined[2:] if joined[2:].isdigit() else joined  # a country alone is no part of an account


def _write_digits(found: re.Match[str]) -> str:
    return re.sub(r"\D", "", found[1]) + (f".{found[2]}" if found[2] and int(found[2]) else "")


def _write_dialled(found: re.Match[str]) -> str:
    """Write a number as it is dialled within its country; dates, addresses and several numbers are none."""
    written = found[0]
    digits = re.sub(r"\D", "", written.replace("(0)", ""))
    is_prefixed = written[0] in "+(0"
    is_one = is_prefixed or re.fullmatch(r"\d+(?:[/.-]\d+){2,}|\d{4}(?: \d{4}){3}|[1-9]-?\d{3}-\d{3}-\d{4}", written)
    if len(digits) not in DIALLED or not is_one or _DATED.match(written) or written.isdigit():
        return written
    if _ABROAD.match(written):
        digits = digits.lstrip("0")
        code = _CODES.match(digits)
        return digits[code.end() :] if code else written
    return digits[1:] if re.match(r"1[-. ]", written) else digits.lstrip("0")


def _write_plain(found: re.Match[str]) -> str:
    """Write 12k as 12000."""
    whole, _, part = found[1].replace(",", ".").partition(".")
    return str(int(whole + part) * 10 ** (_MAGNITUDES[(found[2] or found[3]).lower()] - len(part)))


def _write_unpadded(found: re.Match[str]) -> str:
    return found[1]


def _write_measure(found: re.Match[str]) -> str:
    return f"{found[1]}{f'.{found[2]}' if found[2] else ''}{found[3] or found[4]}"


Writer: TypeAlias = Callable[[re.Match[str]], str]
_WRITERS: Final[tuple[tuple[re.Pattern[str], Writer], ...]] = (
    (_BANK, _write_joined), (_HARDWARE, _write_joined), (_GROUPED, _write_digits), (_DIALLED_NUMBER, _write_dialled),
    (_PADDED, _write_unpadded), (_MAGNITUDE, _write_plain), (_MEASURE, _write_measure),
)  # fmt: skip
_WHOLE: Final = (_write_joined, _write_dialled, _write_digits)  # of which no part is asked for
