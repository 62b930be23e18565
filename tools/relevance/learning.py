"""Fit the net. Numpy only; the same rows give the same weights, since chance is seeded."""

from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from engramq.workers.search.ranking import Column
from engramq.workers.search.relevance import INPUTS, LARGEST, Matrix, Net
from tools.relevance.samples import Kind, Labels, Reply

BATCH: Final = 512
STEP: Final = 0.01
SEED: Final = 29
DIGITS: Final = 4  # of weights
_FIRST, _SECOND, _CLOSE = 0.9, 0.999, 1e-8  # of Adam, as its authors give them
# What each corpus counts in all, whatever the number of its questions.
SHARES: Final = {
    "locomo": 1.0,
    "beam": 1.0,
    "realtalk": 1.0,
    "dense": 1.0,
    "facts": 2.0,
    "prompts": 1.5,
    "lookups": 2.0,
    "notes": 1.0,
}


class Size(NamedTuple):
    """How large a net is: units, what their weights cost, and how often it sees each row."""

    units: int
    penalty: float
    rounds: int


SIZE: Final = Size(units=24, penalty=3e-4, rounds=16)
# What the rows of a question count more about a topic that nobody knows, which has to stay without a hit.
EMPHASIS: Final = 3.0


def learn(replies: Sequence[Reply]) -> Net:
    """Learn from these replies."""
    inputs = np.concatenate([reply.inputs for reply in replies])
    right = np.concatenate([reply.right for reply in replies])
    weights = np.concatenate(
        [
            np.full(len(reply.right), weight * (EMPHASIS if reply.kind is Kind.STRAY else 1.0))
            for reply, weight in zip(replies, weights_of(replies), strict=True)
        ]
    )
    return fit(inputs, right, weights / weights.mean(), SIZE)


def weights_of(replies: Sequence[Reply]) -> Column:
    """Return what each reply counts, 1 on average."""
    counts = Counter(reply.corpus for reply in replies)
    weights = np.array([SHARES[reply.corpus] / counts[reply.corpus] for reply in replies])
    weighted: Column = weights / weights.mean()
    return weighted


def fit(inputs: Matrix, right: Labels, weights: Column, size: Size) -> Net:
    """Return the net that makes these labels likeliest, by stochastic descent."""
    mean, spread = inputs.mean(axis=0), np.maximum(inputs.std(axis=0), 1e-3)
    mean, spread = np.round(mean, DIGITS), np.round(spread, DIGITS)
    rows = np.clip((inputs - mean) / spread, -LARGEST, LARGEST)
    rows = np.column_stack([rows, np.ones(len(rows))])
    chance = np.random.default_rng(SEED)
    rate = float(np.average(right, weights=weights))
    parts: list[NDArray[np.float64]] = [
        chance.normal(0.0, 0.7 / np.sqrt(rows.shape[1]), (rows.shape[1], size.units)),
        np.append(chance.normal(0.0, 0.1, size.units), np.log(rate / (1 - rate))),
    ]
    first, second = [np.zeros_like(part) for part in parts], [np.zeros_like(part) for part in parts]
    labels, steps = right.astype(np.float64), 0
    batches = max(1, len(rows) // BATCH)
    for _ in range(size.rounds):
        for batch in np.array_split(chance.permutation(len(rows)), batches):
            steps += 1
            slope = _slope(parts, rows[batch], labels[batch], weights[batch], size.penalty)
            pace = STEP * (1 - steps / (size.rounds * batches + 1))
            for place, gradient in enumerate(slope):
                first[place] = _FIRST * first[place] + (1 - _FIRST) * gradient
                second[place] = _SECOND * second[place] + (1 - _SECOND) * gradient**2
                moved = first[place] / (1 - _FIRST**steps)
                parts[place] -= pace * moved / (np.sqrt(second[place] / (1 - _SECOND**steps)) + _CLOSE)
    hidden, out = (np.round(part, DIGITS) for part in parts)
    return Net(inputs=list(INPUTS), mean=mean, spread=spread, hidden=hidden, out=out)


def _slope(parts: Sequence[Matrix], rows: Matrix, labels: Column, weights: Column, penalty: float) -> list[Matrix]:
    """Return the gradient of the mean log loss and of the penalty."""
    hidden, out = parts
    units = np.tanh(rows @ hidden)
    odds = units @ out[:-1] + out[-1]
    off = weights * (1 / (1 + np.exp(-np.clip(odds, -30, 30))) - labels) / len(rows)
    of_out = np.append(off @ units, off.sum())
    of_hidden = rows.T @ ((off[:, None] * out[:-1]) * (1 - units**2))
    return [of_hidden + penalty * hidden, of_out + penalty * np.append(out[:-1], 0.0)]
