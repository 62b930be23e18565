"""Memories, queries that mean one of them, and memories that nobody asks for. All written for engramq.

A `hint` asks for a memory in few and often quite other words; a `paraphrase` says all of it again.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

PAIRS: Final = Path(__file__).with_name("pairs.jsonl")
BYSTANDERS: Final = Path(__file__).with_name("bystanders.jsonl")  # with the pairs 500 memories


class Pair(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A memory and what asks for it."""

    memory: str
    hint: str
    paraphrase: str | None = None


class Texts(NamedTuple):
    """What is embedded to calibrate a model; `meant` has the row of the right memory for each query."""

    memories: Sequence[str]
    queries: Sequence[str]
    meant: NDArray[np.intp]


def read_pairs(path: Path) -> list[Pair]:
    """Return the pairs of a file, one a line."""
    return [msgspec.json.decode(line, type=Pair) for line in path.read_bytes().splitlines()]


def bystanders() -> list[str]:
    """Return memories that no query means; the same ones in the same order each time."""
    return [msgspec.json.decode(line, type=str) for line in BYSTANDERS.read_bytes().splitlines()]


def calibration_texts() -> Texts:
    """Return what a model is calibrated by."""
    pairs = read_pairs(PAIRS)
    memories = [one.memory for one in pairs] + bystanders()
    asked = [(one.hint, row) for row, one in enumerate(pairs)]
    asked += [(one.paraphrase, row) for row, one in enumerate(pairs) if one.paraphrase is not None]
    return Texts(memories, [query for query, _ in asked], np.array([row for _, row in asked], dtype=np.intp))
