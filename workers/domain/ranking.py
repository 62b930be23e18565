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
from typing import Final, NamedTuple

import msgspec

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


class Candidate(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What ranking knows of a memory. Null scores: no word of the question in it, no vector to compare."""

    id: str
    partition: str
    lexical: float | None = None
    similarity: float | None = None
    thread: str | None = None
    position: int | None = None
    speaker: str | None = None
    occurred_at: datetime | None = None
    asks: bool = False  # its content ends with a question mark
    tells_time: bool = False  # it holds a word such as yesterday


class Ranked(NamedTuple):
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
    """Return what the rules about threads add to each candidate. A place that no candidate has counts 0, the mean."""
    threads: dict[tuple[str, str], _Thread] = {}
    for one, score in zip(candidates, fused, strict=True):
        if one.thread is not None:
            threads.setdefault((one.partition, one.thread), _Thread()).add(one, score)
    if not threads:
        return {}
    next_to, near_to, answers, best = ([0.0] * len(candidates) for _ in range(4))
    for row, one in enumerate(candidates):
        if one.thread is None:
            continue
        thread = threads[one.partition, one.thread]
        best[row] = weights.best_of_thread * thread.best
        if one.position is None or len(thread.places) < 2:  # nobody beside it
            continue
        at, position = thread.places.get, one.position
        next_to[row] = weights.next_to * (at(position - 1, 0.0) + at(position + 1, 0.0))
        near_to[row] = weights.near_to * (at(position - 2, 0.0) + at(position + 2, 0.0))
        answers[row] = weights.answers * thread.questions.get(position - 1, 0.0)
    return {"next_to": next_to, "near_to": near_to, "answers": answers, "best_of_thread": best}


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


class _Thread:
    """The fused scores of a thread's candidates; of several in one place the best."""

    def __init__(self) -> None:
        self.best = -math.inf
        self.places: dict[int, float] = {}
        self.questions: dict[int, float] = {}

    def add(self, one: Candidate, score: float) -> None:
        self.best = max(self.best, score)
        if one.position is not None:
            self.places[one.position] = max(score, self.places.get(one.position, score))
            if one.asks:
                self.questions[one.position] = max(score, self.questions.get(one.position, score))


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
