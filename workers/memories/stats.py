"""What a namespace holds, counted."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from engramq.schemas import limits
from engramq.schemas.commands import EdgeCount, ProjectCount
from engramq.schemas.commands.memories import DEFAULT_PARTITIONS
from engramq.schemas.vocabulary import CUSTOM_RELATION, MemoryState, Partition, Relation, Sector, SectorSource
from engramq.workers.db.database import Store
from engramq.workers.db.namespaces import full_text
from engramq.workers.db.queries import sql
from engramq.workers.db.reembedding import progress
from engramq.workers.db.transaction import Transaction
from engramq.workers.embedders.interface import EmbedderSpec

MEMORY_COUNTS: Final = sql("memory_counts")
EDGE_COUNTS: Final = sql("edge_counts")
PROJECT_COUNTS: Final = sql("project_counts")
VECTORS: Final = sql("vectors_in_namespace")


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What a namespace holds; every word is there, with 0 when nothing is."""

    memories: int
    by_partition: dict[str, int]
    by_sector: dict[str, int]
    by_state: dict[str, int]
    superseded: int
    edges: list[EdgeCount]
    projects: list[ProjectCount]  # those with memories in the partitions that were asked for
    projects_omitted: int
    full_text: dict[str, Any]  # its language, and how far words are made anew; empty: nobody has written here


async def vectors_of(store: Store, namespace: str, spec: EmbedderSpec) -> dict[str, Any]:
    """Return the model that runs, with `reembedding` while vectors of the namespace are made anew by it.

    `done` of `total` memories have its vectors; `per_s` is of all namespaces, None while nobody knows.
    """
    told = {"name": spec.name, "dimensions": spec.dimensions, "sha256": spec.sha256}
    change = await progress(store)
    if change is None:
        return told
    row = await store.read(namespace, lambda tx: tx.row(VECTORS, name=spec.name, sha256=spec.sha256))
    if row is None or row["done"] == row["total"]:
        return told
    return told | {"reembedding": {**row, "per_s": change.per_s, "problem": change.problem}}


async def counts(tx: Transaction, partitions: Sequence[Partition] = DEFAULT_PARTITIONS) -> Counts:
    """Count what the namespace holds, both partitions, whatever its state.

    Projects are those with memories in `partitions`: one has the name that somebody gave it, so that of untrusted
    memories alone is untrusted text. Their numbers are of both partitions, as all others are.
    """
    memories = await tx.send(MEMORY_COUNTS)
    edges = await tx.send(EDGE_COUNTS, relations=list(Relation), custom=CUSTOM_RELATION, kinds=limits.EDGE_KINDS_SHOWN)
    projects = await tx.send(PROJECT_COUNTS, partitions=list(partitions), most=limits.PROJECTS_SHOWN)
    language = await full_text(tx)
    by_partition = {word.value: 0 for word in Partition}
    by_sector = {word.value: 0 for word in (*Sector, SectorSource.NONE)}
    by_state = {word.value: 0 for word in MemoryState}
    superseded = 0
    for row in await memories.fetchall():
        by_partition[row["partition"]] += row["memories"]
        by_sector[row["sector"]] += row["memories"]
        by_state[row["state"]] += row["memories"]
        superseded += row["memories"] if row["superseded"] else 0
    named = await projects.fetchall()
    return Counts(
        memories=sum(by_partition.values()),
        by_partition=by_partition,
        by_sector=by_sector,
        by_state=by_state,
        superseded=superseded,
        edges=[
            EdgeCount(layer=row["layer"], origin=row["origin"], relation=row["relation"], count=row["edges"])
            for row in await edges.fetchall()
        ],
        projects=[
            ProjectCount(project=row["project"], memories=row["memories"], untrusted_count=row["untrusted_count"])
            for row in named
        ],
        projects_omitted=named[0]["projects"] - len(named) if named else 0,
        full_text={} if language is None else language.told,
    )
