"""Count memories, by the totals that a trigger keeps where these tell: all, by time, by words to filter by."""

from collections.abc import Sequence
from functools import partial
from typing import Any, Final, TypedDict

from msgspec import UNSET

from engramq.schemas import limits
from engramq.schemas.commands import (
    CountFacets,
    CountMemories,
    EdgeCount,
    FacetCounts,
    MemoryStats,
    MemoryTimeline,
    ProjectCount,
    QueueDepth,
    Stats,
    TimeSpan,
)
from engramq.schemas.commands.memories import DEFAULT_PARTITIONS
from engramq.schemas.vocabulary import CUSTOM_RELATION, MemoryState, Partition, Relation, Sector, SectorSource
from engramq.workers.db.database import Store
from engramq.workers.db.namespaces import full_text
from engramq.workers.db.privacy import privacy_of, private_of_others, seeing_as_admin
from engramq.workers.db.reembedding import progress
from engramq.workers.db.transaction import Transaction
from engramq.workers.embedders.interface import EmbedderSpec
from engramq.workers.embedders.vectorizer import Vectorizer
from engramq.workers.memories.reading import filters_of
from engramq.workers.runner import Context, handles, handles_without_transaction
from engramq.workers.trust import is_admin

_PROJECTS_SHOWN: Final = 100  # those with most memories
# What a list may be filtered by for kept totals to tell how many it has.
IN_TOTALS: Final = frozenset({"partitions", "sectors", "states", "project", "project_only", "include_superseded"})


@handles(CountMemories)
async def count_memories(tx: Transaction, command: CountMemories, context: Context) -> MemoryTimeline:
    """Count the memories of a list by when they happened, else were stored, in the finest unit with few spans."""
    if command.sectors == ():
        return MemoryTimeline(unit="day", spans=[])
    project = context.envelope.project_named(command.project)
    few = {
        "days": limits.TIMELINE_DAYS,
        "months": limits.TIMELINE_MONTHS,
        "zone": str(context.settings.timezone),
    }
    async with seeing_as_admin(tx, context.envelope.principal):
        filters = await filters_of(tx, command, project)
        by_totals = not any(value for name, value in filters.items() if name not in IN_TOTALS)
        rows = await tx.rows("totals_by_time" if by_totals else "memories_by_time", **filters, **few)
    spans = [TimeSpan(begins=row["begins"].isoformat(), memory_count=row["memories"]) for row in rows]
    return MemoryTimeline(unit=rows[0]["unit"] if rows else "day", spans=spans)


@handles(CountFacets)
async def count_facets(tx: Transaction, command: CountFacets, context: Context) -> FacetCounts:
    """Count what a list would show with another word of one kind in the place of the chosen one."""
    async with seeing_as_admin(tx, context.envelope.principal):
        rows = await tx.rows(
            "facet_counts",
            partitions=list(dict.fromkeys(command.partitions)),
            sectors=None if command.sectors is UNSET else list(command.sectors),
            states=list(command.states or ()) or None,
            project=context.envelope.project_named(command.project),
            project_only=command.project_only,
            include_superseded=command.include_superseded,
            most=_PROJECTS_SHOWN,
        )
    counted: dict[str, dict[str, int]] = {"project": {}, "sector": {}, "state": {}, "partition": {}}
    for row in rows:
        counted[row["facet"]][row["word"]] = row["memories"]
    return FacetCounts(
        by_project=counted["project"],
        by_sector={word.value: counted["sector"].get(word, 0) for word in Sector},
        by_state={word.value: counted["state"].get(word, 0) for word in MemoryState},
        by_partition={word.value: counted["partition"].get(word, 0) for word in Partition},
    )


@handles_without_transaction(MemoryStats)
async def memory_stats(command: MemoryStats, context: Context) -> Stats:
    """Count what a namespace holds, and what waits in the queues."""
    namespace = context.envelope.namespace
    principal = context.envelope.principal
    sees_all = is_admin(principal)
    counted, private = await context.store.read(namespace, partial(_counts, command.partitions, is_admin=sees_all))
    counted["full_text"] = counted["full_text"] or {"language": context.settings.language}
    # Mailboxes are those of all namespaces.
    depths = await context.mailboxes.depths() if sees_all else {}
    spec = await context.services[Vectorizer].spec_in_store()
    return Stats(
        **counted,
        queues={kind.value: QueueDepth(depth=depth, dead=dead) for kind, (depth, dead) in depths.items()},
        embedder=await _vectors_of(context.store, namespace, spec),
        project=context.envelope.project or None,
        private=private,
    )


async def _vectors_of(store: Store, namespace: str, spec: EmbedderSpec) -> dict[str, Any]:
    """Return the model that runs, with `reembedding` while vectors of the namespace are made anew by it.

    `done` of `total` memories have its vectors; `per_s` is of all namespaces, None while nobody knows.
    """
    model = {"name": spec.name, "dimensions": spec.dimensions, "sha256": spec.sha256}
    change = await progress(store)
    if change is None:
        return model
    row = await store.read(namespace, lambda tx: tx.row("vectors_in_namespace", name=spec.name, sha256=spec.sha256))
    if row is None or row["done"] == row["total"]:
        return model
    return model | {"reembedding": {**row, "per_s": change.per_s, "problem": change.problem}}


class Counts(TypedDict):
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


async def counts(tx: Transaction, partitions: Sequence[Partition] = DEFAULT_PARTITIONS) -> Counts:
    """Count what the namespace holds, both partitions, whatever its state.

    Projects are those with memories in `partitions`: a project has the name that somebody gave it, so that of untrusted
    memories alone is untrusted text. Their numbers are of both partitions, as all others are.
    """
    memories = await tx.send("memory_counts", partitions=list(partitions), most=_PROJECTS_SHOWN)
    edges = await tx.send(
        "edge_counts", relations=list(Relation), custom=CUSTOM_RELATION, kinds=limits.EDGE_KINDS_SHOWN
    )
    language = await full_text(tx)
    by_partition = {word.value: 0 for word in Partition}
    by_sector = {word.value: 0 for word in (*Sector, SectorSource.NONE)}
    by_state = {word.value: 0 for word in MemoryState}
    superseded = 0
    counted = await memories.fetchall()
    for row in (row for row in counted if row["place"] is None):
        by_partition[row["partition"]] += row["memories"]
        by_sector[row["sector"]] += row["memories"]
        by_state[row["state"]] += row["memories"]
        superseded += row["memories"] if row["superseded"] else 0
    named = [row for row in counted if row["place"] is not None]
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
        full_text={} if language is None else language.as_reply,
    )


async def _counts(partitions: Sequence[Partition], tx: Transaction, *, is_admin: bool) -> tuple[Counts, dict[str, Any]]:
    """Return what the namespace holds, and how it keeps what is private; to administrators how much others have."""
    counted = await counts(tx, partitions)
    private = (await privacy_of(tx)).as_reply
    return counted, private | ({"of_others": await private_of_others(tx)} if is_admin else {})
