"""How the candidates of a search are put in order. Pure: no clock, no database, no randomness.

A candidate has up to two scores: `lexical`, what its words add up to, and `similarity`, the cosine of its content. Each
is normalised over the candidates (mean 0, deviation 1), which fuses better than ranks do, and what the conversation
around it says lifts it: its neighbours in the thread, the best of its thread, its speaker, its date. A rule whose field
is missing does nothing. No memory of one partition lifts one of the other.

The weights are round and were chosen on the development half of LoCoMo; fitted ones fall over on other corpora.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, TypeVar
from uuid import UUID

from workers.domain.question import Question


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """What each part counts; 1.0 is about one standard deviation of the fused score."""

    lexical: float = 0.5
    similarity: float = 0.5
    next_to: float = 0.3  # of the score of the memory just before or after in the thread
    near_to: float = 0.15  # of the one two places away
    answers: float = 0.2  # more of the one just before, when that asks something
    best_of_thread: float = 0.2
    speaker: float = 1.0  # said by the only speaker that the question names
    time_words: float = 0.4  # says when, and the question asks when
    date: float = 0.7  # of the month or year that the question names


DEFAULT_WEIGHTS: Final = Weights()

Key = TypeVar("Key")


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """What ranking knows of a memory. Null scores: no word of the question in it, no vector to compare."""

    id: UUID
    partition: str
    lexical: float | None = None
    similarity: float | None = None
    thread: str | None = None
    position: int | None = None
    speaker: str | None = None
    occurred_at: datetime | None = None
    asks: bool = False  # its content ends with a question mark
    tells_time: bool = False  # it holds a word such as yesterday


@dataclass(frozen=True, slots=True)
class Ranked:
    """A candidate with its score, the sum of its parts."""

    candidate: Candidate
    score: float
    columns: Mapping[str, Sequence[float | None]]
    row: int

    @property
    def parts(self) -> dict[str, float | None]:
        """What each part adds to the score; null: there was nothing to compare. Rules that add nothing are left out."""
        parts = {name: column[self.row] for name, column in self.columns.items()}
        return {name: part for name, part in parts.items() if part or name in _ALWAYS_SHOWN}


_ALWAYS_SHOWN: Final = ("lexical", "similarity")


def by_similarity(candidates: Sequence[Candidate]) -> list[Ranked]:
    """Order by the cosine of the content alone; candidates without one are left out."""
    columns = {"similarity": [one.similarity for one in candidates]}
    return _ordered(
        Ranked(one, one.similarity, columns, row) for row, one in enumerate(candidates) if one.similarity is not None
    )


def by_relevance(
    question: Question, candidates: Sequence[Candidate], weights: Weights = DEFAULT_WEIGHTS
) -> list[Ranked]:
    """Order by the fused scores and the rules; the order in which candidates are given makes no difference."""
    lexical = _normalised([one.lexical or 0.0 for one in candidates], weights.lexical)
    similarity = _normalised([one.similarity for one in candidates], weights.similarity)
    fused = [(words or 0.0) + (vector or 0.0) for words, vector in zip(lexical, similarity, strict=True)]
    columns: dict[str, Sequence[float | None]] = {"lexical": lexical, "similarity": similarity}
    lifts = {**_thread_lifts(candidates, fused, weights), **_own_lifts(question, candidates, weights)}
    scores = [math.fsum(numbers) for numbers in zip(fused, *lifts.values(), strict=True)]
    columns.update(lifts)
    return _ordered(Ranked(one, scores[row], columns, row) for row, one in enumerate(candidates))


def _thread_lifts(
    candidates: Sequence[Candidate], fused: Sequence[float], weights: Weights
) -> dict[str, Sequence[float]]:
    """Return what the rules about threads add to each candidate."""
    if all(one.thread is None for one in candidates):
        return {}
    thread = _Threads(candidates, fused)
    return {
        "next_to": [weights.next_to * (thread.at(one, -1) + thread.at(one, 1)) for one in candidates],
        "near_to": [weights.near_to * (thread.at(one, -2) + thread.at(one, 2)) for one in candidates],
        "answers": [weights.answers * thread.asked_before(one) for one in candidates],
        "best_of_thread": [weights.best_of_thread * thread.best(one) for one in candidates],
    }


def _own_lifts(question: Question, candidates: Sequence[Candidate], weights: Weights) -> dict[str, Sequence[float]]:
    """Return what the rules about a candidate's own speaker and time add to each."""
    lifts: dict[str, Sequence[float]] = {}
    speakers: dict[str, set[str]] = {}
    for one in candidates:
        if one.speaker is not None:
            speakers.setdefault(one.partition, set()).add(one.speaker)
    named = {partition: question.only_speaker_of(found) for partition, found in speakers.items()}
    if any(named.values()):
        lifts["speaker"] = [weights.speaker * (one.speaker in named.get(one.partition, ())) for one in candidates]
    if question.asks_when:
        lifts["time_words"] = [weights.time_words * one.tells_time for one in candidates]
    if question.names_a_date:
        lifts["date"] = [weights.date * question.is_about(one.occurred_at) for one in candidates]
    return lifts


class _Threads:
    """The fused scores of the candidates by their places; a place that no candidate has counts 0, the mean."""

    def __init__(self, candidates: Sequence[Candidate], fused: Sequence[float]) -> None:
        self._places: dict[tuple[str, str, int], float] = {}
        self._questions: dict[tuple[str, str, int], float] = {}
        self._best: dict[tuple[str, str], float] = {}
        for one, score in zip(candidates, fused, strict=True):
            if one.thread is None:
                continue
            _raise_to(self._best, (one.partition, one.thread), score)
            if one.position is not None:
                place = one.partition, one.thread, one.position
                _raise_to(self._places, place, score)
                if one.asks:
                    _raise_to(self._questions, place, score)

    def at(self, one: Candidate, offset: int) -> float:
        """The score at so many places after the candidate."""
        return self._look_up(self._places, one, offset)

    def asked_before(self, one: Candidate) -> float:
        """The score of the question just before the candidate."""
        return self._look_up(self._questions, one, -1)

    def best(self, one: Candidate) -> float:
        """The best score of the candidate's thread."""
        return 0.0 if one.thread is None else self._best[one.partition, one.thread]

    @staticmethod
    def _look_up(scores: Mapping[tuple[str, str, int], float], one: Candidate, offset: int) -> float:
        if one.thread is None or one.position is None:
            return 0.0
        return scores.get((one.partition, one.thread, one.position + offset), 0.0)


def _raise_to(scores: dict[Key, float], key: Key, score: float) -> None:
    scores[key] = max(score, scores.get(key, score))


def _normalised(values: Sequence[float | None], weight: float) -> list[float | None]:
    """Return the values as weighted deviations from their mean, null where there is none."""
    known = [value for value in values if value is not None]
    if not known:
        return list(values)
    mean = math.fsum(known) / len(known)
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in known) / len(known))
    factor = weight / deviation if deviation > 1e-9 else 0.0
    return [None if value is None else (value - mean) * factor for value in values]


def _ordered(ranked: Iterable[Ranked]) -> list[Ranked]:
    """Best first; among equals the newer first, since ids are made in the order of time."""
    return sorted(ranked, key=lambda one: (one.score, one.candidate.id), reverse=True)
