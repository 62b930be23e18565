"""The labelled texts, and which of them are too alike to be told apart honestly.

Knows: the two files beside it. `texts.jsonl` was written for engramq, `dev.jsonl` by another hand: figures of the one
on the other say how the classifier does on texts unlike those it learned from.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from engramq.schemas.vocabulary import Sector
from engramq.workers.embedders.calibrated.texts import bystanders
from engramq.workers.embedders.interface import Vectors

FOLDER: Final = Path(__file__).parent
SECTORS: Final = tuple(Sector)
# Texts nearer than this never stand on both sides of a split. Unrelated texts of the corpus are near .1.
ALIKE: Final = 0.7

Rows: TypeAlias = NDArray[np.intp]


class Labelled(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A text with its sector. `hard`: without the words that usually give the sector away; `lang`: en or de."""

    text: str
    sector: Sector
    hard: bool
    lang: str


def own_texts() -> list[Labelled]:
    return _read(FOLDER / "texts.jsonl")


def dev_texts() -> list[Labelled]:
    return _read(FOLDER / "dev.jsonl")


def english_texts() -> list[str]:
    """Return our own English texts; models are calibrated by the first of them."""
    return [one.text for one in own_texts() if one.lang == "en"]


def unused_english_texts() -> list[str]:
    """Return those of them that no model is calibrated by."""
    return english_texts()[len(bystanders()) :]


def labels(texts: Sequence[Labelled]) -> Rows:
    """Return the place of each text's sector in SECTORS, [len(texts)]."""
    return np.array([SECTORS.index(one.sector) for one in texts], dtype=np.intp)


def groups(vectors: Vectors) -> Rows:
    """Return a group number per row, [n]: rows linked by a chain of cosines above ALIKE share it."""
    group = np.arange(len(vectors))
    for first, second in np.argwhere(np.triu(vectors @ vectors.T, 1) > ALIKE):
        group[group == group[second]] = group[first]
    return group


def _read(path: Path) -> list[Labelled]:
    return [msgspec.json.decode(line, type=Labelled) for line in path.read_bytes().splitlines()]
