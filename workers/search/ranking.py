"""Order the candidates of a search. Pure: no clock, no database, no randomness.

A candidate has up to two scores: `lexical`, what its words add up to, and `meaning`, the cosine of its content. Each is
normalised over the candidates (mean 0, deviation 1), which fuses better than ranks do; words count as far as they are
no chance (see `words`). The conversation around a candidate boosts it: its neighbours (see `neighbours`), the best of
its thread, its speaker, its date; and whether it tells something. A rule whose field is missing does nothing. No memory
of one partition boosts one of the other. `boosts` says what counts besides.

The weights are round, and each was kept only where it helps, or does no harm, on the development halves of both LoCoMo
and BEAM: fitted ones fall over on other corpora.
Candidates come as columns, since a few operations on arrays cost a fifth of a loop over 400 rows.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from engramq.schemas.vocabulary import Sector
from engramq.workers.search.neighbours import RULES, in_order_of_storing, in_threads, leaning, number_threads
from engramq.workers.search.question import Question, by_share, trust

Column: TypeAlias = NDArray[np.float64]
Mask: TypeAlias = NDArray[np.bool_]
Rows: TypeAlias = NDArray[np.intp]


# The weight of each part; 1.0 is about one standard deviation of the fused score. `neighbours` has what these count.
LEXICAL: Final = 0.5
SIMILARITY: Final = 0.5
BEST_OF_THREAD: Final = 0.2
TELLS_SELF: Final = 0.4  # begins with words of who speaks of himself
ONLY_ASKS: Final = -0.8  # ends with a question mark and does not
SPEAKER: Final = 1.4  # said by the speaker that the question names, the first of several
DATE: Final = 0.7  # of a time that the question names
DECIDES: Final = 20.0  # more than words, a vector and all that surrounds a memory may add up to
# The least that counts as a deviation of 1: half of what is usual among 400 candidates for vectors, about what is usual
# for words. Without it two memories that hardly differ would be as far apart as the best and the worst. A best match in
# words that stands out keeps at least so many deviations: a lone long memory with a rare word is not drowned.
LEXICAL_DEVIATION: Final = 1.0
BEST_DEVIATIONS: Final = 4.0
LEAST_LEXICAL_DEVIATION: Final = 0.2
COSINE_DEVIATION: Final = 0.05
# Scores that differ by less are equal. A copy and the tables add up a cosine in different orders, which moves it by
# some 1e-7, and a score by ten times that: without this, chance would put memories that are equal in order.
EQUAL_COSINES: Final = 1e-6
EQUAL_SCORES: Final = 1e-5
_NONE: Final = np.zeros(0, dtype=np.bool_)
_NOTHING: Final = np.zeros(0)


class Candidates(msgspec.Struct, array_like=True, dict=True):
    """The measures by which memories are ranked: a list or an array for each field, a row for each memory.

    nan: no word of the question in it, no vector to compare, no place in a thread. Lists of numbers that are given
    become arrays. `day` is null when nobody needs it.
    """

    ids: list[str] = []
    trusted: Mask = _NONE
    lexical: Column = _NOTHING
    covered: Column = _NOTHING  # the share of what the words of the question weigh that it has
    worth: Column = _NOTHING  # of these words: 1 is as much as one that no other memory has
    similarity: Column = _NOTHING
    meaning: Column = _NOTHING  # the same for ranking: without the names in the question
    thread: list[str | None] = []
    position: Column = _NOTHING
    speaker: list[str | None] = []
    day: list[date] | None = None  # that it tells of, else on which it was stored
    tells_of_day: Mask = _NONE
    asks: Mask = _NONE  # its content ends with a question mark
    tells_self: Mask = _NONE  # it begins with words of who speaks of himself
    words: Column = _NOTHING  # different ones
    sector: list[Sector] = []
    confidence: Column = _NOTHING
    active_hours: Column = _NOTHING  # of the namespace's clock, when it was stored

    def __post_init__(self) -> None:
        for name, kind in _ARRAYS:
            setattr(self, name, np.asarray(getattr(self, name), dtype=kind))

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def row_of(self) -> dict[str, int]:
        """The row of each memory."""
        return {memory_id: row for row, memory_id in enumerate(self.ids)}

    @cached_property
    def oldest_first(self) -> Rows:
        """The rows in the order in which the memories were stored: ids are made in order of time."""
        return np.array(sorted(range(len(self)), key=self.ids.__getitem__), dtype=np.intp)

    def chosen(self, rows: Sequence[int]) -> "Candidates":
        """Return those of these rows."""
        places = np.array(rows, dtype=np.intp)
        columns: Iterator[Any] = (
            column[places] if isinstance(column, np.ndarray) else column and [column[row] for row in rows]
            for column in msgspec.structs.astuple(self)
        )
        return Candidates(*columns)

    def trusted_ones(self) -> "Candidates":
        """Return the trusted ones among these."""
        return self if self.trusted.all() else self.chosen(np.flatnonzero(self.trusted).tolist())

    def joined(self, others: "Candidates") -> "Candidates":
        """Return these, followed by others."""
        pairs = zip(msgspec.structs.astuple(self), msgspec.structs.astuple(others), strict=True)
        columns: Iterator[Any] = (
            np.concatenate(pair) if isinstance(pair[0], np.ndarray) else None if None in pair else [*pair[0], *pair[1]]
            for pair in pairs
        )
        return Candidates(*columns)

    def completed(self, others: "Candidates") -> "Candidates":
        """Return these, with the similarities of others where they lack one, followed by those that are new."""
        rows = dict(others.row_of)
        both = [place for place, memory_id in enumerate(self.ids) if memory_id in rows]
        theirs = [rows.pop(self.ids[place]) for place in both]
        cosines = {"similarity": self.similarity.copy(), "meaning": self.meaning.copy()}
        for name, mine in cosines.items():
            mine[both] = np.where(np.isnan(mine[both]), getattr(others, name)[theirs], mine[both])
        return msgspec.structs.replace(self, **cosines).joined(others.chosen(list(rows.values())))


_ARRAYS: Final = tuple(
    (field.name, field.default.dtype)
    for field in msgspec.structs.fields(Candidates)
    if isinstance(field.default, np.ndarray)
)


def as_array(_kind: type, values: Any) -> Column:
    """Return what JSON has of an array, nan for null."""
    return np.array(values, dtype=np.float64)


class Scale(NamedTuple):
    """How raw scores become weighted deviations from the mean of the candidates."""

    mean: float
    factor: float

    @classmethod
    def of(cls, values: Column, weight: float, least_deviation: float) -> "Scale":
        """Return the scale for these values, nan where there is none. Sums are exact, so their order is no matter.

        Values that deviate by less than `least_deviation` are nearly alike, and stay so.
        """
        known = values[~np.isnan(values)]
        if not len(known):
            return cls(0.0, 0.0)
        mean = math.fsum(known.tolist()) / len(known)
        deviation = math.sqrt(math.fsum(((known - mean) ** 2).tolist()) / len(known))
        return cls(mean, weight / max(deviation, least_deviation))

    def apply(self, values: Column) -> Column:
        return (values - self.mean) * self.factor


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranked:
    """Scores of candidates, each the sum of its parts, and the rows of the candidates in their order, best first.

    Scores that are nearly alike are made equal, so that a sum is right to about EQUAL_SCORES.
    """

    candidates: Candidates
    scores: Column
    parts: Mapping[str, Column]
    order: Sequence[int]

    def foremost(self, count: int) -> list[str]:
        """Return the best so many of each partition, in order: untrusted ones take no trusted one's place."""
        order = np.array(self.order, dtype=np.intp)
        trusted = self.candidates.trusted[order]
        places = np.where(trusted, np.cumsum(trusted), np.cumsum(~trusted))
        return [self.candidates.ids[row] for row in order[places <= count].tolist()]

    def explained(self, row: int) -> dict[str, float | None]:
        """Return what each part adds to a score; null: nothing to compare. Rules that add nothing are left out."""
        parts = {name: float(column[row]) for name, column in self.parts.items()}
        return {
            name: None if math.isnan(part) else part for name, part in parts.items() if part or name in _ALWAYS_SHOWN
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """By what the candidates of one search are measured, so that others can be measured alike."""

    question: Question
    trust: float  # in words, 0 to 1
    lexical: Scale
    similarity: Scale
    named: Mapping[bool, Sequence[str]]  # the speaker that the question is about, trusted and not

    @classmethod
    def of(cls, question: Question, candidates: Candidates) -> "Measure":
        """Return the measure that these candidates make.

        If any are trusted they alone do, so that their order does not hang on what untrusted ones come along.
        """
        measured = candidates.trusted_ones() or candidates
        words = _lexical(measured)
        speakers: dict[bool, set[str]] = {}
        for trusted, speaker in set(zip(candidates.trusted.tolist(), candidates.speaker, strict=True)):
            if speaker is not None:
                speakers.setdefault(trusted, set()).add(speaker)
        return cls(
            question=question,
            trust=trust(question, measured.covered, measured.worth),
            lexical=Scale.of(words, LEXICAL, _least_deviation(words)),
            similarity=Scale.of(measured.meaning, SIMILARITY, COSINE_DEVIATION),
            named={side: names for side, known in speakers.items() if (names := question.speaker_asked_about(known))},
        )

    def own_parts(self, candidates: Candidates) -> dict[str, Column]:
        """Return what each candidate has by itself: words, vector, speaker, time."""
        question, similarity = self.question, self.similarity.apply(candidates.meaning)
        # A memory without a vector is known by its words alone.
        believed = np.where(np.isnan(similarity), 1.0, self.trust)
        parts = {
            "lexical": believed * self.lexical.apply(_lexical(candidates)),
            "similarity": similarity,
            "tells_self": np.where(candidates.tells_self, self.trust * TELLS_SELF, 0.0),
        }
        parts["only_asks"] = np.where(candidates.asks & ~candidates.tells_self, ONLY_ASKS, 0.0)
        if self.named:
            is_named = [
                speaker in self.named.get(trusted, ())
                for trusted, speaker in zip(candidates.trusted.tolist(), candidates.speaker, strict=True)
            ]
            parts["speaker"] = SPEAKER * np.array(is_named)
        if candidates.day is not None:
            of_then = np.array([question.is_about(day) for day in candidates.day], dtype=np.float64)
            if question.is_only_of_time:  # what tells of then comes before what was only stored then
                parts["date"] = DECIDES * of_then * (1.0 + candidates.tells_of_day)
            else:
                parts["date"] = DATE * of_then
        return parts


_ALWAYS_SHOWN: Final = ("lexical", "similarity")


def rank_by_similarity(candidates: Candidates) -> Ranked:
    """Order by the cosine of the content alone; candidates without one are left out."""
    scores = candidates.similarity
    return order_candidates(candidates, scores, {"similarity": scores}, ~np.isnan(scores), equal_within=EQUAL_COSINES)


def rank_by_score(measure: Measure, candidates: Candidates) -> Ranked:
    """Order by the fused scores and the rules; the order in which candidates are given makes no difference."""
    parts = measure.own_parts(candidates)
    parts |= _thread_boosts(candidates, parts)
    return order_candidates(candidates, total(parts), parts)


def total(parts: Mapping[str, Column]) -> Column:
    """Return the sum of all parts; nan counts nothing."""
    score: Column = np.add.reduce(list(parts.values()))
    # Mostly everything has a vector, and to look at each part takes longer than to add it.
    return np.add.reduce([or_nothing(part) for part in parts.values()]) if np.isnan(score).any() else score


def order_candidates(
    candidates: Candidates,
    scores: Column,
    parts: Mapping[str, Column],
    among: Mask | None = None,
    *,
    equal_within: float = EQUAL_SCORES,
) -> Ranked:
    """Put candidates (those `among` all) in order; among equals the newer first.

    Scores that differ from the next by less than `equal_within` are equal.
    """
    newest_first = candidates.oldest_first[::-1]
    if among is not None:
        newest_first = newest_first[among[newest_first]]
    trusted = candidates.trusted[newest_first]
    for side in (trusted, ~trusted):  # each by itself: what is untrusted moves no trusted one
        scores = _even_out(scores, newest_first[side], equal_within)
    order = newest_first[np.argsort(-scores[newest_first], kind="stable")]
    return Ranked(candidates=candidates, scores=scores, parts=parts, order=order.tolist())


def _even_out(scores: Column, rows: Rows, equal_within: float) -> Column:
    """Return the scores with those of these rows that are nearly equal made equal: to the least of them."""
    if len(rows) < 2:
        return scores
    ascending = rows[np.argsort(scores[rows])]
    values = scores[ascending]
    begins = np.concatenate([[True], np.diff(values) > equal_within])  # where the next is surely better
    evened = scores.copy()
    evened[ascending] = values[begins][np.cumsum(begins) - 1]
    return evened


def _thread_boosts(candidates: Candidates, parts: Mapping[str, Column]) -> dict[str, Column]:
    """Return what the rules about threads add to each candidate. A place that no candidate has counts 0, the mean."""
    vectors = or_nothing(parts["similarity"])
    fused = or_nothing(parts["lexical"]) + vectors
    threads, count = number_threads(list(zip(candidates.trusted.tolist(), candidates.thread, strict=True)))
    asks, oldest_first = candidates.asks, candidates.oldest_first
    alone = oldest_first[threads[oldest_first] < 0]
    sides = (alone[candidates.trusted[alone] == side] for side in (True, False))
    found = [in_threads(threads, candidates.position, fused, asks)]
    found += [in_order_of_storing(rows, fused, vectors, asks) for rows in sides]
    leans = leaning(candidates.words)
    boosts = {name: leans * sum(each[name] for each in found) for name in RULES}
    if count:
        best = np.full(count + 1, -np.inf)
        np.maximum.at(best, threads, fused)
        best[-1] = 0.0  # of those without a thread
        boosts["best_of_thread"] = BEST_OF_THREAD * best[threads]
    return boosts


def or_nothing(values: Column) -> Column:
    """Return the values with 0 for nan."""
    return np.where(np.isnan(values), 0.0, values)


def _least_deviation(words: Column) -> float:
    """Return the least that counts as a deviation of lexical scores: LEXICAL_DEVIATION, less where one stands out."""
    if not len(words):
        return LEXICAL_DEVIATION
    above = float(words.max()) - math.fsum(words.tolist()) / len(words)
    return max(LEAST_LEXICAL_DEVIATION, min(LEXICAL_DEVIATION, above / BEST_DEVIATIONS))


def _lexical(candidates: Candidates) -> Column:
    return by_share(or_nothing(candidates.lexical), candidates.covered, candidates.words)
