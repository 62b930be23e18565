"""Say how good judges are of worlds that they have not seen: how true their chances are, and what bounds do."""

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from engramq.workers.search.ranking import Column
from engramq.workers.search.relevance import INPUTS, NOTHING_BELOW, least_shown
from tools.measure_confidence import expected_error
from tools.relevance.learning import SHARES, judges_of
from tools.relevance.samples import ANSWERING, FOLDS, Kind, Reply

SILENT_BELOW: Final = (0.05, 0.08, 0.1, 0.12, 0.15, 0.2, 0.25, 0.3)
SAID: Final = INPUTS.index("q_said")


class Judgement(NamedTuple):
    """A reply, with the chances that judges gave who had not seen its world."""

    reply: Reply
    anything: float
    hits: Column

    def shown(self, silent_below: float) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Return which of the first ten hits are shown where nothing is below this chance that anything answers."""
        hits = self.hits[:ANSWERING]
        if self.anything < silent_below:
            return np.zeros(len(hits), dtype=np.bool_)
        return np.asarray(hits >= least_shown(float(hits.max()), float(self.reply.inputs[0, SAID])))


def held_out(replies: Sequence[Reply]) -> list[Judgement]:
    """Judge each fold by what was learned from the others."""
    judged = []
    for fold in range(FOLDS):
        judges = judges_of([reply for reply in replies if reply.fold != fold])
        judged += [
            Judgement(reply, float(judges.anything.chances(reply.inputs[:1])[0]), judges.hit.chances(reply.inputs))
            for reply in replies
            if reply.fold == fold
        ]
    return judged


def report(judged: Sequence[Judgement], *, by_words: bool) -> Iterator[dict[str, Any]]:
    """Yield how true the chances are by corpus, then what is lost and left out by bounds."""
    kind = "words" if by_words else "vectors"
    for corpus in SHARES:
        own = [item for item in judged if item.reply.corpus == corpus]
        chances = np.concatenate([item.hits[:ANSWERING] for item in own])
        right = np.concatenate([item.reply.right[:ANSWERING] for item in own])
        anything = np.array([item.anything for item in own])
        answered = np.array([item.reply.answered for item in own])
        yield {
            "by": kind, "corpus": corpus, "replies": len(own),
            "calibration_error": round(expected_error(chances, right), 4),
            "of_anything": round(expected_error(anything, answered), 4),
        }  # fmt: skip
    for silent_below in SILENT_BELOW:
        chosen = silent_below == NOTHING_BELOW
        yield {"by": kind, "silent_below": silent_below, "chosen": chosen, **_lost(judged, silent_below)}


def _lost(judged: Sequence[Judgement], silent_below: float) -> dict[str, Any]:
    """Return, by corpus, the R@10 that bounds lose, of questions without an answer those that have a hit, of right
    first hits those that are left out, and the share of hits that is shown."""
    figures: dict[str, Any] = {}
    for corpus in SHARES:
        own = [item for item in judged if item.reply.corpus == corpus]
        passed = [item.shown(silent_below) for item in own]
        known = [(item.reply, mask) for item, mask in zip(own, passed, strict=True) if item.reply.wanted]
        unknown = {
            kind: [bool(mask.any()) for item, mask in zip(own, passed, strict=True) if item.reply.kind is kind]
            for kind in (Kind.STRAY, Kind.FOREIGN)
        }
        lost = [(reply.right[:ANSWERING] & ~mask).sum() / reply.wanted for reply, mask in known]
        first = [not mask[0] for reply, mask in known if reply.right[0]]
        figures[corpus] = {
            "lost": round(float(np.mean(lost)), 4),
            **{f"{kind}_with_hit": round(float(np.mean(hits)), 4) for kind, hits in unknown.items() if hits},
            "first_left_out": round(float(np.mean(first)), 4) if first else None,
            "shown": round(float(np.mean([mask.mean() for _, mask in known])), 3),
        }
    return figures
