"""Write the values of a question as others write them: 1.5 km is 1500 m, 9 pm is 21:00, 300 is three hundred. Pure.

A memory that has all words of another writing counts as if it had the question's own. So a writing is whole, and
means nothing else: a small number goes with the word beside it, a unit's sign is read as written. English and German.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from itertools import chain, islice
from typing import Final, NamedTuple, TypeAlias

from engramq.schemas.common_words import GRAMMAR
from engramq.schemas.patterns import compile_late
from engramq.workers.one_form import replace_whole
from engramq.workers.search.number_words import (
    as_roman,
    is_count,
    read_count,
    read_roman,
    spell_count,
    spell_german_ordinal,
    spell_ordinal,
    value_of_ordinal,
    write_ordinal,
)
from engramq.workers.search.time_words import ORDINALS
from engramq.workers.search.times_of_day import times_in, ways_of_time

VALUES: Final = 3  # of a question that are written otherwise
WAYS: Final = 8  # of each: full text needs some .1 ms for each
_SMALL: Final = 31  # up to here a number is the day of many dates
_ROMANS: Final = range(2, 21)


class WrittenValue(NamedTuple):
    """A part of a question, and how others write what it says."""

    own: str
    others: tuple[str, ...]


# Units of each kind: signs and names, and how much of the least one it is.
_KINDS: Final = (
    (("mm millimetres millimeters", 1), ("cm centimetres centimeters Zentimeter", 10),
     ("m metres meters Meter", 1e3), ("km kilometres kilometers Kilometer", 1e6)),
    (("g grams Gramm", 1), ("kg kilograms kilos Kilogramm Kilo", 1e3)),
    (("ml millilitres milliliters Milliliter", 1), ("l litres liters Liter", 1e3)),
    (("min minutes mins Minuten", 1), ("h hours hrs Stunden", 60)),
    (("days Tage", 1), ("weeks Wochen", 7)),
    (("months Monate", 1), ("years Jahre", 12)),
    (("KB kilobytes", 1), ("MB megabytes", 1e3), ("GB gigabytes", 1e6), ("TB terabytes", 1e9)),
    (("km/h kmh kph", 1),),
    (("EUR euros", 1),), (("USD dollars", 1),),
    (("percent Prozent %", 1),),
)  # fmt: skip
_BYTES: Final = next(place for place, units in enumerate(_KINDS) if units[0][0].startswith("KB"))
_TIMES_APART: Final = 1_000  # units of one kind in which the same is said
_NOT_JOINED: Final = frozenset(["h"])  # signs that the index does not join with their number
_NUMBERED_SO: Final = (
    "act article band book chapter episode grade kapitel level part phase section stage teil title type volume war"
)
_NAMED: Final = frozenset(_NUMBERED_SO.split())  # what is numbered as kings are
_NUMBER: Final = compile_late(
    r"(?<![\w.,:/+#@-])(?<![0-9] )(?:[0-9]{1,3}(?:,[0-9]{3}){1,3}|[0-9]{1,9}(?:[.,][0-9]{1,4})?)"
    r"(?![0-9]|[.,:/-][0-9]|[ .-][0-9])"
)
_DIGIT: Final = compile_late(r"[0-9]")
_WORD: Final = compile_late(r"[^\W\d_]+")
_DIGIT_BEFORE: Final = compile_late(r"[0-9] \Z")
_UNIT_AFTER: Final = compile_late(r" ?(km/h|per cent|%|[^\W\d_]+)(?![\w/])")
_AFTER: Final = compile_late(r" ([^\W\d_]+)")
_BEFORE: Final = compile_late(r"([^\W\d_]+) \Z")
_VERSION: Final = compile_late(r"\b(?:([^\W\d_]+) )?v([0-9]{1,4}(?:\.[0-9]{1,4}){0,2})(?![\w%]|[.:/,-]\w)")
_NUMBERED: Final = compile_late(r"\b([A-Za-z]{3,})([0-9]{1,4})\b(?![.:/-]\w)")
_FRACTION: Final = compile_late(r"(?<![\w.,-])(?:0?[.,]([0-9]{1,8})|([1-9])[eE]-0?([1-9]))(?![\w%]|[.,-][0-9])")
_ROMAN: Final = compile_late(r"\b([^\W\d_]{3,}) ([IVX]{1,6})\b")
_THOUSANDS: Final = compile_late(r"[0-9]{1,3}(?:\.[0-9]{3})+")  # a German 300.000, or an English 1.500: nobody knows
_QUARTER: Final = compile_late(
    r"\b(?:(20[0-9]{2})[ /]?)?Q([1-4])(?:[ /]?(20[0-9]{2}))?\b"
    r"|\b(first|second|third|fourth) quarter(?: of)? (20[0-9]{2})\b",
    re.IGNORECASE | re.ASCII,
)
# An ordinal with the word beside it; 3. before a small letter ends a sentence, and so it may before a capital one.
_ORDINAL: Final = compile_late(
    r"(?<![\w.,:/-])(?:(?P<digits>[0-9]{1,2}(?:st|nd|rd|th)) |(?P<german>[1-9][0-9]?)\. (?=[A-ZÄÖÜ])"
    r"|(?P<word>[A-Za-z]{5,11}) )(?P<after>[^\W\d_]+)"
)
_ORDINAL_AFTER: Final = frozenset(["im", "am", "zum", "beim", "vom", "der", "die", "das", "den", "dem", "des"])
_FIRST_WORDS: Final = (
    "aber am an auch auf aus bei bis da danach dann das davor dazu den der deshalb die doch dort ein eine er es "
    "gestern heute ich ihr im in ist jetzt leider man mit nach nachher nicht noch nun nur oder seit seitdem sie später "
    "trotzdem und vom von vor vorher wann wer wie wir wo zu zuerst zuletzt"
)
_BEGINS: Final = frozenset(_FIRST_WORDS.split())  # a sentence
_PARTED: Final = " \x01 "  # stands for what was read: no rule reads over it
WrittenValues: TypeAlias = Iterator[WrittenValue]


def writings_in(text: str, forms: Mapping[str, str], dates: Iterable[str] = ()) -> tuple[WrittenValue, ...]:
    """Return the values of a text that others write otherwise, but none of the `dates` that were read in it.

    `forms`: what `forms_in` has of the text.

    A date in full weight lifts whatever names that day above what answers: R@5 of REALTALK fell by .015.
    """
    chosen: dict[str, list[str]] = {}
    found = chain((WrittenValue(own, (form,)) for form, own in forms.items()), _by_rules(text, dates))
    for writing in islice(found, 4 * VALUES):
        ways = chosen.setdefault(writing.own, [])
        ways += (way for way in writing.others if way not in {*ways, writing.own})
    several = (WrittenValue(own, tuple(ways[:WAYS])) for own, ways in chosen.items() if ways)
    return tuple(islice(several, VALUES))


def _by_rules(text: str, read: Iterable[str]) -> WrittenValues:
    """Yield what each rule finds that no rule before has read."""
    for own in read:
        text = replace_whole(text, own, _PARTED)
    words = _WORD.findall(text.lower())
    has_number = _DIGIT.search(text) is not None or any(is_count(word) or value_of_ordinal(word) for word in words)
    for rule in _RULES if has_number else (_romans,):
        for writing in list(rule(text)):
            yield writing
            text = replace_whole(text, writing.own, _PARTED)


def _times(text: str) -> WrittenValues:
    for time in times_in(text):
        yield WrittenValue(time.own, ways_of_time(time))


def _quarters(text: str) -> WrittenValues:
    for found in _QUARTER.finditer(text):
        year = found[1] or found[3] or found[5]
        if year:
            place = int(found[2]) - 1 if found[2] else ORDINALS.index(found[4].lower())
            yield WrittenValue(found[0], (f"Q{place + 1} {year}", f"{ORDINALS[place]} quarter {year}"))


def _ordinals(text: str) -> WrittenValues:
    """Yield third floor for 3rd floor, 3rd floor for third floor, dritter Stock for 3. Stock.

    Never 3. Stock for dritter Stock: the index has a 3 for it, which is three of them. 1st and 2nd have no other way:
    first and second have other meanings.
    """
    for found in _ORDINAL.finditer(text):
        if found["after"].lower() in GRAMMAR:
            continue
        ways: list[str] = []
        if found["german"]:
            before = _BEFORE.search(text, 0, found.start())
            if before is None or before[1].lower() not in _ORDINAL_AFTER or found["after"].lower() in _BEGINS:
                continue
            ordinal = spell_german_ordinal(int(found["german"]))
            ways = [f"{ordinal}{ending}" for ending in ("", "n", "r")]
        elif found["digits"]:
            place = int(found["digits"][:-2])
            ways = [spell_ordinal(place)] if found["digits"] == write_ordinal(place) else []
        elif (number := value_of_ordinal(found["word"].lower())) and not _is_part(text[: found.start()]):
            ways = [write_ordinal(number)]
        if any(ways):
            yield WrittenValue(found[0], tuple(f"{way} {found['after']}" for way in ways))


def _is_part(before: str) -> bool:
    """Say whether an ordinal behind this is part of a fraction or of a larger number: a third, twenty third."""
    word = _BEFORE.search(before)
    return word is not None and (is_count(word[1].lower()) or word[1].lower() in {"a", "and"})


@cache
def _units() -> dict[str, tuple[int, float]]:
    """Return the kind of each sign and name of a unit, and how much of the least it is; names in both numbers."""
    found: dict[str, tuple[int, float]] = {}
    for kind, units in enumerate(_KINDS):
        for names, size in units:
            for name in names.split():
                found |= dict.fromkeys((name, name.removesuffix("s") if len(name) > 3 else name), (kind, size))
    return found | {"per cent": found["percent"]}


class _NumberInText(NamedTuple):
    """A number of a text, where it stands, and whether it is spelled in words."""

    start: int
    end: int
    value: float
    is_spelled: bool


def _counts(text: str) -> Iterator[_NumberInText]:
    """Yield the numbers of a text, those in words too."""
    for found in _NUMBER.finditer(text):
        is_grouped = re.fullmatch(r"[0-9]{1,3}(?:,[0-9]{3})+", found[0])
        plain = found[0].replace(",", "" if is_grouped else ".")
        if not re.match(r"0[0-9]", plain) and not _THOUSANDS.fullmatch(found[0]):
            yield _NumberInText(found.start(), found.end(), float(plain), is_spelled=False)
    run: list[re.Match[str]] = []
    for word in [*_WORD.finditer(text), None]:
        small = word[0].lower() if word else ""
        is_one = is_count(small)
        if word and run and (is_one or small == "and") and text[run[-1].end() : word.start()] in {" ", "-"}:
            run.append(word)
            continue
        if small == "first" or value_of_ordinal(small):  # twenty third is no twenty
            run = []
        while run and run[-1][0].lower() == "and":
            run.pop()
        if run and (value := read_count([each[0].lower() for each in run])) is not None and value > 1:
            yield _NumberInText(run[0].start(), run[-1].end(), value, is_spelled=True)
        run = [word] if word and is_one and not _DIGIT_BEFORE.search(text, 0, word.start()) else []


def _measures(text: str) -> WrittenValues:
    """Yield measures in other units and by other names of theirs."""
    for count in _counts(text):
        if unit := _UNIT_AFTER.match(text, count.end):
            name = unit[1] if len(unit[1]) < 4 else unit[1].lower()  # Mb and mB are no MB, 5G is no weight
            if known := _units().get(name) or _units().get(name.capitalize()):
                yield WrittenValue(text[count.start : unit.end()], tuple(_in_units(count.value, *known)))


def _in_units(value: float, kind: int, size: float) -> Iterator[str]:
    """Yield a measure in each unit of its kind in which it is short, its own first."""
    near = (unit for unit in _KINDS[kind] if 1 / _TIMES_APART <= unit[1] / size <= _TIMES_APART)
    for names, other in sorted(near, key=lambda unit: unit[1] != size):
        amount = value * size / other
        written = f"{amount:.6g}"
        if not 0.01 <= amount < 1e5 or len(written.strip("0.")) > 5:
            continue
        first, *more = names.split()
        is_joined = len(first) < 3 and first not in _NOT_JOINED
        yield f"{written}{first}" if is_joined else f"{written} {first}"
        yield from (f"{written} {name}" for name in more[: 3 if other == size else 2] if name.isalpha())
        if first in _NOT_JOINED:
            yield f"{written}{first}"
    if kind == _BYTES:
        yield from _in_binary_units(value, size)


def _in_binary_units(value: float, size: float) -> Iterator[str]:
    """Yield a measure of bytes in the units beside its own, of which 1,024 make the next: 2048 MB for 2 GB."""
    place = round(math.log10(size)) // 3
    for names, other in _KINDS[_BYTES]:
        steps = place - round(math.log10(other)) // 3
        amount = value * 1024**steps
        if abs(steps) == 1 and amount >= 0.5 and (2 * amount).is_integer() and amount < 1e5:
            yield f"{amount:g}{names.split()[0]}"


def _numbers(text: str) -> WrittenValues:
    """Yield numbers that count or name something, in words, in digits and as Roman numerals."""
    for count in _counts(text):
        if count.value == int(count.value) and not text[count.end : count.end + 1].isalpha():
            yield from _plain(text, count)


def _plain(text: str, count: _NumberInText) -> WrittenValues:
    number, own = int(count.value), text[count.start : count.end]
    after, before = _AFTER.match(text, count.end), _BEFORE.search(text, max(0, count.start - 40), count.start)
    if before is not None and before[1].lower() in _NAMED:
        ways = [str(number)] if count.is_spelled else []
        ways += [as_roman(number)] if number in _ROMANS else []
        yield WrittenValue(f"{before[0]}{own}", tuple(f"{before[0]}{way}" for way in ways))
    elif not count.is_spelled:
        if "." not in own:
            yield WrittenValue(own, spell_count(number))
    else:
        ways = [str(number), *(way for way in spell_count(number) if " " not in way)]
        if number > _SMALL:
            yield WrittenValue(own, tuple(ways))
        elif after is not None and after[1].lower() not in GRAMMAR:
            yield WrittenValue(f"{own}{after[0]}", tuple(f"{way}{after[0]}" for way in ways))


def _versions(text: str) -> WrittenValues:
    """Yield 2.0 and 2.0.0 for v2.0, Node 20 for Node v20, node 20 for node20."""
    for found in _VERSION.finditer(text):
        if "." in found[2]:
            ways = [found[2], *([f"{found[2]}.0"] if found[2].count(".") == 1 else [])]
            yield WrittenValue(f"v{found[2]}", tuple(ways))
        elif found[1] is not None and found[1].lower() not in GRAMMAR:
            yield WrittenValue(found[0], (f"{found[1]} {found[2]}",))
    for found in _NUMBERED.finditer(text):
        yield WrittenValue(found[0], (f"{found[1]} {found[2]}",))


def _fractions(text: str) -> WrittenValues:
    """Yield .0003 and 3e-4 for 0.0003."""
    for found in _FRACTION.finditer(text):
        digits = found[1] or "0" * (int(found[3]) - 1) + found[2]
        ways = [f"0.{digits}", f".{digits}"]  # with a comma these would be two numbers of the index
        significant = digits.strip("0")
        if len(significant) == 1:
            ways.append(f"{significant}e-{digits.index(significant) + 1}")
        yield WrittenValue(found[0], tuple(ways))


def _romans(text: str) -> WrittenValues:
    for found in _ROMAN.finditer(text):
        number = read_roman(found[2])
        if number is not None and number > 1 and found[1].lower() in _NAMED:
            yield WrittenValue(found[0], (f"{found[1]} {number}",))


_RULES: Final[tuple[Callable[[str], WrittenValues], ...]] = (
    _times, _quarters, _ordinals, _measures, _fractions, _versions, _romans, _numbers,
)  # fmt: skip
