"""Multinomial logistic regression with an L2 penalty, several classes allowed per row: numpy only, no randomness.

Knows: arrays. Refuses to know: texts, sectors, files.
"""

from collections import deque
from collections.abc import Callable
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from engramq.workers.sectors.model import Matrix, softmax, with_intercept

# Where the gradient is this small the loss no longer changes in the sixth digit.
_GRADIENT: Final = 1e-6
_ITERATIONS: Final = 400
_MEMORY: Final = 10
_HALVINGS: Final = 30

Objective: TypeAlias = Callable[[Matrix], tuple[float, Matrix]]


def fit(
    features: Matrix, allowed: NDArray[np.bool_], *, penalty: float, counts: Matrix | None = None, balanced: bool = True
) -> Matrix:
    """Return weights [features + 1, classes], the intercepts last and unpenalised.

    `features` [n, d]; `allowed` [n, classes]: the classes that are right for a row, at least one; where there are
    several, any of them is as right as all. `counts` [n]: how much a row counts, 1 by default. Balanced, each class
    weighs the same however often it occurs; each has to occur.
    """
    rows = with_intercept(features)
    truth = allowed.astype(np.float64)
    weight = np.ones(len(rows)) if counts is None else counts
    if balanced:
        shares = truth / truth.sum(axis=1, keepdims=True)
        weight = weight * (shares / (weight[:, None] * shares).sum(axis=0)).sum(axis=1)
    weight = (weight / weight.sum())[:, None]
    decay = np.full((rows.shape[1], 1), penalty)
    decay[-1] = 0.0
    shape = rows.shape[1], truth.shape[1]

    def objective(flat: Matrix) -> tuple[float, Matrix]:
        weights = flat.reshape(shape)
        chances = softmax(rows @ weights)
        right = np.maximum((chances * truth).sum(axis=1, keepdims=True), 1e-300)
        loss = -float(np.sum(weight * np.log(right)))
        gradient = rows.T @ (weight * (chances - chances * truth / right)) + decay * weights
        return loss + 0.5 * float(np.sum(decay * weights**2)), gradient.ravel()

    return _minimise(objective, np.zeros(shape[0] * shape[1])).reshape(shape)


def _minimise(objective: Objective, start: Matrix) -> Matrix:
    """L-BFGS with backtracking. With one class per row the objective is convex, and what it finds is the minimum."""
    point, (value, gradient) = start, objective(start)
    steps: deque[tuple[Matrix, Matrix]] = deque(maxlen=_MEMORY)
    for _ in range(_ITERATIONS):
        if np.abs(gradient).max() < _GRADIENT:
            break
        direction = -_inverse_hessian_times(gradient, steps)
        slope = float(direction @ gradient)
        length = 1.0 if steps else 1.0 / float(np.linalg.norm(gradient))
        for _ in range(_HALVINGS):
            following = point + length * direction
            new_value, new_gradient = objective(following)
            if new_value <= value + 1e-4 * length * slope:
                break
            length *= 0.5
        moved, turned = following - point, new_gradient - gradient
        if float(moved @ turned) > 0.0:
            steps.append((moved, turned))
        point, value, gradient = following, new_value, new_gradient
    return point


def _inverse_hessian_times(gradient: Matrix, steps: deque[tuple[Matrix, Matrix]]) -> Matrix:
    result = gradient.copy()
    shares: list[float] = []
    for moved, turned in reversed(steps):
        share = float(moved @ result) / float(moved @ turned)
        result -= share * turned
        shares.append(share)
    if steps:
        moved, turned = steps[-1]
        result *= float(moved @ turned) / float(turned @ turned)
    for (moved, turned), share in zip(steps, reversed(shares), strict=True):
        result += moved * (share - float(turned @ result) / float(moved @ turned))
    return result
