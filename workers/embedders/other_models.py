"""Read questions by former models too, as long as vectors are left that these made.

Bundled models only, and the one that is built in the home. An endpoint is not asked for another model than its own:
some answer for any name with what they have, and cosines between vectors of two models mean nothing.
"""

import asyncio
import logging
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from msgspec import UNSET, UnsetType

from engramq.schemas.faults import EngramqError
from engramq.schemas.vocabulary import Partition
from engramq.workers.db.database import Store
from engramq.workers.db.transaction import Transaction
from engramq.workers.db.vectors import Embedding
from engramq.workers.db.viewers import Viewer
from engramq.workers.embedders.calibration import Calibration
from engramq.workers.embedders.confidence import calibration_of
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
class FormerQuestions:
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

    async def read(self, questions: Sequence[str], models: Iterable[KnownModel]) -> dict[int, FormerQuestions]:
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

    async def _read(self, questions: Sequence[str], model: KnownModel) -> FormerQuestions | None:
        try:
            async with self._loading:
                held = await self._ready(model)
            if held is None or held.curve is None:
                return None
            vectors = await held.embedder.embed(questions, questions=True)
        except EmbedderUnavailable as problem:
            log.warning("A former model reads nothing", extra={"model": model.name, "reason": problem.reason})
            return None
        return FormerQuestions([Embedding.of(model.id, vector) for vector in vectors], held.curve)

    async def _ready(self, model: KnownModel) -> _Held | None:
        if model.id not in self._held:
            self._held[model.id] = _held(model, self._home)
        held = self._held[model.id]
        if held is not None and held.curve is None:
            held.curve = await calibration_of(held.embedder.spec, held.embedder.embed)
        return held


def _held(model: KnownModel, home: Path | None) -> _Held | None:
    if model.name not in OURS and not model.name.startswith("onnx:"):
        return None
    try:
        embedder = create_embedder(model.name, home=home)
    except ValueError:
        return None  # not built here
    if not embedder.adopt(model.sha256) or embedder.spec.dimensions != model.dimensions:
        return None  # what another version shipped
    return _Held(embedder)


NamespaceViewer = tuple[str, Viewer]  # a namespace, and who sees what of it
KEPT_S: Final = 60.0
NAMESPACES_MAX: Final = 10_000  # whose counts are kept


@dataclass(frozen=True, slots=True)
class _Counted:
    """How many memories that somebody sees have a vector of each model, by partition, and until when that counts."""

    until: float
    memories: Mapping[tuple[Partition, int], int]


@dataclass(frozen=True, slots=True)
class Foreign:
    """The questions as those other models read them that can, and what the reply has to say; UNSET: nothing."""

    readings: Sequence[FormerQuestions] = field(default=())
    notice: str | UnsetType = UNSET


class ForeignVectors:
    """One per process."""

    def __init__(self, store: Store, former: FormerModels) -> None:
        self._store = store
        self._former = former
        self._models: dict[int, KnownModel] = {}
        self._models_until = 0.0
        self._counted: dict[NamespaceViewer, _Counted] = {}
        self._counting = asyncio.Lock()

    async def read(
        self, seen: NamespaceViewer, partitions: Sequence[Partition], model_id: int, questions: Sequence[str]
    ) -> Foreign:
        """Read questions by the models but this one that made vectors in these partitions.

        A search by the model that runs does not fail because this cannot be done.
        """
        try:
            if time.monotonic() >= self._models_until:
                await self._read_models(model_id)
            if self._models.keys() <= {model_id}:
                return Foreign()
            if seen not in self._counted:
                await self._count(seen)
            found: dict[int, int] = {}
            for (partition, other), memories in self._counted[seen].memories.items():
                if other != model_id and partition in partitions:
                    found[other] = found.get(other, 0) + memories
            if not found:
                return Foreign()
            known = [self._models[model] for model in sorted(found.keys() & self._models.keys())]
            readings = await self._former.read(questions, known)
        except EngramqError as refused:
            log.warning("Vectors of other models were left out", extra={"error": refused.fault.error})
            return Foreign()
        running = self._models[model_id].name if model_id in self._models else ""
        counts = [
            (self._models[model].name if model in self._models else "", found[model], model in readings)
            for model in found
        ]
        return Foreign(list(readings.values()), _notice(counts, running))

    def is_due(self, seen: NamespaceViewer) -> bool:
        """Say whether what is known of a namespace is old."""
        counted = self._counted.get(seen)
        return counted is not None and time.monotonic() >= counted.until

    async def refresh(self, seen: NamespaceViewer) -> None:
        """Count a namespace again if that is due. Raises EngramqError (`unavailable`)."""
        if self.is_due(seen):
            await self._count(seen)

    async def _read_models(self, model_id: int) -> None:
        self._models = {row["id"]: KnownModel(**row) for row in await self._store.ask("models_in_use")}
        self._models_until = time.monotonic() + KEPT_S
        await self._former.keep(self._models.keys() - {model_id})

    async def _count(self, seen: NamespaceViewer) -> None:
        async def count(tx: Transaction) -> dict[tuple[Partition, int], int]:
            return {
                (Partition(row["partition"]), row["model_id"]): row["memories"]
                for row in await tx.rows("count_by_model")
            }

        async with self._counting:  # a caller that comes meanwhile needs no count of its own
            known = self._counted.get(seen)
            if known is not None and time.monotonic() < known.until:
                return
            namespace, viewer = seen
            memories = await self._store.seen_by(viewer).read(namespace, count)
        if len(self._counted) >= NAMESPACES_MAX:
            self._counted.clear()
        self._counted[seen] = _Counted(time.monotonic() + KEPT_S, memories)


def _notice(counts: Collection[tuple[str, int, bool]], running: str) -> str:
    """Return the notice on memories: the name of the model that made their vectors, how many, whether it can read."""
    parts = [
        _part([count for count in counts if count[2]], running),
        _part([count for count in counts if not count[2]], running),
    ]
    return " ".join(part for part in parts if part)


def _part(counts: Sequence[tuple[str, int, bool]], running: str) -> str:
    if not counts:
        return ""
    total, names = sum(memories for _, memories, _ in counts), sorted({name for name, _, _ in counts})
    memories, have = ("memory", "has its vector") if total == 1 else ("memories", "have their vectors")
    begin = f"{total:,} {memories} here {have} from another model ({' and '.join(names)}) than the one that runs"
    if counts[0][2]:
        return f"{begin} ({running}), and {'is' if total == 1 else 'are'} compared by it until embedded anew."
    settings = " or ".join(f"ENGRAMQ_EMBEDDER={name}" for name in names)
    return (
        f"{begin} ({running}): found by words only, until embedded anew, which goes on in the background. "
        f"The operator can go back to {settings}, which made them."
    )
