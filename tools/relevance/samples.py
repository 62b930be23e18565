"""Make of what was found the rows that the judges learn from: inputs, and whether a hit is one that answers."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from engramq.workers.embedders.calibration import Calibration
from engramq.workers.embedders.confidence import SHIPPED
from engramq.workers.embedders.minilm import MODEL_SHA256
from engramq.workers.search.question import Question
from engramq.workers.search.ranking import Candidates, Measure, rank_by_score
from engramq.workers.search.relevance import INPUTS, Matrix, RelevanceFeatures
from tools.relevance.collect import ASKED_AT, Collected, QuestionCandidates
from tools.relevance.worlds import topics_unknown

CURVE: Final = SHIPPED[MODEL_SHA256]
SHOWN: Final = 30  # hits of each question that are learned from
FOLDS: Final = 5
# Of so many questions one is asked again without what answers it, the others without thread and speaker.
HELD_EVERY: Final = 2
# Of so many questions one is asked again with a filter that leaves few: some that answer, and some others.
NARROWED_EVERY: Final = 3
LEFT: Final = (1, 1, 2, 3, 5, 8)
SEED: Final = 5

Labels = NDArray[np.bool_]


class Kind(StrEnum):
    """The relation of a question to the memories that it is asked of."""

    ANSWERED = "answered"
    HELD_BACK = "held back"  # what answers it was taken away
    FOREIGN = "foreign"  # of another conversation, with the names of this one, or about a fact that is not here
    STRAY = "stray"  # about a topic that nobody here knows


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """The hits of one question, in order: inputs [hits, INPUTS], and which hits answer.

    `wanted`: how many memories answer it in all, of those that were kept. `complete`: which hits hold every word of it.
    """

    corpus: str
    fold: int
    kind: Kind
    inputs: Matrix
    right: Labels
    complete: Labels
    wanted: int


def replies(collected: Sequence[Collected], *, by_words: bool) -> list[Reply]:
    """Return all replies, the worlds of one group in one fold; the groups of a corpus are spread over the folds."""
    folds: dict[str, dict[str, int]] = {}
    found = []
    for world in collected:
        groups = folds.setdefault(world.corpus, {})
        fold = groups.setdefault(world.group, len(groups) % FOLDS)
        chance = random.Random(f"{SEED}/{world.name}")  # noqa: S311 - the same ones each time
        for number, question in enumerate(world.found):
            candidates = question.by_words if by_words else question.by_vectors
            asked = [
                (kind, left, question.asked.tags is not None) for kind, left in _variants(question, candidates, number)
            ]
            if not number % NARROWED_EVERY and len(candidates):
                asked.append((asked[0][0], _narrowed(question, candidates, chance), True))
            curve = None if by_words else CURVE
            found += [
                _reply(question, world.corpus, fold, kind, _features(question, left, curve, narrowed=narrowed))
                for kind, left, narrowed in asked
                if len(left)
            ]
    return found


def _variants(question: QuestionCandidates, candidates: Candidates, number: int) -> Iterator[tuple[Kind, Candidates]]:
    kind = Kind.ANSWERED
    if not question.expects:
        kind = Kind.STRAY if question.asked.query in topics_unknown() else Kind.FOREIGN
    yield kind, candidates
    if number % HELD_EVERY and any(thread is not None for thread in candidates.thread):
        bare = [None] * len(candidates)
        yield kind, msgspec.structs.replace(candidates, thread=bare, position=bare, speaker=bare)
    if question.expects and not number % HELD_EVERY:
        expected = set(question.expects)
        left = [row for row, memory_id in enumerate(candidates.ids) if memory_id not in expected]
        yield Kind.HELD_BACK, candidates.chosen(left)


def _narrowed(question: QuestionCandidates, candidates: Candidates, chance: random.Random) -> Candidates:
    """Return what a filter leaves: some that answer, and a few others. One that is left alone answers if any does."""
    count, expected = chance.choice(LEFT), set(question.expects)
    right = [row for row, memory_id in enumerate(candidates.ids) if memory_id in expected]
    others = [row for row, memory_id in enumerate(candidates.ids) if memory_id not in expected]
    several = chance.sample(right, min(len(right), max(1, count // 2)))
    return candidates.chosen(sorted(several + chance.sample(others, min(len(others), count - len(several)))))


def _features(
    question: QuestionCandidates, candidates: Candidates, curve: Calibration | None, *, narrowed: bool
) -> RelevanceFeatures:
    measure = Measure.of(Question(question.asked.query, ASKED_AT), candidates)
    return RelevanceFeatures(measure, rank_by_score(measure, candidates), curve, narrowed)


def _reply(question: QuestionCandidates, corpus: str, fold: int, kind: Kind, features: RelevanceFeatures) -> Reply:
    ids, rows = features.ranked.candidates.ids, list(features.ranked.order[:SHOWN])
    expected = set() if kind is Kind.HELD_BACK else set(question.expects)
    inputs = features.inputs(rows)
    assert inputs.shape == (len(rows), len(INPUTS))
    return Reply(
        corpus=corpus,
        fold=fold,
        kind=kind,
        inputs=inputs,
        right=np.array([ids[row] in expected for row in rows], dtype=np.bool_),
        complete=features.complete[rows],
        wanted=len(expected.intersection(ids) if features.narrowed else expected),
    )
