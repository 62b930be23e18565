"""Which hits are marked weak, and which repeat another one. Pure.

A hit is as strong as the cosine of its content and the share of what the question's words weigh that it has: nearly all
of them say much, some of them little. The curve of the model turns that into a chance, so that one bound holds for all
models. A weak hit says that what was asked is probably not known at all.
"""

from typing import Final

from engramq.schemas.records import Memory
from engramq.schemas.vocabulary import Partition
from engramq.workers.embedders.calibration import Calibration

WORDS: Final = 0.35  # of a cosine, that all words of the question are worth
# Between both mistakes: see `bench.weak`. Of paraphrases none is lost; terse hints in quite other words are often weak.
WEAK_BELOW: Final = 0.3
WORDS_ALONE: Final = 0.5  # of the weight of the question's words, where no vector can be compared


def is_weak(similarity: float | None, covered: float | None, curve: Calibration) -> bool:
    """Say whether a hit with this cosine, and this share of the question's words (0 to 1), is too weak."""
    words = covered or 0.0
    if similarity is None:
        return words < WORDS_ALONE
    return curve.confidence(similarity + WORDS * words * words) < WEAK_BELOW


_TRUSTED: Final = Partition.TRUSTED


class Twins:
    """Remembers contents, to leave out those that say the same but for white space and case.

    The first of twins stays. An untrusted memory never hides a trusted one, whichever comes first.
    """

    def __init__(self) -> None:
        self._seen: dict[str, set[Partition]] = {}

    def is_repeated(self, memory: Memory) -> bool:
        """Say whether a twin that may stand for it was seen before, and remember it."""
        seen = self._seen.setdefault(" ".join(memory.content.casefold().split()), set())
        repeated = _TRUSTED in seen or memory.partition in seen
        seen.add(memory.partition)
        return repeated
