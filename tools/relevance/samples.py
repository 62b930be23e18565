"""Make of what was found the rows that the judges learn from: inputs, and whether a hit is one that answers."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from engramq.workers.embedders.confidence import SHIPPED
from engramq.workers.embedders.minilm import MODEL_SHA256
from engramq.workers.search.question import Question
from engramq.workers.search.ranking import Candidates, Measure, by_score
from engramq.workers.search.relevance import INPUTS, Matrix, Seen
from tools.relevance.collect import ASKED_AT, Collected, QuestionCandidates
from tools.relevance.worlds import topics_unknown

CURVE: Final = SHIPPED[MODEL_SHA256]
SHOWN: Final = 30  # hits of each question that are learned from
ANSWERING: Final = 10  # hits among which one has to answer, if anything is said to
FOLDS: Final = 5
# Of so many questions one is asked again without what answers it, the others without thread and speaker.
HELD_EVERY: Final = 2

Labels = NDArray[np.bool_]


class Kind(StrEnum):
    """What a question is to the memories that it is asked of."""

    ANSWERED = "answered"
    HELD_BACK = "held back"  # what answers it was taken away
    FOREIGN = "foreign"  # of another conversation, with the names of this one, or about a fact that is not here
    STRAY = "stray"  # about a topic that nobody here knows


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What one question found, in order: inputs [hits, INPUTS], and which hits answer.

    `wanted`: how many memories answer it in all, of those that were kept.
    """

    corpus: str
    fold: int
    kind: Kind
    inputs: Matrix
    right: Labels
    wanted: int

    @property
    def answered(self) -> bool:
        """Whether one of the first hits answers."""
        return bool(self.right[:ANSWERING].any())


def replies(collected: Sequence[Collected], *, by_words: bool) -> list[Reply]:
    """Return all replies, the worlds of one group in one fold; the groups of a corpus are spread over the folds."""
    folds: dict[str, dict[str, int]] = {}
    found = []
    for world in collected:
        groups = folds.setdefault(world.corpus, {})
        fold = groups.setdefault(world.group, len(groups) % FOLDS)
        for number, question in enumerate(world.found):
            candidates = question.by_words if by_words else question.by_vectors
            found += [
                reply
                for kind, left in _variants(question, candidates, number)
                if (reply := _reply(question, left, kind, world.corpus, fold, by_words)) is not None
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


def _reply(
    question: QuestionCandidates, candidates: Candidates, kind: Kind, corpus: str, fold: int, by_words: bool
) -> Reply | None:
    if not len(candidates):
        return None
    measure = Measure.of(Question(question.asked.query, ASKED_AT), candidates)
    ranked = by_score(measure, candidates)
    rows = ranked.order[:SHOWN]
    inputs = Seen(measure, ranked, None if by_words else CURVE).inputs(rows)
    expected = set() if kind is Kind.HELD_BACK else set(question.expects)
    right = np.array([candidates.ids[row] in expected for row in rows], dtype=np.bool_)
    assert inputs.shape == (len(rows), len(INPUTS))
    return Reply(corpus=corpus, fold=fold, kind=kind, inputs=inputs, right=right, wanted=len(expected))
