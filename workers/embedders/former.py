"""Models that made vectors before the one that runs: questions are read by them too, as long as such vectors are left.

Bundled models only, and the one that is built in the home. An endpoint is not asked for another model than its own:
some answer for any name with what they have, and cosines between vectors of two models mean nothing.
"""

import asyncio
import logging
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from engramq.workers.db.vectors import Embedding
from engramq.workers.embedders.calibrated.curve import calibration_of
from engramq.workers.embedders.calibration import Calibration
from engramq.workers.embedders.factory import create_embedder
from engramq.workers.embedders.interface import Embedder, EmbedderUnavailable

log = logging.getLogger(__name__)

OURS: Final = frozenset({"minilm", "hash", "e5"})


@dataclass(frozen=True, slots=True)
class KnownModel:
    """A model as the store knows it."""

    id: int
    name: str
    sha256: str
    dimensions: int


@dataclass(frozen=True, slots=True)
class Reading:
    """Questions as a former model reads them, and its curve from cosines to chances."""

    embeddings: Sequence[Embedding]
    curve: Calibration


@dataclass(slots=True)
class _Held:
    embedder: Embedder
    curve: Calibration | None = None


class FormerModels:
    """One per process. A model is loaded with the first question that it is to read, and let go when it is retired."""

    def __init__(self, home: Path | None = None) -> None:
        """`home`: where models are built."""
        self._home = home
        self._held: dict[int, _Held | None] = {}  # None: a model that cannot be had
        self._loading = asyncio.Lock()

    async def read(self, questions: Sequence[str], models: Iterable[KnownModel]) -> dict[int, Reading]:
        """Return the questions as these models read them, as far as they can be had, by their ids."""
        found = {}
        for model in models:
            reading = await self._read(questions, model)
            if reading is not None:
                found[model.id] = reading
        return found

    async def keep(self, ids: Collection[int]) -> None:
        """Let all models go but these."""
        for gone in self._held.keys() - set(ids):
            held = self._held.pop(gone)
            if held is not None:
                await held.embedder.aclose()

    async def _read(self, questions: Sequence[str], model: KnownModel) -> Reading | None:
        try:
            async with self._loading:
                held = await self._ready(model)
            if held is None or held.curve is None:
                return None
            vectors = await held.embedder.embed(questions, questions=True)
        except EmbedderUnavailable as problem:
            log.warning("A former model reads nothing", extra={"model": model.name, "reason": problem.failure.reason})
            return None
        return Reading([Embedding.of(model.id, vector) for vector in vectors], held.curve)

    async def _ready(self, model: KnownModel) -> _Held | None:
        if model.id not in self._held:
            self._held[model.id] = _held(model, self._home)
        held = self._held[model.id]
        if held is not None and held.curve is None:
            held.curve = await calibration_of(held.embedder.spec, held.embedder.embed)
        return held


def _held(model: KnownModel, home: Path | None) -> _Held | None:
    if model.name not in OURS:
        return None
    try:
        embedder = create_embedder(model.name, home=home)
    except ValueError:
        return None  # not built here
    if not embedder.adopt(model.sha256) or embedder.spec.dimensions != model.dimensions:
        return None  # what another version shipped
    return _Held(embedder)
