"""Hold memories to what they rest on: none is more trusted than its least trusted ground.

It also keeps the results of comparing cited files: the comparing program is where the files are.

A memory that cites an untrusted one is kept apart, unless its author vouches for it, or somebody promotes it. A
memory that is trusted, or vouched for, takes no untrusted ground by an update: nobody would notice.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, TypedDict
from uuid import UUID

from msgspec import UNSET, UnsetType

from engramq.schemas import limits
from engramq.schemas.commands import EvidenceReported, ReportEvidence
from engramq.schemas.evidence import CheckedCitation, Citation, as_cited
from engramq.schemas.faults import EngramqError, FaultCode, invalid, refuse
from engramq.schemas.ids import format_time, parse_uuid
from engramq.schemas.records import Memory, MemoryPreview
from engramq.schemas.vocabulary import AuditAction, CitationState, Partition
from engramq.workers.db import audit
from engramq.workers.db.memory_rows import lock, read_memories
from engramq.workers.db.transaction import Jsonb, Row, Sent, Transaction
from engramq.workers.runner import Context, handles
from engramq.workers.trust import VOUCHED_FOR, require_editor

_GROUND: Final = "memory_id"
GivenCitations = tuple[Citation, ...] | UnsetType
_RECOVERY: Final = 'Have that one promoted first, or say verification="verified" if you vouch for this one yourself.'


class StillResting(TypedDict, total=False):
    """The fields of a reply that name what rests on a memory which holds no longer."""

    still_resting_on: list[MemoryPreview]
    still_resting_count: int


def find_cited(evidence: GivenCitations) -> dict[str, str]:
    """Return the ids of the memories that evidence cites, by where in it they stand."""
    citations = () if evidence is UNSET else evidence
    return {
        f"evidence[{index}].memory_id": citation.memory_id
        for index, citation in enumerate(citations)
        if citation.memory_id is not UNSET
    }


def grounds_of(evidence: Iterable[GivenCitations]) -> set[UUID]:
    """Return the memories that several memories' evidence cites.

    A caller that changes others too locks all of them at once.
    """
    return {known for given in evidence for text in find_cited(given).values() if (known := parse_uuid(text))}


async def known_grounds(tx: Transaction, evidence: Iterable[GivenCitations]) -> Mapping[UUID, Row]:
    """Return what is known of all memories that several memories' evidence cites, which stays so until the commit."""
    ids = grounds_of(evidence)
    if not ids:
        return {}
    await tx.send("lock_grounds", ids=sorted(ids))
    return {row["id"]: row for row in await tx.rows("grounds", ids=sorted(ids))}


def untrusted_ground(evidence: GivenCitations, known: Mapping[UUID, Row]) -> UUID | None:
    """Return the first untrusted memory that evidence cites, None where there is none.

    Raises EngramqError naming the citation of a memory that is missing, withdrawn, or not visible to the caller,
    without saying which.
    """
    untrusted: UUID | None = None
    for place, text in find_cited(evidence).items():
        memory_id = parse_uuid(text)
        row = None if memory_id is None else known.get(memory_id)
        if row is None or row["withdrawn"]:
            raise invalid("evidence", f"{place} is no memory that can be cited.", "Cite one that get_memory finds.")
        if row["partition"] == Partition.UNTRUSTED and untrusted is None:
            untrusted = memory_id
    return untrusted


def refuse_trusted_on(ground: UUID) -> EngramqError:
    """Return the refusal of a memory that was to be trusted, and rests on this untrusted one."""
    error = f"A memory that rests on the untrusted memory {ground} is not trusted."
    return refuse(FaultCode.UNTRUSTED_SOURCE, error, recovery=_RECOVERY)


async def refuse_untrusted_ground(
    tx: Transaction, row: Row, evidence: GivenCitations, kept: Sequence[Mapping[str, object]]
) -> None:
    """Raise EngramqError where a locked memory of this row, trusted or vouched for, would get an untrusted ground.

    A memory that it cites already (`kept`) may have gone meanwhile, and is no reason to refuse other changes. Raises as
    `untrusted_ground` does, too.
    """
    before = {citation.get("memory_id") for citation in kept}
    added = tuple(citation for citation in evidence or () if citation.memory_id not in before)
    ground = untrusted_ground(added, await known_grounds(tx, [added]))
    is_trusted = row["partition"] == Partition.TRUSTED or row["verification"] in VOUCHED_FOR
    if is_trusted and ground is not None:
        raise refuse_trusted_on(ground)


async def still_resting(tx: Transaction, ids: Collection[UUID]) -> StillResting:
    """Return what a reply says of what rests on memories that hold no longer; nothing where nothing does."""
    return name_rows_resting(await (await send_resting(tx, ids)).fetchall())


async def send_resting(tx: Transaction, ids: Collection[UUID]) -> Sent:
    """Ask what rests on memories; `name_rows_resting` reads the rows."""
    await tx.send("plan_anew")  # a kept plan would read all that a tenant has evidence of
    sent = await tx.send("resting_on", ids=sorted(ids), limit=limits.RESTING_SHOWN)
    await tx.send("plan_as_before")
    return sent


def name_rows_resting(rows: Sequence[Row]) -> StillResting:
    """Return what a reply says of these rows."""
    return name_resting([row["id"] for row in rows], rows[0]["resting"] if rows else 0)


def name_resting(ids: Iterable[UUID], count: int) -> StillResting:
    """Return what a reply says of them; previews are read later: see workers/replies.py."""
    named = [MemoryPreview(id=str(memory_id), preview=None) for memory_id in ids]
    return StillResting(still_resting_on=named, still_resting_count=count) if named else StillResting()


async def mark_grounds(tx: Transaction, memories: Iterable[Memory | None]) -> None:
    """Say beside each memory that memories cite whether it holds: fresh, changed (replaced, ended) or gone."""
    citing = [
        memory for memory in memories if memory is not None and any(_GROUND in citation for citation in memory.evidence)
    ]
    ids = {str(citation[_GROUND]) for memory in citing for citation in memory.evidence if _GROUND in citation}
    if not ids:
        return
    known = {str(row["id"]): row for row in await tx.rows("grounds", ids=sorted(map(UUID, ids)))}
    for memory in citing:
        memory.evidence = [
            {**as_cited(citation), "state": _state_of(known.get(citation[_GROUND])).value}
            if _GROUND in citation
            else citation
            for citation in memory.evidence
        ]


def _state_of(row: Row | None) -> CitationState:
    if row is None or row["withdrawn"]:
        return CitationState.GONE
    return CitationState.CHANGED if row["ended"] else CitationState.FRESH


@handles(ReportEvidence)
async def report_evidence(tx: Transaction, command: ReportEvidence, context: Context) -> EvidenceReported:
    """Keep the states of citations that are still as they were read; those that are what is kept already write nothing.

    So the time and the name that stand there are of who first found it so. Nothing is kept for an untrusted memory: its
    author would learn whether a file is as they guessed.
    """
    require_editor(context.envelope.principal)
    found = {known: memory for memory in command.found if (known := parse_uuid(memory.memory_id)) is not None}
    rows = await lock(tx, *found)
    memories = await read_memories(tx, list(rows))
    at, by = format_time(datetime.now(UTC)), context.envelope.principal.name
    changed = missed = 0
    for memory_id, checked in found.items():
        is_trusted = memory_id in memories and memories[memory_id].partition == Partition.TRUSTED
        kept = memories[memory_id].evidence if is_trusted else []
        if [as_cited(each.as_kept) for each in checked.evidence] != [as_cited(dict(each)) for each in kept]:
            missed += 1
            continue
        told = [_add_state(before, each, at, by) for before, each in zip(kept, checked.evidence, strict=True)]
        if told == kept:
            continue
        changed += 1
        await tx.send("keep_found", id=memory_id, evidence=Jsonb(told))
        old, new = ({"states": [cited.get("state") for cited in several]} for several in (kept, told))
        await audit.record(tx, context.envelope, AuditAction.CHECK_EVIDENCE, memory_id, old=old, new=new)
    return EvidenceReported(changed_count=changed, missed_count=missed + len(command.found) - len(found))


def _add_state(kept: dict[str, Any], checked: CheckedCitation, at: str, by: str) -> dict[str, Any]:
    """Return a citation with the state that was found; the state of a memory is read now, and never stored."""
    if checked.state is UNSET or checked.memory_id is not UNSET or kept.get("state") == checked.state:
        return kept
    return {**as_cited(kept), "state": checked.state.value, "checked_at": at, "checked_by": by}
