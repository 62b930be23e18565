"""Write numbers and measures in the one form that the index has of each. Pure.

The index has a memory's own words, and beside them one form of what people write in several ways (`other_words` and
`other_numbers` in schema.sql). A question asks for its own words, and for this form as another spelling of them.
"""

import re
from collections.abc import Callable
from typing import Final, TypeAlias

from engramq.schemas.patterns import compile_late

DIALLED: Final = range(7, 20)  # digits of a number that is set in groups to be dialled or copied
_MAGNITUDES: Final = {
    "k": 3, "thousand": 3, "tausend": 3, "tsd": 3, "m": 6, "mio": 6, "million": 6, "millions": 6, "millionen": 6,
    "bn": 9, "billion": 9,
}  # fmt: skip
_MAGNITUDE: Final = compile_late(
    r"(?<![\w.,])([0-9]{1,6}(?:[.,][0-9]{1,3})?)(?:([kKM])|\s?(thousand|tausend|Tsd|Mio|[Mm]illion(?:s|en)?|bn|[Bb]illion))\b"
)
_MEASURE: Final = compile_late(
    r"(?<![\w.,])([0-9]{1,9})(?:[.,]([0-9]{1,3}))?"
    r"(?: ?°([CF])| ([kKMGT]i?B|[mcµ]?l|[kmµ]?g|[kcm]?m|[nmµ]s|[kMG]?Hz|k?Wh|lbs?))\b"
)
# Groups of three digits with one separator between them; then a fraction. Between blanks a group of three digits may
# begin a list of numbers: it is the thousands of a round number, or of a measure. An iPhone 15 may have 128 GB.
_GROUPED: Final = compile_late(
    r"(?<![\w.,+/-])((?:[0-9]{1,3}(?:(?:,[0-9]{3}){1,4}|(?:\.[0-9]{3}){1,4}|(?:['_\u2019][0-9]{3}){1,4}))"
    r"|[0-9]{1,2}(?! (?:128|256|512) [GT]B)(?:[ \u00a0\u202f][0-9]{3}){1,4}"
    r"|[0-9]{3}(?:[ \u00a0\u202f][0-9]{3}){0,3}[ \u00a0\u202f](?:000"
    r"|[0-9]{3}(?= ?(?:[kKMGT]i?B|[mc]?l|k?g|[kcm]?m|EUR|USD|€)(?!\w))))(?:[.,]([0-9]{1,2}))?(?!\w|[.,][0-9])"
)
_PADDED: Final = compile_late(r"(?<![\w.,:/-])0+([1-9][0-9]{1,18}|(?<=00)[1-9])\b")
_BANK: Final = compile_late(r"\b[A-Za-z]{2}[0-9]{2} (?:[0-9]{4}|[A-Za-z]{4})(?: [0-9]{4}){2,6}(?: [0-9]{1,3})?\b")
HARDWARE: Final = compile_late(r"\b[0-9A-Fa-f]{2}(?:[:-][0-9A-Fa-f]{2}){5}\b")
# With a country's code or a zero before it, in America, in hyphens or the like, a card. What follows after a blank is
# no part of it where it is one digit, a year, a time, or another number that begins with a zero.
_AFTER: Final = (
    r"(?:(?: ?[/-] ?(?!0)|\.|[ )] ?(?!0[0-9]{2,4} [0-9]{5}|(?:19|20)[0-9]{2}(?![0-9]| [0-9])))"
    r"[0-9]{2,}(?![0-9]|:[0-9]))"
)
_DIALLED_NUMBER: Final = compile_late(
    r"(?<![\w.,:/-])(?:\(?(?:\+|00)[1-9][0-9]{0,2}\)?[ /.-]?(?:\(0\) ?)?\(?[0-9]{1,14}" + _AFTER + r"*"
    r"|\(?0[1-9][0-9]{0,5}" + _AFTER + r"+"
    r"|(?:\+?1[-. ])?(?:\([2-9][0-9]{2}\) ?|[2-9][0-9]{2}[-.])[0-9]{3}[-.][0-9]{4}"
    r"|(?!19|20)[0-9]{4}(?: [0-9]{4}){3}|[0-9]+(?:[/.-][0-9]+){2,})(?!\w|[/.:-][0-9])"
)
_DATED: Final = compile_late(
    r"[0-9]{1,2}[./-][0-9]{1,2}[./-](?:[0-9]{2}){1,2}(?![0-9])|[0-9]{4}[./-][0-9]{1,2}(?![0-9])|[0-9]+(?:\.[0-9]+){3}"
)
_ABROAD: Final = compile_late(r"\(?(?:\+|00)[1-9]")
# How many digits the code of a country has (ITU-T E.164): three unless it begins so.
_CODES: Final = compile_late(r"[17]|2[07]|3[0-469]|4[013-9]|5[1-8]|6[0-6]|8[1246]|9[0-58]|[0-9]{3}")


def forms_in(text: str) -> dict[str, str]:
    """Return the forms that the index has of the numbers in a text, and of each how the text has that number."""
    written: dict[str, str] = {}
    for pattern, write in _WRITERS:

        def rewrite(found: re.Match[str], write: Writer = write) -> str:
            form = write(found)
            if form != found[0]:
                own = found[0]
                for earlier, of in written.items():
                    own = replace_whole(own, earlier, of)
                written.setdefault(form, own)
            return form

        text = pattern.sub(rewrite, text)
    return written


def replace_whole(text: str, part: str, by: str) -> str:
    """Replace a part of a text wherever it stands whole: 7 in "room 7", not in 17."""
    return by.join(re.split(rf"(?<!\w){re.escape(part)}(?!\w)", text))


def _write_joined(found: re.Match[str]) -> str:
    """Write an account; without its country where digits are left, since that alone is no part of it."""
    joined = found[0].replace(" ", "")
    return joined[2:] if joined[2:].isdigit() else joined


def _write_hardware(found: re.Match[str]) -> str:
    return re.sub("[:-]", "", found[0])


def _write_digits(found: re.Match[str]) -> str:
    return re.sub(r"\D", "", found[1]) + (f".{found[2]}" if found[2] and int(found[2]) else "")


def _write_dialled(found: re.Match[str]) -> str:
    """Write a number as it is dialled within its country; dates and addresses are none."""
    written = found[0]
    digits = re.sub(r"\D", "", written.replace("(0)", ""))
    if len(digits) not in DIALLED or _DATED.match(written) or written.isdigit():
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
    (_BANK, _write_joined), (HARDWARE, _write_hardware), (_DIALLED_NUMBER, _write_dialled), (_GROUPED, _write_digits),
    (_PADDED, _write_unpadded), (_MAGNITUDE, _write_plain), (_MEASURE, _write_measure),
)  # fmt: skip
