"""The sector of a knowledge edge, from its relation and properties: a table, so that it is there at once."""

from collections.abc import Mapping
from typing import Any, Final

from schemas.vocabulary import DEFAULT_SECTOR, Sector

# Relations that say what kind of knowledge an edge is. All others, KNOWS and DISCUSSED among them, are semantic.
_BY_RELATION: Final[Mapping[str, Sector]] = {
    relation: sector
    for sector, relations in {
        Sector.EMOTIONAL: "FEELS FEARS LOVES HATES LIKES DISLIKES ENJOYS TRUSTS ADMIRES MISSES WORRIES_ABOUT",
        Sector.EPISODIC: "ATTENDED VISITED EXPERIENCED HAPPENED_AT HAPPENED_ON WITNESSED MET MET_AT PARTICIPATED_IN",
        Sector.PROCEDURAL: "USES HOW_TO REQUIRES STEP_OF NEXT_STEP PRECEDES DEPENDS_ON IMPLEMENTS EXECUTES CONFIGURES",
        Sector.REFLECTIVE: "LEARNED REALIZED REFLECTS_ON CONCLUDED BELIEVES INFERRED LEARNED_FROM REGRETS VALUES",
    }.items()
    for relation in relations.split()
}
# Properties that say it when the relation does not.
_BY_PROPERTY: Final[Mapping[str, Sector]] = {
    "emotion": Sector.EMOTIONAL,
    "occurred_at": Sector.EPISODIC,
    "step": Sector.PROCEDURAL,
    "lesson": Sector.REFLECTIVE,
}


def sector_of_edge(relation: str, properties: Mapping[str, Any]) -> Sector:
    """Return the sector of an edge: its relation's, else that of the first telling property, else semantic."""
    known = _BY_RELATION.get(relation.upper())
    if known is not None:
        return known
    return next((sector for key, sector in _BY_PROPERTY.items() if key in properties), DEFAULT_SECTOR)
