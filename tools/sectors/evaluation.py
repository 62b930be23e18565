"""How good the classifier is on texts that it was not trained on, and how honest its confidence.

Knows: splits by group, held-out logits, scores. Refuses to know: files, the command line.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from engramq.workers.embedders.interface import Vectors
from engramq.workers.sectors import regression
from engramq.workers.sectors.cues import Cues, cue_rows
from engramq.workers.sectors.features import Standard, assemble
from engramq.workers.sectors.regression import Matrix
from tools.sectors import calibration, corpus
from tools.sectors.corpus import SECTORS, Labelled, Rows

Mask: TypeAlias = NDArray[np.bool_]
_INNER_FOLDS: Final = 5


class Recipe(msgspec.Struct, frozen=True, kw_only=True):
    """What is chosen by hand: what a cue counts against the vector, the penalty, and which of the two is used."""

    scale: float = 0.1
    penalty: float = 3e-4
    vectors: bool = True
    cues: bool = True


class Data(msgspec.Struct, frozen=True, kw_only=True):
    """Texts with all that is computed of them once; every array has a row per text."""

    texts: Sequence[Labelled]
    vectors: Vectors
    cues: Cues
    labels: Rows
    groups: Rows

    @classmethod
    def of(cls, texts: Sequence[Labelled], vectors: Vectors) -> "Data":
        return cls(
            texts=texts,
            vectors=vectors,
            cues=cue_rows([one.text for one in texts]),
            labels=corpus.labels(texts),
            groups=corpus.groups(vectors),
        )

    def features(self, rows: Rows, standard: Standard, recipe: Recipe) -> Matrix:
        scale = recipe.scale if recipe.cues else 0.0
        return assemble(self.vectors[rows] if recipe.vectors else None, self.cues[rows], standard, scale)


def held_out(data: Data, train: Rows, test: Rows, recipe: Recipe) -> Matrix:
    """Return the logits of `test` [len(test), sectors] of a model fitted on `train`."""
    standard = Standard.of(data.cues[train])
    weights = regression.fit(
        data.features(train, standard, recipe), data.labels[train], classes=len(SECTORS), penalty=recipe.penalty
    )
    return np.asarray(regression.with_intercept(data.features(test, standard, recipe)) @ weights)


def folds(groups: Rows, count: int, seed: int) -> Iterator[tuple[Rows, Rows]]:
    """Yield (train, test) rows; a group is never on both sides."""
    numbers, place = np.unique(groups, return_inverse=True)
    fold = (np.random.default_rng(seed).permutation(len(numbers)) % count)[place]
    for one in range(count):
        yield np.flatnonzero(fold != one), np.flatnonzero(fold == one)


def cross_validated(data: Data, recipe: Recipe, *, count: int, seed: int) -> Matrix:
    """Return logits for every text, each from a model that saw neither it nor one like it."""
    logits = np.zeros((len(data.texts), len(SECTORS)))
    for train, test in folds(data.groups, count, seed):
        logits[test] = held_out(data, train, test, recipe)
    return logits


def nested(data: Data, recipes: Sequence[Recipe], *, count: int, seed: int) -> tuple[Matrix, list[Recipe]]:
    """Return logits for every text where even the recipe was chosen without it, and the recipe of each fold."""
    logits, chosen = np.zeros((len(data.texts), len(SECTORS))), []
    for train, test in folds(data.groups, count, seed):
        best = max(recipes, key=lambda recipe, rows=train: _inner_accuracy(data, rows, recipe, seed))  # type: ignore[misc]
        logits[test] = held_out(data, train, test, best)
        chosen.append(best)
    return logits, chosen


def _inner_accuracy(data: Data, rows: Rows, recipe: Recipe, seed: int) -> float:
    right = 0
    for train, test in folds(data.groups[rows], _INNER_FOLDS, seed + 1):
        logits = held_out(data, rows[train], rows[test], recipe)
        right += int(np.sum(logits.argmax(axis=1) == data.labels[rows[test]]))
    return right / len(rows)


def scores(texts: Sequence[Labelled], logits: Matrix) -> dict[str, float]:
    """Return accuracies: all, by language and hardness, and by sector (English)."""
    labels = corpus.labels(texts)
    right = logits.argmax(axis=1) == labels
    english = np.array([one.lang == "en" for one in texts])
    hard = np.array([one.hard for one in texts])
    parts: Mapping[str, Mask] = {
        "all": np.ones(len(texts), dtype=bool),
        "en": english,
        "en_easy": english & ~hard,
        "en_hard": english & hard,
        "de": ~english,
        **{f"en_{sector}": english & (labels == place) for place, sector in enumerate(SECTORS)},
        **{f"en_hard_{sector}": english & hard & (labels == place) for place, sector in enumerate(SECTORS)},
    }
    return {name: round(float(right[part].mean()), 3) for name, part in parts.items() if part.any()}


def confusion(texts: Sequence[Labelled], logits: Matrix) -> dict[str, dict[str, int]]:
    """Return how many English texts of each true sector went to each."""
    labels, guesses = corpus.labels(texts), logits.argmax(axis=1)
    english = np.array([one.lang == "en" for one in texts])
    return {
        truth: {
            guess: int(np.sum(english & (labels == row) & (guesses == column))) for column, guess in enumerate(SECTORS)
        }
        for row, truth in enumerate(SECTORS)
    }


def calibration_error(data: Data, logits: Matrix, seed: int) -> float:
    """Return the expected calibration error where each half of the groups gets the temperature of the other."""
    confidence = np.zeros(len(logits))
    for train, test in folds(data.groups, 2, seed):
        divisor = calibration.temperature(logits[train], data.labels[train])
        confidence[test] = regression.softmax(logits[test] / divisor).max(axis=1)
    return calibration.expected_error(confidence, logits.argmax(axis=1) == data.labels)
