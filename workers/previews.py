"""Previews of the memories, nodes and edges that replies to writes name beside what they are about.

The ledger keeps the ids alone, as it keeps no contents: see answers.py. They are read whenever an answer is given.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, TypeVar
from uuid import UUID

import msgspec
from msgspec import UNSET

from engramq.schemas.commands import Forgotten, Purged, Reply, Verified
from engramq.schemas.envelope import Envelope
from engramq.schemas.ids import parse_uuid
from engramq.schemas.records import GraphPreview, MemoryPreview
from engramq.schemas.vocabulary import Partition, Scope
from engramq.workers.db.graph_previews import edge_previews, node_previews
from engramq.workers.db.memory_previews import previews
from engramq.workers.db.transaction import Transaction

Preview = MemoryPreview | GraphPreview
Reader = Callable[[Transaction, Sequence[UUID]], Awaitable[Sequence[Preview]]]


def _of_memories(*partitions: Partition) -> Reader:
    return lambda tx, ids: previews(tx, ids, partitions)


# How the previews of each field are read; of memories, those of the partitions that are shown there.
_READERS: Final[Mapping[str, Reader]] = {
    "still_hidden": _of_memories(Partition.TRUSTED),
    "memory_previews": _of_memories(*Partition),
    "node_previews": node_previews,
    "edge_previews": edge_previews,
    "link_previews": edge_previews,
    "kept_node_previews": node_previews,
    "changed_edge_previews": edge_previews,
    "changed_node_previews": node_previews,
    "changed_memory_previews": _of_memories(*Partition),
}

R = TypeVar("R", bound=Reply)


def bare(reply: R) -> R:
    """Return what the ledger may keep of a reply."""
    changes = {
        name: [type(one)(id=one.id, preview=None) for one in named] for name, named in _previews_of(reply).items()
    }
    return msgspec.structs.replace(reply, **changes) if changes else reply


async def read_previews(tx: Transaction, reply: R, envelope: Envelope | None = None) -> R:
    """Return a reply with the previews of what it names; nothing is read where it names nothing.

    None of what is gone, of untrusted memories that nobody asked for, nor for who may not read.
    """
    if envelope is not None and Scope.READ not in envelope.principal.scopes:
        return reply
    changes = {}
    for name, named in _previews_of(reply).items():
        ids = [known for one in named if (known := parse_uuid(one.id)) is not None]
        changes[name] = list(await _READERS[name](tx, ids))
    return msgspec.structs.replace(reply, **changes) if changes else reply


def _previews_of(reply: Reply) -> dict[str, list[Preview]]:
    if not isinstance(reply, Forgotten | Verified | Purged):
        return {}
    found = {name: getattr(reply, name, UNSET) for name in _READERS}
    return {name: named for name, named in found.items() if named is not UNSET and named}
