"""Notes of eight templates in two wordings: events of other people, days and numbers that contradict nothing."""

import random
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


_TEMPLATES: Final = {
    "tuned": (
        "Meeting with {who} about the {thing}: {state} (note {n})",
        "Call with {who} on {day} about the {thing} (note {n})",
        "Delivery {n}: {amount} boxes for {who} arrived in {place} on {day}",
        "The meter in {place} showed {amount} kWh on {day}",
        "Incident {n} on {day}: the gateway was down for {amount} minutes, {who} fixed it",
        "{who} reviewed pull request {n}, which changes the {thing}, and asked for {amount} changes",
        "Expense: {amount} euros for lunch with {who} in {place} on {day}",
        "{who} visited the office in {place} on {day} and stayed {amount} hours",
    ),
    "kept": (
        "#{n} Spoke to {who}. The talk about the {thing} {state}.",
        "{day}: {who} called, the {thing} is due in {amount} days",
        "Parcel no. {n} from {place} weighs {amount} kg and was signed for by {who}",
        "Temperature in {place} on {day} was {amount} degrees, measured by {who}",
        "The lift was out of order on {day}. {who} waited {amount} minutes.",
        "Review of chapter {n} by {who}: {amount} remarks, the tone {state}",
        "Paid {amount} euros to {who} for the {thing}",
        "Trip to {place} with {who} is booked for {day}, seat {amount}",
    ),
}


def template_notes(half: str, count: int = 300, seed: int = 41) -> list[str]:
    """Return so many notes of a half's eight templates, the same for each seed; none comes twice."""
    rng = random.Random(seed)
    notes = dict[str, None]()
    for number in range(1, 10 * count):
        day = date(2026, 1, 5) + timedelta(days=rng.randint(0, 300))
        drawn = {
            "who": rng.choice(_PEOPLE[half]),
            "thing": rng.choice(_THINGS[half]),
            "place": rng.choice(_PLACES[half]),
            "state": rng.choice(_STATES[half]),
            "amount": rng.randint(2, 90),
            "day": rng.choice([day.isoformat(), f"{day.day} {day:%B}", f"{day:%A}", f"{day:%B} {day.day}"]),
        }
        templates = _TEMPLATES[half]
        notes[templates[number % len(templates)].format(n=number, **drawn)] = None
        if len(notes) == count:
            break
    return list(notes)
