"""Judge hits: the chance that each helps to answer, and by it which hits a reply shows. Pure.

One small net reads what ranking has measured of the question and of a hit. A hit that holds every word that was asked
for is shown whatever its chance, so that what is known is said however much else is kept. The fields `answered`,
`left_out` and `more` follow from the hits that it shows. Cosines are read through the curve of the model that made
them, so that the weights hold for all models. `python -m tools.relevance` learns the weights, and says how good they
are.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from engramq.schemas.records import Answered, Memory
from engramq.schemas.settings import Settings
from engramq.schemas.vocabulary import LIKELY, Partition
from engramq.workers.embedders.calibration import Calibration
from engramq.workers.embedders.hashing import NAME as WORD_COUNTS
from engramq.workers.search.neighbours import RULES
from engramq.workers.search.ranking import Column, Mask, Measure, Ranked, or_nothing

Matrix: TypeAlias = NDArray[np.float64]

# Nothing is shown where fewer of the first ten than this are expected to help. Else a hit is shown whose chance is a
# share of the best one's: among facts the answer is one of them or a few that are about as likely, and the others are
# about something else; of what people said several items answer, each unlikely by itself. See tools/relevance.
LEAST_EXPECTED: Final = 0.1
FIRST: Final = 10
FEW: Final = 10  # memories of the smallest home that was learned from
UNRELATED: Final = 0.05  # the cosine of a question and a memory that has nothing to do with it, about the median
SHARE_AMONG_FACTS: Final = 0.6
SHARE_FOR_TASKS: Final = 0.3  # of facts too, where something is to be done: several bear on it, each in its own way
SHARE_AMONG_TURNS: Final = 0.01
SAID: Final = 0.34  # the share of what was found that people said, below which it is facts
WEIGHTS: Final = Path(__file__).with_name("relevance.json")
DIGITS: Final = 2  # of a relevance as it is told
# The least chance of what is from a time that alone is asked for: tells of it, or was stored then.
TOLD_OF_TIME, STORED_THEN = 0.9, 0.5
LARGEST: Final = 3.0  # of an input to either side: beyond it nothing was learned
LOGIT: Final = 4.0  # units of a cosine's log odds that are one of an input
ALIKE: Final = 0.1  # scores that differ by less from the next
TWINS: Final = 0.1  # cosines that differ by less: few candidates spread any two that are nearly equal
_OVER: Final = 0.001  # by which shares are equal
# The inputs by kind: `q_` of the question and of all that was found, the others of a hit. A kind is explained as one.
KINDS: Final[Mapping[str, Sequence[str]]] = {
    "words": ("covered", "covered_below", "q_covered"),
    "meaning": ("cosine_below", "cosine_above", "cosine_ahead", "q_cosine", "no_vector"),
    "rank": ("score", "score_below", "rank", "ahead"),
    "conversation": ("neighbours",),
    "form": ("words", "tells_self", "q_said"),
    "question": ("q_names", "q_narrowed", "q_length", "q_asks", "q_task"),
}  # fmt: skip
INPUTS: Final = tuple(name for names in KINDS.values() for name in names)


class Net(msgspec.Struct, frozen=True, kw_only=True):
    """A net with one hidden layer, for inputs less `mean` over `spread`, both [inputs].

    `inputs` are the names of what was learned from, in order. `hidden` [inputs + 1, units] and `out` [units + 1] have
    what is added in their last row.
    """

    inputs: list[str]
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


@cache
def learned() -> Net:
    """Return the weights that are shipped."""
    found = msgspec.json.decode(WEIGHTS.read_bytes(), type=Net, dec_hook=_array)
    if found.inputs != list(INPUTS):
        raise ValueError(f"{WEIGHTS.name} was learned from other inputs: run `python -m tools.relevance`")
    return found


def _array(_kind: type, numbers: Any) -> Any:
    return np.array(numbers, dtype=np.float64)


@dataclass(frozen=True)
class RelevanceFeatures:
    """The inputs of the net: measures of a ranking, of all rows in its order, and of others beside them.

    `curve` None: nobody knows what a cosine means, and words alone are read. `narrowed`: the caller's filters left few.
    """

    measure: Measure
    ranked: Ranked
    curve: Calibration | None
    narrowed: bool = False

    def chances(self, rows: Sequence[int]) -> Column:
        """Return the chance of each of these rows that it helps to answer."""
        chances = learned().chances(self.inputs(rows))
        if not self.measure.question.is_only_of_time:
            return chances
        of_time = np.where(
            self._is_of_time, np.where(self.ranked.candidates.tells_of_day, TOLD_OF_TIME, STORED_THEN), 0.0
        )
        return np.maximum(chances, of_time[np.array(rows, dtype=np.intp)])

    @cached_property
    def _is_of_time(self) -> Mask:
        """Which rows are from the time that a question asks for and for nothing else: they answer."""
        nothing = np.zeros(len(self.ranked.candidates))
        dates = self.ranked.parts.get("date", nothing) if self.measure.question.is_only_of_time else nothing
        return dates > 0

    def inputs(self, rows: Sequence[int]) -> Matrix:
        """Return the inputs of these rows of the ranking [rows, INPUTS]."""
        return self._inputs[np.array(rows, dtype=np.intp)]

    @cached_property
    def are_of_time(self) -> bool:
        """Whether any of those in order is from the time that alone is asked for: what is complete answers then."""
        return bool(self._is_of_time[self._order].any())

    @cached_property
    def expected(self) -> float:
        """How many of the first ten are expected to help."""
        return float(self.chances(self.ranked.order[:FIRST]).sum())

    @cached_property
    def complete(self) -> Mask:
        """Which candidates hold every word that was asked for, or are from the time that alone was asked for."""
        complete: Mask = self._is_of_time | (self._covered >= 1.0 - _OVER)
        return complete

    @cached_property
    def said(self) -> float:
        """The share of what was found that people said to each other: that asks, or tells of who speaks."""
        candidates = self.ranked.candidates
        return float((candidates.asks | candidates.tells_self)[self._order].mean())

    def twins(self, rows: Sequence[int], best: int) -> list[bool]:
        """Say of these rows whether they are as near as the row `best`, and have as much of the question."""
        cosines, chosen = or_nothing(self.ranked.candidates.similarity), list(rows)
        near = (np.abs(cosines[chosen] - cosines[best]) <= TWINS) & (not self.are_of_time)
        alike: list[bool] = (near & (np.abs(self._covered[chosen] - self._covered[best]) <= _OVER)).tolist()
        return alike

    @cached_property
    def _order(self) -> NDArray[np.intp]:
        return np.array(self.ranked.order, dtype=np.intp)

    @cached_property
    def _covered(self) -> Column:
        return or_nothing(self.ranked.candidates.covered)

    @cached_property
    def _inputs(self) -> Matrix:
        """The inputs of all rows [candidates, INPUTS]."""
        candidates, parts, question = self.ranked.candidates, self.ranked.parts, self.measure.question
        covered, nothing = self._covered, np.zeros(len(candidates))
        most = float(covered[self._order].max())
        found: dict[str, Any] = {
            **self._places(),
            **self._cosines(),
            "covered": covered,
            "covered_below": most - covered,
            "q_covered": most,
            "words": np.log1p(candidates.words),
            "tells_self": candidates.tells_self,
            "neighbours": sum((parts[name] for name in RULES), nothing),
            "q_said": self.said,
            "q_names": float(bool(question.names)),
            "q_narrowed": float(self.narrowed),
            "q_length": math.log1p(question.length),
            "q_asks": float(question.asks),
            "q_task": float(question.is_task),
        }
        inputs = np.empty((len(candidates), len(INPUTS)))
        for column, name in zip(inputs.T, INPUTS, strict=True):
            column[:] = found[name]
        return inputs

    def _places(self) -> dict[str, Column]:
        """Return where each row stands among those in order: its rank, and how far the next one is.

        Those that differ little one by one stand in one place, so that none of several equal facts is the last.
        """
        scores, order = self.ranked.scores, self._order
        in_order = scores[order]
        steps = -np.diff(in_order)
        parts = np.append(0, np.cumsum(steps >= ALIKE))  # of those that are alike one by one
        first = np.searchsorted(parts, parts)  # of the part of each place
        after = np.searchsorted(parts, parts, side="right")  # the first of the next part
        places = np.minimum(np.searchsorted(-in_order, -scores), len(order) - 1)  # of others: where they would be
        return {
            "score": scores,
            "score_below": in_order[0] - scores,
            "rank": np.log1p(first[places].astype(np.float64)),
            "ahead": np.concatenate([[0.0], steps, [0.0]])[after[places]],
        }

    def _cosines(self) -> dict[str, Column]:
        """Return the inputs that cosines give, nothing where words alone are read.

        A long memory is as near as the nearest of its pieces, which `meaning` knows.
        """
        curve, cosines = self.curve, np.fmax(self.ranked.candidates.similarity, self.ranked.candidates.meaning)
        known = np.sort(cosines[self._order])  # nan last
        known = known[~np.isnan(known)]
        if curve is None or not len(known):
            nothing = np.zeros(len(cosines))
            names = ("cosine_below", "cosine_above", "cosine_ahead", "q_cosine")
            return {**dict.fromkeys(names, nothing), "no_vector": nothing + 1.0}
        # In a home of few memories all may be about one thing: then they are not above each other, but above what any
        # home has besides.
        known = np.append(np.full(max(0, FEW - len(known)), min(UNRELATED, known[0])), known)
        step = curve.slope / LOGIT  # log odds by the curve of the model
        next_below = known[np.maximum(np.searchsorted(known, cosines) - 1, 0)]
        return {
            "cosine_below": or_nothing(known[-1] - cosines) * step,
            "cosine_above": or_nothing(cosines - known.mean()) * step,
            "cosine_ahead": or_nothing(cosines - next_below) * step,
            "q_cosine": np.full(len(cosines), step * known[-1] + curve.offset / LOGIT),
            "no_vector": np.isnan(cosines),
        }


def _reaches(chance: float, least: float) -> bool:
    """Say whether a chance is large enough, exactly or rounded as replies show it."""
    return max(chance, round(chance, DIGITS)) >= least


@dataclass(frozen=True, slots=True)
class Judge:
    """Judges the hits of one search.

    Untrusted hits change nothing for trusted ones: these are judged, and left out, among themselves.
    """

    everything: RelevanceFeatures
    trusted: RelevanceFeatures  # all that was found where nothing is trusted
    history: bool  # what was superseded is asked for too, so that versions of one fact answer together

    @classmethod
    def of(
        cls,
        measure: Measure,
        ranked: Ranked,
        curve: Calibration | None,
        *,
        narrowed: bool = False,
        history: bool = False,
    ) -> "Judge":
        """Return the judge of a ranking that has at least one row."""
        everything = trusted = RelevanceFeatures(measure, ranked, curve, narrowed)
        order = np.array(ranked.order, dtype=np.intp)
        rows = order[ranked.candidates.trusted[order]].tolist()
        if 0 < len(rows) < len(order):
            trusted = replace(everything, ranked=replace(ranked, order=rows))
        return cls(everything, trusted, history)

    def chances(self, rows: Sequence[int]) -> list[float]:
        """Return the chance of each of these rows that it helps to answer."""
        chances = self.trusted.chances(rows)
        if (others := self._others(rows)).any():
            chances[others] = self.everything.chances(rows)[others]
        return [float(chance) for chance in chances]

    def shown(self, rows: Sequence[int], chances: Sequence[float], asked: float | None) -> list[bool]:
        """Say which of these rows, with these chances, are shown; `asked`: the least chance that was chosen."""
        if asked is not None:
            return [_reaches(chance, asked) for chance in chances]
        others = self._others(rows).tolist()
        best = max((place for place, other in enumerate(others) if not other), key=chances.__getitem__, default=None)
        least = math.inf if best is None else self._least(chances[best], self.trusted)
        least_of_others = self._least(max(chances, default=0.0), self.everything)
        complete = self.everything.complete[list(rows)].tolist()
        shown = [
            is_complete or _reaches(chance, least_of_others if other else least)
            for chance, other, is_complete in zip(chances, others, complete, strict=True)
        ]
        if best is None or not shown[best] or self.trusted.said >= SAID:
            return shown
        twins = self.trusted.twins(rows, rows[best])
        return [is_shown or (twin and not other) for is_shown, twin, other in zip(shown, twins, others, strict=True)]

    def named_among(self, rows: Iterable[int]) -> int:
        """Return how many of these rows, each counted once, hold every word that was asked for."""
        return int(self.everything.complete[list(set(rows))].sum())

    def made_of(self, row: int) -> dict[str, float]:
        """Return by how much what each kind of evidence says lifts the chance of a hit above what it usually says."""
        features = self.everything if self._others([row]).any() else self.trusted
        inputs, net = features.inputs([row]), learned()
        without = np.repeat(inputs, len(KINDS), axis=0)
        for place, names in enumerate(KINDS.values()):
            columns = [INPUTS.index(name) for name in names]
            without[place, columns] = net.mean[columns]
        lifts = float(net.chances(inputs)[0]) - net.chances(without)
        return dict(zip(KINDS, lifts.tolist(), strict=True))

    def _others(self, rows: Sequence[int]) -> Mask:
        """Say of each row whether it is untrusted where others are trusted."""
        if self.trusted is self.everything:
            return np.zeros(len(rows), dtype=np.bool_)
        others: Mask = ~self.everything.ranked.candidates.trusted[np.array(rows, dtype=np.intp)]
        return others

    def _least(self, best: float, features: RelevanceFeatures) -> float:
        """Return the least chance of a hit that is shown beside the best one."""
        if features.are_of_time or (features.expected < LEAST_EXPECTED and not features.narrowed):
            return math.inf  # what is complete alone is shown
        if self.history or features.said >= SAID:
            return best * SHARE_AMONG_TURNS
        return best * (SHARE_FOR_TASKS if features.measure.question.is_task else SHARE_AMONG_FACTS)


def answered_by(shown: Sequence[Memory]) -> Answered:
    """Say whether hits that are shown, with their relevance, answer: an untrusted one alone never surely does."""
    if not shown:
        return "no"
    sure = (memory.partition is Partition.TRUSTED and (memory.relevance or 0.0) >= LIKELY for memory in shown)
    return "yes" if any(sure) else "unsure"


@dataclass(frozen=True, slots=True)
class MinRelevance:
    """The least relevance of shown hits that an installation has set; None: the learned one.

    Where vectors are counts of words nothing is left out unless that is chosen: the net learned from meanings.
    """

    least: float | None

    @classmethod
    def of(cls, settings: Settings) -> "MinRelevance":
        """Return what the settings say."""
        chosen = settings.min_relevance
        return cls(0.0 if chosen is None and settings.embedder == WORD_COUNTS else chosen)
