"""Read the links of some memories under the locks of those memories, change them, and write them at once by `save`.

A caller that counts links must hold the locks of both ends. One statement takes them in the order of ids, which all
writers keep; the next one reads the links, and sees the commits of all earlier holders.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, Self
from uuid import UUID

from engramq.schemas import limits, records
from engramq.schemas.contents import preview_of
from engramq.schemas.faults import EngramqError, FaultCode, refuse
from engramq.schemas.ids import Pair
from engramq.schemas.vocabulary import Direction, Linkability, MemoryState, Origin, Partition, Verification
from engramq.workers.db.memory_rows import BEGINNING_CHARS, visible_now, warn_of
from engramq.workers.db.transaction import Row, Transaction
from engramq.workers.links.rules import StoredLink

LINKS_MAX: Final = 1_000  # a memory may have replaced any number of others

_ORIGINS: Final = {origin.value: origin for origin in Origin}  # the call takes ten times as long, for each link


class LinkTable:
    """Made by `open`. `put` and `remove` change it; `save` writes what has changed."""

    def __init__(self, tx: Transaction, memories: Mapping[UUID, Row]) -> None:
        self.tx = tx
        self._memories = memories
        self._owners: dict[UUID, str | None] = {memory_id: row["owner"] for memory_id, row in memories.items()}
        self._stored: dict[Pair, StoredLink] = {}
        self._links: dict[Pair, StoredLink] = {}
        self._counting: dict[UUID, dict[Pair, StoredLink]] = {memory_id: {} for memory_id in memories}
        self._buried: set[Pair] = set()
        self._used: set[Pair] = set()
        self._writers: dict[Pair, str] = {}
        self._replacements: Mapping[UUID, UUID] = {}

    @classmethod
    async def open(
        cls, tx: Transaction, ids: Iterable[UUID], *, changing: Collection[Pair] = (), making: Collection[Pair] = ()
    ) -> Self:
        """Lock those of these memories that exist, and read their links.

        `changing`: pairs whose links may be changed; their links are locked too, since some writers hold no ends.
        `making`: pairs that an automatic writer may link; it is looked up which of them nobody but an agent may.
        """
        wanted = sorted(set(ids))
        memories = await tx.send("lock_memories", ids=wanted)
        if changing:
            await tx.send("lock_links", **columns_of_pairs(changing))
        links = await tx.send("links_at", ids=wanted)
        buried = await tx.send("tombstones", **columns_of_pairs(making)) if making else None
        table = cls(tx, {row["id"]: row for row in await memories.fetchall()})
        for row in await links.fetchall():
            table._read(row)
        if buried is not None:
            table._buried = {(row["low_id"], row["high_id"]) for row in await buried.fetchall()}
        return table

    def linkability(self, memory_id: UUID) -> Linkability:
        """Say whether a memory can be linked."""
        return linkability_of(self._memories.get(memory_id))

    def partition(self, memory_id: UUID) -> Partition:
        """Return the partition of a memory that exists."""
        return Partition(self._memories[memory_id]["partition"])

    def is_untrusted(self, ends: Iterable[UUID]) -> bool:
        """Say whether any of these memories is untrusted; those that do not exist are not."""
        return any(end in self._memories and self.partition(end) is Partition.UNTRUSTED for end in ends)

    async def look_up_replacements(self) -> None:
        """Find out what replaced those that are superseded, so that a refusal can name it."""
        superseded = [memory for memory in self._memories if self.linkability(memory) is Linkability.SUPERSEDED]
        if superseded:
            self._replacements = await replacements(self.tx, superseded)

    def not_active(self, memory_id: UUID) -> EngramqError:
        """Return the refusal of a memory that cannot be linked."""
        row = self._memories.get(memory_id)
        return not_active(
            str(memory_id),
            linkability_of(row),
            successor=None if row is None else row["superseded_by"],
            replacement=self._replacements.get(memory_id),
        )

    def link(self, pair: Pair) -> StoredLink | None:
        """Return the link of a pair of these memories."""
        return self._links.get(pair)

    def counting(self, memory_id: UUID) -> list[StoredLink]:
        """Return the links that count against the cap of one of these memories."""
        return list(self._counting[memory_id].values()) if memory_id in self._counting else []

    def neighbors(self, memory_id: UUID) -> set[UUID]:
        """Return the other ends of the links that count at a memory."""
        return {link.other(memory_id) for link in self.counting(memory_id)}

    def is_buried(self, pair: Pair) -> bool:
        """Say whether somebody took the link of a pair away, so that only an agent may make it again."""
        return pair in self._buried

    def put(self, link: StoredLink, by: str | None = None) -> None:
        """Make a link between two active ones of these memories, or use the one that is there, changed or not.

        `by` is who wants it, if not who writes in this transaction.
        """
        self._used.add(link.pair)
        self._writers[link.pair] = by or self.tx.writer
        self._links[link.pair] = link
        for end in link.pair:
            self._counting[end][link.pair] = link

    def remove(self, link: StoredLink) -> None:
        """Remove a link."""
        self._links.pop(link.pair, None)
        for end in link.pair:
            if end in self._counting:
                self._counting[end].pop(link.pair, None)

    async def save(self) -> None:
        """Write what has changed since the table was opened."""
        gone, new, changed = [], [], []
        for pair, link in self._stored.items():
            now = self._links.get(pair)
            if now is None or now.id != link.id:
                gone.append(link.id)
            elif pair in self._used:
                changed.append(now)
        for pair, link in self._links.items():
            stored = self._stored.get(pair)
            if stored is None or stored.id != link.id:
                new.append(link)
        if gone:
            await self.tx.send("delete_links", ids=gone)
        if new:
            pairs = columns_of_pairs([link.pair for link in new])
            declared, owners = [link.declared_from for link in new], [self._owner_of(link.pair) for link in new]
            await self.tx.send("insert_links", **pairs, declared=declared, owners=owners, **self._columns(new))
        if changed:
            await self.tx.send("update_links", **self._columns(changed))
        self._stored = dict(self._links)
        self._used.clear()

    def are_apart(self, pair: Pair) -> bool:
        """Say whether two memories are private to different principals: nobody sees both."""
        return len({self._owners.get(end) for end in pair} - {None}) > 1

    def _owner_of(self, pair: Pair) -> str | None:
        """Return whose a link is: its private ends' owner."""
        (*owners,) = {self._owners.get(end) for end in pair} - {None}
        if len(owners) > 1:
            raise ValueError("the ends of a link are private to two principals")
        return owners[0] if owners else None

    def _columns(self, links: list[StoredLink]) -> dict[str, list[Any]]:
        return {
            "ids": [link.id for link in links],
            "relations": [str(link.relation) for link in links],
            "weights": [link.weight for link in links],
            "origins": [link.origin.value for link in links],
            "notes": [link.note for link in links],
            "counts": [link.reinforcement_count for link in links],
            "writers": [self._writers[link.pair] for link in links],
        }

    def _read(self, row: Row) -> None:
        pair = row["source_id"], row["target_id"]
        link = self._links.get(pair)
        if link is None:
            link = self._stored[pair] = self._links[pair] = StoredLink(
                id=row["id"],
                pair=pair,
                declared_from=row["declared_from"],
                relation=row["relation"],
                weight=row["weight"],
                origin=_ORIGINS[row["origin"]],
                note=row["note"],
                reinforcement_count=row["reinforcement_count"],
            )
        if row["counts"] and row["end_id"] in self._counting:
            self._counting[row["end_id"]][pair] = link


def columns_of_pairs(pairs: Collection[Pair]) -> dict[str, list[UUID]]:
    """Return pairs as the queries take them."""
    return {"lows": [low for low, _ in pairs], "highs": [high for _, high in pairs]}


async def links_of(
    tx: Transaction, memory_id: UUID, partitions: Sequence[Partition], as_of: datetime | None = None
) -> list[records.Link]:
    """Return the links of a memory to active ones of these partitions that hold, heaviest first.

    `as_of`: to those that held then.
    """
    rows = await tx.rows(
        "links_of",
        id=memory_id,
        **visible_now(partitions) | {"as_of": as_of},
        beginning_chars=BEGINNING_CHARS,
        limit=LINKS_MAX,
    )
    return [
        records.Link(
            memory_id=str(row["memory_id"]),
            preview=preview_of(row["beginning"], limits.PREVIEW_CHARS),
            relation=row["relation"],
            weight=row["weight"],
            note=row["note"],
            origin=Origin(row["origin"]),
            direction=Direction.INCOMING if row["incoming"] else Direction.OUTGOING,
            reinforcement_count=row["reinforcement_count"],
            **warn_of(row["partition"] == Partition.UNTRUSTED),
        )
        for row in rows
    ]


_WHY: Final = {
    Linkability.NOT_FOUND: "is not known",
    Linkability.ARCHIVED: "is archived",
    Linkability.SUPERSEDED: "is superseded",
    Linkability.REJECTED: "is rejected",
}
# A sentence that names a tool stands alone: it is left out where the caller has no such tool.
_RECOVERY: Final = {
    Linkability.NOT_FOUND: "There is no memory of this id: search again.",
    Linkability.ARCHIVED: "restore_memory brings it back. Or use another memory.",
    Linkability.SUPERSEDED: "Nothing active replaces it: use another memory. Or restore_memory brings it back.",
    Linkability.REJECTED: "Use another memory. Or verify_memory decides anew. "
    "restore_memory does not undo a rejection.",
}


def linkability_of(row: Row | None) -> Linkability:
    """Return whether a memory with this row (as lock_memories returns it) can be linked."""
    if row is None:
        return Linkability.NOT_FOUND
    if row["state"] == MemoryState.ARCHIVED:
        return Linkability.ARCHIVED
    if row["is_superseded"]:
        return Linkability.SUPERSEDED
    if row["verification"] == Verification.REJECTED:
        return Linkability.REJECTED
    return Linkability.PENDING if row["state"] == MemoryState.PENDING else Linkability.ACTIVE


async def replacements(tx: Transaction, ids: Collection[UUID]) -> Mapping[UUID, UUID]:
    """Return what took the place of superseded memories in the end, of those where that can be used."""
    if not ids:
        return {}
    return {row["id"]: row["replacement"] for row in await tx.rows("replacements", ids=list(ids))}


def use_instead(replacement: UUID | None) -> str:
    """Return what to do where a memory is superseded, in the end by this one."""
    if replacement is None:
        return _RECOVERY[Linkability.SUPERSEDED]
    return f"Use {replacement} instead. Or restore_memory undoes the supersession."


def not_active(
    memory_id: str, linkability: Linkability, *, successor: UUID | None = None, replacement: UUID | None = None
) -> EngramqError:
    """Return the refusal of a memory that cannot be linked.

    Where it is superseded, `successor` replaced it and `replacement` is what took its place in the end.
    """
    superseded = linkability is Linkability.SUPERSEDED
    by = f" by {successor}" if superseded and successor is not None else ""
    recovery = use_instead(replacement) if superseded else _RECOVERY[linkability]
    error = f"Memory {memory_id} {_WHY[linkability]}{by}."
    return refuse(FaultCode.MEMORY_NOT_ACTIVE, error, recovery=recovery, memory_id=memory_id)


async def refusal_of(tx: Transaction, row: Row) -> EngramqError:
    """Return the refusal of a memory with this row (as lock_memories returns it) that is not active."""
    successor: UUID | None = row["superseded_by"]
    replacement = {} if successor is None else await replacements(tx, [row["id"]])
    return not_active(str(row["id"]), linkability_of(row), successor=successor, replacement=replacement.get(row["id"]))
