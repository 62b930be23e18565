"""How good the classifier is on texts that it was not trained on, and how honest its confidence.

Knows: splits by group, fitted and held-out heads, scores. Refuses to know: files, the command line.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from engramq.workers.embedders.interface import Vectors
from engramq.workers.sectors.cues import NAMES, OF_TALK, Cues, cue_rows
from engramq.workers.sectors.model import NOTHING, SECTORS, HeadOutput, Heads, Matrix, Shares, Standard, assemble
from tools.measure_confidence import expected_error
from tools.sectors import calibration, corpus, regression
from tools.sectors.corpus import Labelled, Rows, Text, Turn

Mask: TypeAlias = NDArray[np.bool_]
_INNER_FOLDS: Final = 5
_NO_CURVE: Final = np.zeros(4)


class Recipe(msgspec.Struct, frozen=True, kw_only=True):
    """The choices by hand: what a cue counts against the vector, the penalty, and which of the two is used.

    `turn`: what a turn counts beside a written text. `lean`: log odds in favour of talk, for the cost of one mistake is
    not that of the other: the head for talk knows written texts too, the other one knows no text that fits no sector.
    """

    scale: float = 0.1
    penalty: float = 3e-4
    register_penalty: float = 1e-4
    vectors: bool = True
    cues: bool = True
    turn: float = 2.0
    lean: float = 1.0


class Data(msgspec.Struct, frozen=True, kw_only=True):
    """Texts with all that is computed of them once; every array has a row per text."""

    texts: Sequence[Text]
    vectors: Vectors
    cues: Cues
    fits: Mask  # of CLASSES, [n, 6]
    talk: Mask
    groups: Rows

    @classmethod
    def of(cls, texts: Sequence[Text], vectors: Vectors) -> "Data":
        return cls(
            texts=texts,
            vectors=vectors,
            cues=cue_rows([text.text for text in texts]),
            fits=corpus.fits(texts),
            talk=np.array([isinstance(text, Turn) for text in texts]),
            groups=corpus.groups(texts, vectors),
        )

    @property
    def everything(self) -> Rows:
        return np.arange(len(self.texts))

    def features(self, rows: Rows, standard: Standard, recipe: Recipe) -> Matrix:
        scale = recipe.scale if recipe.cues else 0.0
        return assemble(self.vectors[rows] if recipe.vectors else None, self.cues[rows], standard, scale)

    def counts(self, rows: Rows, recipe: Recipe) -> Shares:
        return np.where(self.talk[rows], recipe.turn, 1.0)

    def right(self, rows: Rows, told: HeadOutput) -> Mask:
        """Return whether each likeliest class is right, [len(rows)]."""
        return np.asarray(self.fits[rows, told.best])


def standard_of(data: Data, rows: Rows) -> Standard:
    """Return the standard of cues by these texts: of cues of talk by all, of the others by written texts."""
    everything, written = Standard.of(data.cues[rows]), Standard.of(data.cues[rows[~data.talk[rows]]])
    own = len(NAMES) - len(OF_TALK)
    return Standard(
        np.concatenate([written.mean[:own], everything.mean[own:]]),
        np.concatenate([written.spread[:own], everything.spread[own:]]),
    )


def fitted(data: Data, rows: Rows, standard: Standard, recipe: Recipe) -> Matrix:
    """Return the weights of Heads fitted on these texts, both written and talk."""
    features, talk = data.features(rows, standard, recipe), data.talk[rows]
    fits, counts = data.fits[rows], data.counts(rows, recipe)
    # Written texts are told as if there was no talk: its cues are none of theirs.
    own = features.shape[1] - len(OF_TALK)
    written = regression.fit(features[~talk, :own], fits[~talk, :SECTORS], penalty=recipe.penalty)
    written = np.insert(written, own, np.zeros((len(OF_TALK), 1)), axis=0)
    talked = regression.fit(features, fits, penalty=recipe.penalty, counts=counts)
    register = regression.fit(features, np.stack([~talk, talk], axis=1), penalty=recipe.register_penalty)
    register[-1, 1] += recipe.lean
    return np.concatenate([written, talked, register], axis=1)


def held_out(data: Data, train: Rows, test: Rows, recipe: Recipe) -> HeadOutput:
    """Return what heads fitted on `train` say of `test`."""
    standard = standard_of(data, train)
    heads = Heads(fitted(data, train, standard, recipe), _NO_CURVE)
    return heads.tell(data.features(test, standard, recipe))


def folds(groups: Rows, count: int, seed: int) -> Iterator[tuple[Rows, Rows]]:
    """Yield (train, test) rows; a group is never on both sides."""
    numbers, place = np.unique(groups, return_inverse=True)
    fold = (np.random.default_rng(seed).permutation(len(numbers)) % count)[place]
    for number in range(count):
        yield np.flatnonzero(fold != number), np.flatnonzero(fold == number)


def cross_validated(data: Data, recipe: Recipe, *, count: int, seed: int) -> HeadOutput:
    """Return what is said of every text by heads that saw neither it nor one like it, nor its topic."""
    return _assembled(
        data, ((test, held_out(data, train, test, recipe)) for train, test in folds(data.groups, count, seed))
    )


def nested(data: Data, recipes: Sequence[Recipe], *, count: int, seed: int) -> tuple[HeadOutput, list[Recipe]]:
    """Return the same where even the recipe was chosen without the text, and the recipe of each fold."""
    parts, chosen = [], []
    for train, test in folds(data.groups, count, seed):
        best = max(recipes, key=lambda recipe, rows=train: _inner_accuracy(data, rows, recipe, seed))  # type: ignore[misc]
        parts.append((test, held_out(data, train, test, best)))
        chosen.append(best)
    return _assembled(data, parts), chosen


def _assembled(data: Data, parts: Iterator[tuple[Rows, HeadOutput]] | Sequence[tuple[Rows, HeadOutput]]) -> HeadOutput:
    chances, talk = np.zeros(data.fits.shape), np.zeros(len(data.texts))
    for rows, told in parts:
        chances[rows], talk[rows] = told.chances, told.talk
    return HeadOutput(chances, talk)


def _inner_accuracy(data: Data, rows: Rows, recipe: Recipe, seed: int) -> float:
    right = 0
    for train, test in folds(data.groups[rows], _INNER_FOLDS, seed + 1):
        told = held_out(data, rows[train], rows[test], recipe)
        right += int(np.sum(data.right(rows[test], told)))
    return right / len(rows)


def part(told: HeadOutput, rows: Rows | Mask) -> HeadOutput:
    """Return what is said of some of the texts."""
    return HeadOutput(told.chances[rows], told.talk[rows])


def scores(texts: Sequence[Labelled], told: HeadOutput) -> dict[str, float]:
    """Return accuracies of written texts: all, by language and hardness, and by sector (English)."""
    labels = corpus.labels(texts)
    right = told.best == labels
    english = np.array([text.lang == "en" for text in texts])
    hard = np.array([text.hard for text in texts])
    parts: Mapping[str, Mask] = {
        "all": np.ones(len(texts), dtype=bool),
        "en": english,
        "en_easy": english & ~hard,
        "en_hard": english & hard,
        "de": ~english,
        **{f"en_{sector}": english & (labels == place) for place, sector in enumerate(corpus.SECTORS)},
        **{f"en_hard_{sector}": english & hard & (labels == place) for place, sector in enumerate(corpus.SECTORS)},
    }
    return {name: round(float(right[rows].mean()), 3) for name, rows in parts.items() if rows.any()}


def talk_scores(turns: Sequence[Turn], told: HeadOutput) -> dict[str, float]:
    """Return accuracies of turns: all, those that fit a sector, and how often no sector is given and rightly so."""
    fits = corpus.fits(turns)
    right, nothing = fits[np.arange(len(turns)), told.best], told.best == NOTHING
    empty = fits[:, NOTHING]
    return {
        "turns": round(float(right.mean()), 3),
        "turns_with_a_sector": round(float(right[~empty].mean()), 3),
        "none_found": round(float(nothing[empty].mean()), 3),
        "none_right": round(float(empty[nothing].sum()) / max(1, int(nothing.sum())), 3),
    }


def confusion(texts: Sequence[Labelled], told: HeadOutput) -> dict[str, dict[str, int]]:
    """Return how many English texts of each true sector went to each."""
    labels, guesses = corpus.labels(texts), told.best
    english = np.array([text.lang == "en" for text in texts])
    return {
        truth: {
            guess: int(np.sum(english & (labels == row) & (guesses == column)))
            for column, guess in enumerate((*corpus.SECTORS, corpus.NONE))
        }
        for row, truth in enumerate(corpus.SECTORS)
    }


def calibration_errors(data: Data, told: HeadOutput, recipe: Recipe, seed: int) -> dict[str, float]:
    """Return the expected calibration errors of written texts and of turns, each half of the groups by the curve of the
    other."""
    confidence = np.zeros(len(data.texts))
    for train, test in folds(data.groups, 2, seed):
        curve = calibration.curve(part(told, train), data.right(train, part(told, train)), data.counts(train, recipe))
        confidence[test] = Heads(np.empty((0, 0)), curve).confidence(part(told, test))
    right = data.right(data.everything, told)
    return {
        "written": expected_error(confidence[~data.talk], right[~data.talk]),
        "talk": expected_error(confidence[data.talk], right[data.talk]),
    }
