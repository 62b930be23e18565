"""Find the curve of a model: `python -m tools.measure_confidence [--embedder minilm]`.

Prints JSON lines: the constants for `shipped`, the cross-validated reliability by tenths of confidence, and what a
min_confidence of .70 accepts and refuses.
"""

import asyncio
import os
from collections.abc import Iterator
from typing import Any, Final

import click
import msgspec
import numpy as np
from numpy.typing import NDArray

from engramq.schemas.settings import read_settings
from engramq.workers.embedders.calibration import Mask, Samples, fit
from engramq.workers.embedders.confidence import sample
from engramq.workers.embedders.factory import create_embedder

FOLDS: Final = 5
BINS: Final = 10
ACCEPTED: Final = 0.70  # the default of connect_by_query


@click.command()
@click.option("--embedder", default="minilm", help="As in ENGRAMQ_EMBEDDER.")
def main(*, embedder: str) -> None:
    """Print the curve of an embedder, and how far it can be trusted."""
    for line in report(asyncio.run(_sampled_by(embedder))):
        click.echo(msgspec.json.encode(line).decode())


def cross_validated(samples: Samples, folds: int) -> NDArray[np.float64]:
    """Return a confidence for each sample from a curve that has not seen the memory which was meant."""
    confidence = np.zeros(len(samples.right))
    for fold in range(folds):
        held = samples.meant % folds == fold
        curve = fit(samples.of(~held))
        confidence[held] = [curve.confidence(cosine) for cosine in samples.cosines[held].tolist()]
    return confidence


def reliability(confidence: NDArray[np.float64], right: Mask) -> list[tuple[float, float, int]]:
    """Return (mean confidence, share that is right, count) by tenths of confidence; empty tenths are left out."""
    bins = np.minimum((confidence * BINS).astype(int), BINS - 1)
    return [
        (float(confidence[bins == tenth].mean()), float(right[bins == tenth].mean()), int((bins == tenth).sum()))
        for tenth in np.unique(bins)
    ]


def expected_error(confidence: NDArray[np.float64], right: Mask) -> float:
    """Return the mean gap between confidence and share that is right."""
    gaps = [count * abs(mean - share) for mean, share, count in reliability(confidence, right)]
    return sum(gaps) / len(confidence)


def report(samples: Samples) -> Iterator[dict[str, Any]]:
    """Return the lines that are printed."""
    curve = fit(samples)
    yield {"slope": round(curve.slope, 3), "offset": round(curve.offset, 3), "samples": len(samples.right)}
    confidence = cross_validated(samples, FOLDS)
    for mean, share, count in reliability(confidence, samples.right):
        yield {"confidence": round(mean, 3), "right": round(share, 3), "samples": count}
    accepted = confidence >= ACCEPTED
    yield {
        "min_confidence": ACCEPTED,
        "accepts_of_right": round(float(accepted[samples.right].mean()), 3),
        "refuses_of_wrong": round(float((~accepted)[~samples.right].mean()), 3),
        "expected_error": round(expected_error(confidence, samples.right), 3),
    }


async def _sampled_by(name: str) -> Samples:
    embedder = create_embedder(name, "", key="", home=read_settings(os.environ).home)
    try:
        return await sample(embedder.embed)
    finally:
        await embedder.aclose()


if __name__ == "__main__":
    main()
