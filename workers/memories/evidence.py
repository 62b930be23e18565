"""Keep what comparisons find of the files that memories cite: who compares is where the files are."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from msgspec import UNSET

from engramq.schemas.commands import EvidenceReported, ReportEvidence
from engramq.schemas.evidence import CheckedCitation, as_cited
from engramq.schemas.ids import format_time, parse_uuid
from engramq.schemas.vocabulary import AuditAction
from engramq.workers.db import audit
from engramq.workers.db.memory_rows import lock, read_memories
from engramq.workers.db.transaction import Jsonb, Transaction
from engramq.workers.memories.preconditions import require_trusted_principal
from engramq.workers.runner import Context, handles


@handles(ReportEvidence)
async def report_evidence(tx: Transaction, command: ReportEvidence, context: Context) -> EvidenceReported:
    """Keep the states of citations that are still as they were read; those that are what is kept already write nothing.

    So the time and the name that stand there are of who first found it so.
    """
    require_trusted_principal(context.envelope.principal)
    found = {known: memory for memory in command.found if (known := parse_uuid(memory.memory_id)) is not None}
    rows = await lock(tx, *found)
    memories = await read_memories(tx, list(rows))
    at, by = format_time(datetime.now(UTC)), context.envelope.principal.name
    changed = missed = 0
    for memory_id, checked in found.items():
        kept = memories[memory_id].evidence if memory_id in memories else []
        if not _is_of(checked.evidence, kept):
            missed += 1
            continue
        told = [_with_state(before, each, at, by) for before, each in zip(kept, checked.evidence, strict=True)]
        if told == kept:
            continue
        changed += 1
        await tx.send("keep_found", id=memory_id, evidence=Jsonb(told))
        old, new = ({"states": [cited.get("state") for cited in several]} for several in (kept, told))
        await audit.record(tx, context.envelope, AuditAction.CHECK_EVIDENCE, memory_id, old=old, new=new)
    return EvidenceReported(changed_count=changed, missed_count=missed + len(command.found) - len(found))


def _is_of(checked: Sequence[CheckedCitation], kept: Sequence[Mapping[str, Any]]) -> bool:
    """Say whether what was checked is what a memory cites now."""
    return [as_cited(each.as_kept) for each in checked] == [as_cited(dict(each)) for each in kept]


def _with_state(kept: dict[str, Any], checked: CheckedCitation, at: str, by: str) -> dict[str, Any]:
    """Return a citation with the state that was found; that of a memory is told as it is now, and never kept."""
    if checked.state is UNSET or checked.memory_id is not UNSET or kept.get("state") == checked.state:
        return kept
    return {**as_cited(kept), "state": checked.state.value, "checked_at": at, "checked_by": by}
