"""Record what came of using memories: it moves their usefulness, and links those that helped together."""

import dataclasses
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Final
from uuid import UUID

from engramq.schemas.commands import OutcomeRecorded, RecordOutcome
from engramq.schemas.envelope import Envelope
from engramq.schemas.fields import or_none
from engramq.schemas.ids import Pair, pair_of, parse_uuid
from engramq.schemas.records import SkippedMemory, UsefulMemory
from engramq.schemas.vocabulary import LINK_WEIGHTS, AuditAction, Linkability, Origin, PairSkipped, Relation
from engramq.workers.db import audit
from engramq.workers.db.memory_rows import usefulness
from engramq.workers.db.transaction import Transaction
from engramq.workers.links.rules import LinkRules, raise_weight, round_weight
from engramq.workers.links.snapshot import LinkTable
from engramq.workers.links.writer import AutomaticLink, add_automatic
from engramq.workers.runner import Context, handles
from engramq.workers.trust import require_trusted

HELPED: Final = 0.5  # memories of a signal above this are linked
RAISE: Final = 0.10  # what a signal of 1 adds to the weight of a link that is there


@dataclass(slots=True)
class Linked:
    """The outcome for the pairs of memories that helped together."""

    created: set[Pair] = field(default_factory=set)
    reinforced: set[Pair] = field(default_factory=set)
    skipped: Counter[str] = field(default_factory=Counter)  # by PairSkipped


@handles(RecordOutcome, by_keys=True)
async def record_outcome(tx: Transaction, command: RecordOutcome, context: Context) -> OutcomeRecorded:
    """Note how much memories helped. Pending ones are counted too, but not linked."""
    require_trusted(context.envelope.principal, "not record outcomes")
    given = list(dict.fromkeys(parse_uuid(text) or text for text in command.memory_ids))
    ids = [given_id for given_id in given if isinstance(given_id, UUID)]
    linking = command.signal > HELPED
    pairs = [pair_of(first, second) for first, second in combinations(ids, 2)] if linking else []
    table = await LinkTable.open(tx, ids, changing=pairs, making=pairs)
    linkability = {
        given_id: table.linkability(given_id) if isinstance(given_id, UUID) else Linkability.NOT_FOUND
        for given_id in given
    }
    counted = [memory_id for memory_id in ids if linkability[memory_id] in {Linkability.ACTIVE, Linkability.PENDING}]
    linked = _link(table, counted, command.signal, context.services[LinkRules]) if linking else Linked()
    await table.save()
    return OutcomeRecorded(
        updated=await _add(tx, command, context.envelope, counted),
        edges_created=len(linked.created),
        edges_reinforced=len(linked.reinforced),
        edges_skipped=linked.skipped.total(),
        edges_skipped_by=dict(linked.skipped),
        skipped=[
            SkippedMemory(memory_id=str(given_id), reason=linkability[given_id])
            for given_id in given
            if given_id not in counted
        ],
    )


def _link(table: LinkTable, helpful: Sequence[UUID], signal: float, rules: LinkRules) -> Linked:
    """Link memories that helped together, in the order in which they were given; what has no room is left out."""
    linked = Linked()
    for source, target in combinations(helpful, 2):
        pair = pair_of(source, target)
        existing = table.link(pair)
        if Linkability.PENDING in (table.linkability(source), table.linkability(target)):
            linked.skipped[PairSkipped.PENDING.value] += 1
        elif table.partition(source) is not table.partition(target):
            # A promotion may have left it behind: an untrusted memory boosts no trusted one.
            linked.skipped[PairSkipped.PARTITIONS.value] += 1
        elif existing is not None:
            weight, count = raise_weight(existing.weight, signal * RAISE), existing.reinforcement_count + 1
            table.put(dataclasses.replace(existing, weight=weight, reinforcement_count=count))
            linked.reinforced.add(pair)
        else:
            weight = round_weight(signal * LINK_WEIGHTS[Relation.OUTCOME])
            wanted = AutomaticLink(source, target, Relation.OUTCOME.value, weight, Origin.OUTCOME)
            if add_automatic(table, wanted, rules.cap):
                linked.created.add(pair)
            else:
                why = PairSkipped.DISCONNECTED if table.is_buried(pair) else PairSkipped.NO_ROOM
                linked.skipped[why.value] += 1
    # A link that was reinforced first may have had to make room for a later one.
    linked.reinforced = {pair for pair in linked.reinforced if table.link(pair) is not None}
    return linked


async def _add(tx: Transaction, command: RecordOutcome, envelope: Envelope, ids: Sequence[UUID]) -> list[UsefulMemory]:
    """Add the signal to locked memories; return their usefulness now."""
    if not ids:
        return []
    helped, hindered = command.signal * command.weight, (1 - command.signal) * command.weight
    added = await tx.send("add_outcome", ids=sorted(ids), helped=helped, hindered=hindered)
    confidences = {row["id"]: row["confidence"] for row in await tx.rows("confidences", ids=list(ids))}
    now = {
        row["id"]: usefulness(confidences[row["id"]], row["helped"], row["hindered"]) for row in await added.fetchall()
    }
    for memory_id in ids:
        new = {"signal": command.signal, "weight": command.weight, "usefulness": now[memory_id]}
        note = or_none(command.note)
        await audit.record(tx, envelope, AuditAction.OUTCOME, memory_id, old={}, new=new, reason=note)
    return [UsefulMemory(memory_id=str(memory_id), usefulness=now[memory_id]) for memory_id in ids]
