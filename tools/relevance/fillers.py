"""Memories that stand around those that are asked for: up to 100,000 different ones, the same ones each time.

Every second one is a text of the project's own until these run out; the others are made of the lists and templates of
fillers.txt, of many domains, with names, identifiers, versions, dates and amounts. Some hold words that lookups ask
for: see `tools.relevance.lookups`.
"""

import random
from collections.abc import Callable, Iterator, Mapping
from datetime import date, timedelta
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import Any, Final

from tools.sectors.corpus import dev_texts, english_texts

FILE: Final = Path(__file__).with_suffix(".txt")
SEED: Final = 31
FIRST_DAY: Final = date(2023, 1, 2)
DAYS: Final = 1_300
TICKETS: Final = ("APP", "CORE", "DEV", "FIN", "LAB", "WEB")

Draws = Mapping[str, Callable[[], str]]


def texts(count: int) -> list[str]:
    """Return so many memories; a larger count begins with those of a smaller one."""
    return list(islice(_different(), count))


def _different() -> Iterator[str]:
    seen: set[str] = set()
    own = iter([*english_texts(), *(text.text for text in dev_texts() if text.lang == "en")])
    made = _made(random.Random(SEED))  # noqa: S311 - the same ones each time
    while True:
        for text in (next(own, ""), next(made)):
            if text and text not in seen:
                seen.add(text)
                yield text


@cache
def _parts() -> tuple[dict[str, list[str]], list[str]]:
    """Return the lists by their names, and the templates."""
    lists, templates = FILE.read_text(encoding="utf-8").split("\n\n")
    named = (line.partition(": ") for line in lists.splitlines())
    return {name: words.split(", ") for name, _, words in named}, templates.splitlines()


def draws(chance: random.Random) -> Draws:
    """Return how each place of a template is filled."""
    lists, _ = _parts()
    listed: Draws = {name: partial(chance.choice, words) for name, words in lists.items()}
    return {
        **listed,
        "n1": lambda: str(chance.randint(2, 9)),
        "n2": lambda: str(chance.randint(11, 99)),
        "n3": lambda: str(chance.randint(101, 989)),
        "n4": lambda: str(chance.randint(1_001, 9_899)),
        "time": lambda: f"{chance.randint(7, 20):02}:{chance.choice(('00', '15', '30', '45'))}",
        "date": lambda: _day(chance),
        "ticket": lambda: f"{chance.choice(TICKETS)}-{chance.randint(100, 9_999)}",
        "version": lambda: f"{chance.randint(1, 19)}.{chance.randint(0, 30)}.{chance.randint(0, 12)}",
        "ip": lambda: f"10.{chance.randint(60, 99)}.{chance.randint(0, 255)}.{chance.randint(2, 254)}",
        "path": lambda: "{service}/{file}.{ext}".format_map(Slots(listed)),
    }


def _made(chance: random.Random) -> Iterator[str]:
    _, templates = _parts()
    filled = draws(chance)
    while True:
        yield chance.choice(templates).format_map(Slots(filled))


def _day(chance: random.Random) -> str:
    day = FIRST_DAY + timedelta(days=chance.randrange(DAYS))
    return chance.choice((day.isoformat(), f"{day.day} {day:%B} {day.year}"))


class Slots(dict[str, Any]):
    """Words for the places of a template: `food` and `food2` are two draws from one list, the same all over a text."""

    def __init__(self, filled: Draws, given: Mapping[str, Any] | None = None) -> None:
        """`given` is taken as it is."""
        super().__init__(given or {})
        self._filled = filled

    def __missing__(self, name: str) -> str:
        self[name] = found = self._filled[name if name in self._filled else name.removesuffix("2")]()
        return found
