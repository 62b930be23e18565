"""What makes an edge constitutive, and what ends that when properties are merged."""

from collections.abc import Mapping
from typing import Any, Final

from engramq.schemas.vocabulary import CONSTITUTIVE, EDGE_TYPE, IS_CONSTITUTIVE

MARKS: Final = (IS_CONSTITUTIVE, EDGE_TYPE)  # the properties that can make an edge constitutive


def is_constitutive(properties: Mapping[str, Any]) -> bool:
    """Say whether a change of the edge needs the consent of two principals."""
    return any(_marks(properties, key) for key in MARKS)


def merged(standing: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return `standing` with what is given put over it. `is_constitutive: false` ends the mark of edge_type too."""
    now = {**standing, **given}
    if given.get(IS_CONSTITUTIVE) is False and _marks(now, EDGE_TYPE):
        now[EDGE_TYPE] = None
    return now


def _marks(properties: Mapping[str, Any], key: str) -> bool:
    value = properties.get(key)
    return value is True if key == IS_CONSTITUTIVE else value == CONSTITUTIVE
