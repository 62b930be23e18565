"""Memories whose vectors another model made than the one that runs: searches find them by their words only.

It costs nothing where the store has had one model: which ones it has is asked once a minute. Where it has had several,
each namespace is counted once a minute, after a reply; only the first search waits for it.
"""

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from msgspec import UNSET, UnsetType

from engramq.schemas.faults import EngramqError
from engramq.schemas.vocabulary import Partition
from engramq.workers.db.database import Store
from engramq.workers.db.queries import sql
from engramq.workers.db.transaction import Transaction

MODELS: Final = sql("all_models")
COUNT: Final = sql("count_by_model")

log = logging.getLogger(__name__)

KEPT_S: Final = 60.0
NAMESPACES_MAX: Final = 10_000  # whose counts are kept


@dataclass(frozen=True, slots=True)
class _Counted:
    """How many memories of a namespace have a vector of each model, by partition, and until when that counts."""

    until: float
    memories: Mapping[tuple[Partition, int], int]


class ForeignVectors:
    """One per process."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._models: dict[int, str] = {}
        self._models_until = 0.0
        self._counted: dict[str, _Counted] = {}
        self._counting = asyncio.Lock()

    async def notice(self, namespace: str, partitions: Sequence[Partition], model_id: int) -> str | UnsetType:
        """Return what a search by this model's vectors has to say of others in these partitions, UNSET for nothing.

        A search that has found what it was asked for does not fail because this cannot be said.
        """
        try:
            return await self._notice(namespace, partitions, model_id)
        except EngramqError as refused:
            log.warning("Vectors of other models were not counted", extra={"error": refused.fault.error})
            return UNSET

    async def _notice(self, namespace: str, partitions: Sequence[Partition], model_id: int) -> str | UnsetType:
        if time.monotonic() >= self._models_until:
            await self._read_models()
        if self._models.keys() <= {model_id}:
            return UNSET
        if namespace not in self._counted:
            await self._count(namespace)
        found: dict[str, int] = {}
        for (partition, other), memories in self._counted[namespace].memories.items():
            if other != model_id and partition in partitions:
                name = self._models.get(other, "")
                found[name] = found.get(name, 0) + memories
        return _notice(found, self._models.get(model_id, "")) if found else UNSET

    def is_due(self, namespace: str) -> bool:
        """Say whether what is known of a namespace is old."""
        counted = self._counted.get(namespace)
        return counted is not None and time.monotonic() >= counted.until

    async def refresh(self, namespace: str) -> None:
        """Count a namespace again if that is due. Raises EngramqError (`unavailable`)."""
        if self.is_due(namespace):
            await self._count(namespace)

    async def _read_models(self) -> None:
        self._models = {row["id"]: row["name"] for row in await self._store.ask(MODELS)}
        self._models_until = time.monotonic() + KEPT_S

    async def _count(self, namespace: str) -> None:
        async def count(tx: Transaction) -> dict[tuple[Partition, int], int]:
            return {(Partition(row["partition"]), row["model_id"]): row["memories"] for row in await tx.rows(COUNT)}

        async with self._counting:  # whoever comes meanwhile needs no count of its own
            known = self._counted.get(namespace)
            if known is not None and time.monotonic() < known.until:
                return
            memories = await self._store.read(namespace, count)
        if len(self._counted) >= NAMESPACES_MAX:
            self._counted.clear()
        self._counted[namespace] = _Counted(time.monotonic() + KEPT_S, memories)


def _notice(found: Mapping[str, int], running: str) -> str:
    """Return the notice on memories by the name of the model that made their vectors."""
    total = sum(found.values())
    memories, have = ("memory", "has its vector") if total == 1 else ("memories", "have their vectors")
    made = " and ".join(sorted(found))
    settings = " or ".join(f"ENGRAMQ_EMBEDDER={name}" for name in sorted(found))
    return (
        f"{total:,} {memories} here {have} from another model ({made}) than the one that runs ({running}): found by "
        f"words only, until embedded anew. The operator can start engramq with {settings}, which made them."
    )
