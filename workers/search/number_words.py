"""Read and spell whole numbers as English and German words and as Roman numerals. Pure."""

from collections.abc import Sequence
from functools import cache
from typing import Final


def _words(text: str) -> list[str]:
    return text.split()


ENGLISH: Final = _words(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
)
_TENS: Final = _words("twenty thirty forty fifty sixty seventy eighty ninety")
_GERMAN: Final = _words(
    "null ein zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn siebzehn "
    "achtzehn neunzehn"
)
_GERMAN_TENS: Final = _words("zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig")
_POWERS: Final = {
    "million": 1_000_000,
    "millionen": 1_000_000,
    "thousand": 1_000,
    "hundred": 100,
    "dozen": 12,
    "dutzend": 12,
}
_ORDINAL: Final = _words(
    "third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth fifteenth sixteenth "
    "seventeenth eighteenth nineteenth twentieth"
)  # first and second have other meanings
_GERMAN_ORDINAL: Final = {1: "erste", 3: "dritte", 7: "siebte", 8: "achte"}
_ROMAN: Final = ((10, "X"), (9, "IX"), (5, "V"), (4, "IV"), (1, "I"))
LARGEST: Final = 1_000_000_000
LARGEST_ROMAN: Final = 39


@cache
def _values() -> dict[str, int]:
    words = {word: value for value, word in enumerate(ENGLISH)} | {word: value for value, word in enumerate(_GERMAN)}
    words |= {word: 10 * ten for tens in (_TENS, _GERMAN_TENS) for ten, word in enumerate(tens, 2)}
    for word in ("ein", "elf", "null"):  # an article, and words of English
        del words[word]
    return words | {
        f"{unit}und{ten}": 10 * place + value
        for place, ten in enumerate(_GERMAN_TENS, 2)
        for value, unit in enumerate(_GERMAN[1:10], 1)
    }


def value_of(word: str) -> int | None:
    """Return the number of one word in lower case, German ones in one piece; None where it is none."""
    if (value := _values().get(word)) is not None:
        return value
    for power, count in (("tausend", 1_000), ("hundert", 100)):
        before, found, after = word.partition(power)
        if found:
            head = 1 if before in {"", "ein"} else value_of(before)
            tail = 0 if not after else value_of(after.removeprefix("und"))
            return None if head is None or tail is None or head >= 1_000 else head * count + tail
    return None


def read_count(words: Sequence[str]) -> int | None:
    """Return the number that these words in lower case say together, such as two hundred and fifty."""
    total, current = 0, 0
    for word in words:
        if word in {"and", "a", "an", "ein"}:
            current = current or int(word != "and")
        elif (power := _POWERS.get(word)) is None:
            value = value_of(word)
            if value is None or (current % 100 and (value > 9 or current % 10 or current % 100 < 20)):
                return None
            current += value
        elif not current:  # half a million, a few hundred
            return None
        elif power < 1_000:
            current *= power
        else:
            total, current = total + current * power, 0
    return total + current if total + current < LARGEST else None


def is_count(word: str) -> bool:
    """Say whether a word in lower case is one of a number."""
    return word in _POWERS or value_of(word) is not None


def spell_count(number: int) -> tuple[str, ...]:
    """Return a number in English and German words, where these are no part of another's: 300, but not 90.

    English ones have at most two words: a memory that has both may have them for 350, too.
    """
    if 12 < number < 20:
        return ENGLISH[number], _GERMAN[number]
    if not 20 <= number < 1_000_000:
        return ()
    german = (_german(number),) if len(str(number).rstrip("0")) <= 2 else ()
    power = next((word for word in ("thousand", "hundred") if not number % _POWERS[word]), "")
    many = number // _POWERS[power] if power else 0
    return (f"{ENGLISH[many]} {power}", *german) if 0 < many < 20 else german


def _german(number: int) -> str:
    for word, power in (("tausend", 1_000), ("hundert", 100)):
        many, over = divmod(number, power)
        if many:
            return (_german(many) if many > 1 else "ein") + word + (_german(over) if over else "")
    if number < 20:
        return "eins" if number == 1 else _GERMAN[number]
    return (f"{_GERMAN[number % 10]}und" if number % 10 else "") + _GERMAN_TENS[number // 10 - 2]


def value_of_ordinal(word: str) -> int | None:
    """Return the number of an English ordinal in lower case, from third to twentieth; None for another word."""
    return _ORDINAL.index(word) + 3 if word in _ORDINAL else None


def spell_ordinal(number: int) -> str:
    """Return a number up to 99 as an English ordinal; "" for 1 and 2, which mean more, and for tens from 30 on."""
    tens, one = divmod(number, 10)
    if number > 20 and one:
        return f"{_TENS[tens - 2]} {('first', 'second', *_ORDINAL)[one - 1]}"
    return _ORDINAL[number - 3] if 3 <= number <= 20 else ""


def write_ordinal(number: int) -> str:
    """Return a number up to 99 in digits as an English ordinal: 3rd, 12th, 21st."""
    return f"{number}{'th' if 10 < number < 14 else {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th')}"


def spell_german_ordinal(number: int) -> str:
    """Return a number from 1 to 99 as a German ordinal, without what its noun adds."""
    return _GERMAN_ORDINAL.get(number) or _german(number) + ("te" if number < 20 else "ste")


def small_number(number: int, *, german: bool = False) -> str:
    """Return a number up to 12 in a word."""
    if not german:
        return ENGLISH[number]
    return "eins" if number == 1 else _GERMAN[number]


def as_roman(number: int) -> str:
    """Return a number up to LARGEST_ROMAN in Roman numerals."""
    written = ""
    for value, sign in _ROMAN:
        while number >= value:
            written, number = written + sign, number - value
    return written


@cache
def _romans() -> dict[str, int]:
    return {as_roman(number): number for number in range(1, LARGEST_ROMAN + 1)}


def read_roman(numeral: str) -> int | None:
    """Return the number of a Roman numeral of capitals; None where it is none."""
    return _romans().get(numeral)
