"""Chain the entries of the audit log by hashes, check the chain, and read entries with their places.

Upkeep gives entries their places, some seconds after they were written, so that no write waits for another's. Until
then an entry is not covered. docs/security.md says what the chain proves, and what it cannot.
"""

import secrets
from typing import Any, Final, NamedTuple
from uuid import UUID

from msgspec import structs

from engramq.schemas.commands import AuditVerified, ChainBreak
from engramq.schemas.receipts import START, ChainedEntry, digest_entry, exact_time
from engramq.schemas.vocabulary import AuditAction
from engramq.workers.db.transaction import Row, Transaction
from engramq.workers.db.viewers import EVERYTHING

AT_ONCE: Final = 1_000  # entries that one transaction gives places
FEW: Final = 10_000  # last places among which the lowest entry tells how far behind others may have come late
SALT_BYTES: Final = 16
ERASING: Final = (
    AuditAction.ERASE,
    AuditAction.PURGE,
    AuditAction.ERASE_DELETED,
    AuditAction.ERASE_PROPOSAL,
    AuditAction.ERASE_PROPERTIES,
)


class ChainedEntries(NamedTuple):
    """Entries at their places, and how many there are in all."""

    entries: list[ChainedEntry]
    total: int


async def extend(tx: Transaction, behind: int | None = None) -> int:
    """Give places to at most AT_ONCE entries that have none; return the id of the last if more may follow, else 0.

    `behind`: look at all entries behind this one. Those of a restored export may be older than any that has a place.
    """
    async with tx.seeing(EVERYTHING):
        return await _extend(tx, behind)


async def _extend(tx: Transaction, behind: int | None) -> int:
    await tx.send("lock_chain")
    end = await tx.only_row("chain_end", few=FEW)
    after = behind if behind is not None else (end["lowest"] or 1) - 1
    place, before = end["place"] or 0, end["hash"] or START
    rows = await tx.rows("unchained_entries", after=after, limit=AT_ONCE)
    added: list[tuple[int, int, bytes, bytes, bytes]] = []
    for row in rows:
        place, salt = place + 1, secrets.token_bytes(SALT_BYTES)
        entry = _chain({**row, "place": place, "salt": salt, "digest": digest_entry(salt, row["body"])}, before)
        before = bytes.fromhex(entry.hash)
        added.append((place, row["id"], salt, bytes.fromhex(entry.digest), before))
    if added:
        places, entries, salts, digests, hashes = map(list, zip(*added, strict=True))
        await tx.rows("add_to_chain", places=places, entries=entries, salts=salts, digests=digests, hashes=hashes)
    return rows[-1]["id"] if len(rows) == AT_ONCE else 0


async def verified(tx: Transaction, after: int, limit: int) -> AuditVerified:
    """Check so many places behind one; at the end of the chain count the entries without a place."""
    async with tx.seeing(EVERYTHING):
        return await _verify(tx, after, limit)


async def _verify(tx: Transaction, after: int, limit: int) -> AuditVerified:
    before = START
    if after:
        row = await tx.row("hash_at", place=after)
        if row is None:
            return AuditVerified(places=0, erased=0, broken=_missing(after))
        before = bytes(row["hash"])
    rows, erased = await tx.rows("chain_links", after=after, limit=limit), 0
    for checked, row in enumerate(rows):
        if (problem := _problem(row, after + checked + 1, before)) is not None:
            return AuditVerified(places=checked, erased=erased, broken=problem)
        erased += row["salt"] is None
        before = bytes(row["hash"])
    if len(rows) == limit:
        return AuditVerified(places=limit, erased=erased, next_after=after + limit)
    unchained = await tx.only_row("unchained_count")
    return AuditVerified(places=len(rows), erased=erased, unchained=unchained["entries"])


async def of_command(tx: Transaction, command_id: UUID, limit: int) -> ChainedEntries:
    """Return what a command did, as far as it has places; of what is private to others without what it says."""
    return await _read(tx, "links_of_command", wanted=command_id, limit=limit)


async def of_erased(tx: Transaction, target: UUID, limit: int) -> ChainedEntries:
    """Return how a memory, edge or node was erased; of what was private to others without what it says."""
    return await _read(tx, "links_of_erased", wanted=target, erasing=[action.value for action in ERASING], limit=limit)


async def _read(tx: Transaction, query: str, **values: Any) -> ChainedEntries:
    reader = tx.viewer.owner
    async with tx.seeing(EVERYTHING):
        rows = await tx.rows(query, **values, reader=reader)
    told = [{**row, "salt": None} if row["unreadable"] else row for row in rows]
    entries = [_chain(row, bytes(row["before"] or START), bytes(row["hash"]).hex()) for row in told]
    return ChainedEntries(entries, rows[0]["total"] if rows else 0)


def _problem(row: Row, place: int, before: bytes) -> ChainBreak | None:
    if row["place"] != place:
        return _missing(place)
    if row["id"] is None:
        return ChainBreak(place=place, audit_id=row["entry"], problem="its entry is missing")
    problem = _chain(row, before, bytes(row["hash"]).hex()).problem()
    return None if problem is None else ChainBreak(place=place, audit_id=row["entry"], problem=problem)


def _missing(place: int) -> ChainBreak:
    return ChainBreak(place=place, audit_id=None, problem="it is missing")


def _chain(row: Row, before: bytes, known_hash: str | None = None) -> ChainedEntry:
    """Return an entry at its place; without a hash that is known it gets the one that follows."""
    salt = row["salt"]
    entry = ChainedEntry(
        id=row["id"],
        at=exact_time(row["at"]),
        actor=row["actor"],
        action=row["action"],
        target_id=None if row["target_id"] is None else str(row["target_id"]),
        command_id=None if row["command_id"] is None else str(row["command_id"]),
        body=None if salt is None else row["body"],
        salt=None if salt is None else bytes(salt).hex(),
        digest=bytes(row["digest"]).hex(),
        place=row["place"],
        previous=before.hex(),
        hash=known_hash or "",
        owner=row["owner"],
        brought_at=None if row["brought_at"] is None else exact_time(row["brought_at"]),
        brought_from=row["brought_from"],
    )
    return entry if known_hash is not None else structs.replace(entry, hash=entry.hash_now())
