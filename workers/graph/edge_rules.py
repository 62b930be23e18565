"""Decide which sector a knowledge edge has, and what makes it constitutive. Pure.

An edge's properties decide its sector before its relation does, since they say what this one edge is about; what no
table names is semantic. A sector chosen by hand outranks both. docs/sectors.md shows the tables to users.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from engramq.schemas.vocabulary import CONSTITUTIVE, EDGE_TYPE, IS_CONSTITUTIVE, Sector


def _named(text: str) -> frozenset[str]:
    return frozenset(text.split())


# A property whose mere presence decides, unless its value is null: a valence of 0 was still worth writing down.
PROPERTY_SECTORS: Final[Mapping[str, Sector]] = {
    "emotional_valence": Sector.EMOTIONAL,
    "emotional_intensity": Sector.EMOTIONAL,
    "emotion": Sector.EMOTIONAL,
}
CONTEXT_TYPE: Final = "context_type"
CONTEXT_SECTORS: Final[Mapping[Sector, frozenset[str]]] = {
    Sector.EPISODIC: _named("shared_experience experience event meeting"),
    Sector.PROCEDURAL: _named("skill workflow procedure"),
    Sector.REFLECTIVE: _named("reflection insight lesson"),
}
# KNOWS, DISCUSSED, LIKES, PREFERS, WORKS_AT, PART_OF and every relation not named here are semantic.
RELATION_SECTORS: Final[Mapping[Sector, frozenset[str]]] = {
    Sector.EMOTIONAL: _named(
        "feels feels_about felt felt_about loves loved hates hated fears feared afraid_of adores admires misses dreads "
        "enjoys resents envies grieves mourns proud_of angry_at ashamed_of grateful_to grateful_for worries_about"
    ),
    Sector.EPISODIC: _named(
        "attended visited met met_with met_at experienced shared_experience shared_experience_with participated_in "
        "witnessed celebrated celebrated_with travelled_to traveled_to travelled_with traveled_with moved_to "
        "happened_at happened_on happened_in happened_during occurred_at occurred_on occurred_in occurred_during "
        "took_place_at took_place_in remembers"
    ),
    Sector.PROCEDURAL: _named(
        "learned learnt learned_to learnt_to can_do can knows_how_to uses used_for practices practises practiced "
        "practised skilled_in trained_in mastered operates performs next_step has_step precedes_step followed_by_step"
    ),
    Sector.REFLECTIVE: _named(
        "reflects reflects_on reflected_on realized realised realizes realises concluded concludes recognized "
        "recognised learned_from learnt_from learned_about_self grew_from reconsidered questions_self"
    ),
}
_CONTEXTS: Final = {name: sector for sector, names in CONTEXT_SECTORS.items() for name in names}
_RELATIONS: Final = {name: sector for sector, names in RELATION_SECTORS.items() for name in names}
_GAP: Final = re.compile(r"[\s\-]+")


def edge_sector(relation: str, properties: Mapping[str, object]) -> Sector:
    """Return the sector of a knowledge edge; never raises, whatever the properties hold.

    Case and outer blanks do not matter; blanks and hyphens count as underscores.
    Emotional properties come first, then context_type, then the relation.
    """
    named = {_normal(name): value for name, value in properties.items() if value is not None}
    for name, sector in PROPERTY_SECTORS.items():
        if name in named:
            return sector
    context = named.get(CONTEXT_TYPE)
    if isinstance(context, str) and (named_by_context := _CONTEXTS.get(_normal(context))):
        return named_by_context
    return _RELATIONS.get(_normal(relation), Sector.SEMANTIC)


def _normal(name: str) -> str:
    return _GAP.sub("_", name.strip().casefold())


MARKS: Final = (IS_CONSTITUTIVE, EDGE_TYPE)  # the properties that can make an edge constitutive


def is_constitutive(properties: Mapping[str, Any]) -> bool:
    """Say whether a change of the edge needs the consent of two principals."""
    return any(_marks(properties, key) for key in MARKS)


def merge(stored: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return `stored` with what is given put over it. `is_constitutive: false` ends the mark of edge_type too."""
    now = {**stored, **given}
    if given.get(IS_CONSTITUTIVE) is False and _marks(now, EDGE_TYPE):
        now[EDGE_TYPE] = None
    return now


def _marks(properties: Mapping[str, Any], key: str) -> bool:
    value = properties.get(key)
    return value is True if key == IS_CONSTITUTIVE else value == CONSTITUTIVE


def sector_named(text: str) -> Sector | None:
    """Return the sector of exactly this name, None when there is none."""
    try:
        return Sector(text)
    except ValueError:
        return None


def wrong_sector(text: str) -> str:
    """Return what to say of a text that names no sector."""
    return f"Invalid sector: '{text}'. Must be one of: {', '.join(Sector)}"
