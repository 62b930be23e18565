"""The curve of the model that is running: the shipped one, or found by embedding the texts."""

import asyncio
from collections.abc import Sequence
from typing import Final, Protocol

import numpy as np

from engramq.workers.embedders.calibrated.shipped import SHIPPED
from engramq.workers.embedders.calibrated.texts import calibration_texts
from engramq.workers.embedders.calibration import Calibration, Samples, best_matches, fitted
from engramq.workers.embedders.interface import EmbedderSpec, Vectors

AT_ONCE: Final = 64  # texts of one call, so that those who wait for one text are served in between


class Embed(Protocol):
    """How a model embeds."""

    async def __call__(self, texts: Sequence[str], *, questions: bool = False) -> Vectors:
        """Return a vector for each text; raises EmbedderUnavailable."""
        ...


async def calibration_of(spec: EmbedderSpec, embed: Embed) -> Calibration:
    """Return the curve of a model; one that is not shipped is found by embedding the texts.

    Raises EmbedderUnavailable.
    """
    shipped = SHIPPED.get(spec.sha256)
    if shipped is not None:
        return shipped
    samples = await sampled(embed)
    return await asyncio.to_thread(fitted, samples)


async def sampled(embed: Embed) -> Samples:
    """Look the queries of the texts up. Raises EmbedderUnavailable."""
    texts = await asyncio.to_thread(calibration_texts)
    memories = await _vectors(embed, texts.memories, questions=False)
    queries = await _vectors(embed, texts.queries, questions=True)
    return await asyncio.to_thread(best_matches, memories, queries, texts.meant)


async def _vectors(embed: Embed, texts: Sequence[str], *, questions: bool) -> Vectors:
    parts = [
        await embed(texts[start : start + AT_ONCE], questions=questions) for start in range(0, len(texts), AT_ONCE)
    ]
    return np.concatenate(parts)
