"""The labelled texts, and which of them are too alike to be kept apart honestly.

Knows: the files beside it. `texts.jsonl` was written for engramq, `dev.jsonl` by another hand: figures of the one on
the other say how the classifier does on texts unlike those it learned from. `chat.jsonl` has turns of talk, written for
engramq too; those of other topics in `chat_held_out.jsonl` are never learned from.
"""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Final, TypeAlias, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from engramq.schemas.vocabulary import Sector
from engramq.workers.embedders.confidence import bystanders
from engramq.workers.embedders.interface import Vectors
from engramq.workers.sectors.model import CLASSES

FOLDER: Final = Path(__file__).parent
SECTORS: Final = tuple(Sector)
NONE: Final = "none"  # of a turn that fits no sector
# Texts nearer than this never stand on both sides of a split. Unrelated texts of the corpus are near .1.
ALIKE: Final = 0.7
_SAME: Final = 0.8

Rows: TypeAlias = NDArray[np.intp]
Kind = TypeVar("Kind", "Labelled", "Turn")


class Labelled(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A text with its sector. `hard`: without the words that usually give the sector away; `lang`: en or de."""

    text: str
    sector: Sector
    hard: bool
    lang: str


class Turn(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A turn of talk: a sector or `none`, or two of them where either is right."""

    text: str
    sectors: tuple[str, ...]
    topic: str

    def __post_init__(self) -> None:
        """Raise ValueError for words that are no sectors."""
        if not self.sectors or not {*self.sectors} <= {*SECTORS, NONE}:
            raise ValueError(f"not sectors: {self.sectors}")


Text: TypeAlias = Labelled | Turn


def own_texts() -> list[Labelled]:
    return _read(FOLDER / "texts.jsonl", Labelled)


def dev_texts() -> list[Labelled]:
    return _read(FOLDER / "dev.jsonl", Labelled)


def chat_turns() -> list[Turn]:
    return _read(FOLDER / "chat.jsonl", Turn)


def held_out_turns() -> list[Turn]:
    return _read(FOLDER / "chat_held_out.jsonl", Turn)


def learned_texts() -> list[Text]:
    """Return what the weights are made from: our own texts, those of another hand, and turns of talk."""
    return [*own_texts(), *dev_texts(), *chat_turns()]


def english_texts() -> list[str]:
    """Return our own English texts; models are calibrated by the first of them."""
    return [text.text for text in own_texts() if text.lang == "en"]


def unused_english_texts() -> list[str]:
    """Return those of them that no model is calibrated by."""
    return english_texts()[len(bystanders()) :]


def labels(texts: Sequence[Labelled]) -> Rows:
    """Return the place of each text's sector in SECTORS, [len(texts)]."""
    return np.array([SECTORS.index(text.sector) for text in texts], dtype=np.intp)


def fits(texts: Sequence[Text]) -> NDArray[np.bool_]:
    """Return which of CLASSES are right for each text, [len(texts), 6]."""
    return np.array([[(sector or NONE) in _names(text) for sector in CLASSES] for text in texts], dtype=np.bool_)


def groups(texts: Sequence[Text], vectors: Vectors) -> Rows:
    """Return a group number per row, [n]: turns of a topic share it, and rows in a chain of cosines above ALIKE."""
    first_of: dict[str, int] = {}
    group = np.array(
        [first_of.setdefault(text.topic, row) if isinstance(text, Turn) else row for row, text in enumerate(texts)],
        dtype=np.intp,
    )
    for first, second in np.argwhere(np.triu(vectors @ vectors.T, 1) > ALIKE):
        group[group == group[second]] = group[first]
    return group


def repeated(learned: Sequence[Text], vectors: Vectors, held: Vectors) -> list[str]:
    """Return texts learned from that are like one held out, or say in English what another one of them says."""
    english = np.array([isinstance(text, Turn) or text.lang == "en" for text in learned])
    same = np.triu(vectors @ vectors.T, 1) > _SAME
    rows = (same & english & english[:, None]).any(axis=1) | (vectors @ held.T > ALIKE).any(axis=1)
    return [text.text for text, again in zip(learned, rows, strict=True) if again]


def _names(text: Text) -> Collection[str]:
    return text.sectors if isinstance(text, Turn) else (text.sector,)


def _read(path: Path, kind: type[Kind]) -> list[Kind]:
    return [msgspec.json.decode(line, type=kind) for line in path.read_bytes().splitlines()]
