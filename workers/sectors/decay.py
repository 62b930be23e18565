"""Weaken what is known by its sector, in active hours: a clock that stands still while nobody works."""

from collections.abc import Mapping
from typing import Final

from engramq.schemas.vocabulary import DEFAULT_SECTOR, Sector

# After so many active hours an edge counts half. Events fade first, instructions last.
HALF_LIFE_HOURS: Final[Mapping[Sector, float]] = {
    Sector.EMOTIONAL: 500.0,
    Sector.EPISODIC: 250.0,
    Sector.SEMANTIC: 2_000.0,
    Sector.PROCEDURAL: 4_000.0,
    Sector.REFLECTIVE: 1_000.0,
}
LINK_HALF_LIFE_HOURS: Final = 1_000.0  # of a link that nobody uses


def decay(sector: Sector | None, age_hours: float) -> float:
    """Return the factor, from 0 to 1, that an edge or a memory of this sector and age in active hours counts with."""
    return _halve(age_hours, HALF_LIFE_HOURS[sector or DEFAULT_SECTOR])


def link_decay(age_hours: float) -> float:
    """Return the factor, from 0 to 1, that a link counts with so many active hours after its last use."""
    return _halve(age_hours, LINK_HALF_LIFE_HOURS)


def _halve(age_hours: float, half_life_hours: float) -> float:
    return float(0.5 ** (max(0.0, age_hours) / half_life_hours))
