"""Judge what was found: the chance that a hit helps to answer, and the chance that anything does. Pure.

A small net reads what ranking has measured: of the question, of the best that was found, and of each hit. There are two
judges of each kind, with vectors and by words alone. Cosines are read through the curve of the model that made them, so
that the weights hold for all models. `python -m tools.relevance` learns the weights, and says how good they are.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from engramq.schemas.records import Answered
from engramq.schemas.settings import Settings
from engramq.workers.embedders.calibration import Calibration
from engramq.workers.embedders.hashing import NAME as WORD_COUNTS
from engramq.workers.search.question import READ
from engramq.workers.search.ranking import Column, Measure, Ranked, or_nothing

Matrix: TypeAlias = NDArray[np.float64]

# Of the chance that anything answers: below the first nothing is shown, from the second on the hits are relied on.
NOTHING_BELOW: Final = 0.12
SURE_FROM: Final = 0.5
# A hit is shown whose chance is so much, and this share of the best one's: five times as much beside a sure one, which
# is mostly one fact's, less by the cube beside others, of which several answer. See `python -m tools.relevance`.
LEAST: Final = 0.003
SHARE_OF_BEST: Final = 0.01
BESIDE_SURE: Final = 5.0
# Where less of what was found than this was said by people, it is facts: most answers are one of them or a few that are
# about as likely, and the others are about something else.
SAID: Final = 0.34
LEAST_OF_FACTS: Final = 0.05
SHARE_OF_BEST_FACT: Final = 0.5
WEIGHTS: Final = Path(__file__).with_name("relevance.json")
DIGITS: Final = 2  # of a relevance as it is told
LARGEST: Final = 3.0  # of an input to either side: beyond it nothing was learned
LOGIT: Final = 4.0  # units of a cosine's log odds that are one of an input
LEAST_SPREAD: Final = 0.03  # of cosines
ALIKE: Final = 0.1  # scores that differ by less from the next
TWINS: Final = 0.1  # cosines that differ by less: few candidates spread any two that are nearly equal
_OVER: Final = 0.001  # by which shares are equal
NEIGHBOURS: Final = ("next_to", "near_to", "answers")
# What each input is; `q_` of the question and of all that was found, the others of a hit.
QUESTION_INPUTS: Final = (
    "q_words", "q_exact", "q_names", "q_asks_when", "q_speaker", "q_found", "q_trust", "q_cosine",
    "q_cosine_apart", "q_covered", "q_worth", "q_spread", "q_second", "q_fifth", "q_tenth", "q_threads",
    "q_said",
)  # fmt: skip
HIT_INPUTS: Final = (
    "cosine", "cosine_apart", "cosine_below", "meaning", "covered", "covered_much", "worth", "covered_below",
    "worth_below", "score", "score_below", "rank", "ahead", "behind", "words", "asks", "tells_self", "lexical",
    "similarity", "neighbours", "best_of_thread", "speaker", "date", "time_words", "as_covered", "no_vector",
)  # fmt: skip
INPUTS: Final = QUESTION_INPUTS + HIT_INPUTS


class Net(msgspec.Struct, frozen=True, kw_only=True):
    """A net with one hidden layer, for inputs less `mean` over `spread`, both [inputs].

    `hidden` [inputs + 1, units] and `out` [units + 1] have what is added in their last row.
    """

    mean: Column
    spread: Column
    hidden: Matrix
    out: Column

    def chances(self, inputs: Matrix) -> Column:
        """Return a chance from 0 to 1 for each row [rows, inputs]."""
        scaled = np.clip((inputs - self.mean) / self.spread, -LARGEST, LARGEST)
        units = np.tanh(scaled @ self.hidden[:-1] + self.hidden[-1])
        odds = np.clip(units @ self.out[:-1] + self.out[-1], -30.0, 30.0)
        chances: Column = 1.0 / (1.0 + np.exp(-odds))
        return chances


class Judges(msgspec.Struct, frozen=True, kw_only=True):
    """Those with vectors or those by words alone: `hit` of each hit, `anything` of the best, for all that was found."""

    hit: Net
    anything: Net


class Learned(msgspec.Struct, frozen=True, kw_only=True):
    """The file of weights. `inputs` are the names of what was learned from, in order."""

    inputs: list[str]
    by_vectors: Judges
    by_words: Judges


@cache
def learned() -> Learned:
    """Return the weights that are shipped."""
    found = msgspec.json.decode(WEIGHTS.read_bytes(), type=Learned, dec_hook=_array)
    if found.inputs != list(INPUTS):
        raise ValueError(f"{WEIGHTS.name} was learned from other inputs: run `python -m tools.relevance`")
    return found


def _array(_kind: type, numbers: Any) -> Any:
    return np.array(numbers, dtype=np.float64)


@dataclass(frozen=True)
class Seen:
    """What is read of a ranking: of all rows in its order, and of others beside them.

    `curve` None: nobody knows what a cosine means, and words alone are read.
    """

    measure: Measure
    ranked: Ranked
    curve: Calibration | None

    @cached_property
    def by_words(self) -> bool:
        """Whether no vector is read."""
        return self.curve is None or bool(np.isnan(self.ranked.candidates.similarity[self._order]).all())

    @property
    def judges(self) -> Judges:
        """Those that read what is to be seen here."""
        return learned().by_words if self.by_words else learned().by_vectors

    @property
    def anything(self) -> float:
        """The chance that anything that was found answers."""
        return float(self.judges.anything.chances(self.inputs(self.ranked.order[:1]))[0])

    def chances(self, rows: Sequence[int]) -> Column:
        """Return the chance of each of these rows that it helps to answer."""
        return self.judges.hit.chances(self.inputs(rows))

    def inputs(self, rows: Sequence[int]) -> Matrix:
        """Return the inputs of these rows of the ranking [rows, INPUTS]."""
        return np.hstack([np.tile(self._of_question, (len(rows), 1)), self._of_hits[np.array(rows, dtype=np.intp)]])

    def twins(self, rows: Sequence[int], best: int) -> list[bool]:
        """Say of these rows whether they are as near as the row `best`, and have as much of the question."""
        cosines, chosen = or_nothing(self.ranked.candidates.similarity), list(rows)
        near = np.abs(cosines[chosen] - cosines[best]) <= TWINS
        alike: list[bool] = (near & (np.abs(self._covered[chosen] - self._covered[best]) <= _OVER)).tolist()
        return alike

    @cached_property
    def _order(self) -> NDArray[np.intp]:
        return np.array(self.ranked.order, dtype=np.intp)

    @cached_property
    def _covered(self) -> Column:
        return or_nothing(self.ranked.candidates.covered)

    @cached_property
    def _worth(self) -> Column:
        return or_nothing(self.ranked.candidates.worth)

    @cached_property
    def _of_hits(self) -> Matrix:
        """The inputs of all rows [candidates, HIT_INPUTS]."""
        candidates, parts, covered = self.ranked.candidates, self.ranked.parts, self._covered
        nothing = np.zeros(len(candidates))
        among = self._order
        known = {name: or_nothing(parts.get(name, nothing)) for name in (*_PARTS, *NEIGHBOURS)}
        shares = np.sort(covered[among])
        found = {
            **known,
            **self._of_places(),
            **self._of_vectors(),
            "covered": covered,
            "covered_much": covered**2,
            "worth": self._worth,
            "covered_below": shares[-1] - covered,
            "worth_below": self._worth[among].max() - self._worth,
            "as_covered": np.log1p(len(shares) - np.searchsorted(shares, covered - _OVER)),
            "words": np.log1p(candidates.words),
            "asks": candidates.asks,
            "tells_self": candidates.tells_self,
            "neighbours": sum((known[name] for name in NEIGHBOURS), nothing),
        }
        return np.array([found[name] for name in HIT_INPUTS]).T

    def _of_places(self) -> dict[str, Column]:
        """Return where each row stands among those in order: its rank, and how far the next ones are.

        Those that differ little one by one stand in one place, so that none of several equal facts is the last.
        """
        scores, order = self.ranked.scores, self._order
        in_order = scores[order]
        steps = -np.diff(in_order)
        parts = np.append(0, np.cumsum(steps >= ALIKE))  # of those that are alike one by one
        first = np.searchsorted(parts, parts)  # of the part of each place
        after = np.searchsorted(parts, parts, side="right")  # the first of the next part
        places = np.minimum(np.searchsorted(-in_order, -scores), len(order) - 1)  # of others: where they would be
        padded = np.concatenate([[0.0], steps, [0.0]])
        return {
            "score": scores,
            "score_below": in_order[0] - scores,
            "rank": np.log1p(first[places].astype(np.float64)),
            "ahead": padded[after[places]],
            "behind": padded[first[places]],
        }

    def _of_vectors(self) -> dict[str, Column]:
        """Return the inputs that cosines give, nothing where words alone are read."""
        candidates, curve = self.ranked.candidates, self.curve
        if curve is None or self.by_words:
            return dict.fromkeys(_BY_VECTORS, np.zeros(len(candidates)))
        best, mean, spread = self._best_cosines
        odds = _odds(candidates.similarity, curve)
        return {
            "cosine": or_nothing(odds),
            "cosine_apart": or_nothing((candidates.similarity - mean) / spread),
            "cosine_below": or_nothing(_odds(best, curve) - odds),
            "meaning": or_nothing(_odds(candidates.meaning, curve)),
            "similarity": or_nothing(self.ranked.parts["similarity"]),
            "no_vector": np.isnan(candidates.similarity),
        }

    @cached_property
    def _best_cosines(self) -> tuple[float, float, float]:
        """The best cosine, the mean of all and their spread."""
        known = self.ranked.candidates.similarity[self._order]
        known = known[~np.isnan(known)]
        return float(known.max()), float(known.mean()), max(float(known.std()), LEAST_SPREAD)

    @cached_property
    def said(self) -> float:
        """The share of what was found that people said to each other: that asks, or tells of who speaks."""
        candidates = self.ranked.candidates
        return float((candidates.asks | candidates.tells_self)[self._order].mean())

    @cached_property
    def _of_question(self) -> Column:
        """The inputs of the question, and of all that was found."""
        question, order = self.measure.question, self._order
        threads, in_order = self.ranked.candidates.thread, self.ranked.scores[order]
        found = {
            "q_words": math.log1p(len(question.text[:READ].split())),
            "q_exact": float(question.is_exact),
            "q_names": float(bool(question.names)),
            "q_asks_when": float(question.asks_when),
            "q_speaker": float(bool(self.measure.named)),
            "q_found": math.log1p(len(order)),
            "q_trust": self.measure.trust,
            "q_threads": sum(threads[row] is not None for row in self.ranked.order) / len(order),
            "q_said": self.said,
            "q_covered": float(self._covered[order].max()),
            "q_worth": float(self._worth[order].max()),
            "q_spread": float(in_order.std()),
            "q_cosine": 0.0,
            "q_cosine_apart": 0.0,
        }
        for name, place in (("q_second", 1), ("q_fifth", 4), ("q_tenth", 9)):
            found[name] = float(in_order[0] - in_order[min(place, len(order) - 1)])
        if self.curve is not None and not self.by_words:
            best, mean, spread = self._best_cosines
            found |= {"q_cosine": float(_odds(best, self.curve)), "q_cosine_apart": (best - mean) / spread}
        return np.array([found[name] for name in QUESTION_INPUTS])


def least_shown(best: float, said: float) -> float:
    """Return the chance from which hits are shown beside one with the chance `best`; `said`: see `Seen`."""
    if said < SAID:
        return max(LEAST_OF_FACTS, SHARE_OF_BEST_FACT * best)
    return max(LEAST, SHARE_OF_BEST * best, BESIDE_SURE * SHARE_OF_BEST * best**3)


def _reaches(chance: float, least: float) -> bool:
    """Say whether a chance is large enough, as it is or as it is told."""
    return max(chance, round(chance, DIGITS)) >= least


def _odds(cosine: Any, curve: Calibration) -> Any:
    """Return the log odds of a cosine by the curve of its model, a number or an array."""
    return (curve.slope * cosine + curve.offset) / LOGIT


_PARTS: Final = ("lexical", "best_of_thread", "speaker", "date", "time_words")
_BY_VECTORS: Final = ("cosine", "cosine_apart", "cosine_below", "meaning", "similarity", "no_vector")

# What a relevance is made of, as it is told.
KINDS: Final[Mapping[str, Sequence[str]]] = {
    "words": (
        "covered", "covered_much", "covered_below", "worth", "worth_below", "as_covered", "lexical", "q_covered",
        "q_worth", "q_trust",
    ),
    "meaning": (*_BY_VECTORS, "q_cosine", "q_cosine_apart"),
    "rank": ("score", "score_below", "rank", "ahead", "behind", "q_spread", "q_second", "q_fifth", "q_tenth"),
    "conversation": ("neighbours", "best_of_thread", "q_threads"),
    "speaker": ("speaker", "q_speaker", "q_names"),
    "time": ("date", "time_words", "q_asks_when"),
    "form": ("words", "asks", "tells_self", "q_said"),
    "question": ("q_words", "q_exact", "q_found"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Judged:
    """What the judges say of a ranking: the chance that anything answers, and, when asked, that a hit does.

    What is untrusted moves nothing that is said of trusted hits: these are judged, and left out, among themselves.
    """

    everything: Seen
    trusted: Seen  # all that was found where nothing is trusted
    anything: float
    anything_at_all: float  # untrusted ones too
    history: bool  # what was superseded is asked for too, so that versions of one fact answer together

    @classmethod
    def of(cls, measure: Measure, ranked: Ranked, curve: Calibration | None, *, history: bool = False) -> "Judged":
        """Judge a ranking that has at least one row."""
        everything = trusted = Seen(measure, ranked, curve)
        order = np.array(ranked.order, dtype=np.intp)
        rows = order[ranked.candidates.trusted[order]].tolist()
        if 0 < len(rows) < len(order):
            trusted = Seen(measure, replace(ranked, order=rows), curve)
        anything = trusted.anything
        anything_at_all = anything if trusted is everything else everything.anything
        return cls(everything, trusted, anything, anything_at_all, history)

    @property
    def answered(self) -> Answered:
        """Whether anything trusted that was found answers."""
        if self.anything < NOTHING_BELOW:
            return "no"
        return "unsure" if self.anything < SURE_FROM else "yes"

    def hits(self, rows: Sequence[int]) -> list[float]:
        """Return the chance of each of these rows that it helps to answer."""
        chances = self.trusted.chances(rows)
        if (others := self._others(rows)).any():
            chances[others] = self.everything.chances(rows)[others]
        return [float(chance) for chance in chances]

    def _others(self, rows: Sequence[int]) -> NDArray[np.bool_]:
        """Say of each row whether it is untrusted where others are trusted."""
        if self.trusted is self.everything:
            return np.zeros(len(rows), dtype=np.bool_)
        return ~self.everything.ranked.candidates.trusted[np.array(rows, dtype=np.intp)]

    def shown(self, rows: Sequence[int], chances: Sequence[float], asked: float | None) -> list[bool]:
        """Say which of these rows, with these chances, are shown; `asked`: the least chance that was chosen."""
        if asked is not None:
            return [_reaches(chance, asked) for chance in chances]
        others = self._others(rows).tolist()
        best = max((place for place, other in enumerate(others) if not other), key=chances.__getitem__, default=None)
        least = math.inf if best is None else self._least(chances[best], self.trusted, self.anything)
        least_of_others = self._least(max(chances, default=0.0), self.everything, self.anything_at_all)
        shown = [
            _reaches(chance, least_of_others if other else least) for chance, other in zip(chances, others, strict=True)
        ]
        if best is None or not shown[best] or self.trusted.said >= SAID:
            return shown
        twins = self.trusted.twins(rows, rows[best])
        return [is_shown or (twin and not other) for is_shown, twin, other in zip(shown, twins, others, strict=True)]

    def _least(self, best: float, seen: Seen, anything: float) -> float:
        """Return the least chance of a hit that is shown beside the best one."""
        return math.inf if anything < NOTHING_BELOW else least_shown(best, 1.0 if self.history else seen.said)

    def made_of(self, row: int) -> dict[str, float]:
        """Return by how much what each kind of evidence says lifts the chance of a hit above what it usually says."""
        seen = self.everything if self._others([row]).any() else self.trusted
        inputs, net = seen.inputs([row]), seen.judges.hit
        without = np.repeat(inputs, len(KINDS), axis=0)
        for place, names in enumerate(KINDS.values()):
            columns = [INPUTS.index(name) for name in names]
            without[place, columns] = net.mean[columns]
        lifts = float(net.chances(inputs)[0]) - net.chances(without)
        return dict(zip(KINDS, lifts.tolist(), strict=True))


@dataclass(frozen=True, slots=True)
class Floor:
    """What an installation has chosen as the least relevance of the hits that are shown; None: as learned.

    Where vectors are counts of words nothing is left out unless that is chosen: the judges learned from meanings.
    """

    least: float | None

    @classmethod
    def of(cls, settings: Settings) -> "Floor":
        """Return what the settings say."""
        chosen = settings.min_relevance
        return cls(0.0 if chosen is None and settings.embedder == WORD_COUNTS else chosen)
