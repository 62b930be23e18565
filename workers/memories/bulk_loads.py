"""When an import is large enough for its rows to stay out of the vector index until it is built anew.

Nobody announces it: an import is large once so much has come without a break that building the index anew costs less
than inserting the rest. What came before is in the index already.
"""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from engramq.schemas.vocabulary import Partition
from engramq.workers.db.loads import IDLE_S, LARGE_ROWS, LARGE_SHARE, LOAD_ROWS, load_of, open_load
from engramq.workers.db.transaction import Transaction
from engramq.workers.db.vectors import Sizes
from engramq.workers.memories.store import Draft

NAMESPACES_KEPT: Final = 10_000

Target = tuple[Partition, int]  # a partition and the model whose index it is


@dataclass(slots=True)
class _Stream:
    rows: int = 0
    at: float = 0.0  # the last batch, in monotonic seconds


@dataclass(slots=True)
class BulkLoads:
    """How much came of late, by namespace and partition; one per process."""

    sizes: Sizes
    large_rows: int = LARGE_ROWS  # that came without a break
    _streams: dict[tuple[str, Partition], _Stream] = field(default_factory=dict)

    def came(self, namespace: str, partition: Partition, rows: int) -> None:
        """Note that a batch has brought new rows."""
        now = time.monotonic()
        if len(self._streams) >= NAMESPACES_KEPT:
            self._streams = {key: one for key, one in self._streams.items() if now - one.at < IDLE_S}
        stream = self._streams.setdefault((namespace, partition), _Stream())
        stream.rows = rows if now - stream.at >= IDLE_S else stream.rows + rows
        stream.at = now

    async def loads_of(self, tx: Transaction, drafts: Sequence[Draft]) -> dict[Target, int]:
        """Return the open loads that new memories belong to, by partition and model; open those that are due."""
        targets = Counter((one.partition, one.embedding.model_id) for one in drafts if one.embedding is not None)
        found: dict[Target, int] = {}
        for partition, model_id in sorted(targets):
            if await self._is_large(tx, partition):
                await open_load(tx, partition, model_id)
            load = await load_of(tx, partition, model_id, rows=targets[partition, model_id])
            if load is not None:
                found[partition, model_id] = load
        return found

    async def _is_large(self, tx: Transaction, partition: Partition) -> bool:
        stream = self._streams.get((tx.namespace, partition))
        if stream is None or stream.rows < self.large_rows or time.monotonic() - stream.at >= IDLE_S:
            return False
        # A load brings no more than LOAD_ROWS, however many come: each is paid for by a build of everybody's index.
        return min(stream.rows, LOAD_ROWS) >= LARGE_SHARE * (await self.sizes.of(tx, (partition,))).everybodys
