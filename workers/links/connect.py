"""Connect memories: links that an agent asserts, now or once both ends are active, alone or many at once."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Self
from uuid import UUID

import msgspec
from msgspec import UNSET

from engramq.schemas import limits
from engramq.schemas.commands import (
    BatchConnected,
    BatchLink,
    BatchLinked,
    BatchRefusal,
    Connect,
    Connected,
    Connects,
    LinkRequest,
)
from engramq.schemas.envelope import Envelope, Principal
from engramq.schemas.faults import EngramqError, Fault, FaultCode, refuse
from engramq.schemas.ids import Pair, pair_of, parse_uuid, uuid7
from engramq.schemas.vocabulary import AuditAction, Linkability, LinkAction, Partition
from engramq.workers.db import audit
from engramq.workers.db.memory_rows import warn_of
from engramq.workers.db.transaction import Jsonb, Transaction
from engramq.workers.links.rules import Displaced, LinkRules, StoredLink, assert_again, assert_new
from engramq.workers.links.snapshot import LinkTable, columns_of_pairs, not_active
from engramq.workers.links.writer import audit_displaced, make_room, record_displaced
from engramq.workers.runner import Context, handles
from engramq.workers.trust import require_trusted_with

WAITING: Final = "Call again once the memory is active. Or disconnect removes links that wait for it."


class OrderedPair(NamedTuple):
    """The two memories of a request, as the caller ordered them."""

    source: UUID
    target: UUID

    @property
    def pair(self) -> Pair:
        """The two as a link of theirs is stored."""
        return pair_of(self.source, self.target)


@dataclass(frozen=True, slots=True)
class Asserted:
    """The effect of an agent's request on a link. `before`: the link as it was, None when it was not there.

    `untrusted`: an end of it is.
    """

    source: UUID
    target: UUID
    action: LinkAction
    link: StoredLink
    before: StoredLink | None
    displaced: Sequence[Displaced] = ()
    untrusted: bool = False


@handles(Connect, by_keys=True)
async def connect(tx: Transaction, command: Connect, context: Context) -> Connected:
    """Assert that two memories are related."""
    return await assert_link(tx, command, envelope=context.envelope, rules=context.services[LinkRules])


async def assert_link(tx: Transaction, request: LinkRequest, *, envelope: Envelope, rules: LinkRules) -> Connected:
    """Carry an agent's request out, audited as `envelope`'s.

    With a pending end the request is kept until it is settled. Raises EngramqError with nothing written: `self_loop`,
    `memory_not_active`, `untrusted_link`, `forbidden`, `edge_exists`, `relation_conflict`, `degree_limit`.
    """
    writer = await LinkWriter.open(tx, [ends_of(request)], rules)
    asserted = writer.add(request, envelope)
    await writer.save()
    return describe_connected(asserted)


class LinkWriter:
    """Requests of an agent, one after the other in one transaction; each sees what those before it did.

    `save` writes all that was not refused.
    """

    def __init__(self, table: LinkTable, waiting: Counter[UUID], rules: LinkRules) -> None:
        self.table = table
        self._waiting, self._rules = waiting, rules
        self._asserted: list[tuple[Asserted, Envelope, AuditAction]] = []
        self._deferred: list[tuple[OrderedPair, LinkRequest, Envelope, int | None]] = []

    @classmethod
    async def open(cls, tx: Transaction, several: Iterable[OrderedPair], rules: LinkRules) -> Self:
        """Lock all memories that the requests will name, and read their links."""
        pairs = list(dict.fromkeys(ends.pair for ends in several))
        ids = {end for pair in pairs for end in pair}
        table = await LinkTable.open(tx, ids, changing=pairs)
        await table.look_up_replacements()
        pending = [end for end in ids if table.linkability(end) is Linkability.PENDING]
        rows = await tx.rows("waiting_at", ids=pending) if pending else []
        return cls(table, Counter({row["id"]: row["links"] for row in rows}), rules)

    def add(
        self,
        request: LinkRequest,
        envelope: Envelope,
        *,
        item: int | None = None,
        action: AuditAction = AuditAction.CONNECT,
    ) -> Asserted:
        """Carry out a request of an envelope, `item` of its batch; it will be audited as `action`.

        Raises what `assert_link` raises, and then it has changed nothing.
        """
        ends = ends_of(request)
        untrusted = require_linkable(self.table, ends, envelope.principal) is Partition.UNTRUSTED
        existing = self.table.link(ends.pair)
        if pending := [end for end in ends if self.table.linkability(end) is Linkability.PENDING]:
            self._defer(pending, ends, request, envelope, item)
            link = assert_new(UUID(uuid7()), *ends, request)
            return Asserted(*ends, LinkAction.DEFERRED, link, None, untrusted=untrusted)
        if existing is None:
            link = assert_new(UUID(uuid7()), *ends, request)
            displaced = make_room(self.table, ends.pair, self._rules.cap)
            asserted = Asserted(*ends, LinkAction.CREATED, link, None, displaced, untrusted)
        else:
            # The relation of an untrusted link may be anybody's text, and a refusal carries no warning.
            done = assert_again(existing, request, self._rules.delta, quoted=not untrusted)
            asserted = Asserted(*ends, *done, existing, untrusted=untrusted)
        if asserted.action is not LinkAction.SKIPPED:
            self.table.put(asserted.link, by=envelope.principal.name)
        self._asserted.append((asserted, envelope, action))
        return asserted

    async def save(self) -> None:
        """Write what has been asserted, with its audit rows."""
        tx = self.table.tx
        await self.table.save()
        created = [asserted.link.pair for asserted, _, _ in self._asserted if asserted.action is LinkAction.CREATED]
        if created:
            await tx.send("remove_tombstones", **columns_of_pairs(created))
        for ends, request, envelope, item in self._deferred:
            given = {name: getattr(request, name) for name in ("relation", "weight", "note", "if_exists")}
            await tx.send(
                "insert_deferred",
                id=UUID(uuid7()),
                source=ends.source,
                target=ends.target,
                request=Jsonb({name: value for name, value in given.items() if value is not UNSET}),
                principal=Jsonb(msgspec.to_builtins(envelope.principal)),
                command_id=UUID(envelope.id),
                item=item,
            )
        for asserted, envelope, action in self._asserted:
            if asserted.action is not LinkAction.SKIPPED or action is not AuditAction.CONNECT:
                await _audit(tx, envelope, action, asserted)

    def _defer(
        self, pending: Sequence[UUID], ends: OrderedPair, request: LinkRequest, envelope: Envelope, item: int | None
    ) -> None:
        for end in pending:
            if self._waiting[end] >= limits.DEFERRED_LINKS:
                error = f"{limits.DEFERRED_LINKS} links wait for memory {end} already."
                raise refuse(FaultCode.DEGREE_LIMIT, error, recovery=WAITING, memory_id=str(end))
        self._waiting.update(pending)
        self._deferred.append((ends, request, envelope, item))


def ends_of(request: LinkRequest) -> OrderedPair:
    """Return the ends of a request; raises EngramqError: `self_loop`, `memory_not_active`, `invalid_parameter`."""
    request.check()
    source, target = parse_uuid(request.source), parse_uuid(request.target)
    if source is None or target is None:
        raise not_active(request.source if source is None else request.target, Linkability.NOT_FOUND)
    if source == target:
        raise refuse(FaultCode.SELF_LOOP, "A memory cannot be linked to itself.")
    return OrderedPair(source, target)


def require_linkable(table: LinkTable, ends: OrderedPair, principal: Principal) -> Partition:
    """Return the partition of two memories that this principal may link, now or once both are active.

    Raises EngramqError when they cannot be linked.
    """
    for end in ends:
        if table.linkability(end) not in {Linkability.ACTIVE, Linkability.PENDING}:
            raise table.not_active(end)
    partition, other = (table.partition(end) for end in ends)
    if partition is not other:
        error = f"Memories {ends.source} and {ends.target} are in different partitions."
        raise refuse(FaultCode.UNTRUSTED_LINK, error)
    require_trusted_with(principal, (partition,), "link")
    return partition


_DONE: Final = {
    LinkAction.CREATED: "Linked {0} and {1} as {2!r} (weight {3:.2f})",
    LinkAction.REINFORCED: "Reinforced the link {2!r} between {0} and {1} (weight {3:.2f})",
    LinkAction.UPDATED: "Updated the link between {0} and {1}: {2!r} (weight {3:.2f})",
    LinkAction.SKIPPED: "Left the link {2!r} between {0} and {1} as it is (weight {3:.2f})",
    LinkAction.DEFERRED: "The link {2!r} between {0} and {1} waits until both are active",
}


def describe_connected(asserted: Asserted) -> Connected:
    """Return the answer to a request: what is stored, ends in the caller's order."""
    displaced = [record_displaced(displaced) for displaced in asserted.displaced]
    link, count = asserted.link, len(displaced)
    done = _DONE[asserted.action].format(asserted.source, asserted.target, str(link.relation), link.weight)
    return Connected(
        action=asserted.action,
        source_id=str(asserted.source),
        target_id=str(asserted.target),
        relation=str(link.relation),
        weight=link.weight,
        note=link.note,
        reinforcement_count=link.reinforcement_count,
        displaced_edge=displaced[0] if displaced else None,
        displaced_edges=displaced,
        summary=done + (f"; {count} weaker {'link' if count == 1 else 'links'} made room." if count else "."),
        **warn_of(asserted.untrusted),
    )


async def _audit(tx: Transaction, envelope: Envelope, action: AuditAction, asserted: Asserted) -> None:
    old = {} if asserted.before is None else link_for_audit(asserted.before)
    ends = {"source_id": str(asserted.source), "target_id": str(asserted.target)}
    new: dict[str, Any] = {"action": asserted.action, **ends, **link_for_audit(asserted.link)}
    if asserted.displaced:
        new["displaced"] = audit_displaced(asserted.displaced)
    await audit.record(tx, envelope, action, asserted.link.id, old=old, new=new)


def link_for_audit(link: StoredLink) -> dict[str, Any]:
    """Return a link as the audit log keeps it: of a note, which may say what a memory says, only a digest."""
    kept = {name: getattr(link, name) for name in ("relation", "weight", "origin", "reinforcement_count")}
    return kept if link.note is None else {**kept, "note_sha256": hashlib.sha256(link.note.encode()).hexdigest()}


_SHARED: Final = tuple(name for name in BatchLinked.__struct_fields__ if name not in {"index", "resolved"})
_REFUSED: Final = tuple(name for name in BatchRefusal.__struct_fields__ if name != "index")


@handles(Connects, by_keys=True)
async def connect_all(tx: Transaction, command: Connects, context: Context) -> BatchConnected:
    """Carry out requests in their order; raises the first refusal, naming its index, when all or none are wanted."""
    ends = [_ends_or_fault(item) for item in command.edges]
    results: list[BatchLinked] = []
    errors: list[BatchRefusal] = []
    known_ends = [pair for pair in ends if isinstance(pair, OrderedPair)]
    writer = await LinkWriter.open(tx, known_ends, context.services[LinkRules])
    for index, (item, pair) in enumerate(zip(command.edges, ends, strict=True)):
        try:
            if isinstance(pair, Fault):
                raise EngramqError(pair)
            reply = describe_connected(writer.add(item, context.envelope, item=index))
        except EngramqError as refusal:
            fault = refusal.fault
            if command.atomic:
                error = f"Nothing was written, since edges[{index}]: {fault.error}"
                raise EngramqError(msgspec.structs.replace(fault, error=error)) from None
            errors.append(BatchRefusal(index=index, **{name: getattr(fault, name) for name in _REFUSED}))
        else:
            results.append(BatchLinked(index=index, **{name: getattr(reply, name) for name in _SHARED}))
    await writer.save()
    counts = Counter(result.action for result in results)
    by_action: dict[str, Any] = {action.value: counts[action] for action in LinkAction}
    words = [f"{counts[action]} {action.value}" for action in LinkAction if counts[action]]
    words += [f"{len(errors)} refused"] if errors else []
    return BatchConnected(
        results=results,
        **by_action,
        errors=errors,
        summary=f"Links: {', '.join(words)}." if words else "No links were given.",
    )


def _ends_or_fault(item: BatchLink) -> OrderedPair | Fault:
    if item.fault is not UNSET:
        return item.fault
    try:
        return ends_of(item)
    except EngramqError as refusal:
        return refusal.fault
