"""Say how good a judge is of worlds that it has not seen: how true its chances are, and what the bounds do."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from engramq.workers.search.ranking import Column
from engramq.workers.search.relevance import (
    FIRST,
    INPUTS,
    LEAST_EXPECTED,
    SAID,
    SHARE_AMONG_FACTS,
    SHARE_AMONG_TURNS,
    SHARE_FOR_TASKS,
)
from tools.measure_confidence import expected_error
from tools.relevance.learning import SHARES, learn
from tools.relevance.samples import FOLDS, Kind, Labels, Reply

BOUNDS: Final = (0.07, 0.09, 0.1, LEAST_EXPECTED, 0.16)
_SAID, _TASK = INPUTS.index("q_said"), INPUTS.index("q_task")
_NARROWED: Final = INPUTS.index("q_narrowed")


class Judgement(NamedTuple):
    """A reply, with the chances that a net gave which had not seen its world."""

    reply: Reply
    chances: Column

    def shown(self, least_expected: float) -> Labels:
        """Return which of the first ten hits are shown where as many have to be expected to help."""
        hits, asked = self.chances[:FIRST], self.reply.inputs[0]
        among_facts = SHARE_FOR_TASKS if asked[_TASK] else SHARE_AMONG_FACTS
        share = among_facts if asked[_SAID] < SAID else SHARE_AMONG_TURNS
        is_enough = hits.sum() >= least_expected or asked[_NARROWED]
        return self.reply.complete[:FIRST] | (
            hits >= share * hits.max() if is_enough else np.zeros(len(hits), np.bool_)
        )


def held_out(by_kind: Mapping[bool, Sequence[Reply]]) -> dict[bool, list[Judgement]]:
    """Judge each fold by what was learned from the others."""
    judged: dict[bool, list[Judgement]] = {by_words: [] for by_words in by_kind}
    for fold in range(FOLDS):
        net = learn([reply for replies in by_kind.values() for reply in replies if reply.fold != fold])
        for by_words, replies in by_kind.items():
            own = [reply for reply in replies if reply.fold == fold]
            judged[by_words] += [Judgement(reply, net.chances(reply.inputs)) for reply in own]
    return judged


def report(judged: Sequence[Judgement], *, by_words: bool) -> Iterator[dict[str, Any]]:
    """Yield how true the chances are by corpus, then what is lost and left out by bounds."""
    kind = "words" if by_words else "vectors"
    for corpus in SHARES:
        own = [item for item in judged if item.reply.corpus == corpus]
        chances = np.concatenate([item.chances[:FIRST] for item in own])
        right = np.concatenate([item.reply.right[:FIRST] for item in own])
        error = round(expected_error(chances, right), 4)
        yield {"by": kind, "corpus": corpus, "replies": len(own), "calibration_error": error}
    for bound in BOUNDS:
        yield {"by": kind, "least_expected": bound, "chosen": bound == LEAST_EXPECTED, **_lost(judged, bound)}


def _lost(judged: Sequence[Judgement], least_expected: float) -> dict[str, Any]:
    """Return, by corpus, the R@10 that bounds lose, of questions without an answer those that have a hit, of right
    first hits those that are left out, and the share of hits that is shown."""
    figures: dict[str, Any] = {}
    for corpus in SHARES:
        own = [item for item in judged if item.reply.corpus == corpus and not item.reply.inputs[0, _NARROWED]]
        passed = [item.shown(least_expected) for item in own]
        known = [
            (item.reply, mask)
            for item, mask in zip(own, passed, strict=True)
            if item.reply.wanted and item.reply.kind is Kind.ANSWERED
        ]
        unknown = {
            kind: [bool(mask.any()) for item, mask in zip(own, passed, strict=True) if item.reply.kind is kind]
            for kind in (Kind.STRAY, Kind.FOREIGN)
        }
        lost = [(reply.right[:FIRST] & ~mask).sum() / reply.wanted for reply, mask in known]
        first = [not mask[0] for reply, mask in known if reply.right[0]]
        figures[corpus] = {
            "lost": round(float(np.mean(lost)), 4),
            **{f"{kind}_with_hit": round(float(np.mean(hits)), 4) for kind, hits in unknown.items() if hits},
            "first_left_out": round(float(np.mean(first)), 4) if first else None,
            "shown": round(float(np.mean([mask.mean() for _, mask in known])), 3),
        }
    return figures
