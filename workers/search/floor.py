"""Whether a hit is weak: whether what was asked is probably not known at all. Pure.

A hit is as strong as the cosine of its content and the share of what the question's words weigh that it has: nearly all
of them say much, some of them little. The curve of the model turns that into a chance, so that one floor holds for all
models.
"""

from typing import Final

from engramq.workers.embedders.calibration import Calibration

WORDS: Final = 0.35  # of a cosine, that all words of the question are worth
# Between both mistakes: see `bench.weak`. Of paraphrases none is lost; terse hints in quite other words are often weak.
FLOOR: Final = 0.3
WORDS_ALONE: Final = 0.5  # of the weight of the question's words, where no vector can be compared


def is_weak(similarity: float | None, covered: float | None, curve: Calibration) -> bool:
    """Say whether a hit with this cosine, and this share of the question's words (0 to 1), is below the floor."""
    words = covered or 0.0
    if similarity is None:
        return words < WORDS_ALONE
    return curve.confidence(similarity + WORDS * words * words) < FLOOR
