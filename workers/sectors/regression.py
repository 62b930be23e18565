"""Multinomial logistic regression with an L2 penalty, classes balanced: numpy only, no randomness.

Knows: arrays. Refuses to know: texts, sectors, files.
"""

from collections import deque
from collections.abc import Callable
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

Matrix: TypeAlias = NDArray[np.float64]

# Where the gradient is this small the loss no longer changes in the sixth digit.
_GRADIENT: Final = 1e-6
_ITERATIONS: Final = 400
_MEMORY: Final = 10
_HALVINGS: Final = 30

Objective: TypeAlias = Callable[[Matrix], tuple[float, Matrix]]


def fit(features: Matrix, labels: NDArray[np.intp], *, classes: int, penalty: float) -> Matrix:
    """Return weights [features + 1, classes], the intercepts last and unpenalised.

    `features` [n, d]; `labels` [n] in range(classes), each present. Each class weighs the same however often it occurs.
    """
    rows = with_intercept(features)
    truth = np.eye(classes)[labels]
    weight = (1.0 / (classes * truth.sum(axis=0)))[labels][:, None]
    decay = np.full((rows.shape[1], 1), penalty)
    decay[-1] = 0.0

    def objective(flat: Matrix) -> tuple[float, Matrix]:
        weights = flat.reshape(rows.shape[1], classes)
        chances = softmax(rows @ weights)
        loss = -float(np.sum(weight * truth * np.log(np.maximum(chances, 1e-300))))
        gradient = rows.T @ (weight * (chances - truth)) + decay * weights
        return loss + 0.5 * float(np.sum(decay * weights**2)), gradient.ravel()

    return _minimise(objective, np.zeros(rows.shape[1] * classes)).reshape(rows.shape[1], classes)


def with_intercept(features: Matrix) -> Matrix:
    return np.concatenate([features, np.ones((len(features), 1))], axis=1)


def softmax(logits: Matrix) -> Matrix:
    """Return rows that sum to 1, [n, classes]."""
    shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(shifted / shifted.sum(axis=1, keepdims=True))


def _minimise(objective: Objective, start: Matrix) -> Matrix:
    """L-BFGS with backtracking; the objective is convex, so what it finds is the minimum."""
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
