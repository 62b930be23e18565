"""Notes of eight templates in two wordings: events of other people, days and numbers, none of which contradicts another."""

import random
from collections.abc import Callable
from datetime import date, timedelta
from typing import Final

_PEOPLE: Final = {
    "tuned": ["Priya", "Ferreira", "Hassan", "Ingrid", "Tomas", "Wei", "Olga", "Bruno", "Amara", "Nils"],
    "kept": ["Keiko", "Anselm", "Rosa", "Dmitri", "Yusuf", "Hanne", "Marco", "Leila", "Piotr", "Chloe"],
}
_THINGS: Final = {
    "tuned": ["rollout", "budget", "hiring plan", "audit", "lease", "roadmap", "pricing", "migration"],
    "kept": ["boiler", "garden", "newsletter", "insurance", "timetable", "exhibition", "catering", "archive"],
}
_PLACES: Final = {
    "tuned": ["Lyon", "Porto", "Oslo", "Bergen", "Leeds", "Turin"],
    "kept": ["Graz", "Cork", "Malmo", "Nantes", "Split", "Utrecht"],
}
_STATES: Final = {
    "tuned": ["went well", "ran long", "was cut short", "brought no decision"],
    "kept": ["was calm", "was noisy", "led nowhere", "was useful"],
}


class _Draw:
    def __init__(self, half: str, rng: random.Random) -> None:
        self._half, self._rng = half, rng

    def of(self, table: dict[str, list[str]]) -> str:
        return self._rng.choice(table[self._half])

    def number(self, low: int, high: int) -> int:
        return self._rng.randint(low, high)

    @property
    def day(self) -> str:
        day = date(2026, 1, 5) + timedelta(days=self._rng.randint(0, 300))
        forms = day.isoformat(), f"{day.day} {day:%B}", f"{day:%A}", f"{day:%B} {day.day}"
        return forms[self._rng.randint(0, 3)]


_Template = Callable[[_Draw, int], str]
_TEMPLATES: Final[dict[str, tuple[_Template, ...]]] = {
    "tuned": (
        lambda d, n: f"Meeting with {d.of(_PEOPLE)} about the {d.of(_THINGS)}: {d.of(_STATES)} (note {n})",
        lambda d, n: f"Call with {d.of(_PEOPLE)} on {d.day} about the {d.of(_THINGS)} (note {n})",
        lambda d, n: f"Delivery {n}: {d.number(2, 90)} boxes for {d.of(_PEOPLE)} arrived in {d.of(_PLACES)} on {d.day}",
        lambda d, n: f"The meter in {d.of(_PLACES)} showed {d.number(100, 999)} kWh on {d.day}",
        lambda d, n: (
            f"Incident {n} on {d.day}: the gateway was down for {d.number(3, 59)} minutes, {d.of(_PEOPLE)} fixed it"
        ),
        lambda d, n: (
            f"{d.of(_PEOPLE)} reviewed pull request {n}, which changes the {d.of(_THINGS)}, and asked for {d.number(1, 9)} changes"
        ),
        lambda d, n: f"Expense: {d.number(5, 400)} euros for lunch with {d.of(_PEOPLE)} in {d.of(_PLACES)} on {d.day}",
        lambda d, n: (
            f"{d.of(_PEOPLE)} visited the office in {d.of(_PLACES)} on {d.day} and stayed {d.number(1, 6)} hours"
        ),
    ),
    "kept": (
        lambda d, n: f"#{n} Spoke to {d.of(_PEOPLE)}. The talk about the {d.of(_THINGS)} {d.of(_STATES)}.",
        lambda d, n: f"{d.day}: {d.of(_PEOPLE)} called, the {d.of(_THINGS)} is due in {d.number(2, 30)} days",
        lambda d, n: (
            f"Parcel no. {n} from {d.of(_PLACES)} weighs {d.number(1, 40)} kg and was signed for by {d.of(_PEOPLE)}"
        ),
        lambda d, n: (
            f"Temperature in {d.of(_PLACES)} on {d.day} was {d.number(-9, 35)} degrees, measured by {d.of(_PEOPLE)}"
        ),
        lambda d, n: f"The lift was out of order on {d.day}. {d.of(_PEOPLE)} waited {d.number(5, 90)} minutes.",
        lambda d, n: f"Review of chapter {n} by {d.of(_PEOPLE)}: {d.number(1, 30)} remarks, the tone {d.of(_STATES)}",
        lambda d, n: f"Paid {d.number(8, 300)} euros to {d.of(_PEOPLE)} for the {d.of(_THINGS)}",
        lambda d, n: f"Trip to {d.of(_PLACES)} with {d.of(_PEOPLE)} is booked for {d.day}, seat {d.number(1, 90)}",
    ),
}


def template_notes(half: str, count: int = 300, seed: int = 41) -> list[str]:
    """Return so many notes of a half's eight templates, the same for each seed; none comes twice."""
    draw = _Draw(half, random.Random(seed))
    templates, notes = _TEMPLATES[half], dict[str, None]()
    number = 0
    while len(notes) < count:
        number += 1
        notes[templates[number % len(templates)](draw, number)] = None
    return list(notes)
