"""Many links at once: a bad one does not keep the others from being made, unless all or none are wanted."""

from collections import Counter
from typing import NoReturn

import msgspec
from msgspec import UNSET

from engramq.schemas.commands import BatchConnected, BatchLink, BatchLinked, BatchRefusal, Connects
from engramq.schemas.envelope import Envelope
from engramq.schemas.faults import EngramqError, Fault
from engramq.schemas.vocabulary import LinkAction
from engramq.workers.db.transaction import Transaction
from engramq.workers.links.replies import connected
from engramq.workers.links.rules import LinkRules
from engramq.workers.links.writer import Asserting, Ends, ends_of


async def connect_all(tx: Transaction, command: Connects, *, envelope: Envelope, rules: LinkRules) -> BatchConnected:
    """Carry out requests in their order; raises the first refusal, naming its index, when all or none are wanted."""
    ends = [_ends_of(item) for item in command.edges]
    results: list[BatchLinked] = []
    errors: list[BatchRefusal] = []
    writer = await Asserting.open(tx, [one for one in ends if isinstance(one, Ends)], rules)
    for index, (item, found) in enumerate(zip(command.edges, ends, strict=True)):
        try:
            if isinstance(found, Fault):
                raise EngramqError(found)
            made = connected(writer.add(item, envelope, item=index))
        except EngramqError as refusal:
            if command.atomic:
                _refuse_all(index, refusal.fault)
            errors.append(_refused(index, refusal.fault))
        else:
            fields = {name: getattr(made, name) for name in _SHARED}
            results.append(BatchLinked(index=index, **fields))
    await writer.save()
    counts = Counter(one.action for one in results)
    return BatchConnected(
        results=results,
        created=counts[LinkAction.CREATED],
        reinforced=counts[LinkAction.REINFORCED],
        updated=counts[LinkAction.UPDATED],
        skipped=counts[LinkAction.SKIPPED],
        deferred=counts[LinkAction.DEFERRED],
        errors=errors,
        summary=_summary(counts, len(errors)),
    )


_SHARED = tuple(name for name in BatchLinked.__struct_fields__ if name not in {"index", "resolved"})


def _ends_of(item: BatchLink) -> Ends | Fault:
    if item.fault is not UNSET:
        return item.fault
    try:
        return ends_of(item)
    except EngramqError as refusal:
        return refusal.fault


def _refuse_all(index: int, fault: Fault) -> NoReturn:
    raise EngramqError(
        msgspec.structs.replace(fault, error=f"Nothing was written, since edges[{index}]: {fault.error}")
    )


def _refused(index: int, fault: Fault) -> BatchRefusal:
    return BatchRefusal(
        index=index,
        code=fault.code,
        error=fault.error,
        recovery=fault.recovery,
        field=fault.field,
        memory_id=fault.memory_id,
    )


def _summary(counts: Counter[LinkAction], refused: int) -> str:
    done = [f"{counts[action]} {action.value}" for action in LinkAction if counts[action]]
    done += [f"{refused} refused"] if refused else []
    return f"Links: {', '.join(done)}." if done else "No links were given."
