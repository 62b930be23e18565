"""What a tenant holds, counted."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from engramq.workers.db.queries import sql
from engramq.workers.db.tenants import NOBODY
from engramq.workers.db.transaction import Transaction

CONTENTS: Final = sql("tenant_contents")


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """How much a tenant holds. `bytes` are of the contents of memories; `last_activity` is of writes, None: none.

    `language` is that of its words; see docs/languages.md.
    """

    language: str
    by_state: Mapping[str, int]
    bytes: int
    nodes: int
    edges: int
    links: int
    tokens: int
    last_activity: datetime | None

    @property
    def memories(self) -> int:
        """Return how many memories there are, whatever their state."""
        return sum(self.by_state.values())

    def __bool__(self) -> bool:
        """Return whether there is anything but the audit log and the answers of the last days."""
        return any((self.memories, self.nodes, self.edges, self.links, self.tokens))


async def contents(tx: Transaction) -> Contents | None:
    """Count what the namespace holds; None when nobody has ever written to it."""
    if tx.tenant == NOBODY:
        return None
    row = await tx.row(CONTENTS)
    assert row is not None
    return Contents(**row)
