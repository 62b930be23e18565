"""Read and spell whole numbers as English and German words, ordinals, and as Roman numerals. Pure."""

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Final


def _words(text: str) -> list[str]:
    return text.split()


_ENGLISH: Final = _words(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
)
_TENS: Final = _words("twenty thirty forty fifty sixty seventy eighty ninety")
_GERMAN: Final = _words(
    "null ein zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn siebzehn "
    "achtzehn neunzehn"
)
_GERMAN_TENS: Final = _words("zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig")
_POWERS: Final = {"million": 1_000_000, "thousand": 1_000, "hundred": 100, "dozen": 12, "dutzend": 12}
_ORDINALS: Final = _words(
    "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth fifteenth "
    "sixteenth seventeenth eighteenth nineteenth twentieth"
)
_GERMAN_ORDINALS: Final = _words("erste zweite dritte vierte fünfte sechste siebte achte neunte zehnte elfte zwölfte")
_ROMAN: Final = ((10, "X"), (9, "IX"), (5, "V"), (4, "IV"), (1, "I"))
LARGEST: Final = 1_000_000_000
LARGEST_ROMAN: Final = 39


@cache
def _values() -> dict[str, int]:
    words = {word: value for value, word in enumerate(_ENGLISH)} | {word: value for value, word in enumerate(_GERMAN)}
    words |= {word: 10 * ten for tens in (_TENS, _GERMAN_TENS) for ten, word in enumerate(tens, 2)}
    del words["ein"]  # an article
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
        elif power < 1_000:
            current = max(current, 1) * power
        else:
            total, current = total + max(current, 1) * power, 0
    return total + current if total + current < LARGEST else None


def names_number(words: Iterable[str]) -> bool:
    """Say whether any of these words in lower case is one of a number or names a place."""
    return any(is_count(word) or word in _ordinals() for word in words)


def is_count(word: str) -> bool:
    """Say whether a word in lower case is one of a number."""
    return word in _POWERS or value_of(word) is not None


def spell_count(number: int) -> tuple[str, ...]:
    """Return a number in English and German words; none where they would be long."""
    if not 1 < number < LARGEST or len(str(number).rstrip("0")) > 2 + (number < 1_000):
        return ()
    dozens, over = divmod(number, 12)
    more = [f"{_ENGLISH[dozens]} dozen", f"{_GERMAN[dozens]} Dutzend"] if not over and 1 < dozens < 6 else []
    english, german = _english(number), _german(number)
    return (english, german, *more, *(["dozen", "Dutzend"] if number == 12 else []))


def _english(number: int) -> str:
    for word in ("million", "thousand", "hundred"):
        many, over = divmod(number, _POWERS[word])
        if many:
            return f"{_english(many)} {word}" + (f" {_english(over)}" if over else "")
    if number < 20:
        return _ENGLISH[number]
    return _TENS[number // 10 - 2] + (f" {_ENGLISH[number % 10]}" if number % 10 else "")


def _german(number: int) -> str:
    if number >= 1_000_000:
        many = number // 1_000_000
        return "eine Million" if many == 1 else f"{_german(many)} Millionen"
    for word, power in (("tausend", 1_000), ("hundert", 100)):
        many, over = divmod(number, power)
        if many:
            return (_german(many) if many > 1 else "ein") + word + (_german(over) if over else "")
    if number < 20:
        return "eins" if number == 1 else _GERMAN[number]
    return (f"{_GERMAN[number % 10]}und" if number % 10 else "") + _GERMAN_TENS[number // 10 - 2]


@cache
def _ordinals() -> dict[str, int]:
    found = {word: value for value, word in enumerate(_ORDINALS, 1)} | {"thirtieth": 30, "thirty-first": 31}
    found |= {f"twenty-{word}": 20 + value for value, word in enumerate(_ORDINALS[:9], 1)}
    return found | {
        word + ending: value for value, word in enumerate(_GERMAN_ORDINALS, 1) for ending in ("", "n", "r", "s", "m")
    }


def read_ordinal(word: str) -> int | None:
    """Return which place a word in lower case names; None where it is none."""
    return _ordinals().get(word)


def spell_ordinal(number: int) -> tuple[str, ...]:
    """Return the English words for a place, and the German one as it stands before most nouns."""
    english = [
        word for word, value in _ordinals().items() if value == number and word.endswith(("st", "nd", "rd", "th"))
    ]
    german = _GERMAN_ORDINALS[number - 1 : number]
    return (*english, *(f"{word}{ending}" for word in german for ending in ("n", "r")))


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
