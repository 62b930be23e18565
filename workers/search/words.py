"""What the words say that a question and a memory share, beyond what they add up to. Pure.

A question in other words than the memory that answers it still shares a word with some memory, by chance: "early" with
who said no early. Such a word says nothing, however rare it is, and the vectors decide. Words are believed as far as
the best match has more of the question than chance would give it.
"""

from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from engramq.workers.search.question import Question

Column: TypeAlias = NDArray[np.float64]

HALF_LENGTH: Final = 50.0  # different words of a memory that halve what a match counts
# The share of what a question's words weigh that the best memory has: up to the first one word of several may be there
# by chance, from the second on the memory is about what was asked.
BY_CHANCE, ON_TOPIC = 0.5, 0.7
# The same in what one word weighs that a single memory has: no word weighs more, so that it takes two to be worth more.
ONE_WORD, TWO_WORDS = 1.0, 1.2


def by_share(lexical: Column, covered: Column, words: Column, power: float) -> Column:
    """Return lexical scores by the share of the question that each memory has, and once more by its length.

    `covered`: shares, nan where there is none, which counts like all; `words`: different ones of each memory.
    """
    share = np.where(np.isnan(covered), 1.0, covered) / (1 + words / HALF_LENGTH)
    found: Column = lexical * np.maximum(share, 0.0) ** power
    return found


def trust(question: Question, covered: Column, worth: Column) -> float:
    """Return from 0 to 1 how far words are believed, by the best match among the candidates (nan: no match).

    `covered`: shares of the question's words; `worth`: 1.0 is a word that no other memory has. A question that names
    somebody, or holds a number or an identifier, is believed: such a word is no chance.
    """
    if question.is_exact:
        return 1.0
    share, best = _greatest(covered), _greatest(worth)
    return max(_between(share, BY_CHANCE, ON_TOPIC), _between(best, ONE_WORD, TWO_WORDS))


def _greatest(values: Column) -> float:
    known = values[~np.isnan(values)]
    return float(known.max()) if len(known) else 0.0


def _between(value: float, low: float, high: float) -> float:
    """Return where a value stands between two others: 0 at the low one and below, 1 at the high one and above."""
    return min(1.0, max(0.0, (value - low) / (high - low)))
