"""Links between memories: what agents assert, and what automatic writers may add. No end ever has more than the cap.

deferred.py settles links that wait for a pending end; disconnect.py removes links. `make_room_again` keeps the cap when
a memory comes back.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, NoReturn, Self
from uuid import UUID

import msgspec
from msgspec import UNSET

from engramq.schemas import limits
from engramq.schemas.commands import BatchConnected, BatchLink, BatchLinked, BatchRefusal, Connects, LinkRequest
from engramq.schemas.envelope import Envelope, Principal
from engramq.schemas.faults import EngramqError, Fault, FaultCode, refuse
from engramq.schemas.ids import parse_uuid, uuid7
from engramq.schemas.vocabulary import AuditAction, LinkAction, Origin, Partition, Standing
from engramq.workers.db.errors import Again
from engramq.workers.db.json_values import Jsonb
from engramq.workers.db.memory_rows import lock
from engramq.workers.db.queries import sql
from engramq.workers.db.transaction import Row, Transaction
from engramq.workers.links.replies import Asserted, audit_asserted, connected
from engramq.workers.links.rules import (
    Displaced,
    Full,
    Link,
    LinkRules,
    Pair,
    asserted_again,
    asserted_link,
    displacement,
    pair_of,
)
from engramq.workers.links.snapshot import LinkTable, columns_of
from engramq.workers.links.standing import not_active

REMOVE_TOMBSTONES: Final = sql("remove_tombstones")
WAITING_AT: Final = sql("waiting_at")
INSERT_DEFERRED: Final = sql("insert_deferred")

WAITING: Final = "Call again once the memory is active. Or disconnect removes links that wait for it."


class Ends(NamedTuple):
    """The two memories of a request, as the caller ordered them."""

    source: UUID
    target: UUID

    @property
    def pair(self) -> Pair:
        """The two as a link of theirs is stored."""
        return pair_of(self.source, self.target)


class AutomaticLink(NamedTuple):
    """A link that no agent asserts, to be made if there is none yet and there is room."""

    source: UUID
    target: UUID
    relation: str
    weight: float
    origin: Origin

    @property
    def pair(self) -> Pair:
        """The two ends as the link is stored."""
        return pair_of(self.source, self.target)


@dataclass(slots=True)
class AutomaticWritten:
    """What became of automatic links: made, there already (in whatever relation), or left out."""

    created: list[AutomaticLink] = field(default_factory=list)
    existing: list[AutomaticLink] = field(default_factory=list)
    skipped: list[AutomaticLink] = field(default_factory=list)


def ends_of(request: LinkRequest) -> Ends:
    """Return the ends of a request; raises EngramqError: `self_loop`, `memory_not_active`, `invalid_parameter`."""
    request.check()
    source, target = parse_uuid(request.source), parse_uuid(request.target)
    if source is None or target is None:
        raise not_active(request.source if source is None else request.target, Standing.NOT_FOUND)
    if source == target:
        raise refuse(FaultCode.SELF_LOOP, "A memory cannot be linked to itself.")
    return Ends(source, target)


async def assert_one(tx: Transaction, request: LinkRequest, *, envelope: Envelope, rules: LinkRules) -> Asserted:
    """Carry an agent's request out, audited as `envelope`'s.

    With a pending end the request is kept until it is settled. Raises EngramqError with nothing written: `self_loop`,
    `memory_not_active`, `untrusted_link`, `forbidden`, `edge_exists`, `relation_conflict`, `degree_limit`.
    """
    writer = await Asserting.open(tx, [ends_of(request)], rules)
    asserted = writer.add(request, envelope)
    await writer.save()
    return asserted


class Asserting:
    """Requests of an agent, one after the other in one transaction; each sees what those before it did.

    `save` writes all that was not refused.
    """

    def __init__(self, table: LinkTable, waiting: Counter[UUID], rules: LinkRules) -> None:
        self.table = table
        self._waiting, self._rules = waiting, rules
        self._asserted: list[tuple[Asserted, Envelope, AuditAction]] = []
        self._deferred: list[tuple[Ends, LinkRequest, Envelope, int | None]] = []

    @classmethod
    async def open(cls, tx: Transaction, several: Iterable[Ends], rules: LinkRules) -> Self:
        """Lock all memories that the requests will name, and read their links."""
        pairs = list(dict.fromkeys(ends.pair for ends in several))
        ids = {end for pair in pairs for end in pair}
        table = await LinkTable.open(tx, ids, changing=pairs)
        await table.look_up_replacements()
        pending = [one for one in ids if table.standing(one) is Standing.PENDING]
        rows = await tx.rows(WAITING_AT, ids=pending) if pending else []
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

        Raises what `assert_one` raises, and then it has changed nothing.
        """
        ends = ends_of(request)
        may_link(self.table, ends, envelope.principal)
        if Standing.PENDING in (self.table.standing(end) for end in ends):
            return self._defer(ends, request, envelope, item)
        existing, untrusted = self.table.link(ends.pair), self.table.is_untrusted(ends)
        if existing is None:
            link = asserted_link(UUID(uuid7()), *ends, request)
            displaced = make_room(self.table, ends.pair, self._rules.cap)
            made = Asserted(*ends, LinkAction.CREATED, link, None, displaced, untrusted)
        else:
            # Of an untrusted link the relation may be anybody's text, and a refusal carries no warning.
            done = asserted_again(existing, request, self._rules.delta, quoted=not untrusted)
            made = Asserted(*ends, *done, existing, untrusted=untrusted)
        if made.action is not LinkAction.SKIPPED:
            self.table.put(made.link, by=envelope.principal.name)
        self._asserted.append((made, envelope, action))
        return made

    async def save(self) -> None:
        """Write what has been asserted, with its audit rows."""
        tx = self.table.tx
        await self.table.save()
        created = [one.link.pair for one, _, _ in self._asserted if one.action is LinkAction.CREATED]
        if created:
            await tx.send(REMOVE_TOMBSTONES, **columns_of(created))
        for ends, request, envelope, item in self._deferred:
            await tx.send(
                INSERT_DEFERRED,
                id=UUID(uuid7()),
                source=ends.source,
                target=ends.target,
                request=Jsonb(_said(request)),
                principal=Jsonb(msgspec.to_builtins(envelope.principal)),
                command_id=UUID(envelope.id),
                item=item,
            )
        for one, envelope, action in self._asserted:
            if one.action is not LinkAction.SKIPPED or action is not AuditAction.CONNECT:
                await audit_asserted(tx, envelope, action, one)

    def _defer(self, ends: Ends, request: LinkRequest, envelope: Envelope, item: int | None) -> Asserted:
        pending = [end for end in ends if self.table.standing(end) is Standing.PENDING]
        for end in pending:
            if self._waiting[end] >= limits.DEFERRED_LINKS:
                error = f"{limits.DEFERRED_LINKS} links wait for memory {end} already."
                raise refuse(FaultCode.DEGREE_LIMIT, error, recovery=WAITING, memory_id=str(end))
        self._waiting.update(pending)
        self._deferred.append((ends, request, envelope, item))
        link, untrusted = asserted_link(UUID(uuid7()), *ends, request), self.table.is_untrusted(ends)
        return Asserted(*ends, LinkAction.DEFERRED, link, None, untrusted=untrusted)


async def write_automatic(tx: Transaction, wanted: Sequence[AutomaticLink], *, rules: LinkRules) -> AutomaticWritten:
    """Make those of these links that may be made, the heaviest first; nothing is refused, only left out.

    Left out are pairs that somebody took away, that are not both active and of one partition, and those without room:
    such a link takes the place only of a lighter one that no agent asserted.
    """
    written = AutomaticWritten()
    if not wanted:
        return written
    pairs = list(dict.fromkeys(one.pair for one in wanted))
    table = await LinkTable.open(tx, {end for pair in pairs for end in pair}, making=pairs)
    for one in sorted(wanted, key=lambda one: (-one.weight, one.pair)):
        if table.link(one.pair) is not None:
            written.existing.append(one)
        elif add_automatic(table, one, rules.cap):
            written.created.append(one)
        else:
            written.skipped.append(one)
    await table.save()
    return written


def add_automatic(table: LinkTable, wanted: AutomaticLink, cap: int) -> bool:
    """Add a link where there is none, if it may be; say whether it was added."""
    source, target = wanted.source, wanted.target
    if source == target or {table.standing(source), table.standing(target)} != {Standing.ACTIVE}:
        return False
    if table.partition(source) != table.partition(target) or table.is_buried(wanted.pair):
        return False
    going = room_for(table, wanted.pair, cap, lighter_than=wanted.weight)
    if isinstance(going, Full):
        return False
    for one in going:
        table.remove(one.link)
    table.put(
        Link(
            id=UUID(uuid7()),
            pair=wanted.pair,
            declared_from=source,
            relation=wanted.relation,
            weight=wanted.weight,
            origin=wanted.origin,
        )
    )
    return True


def room_for(table: LinkTable, pair: Pair, cap: int, *, lighter_than: float = math.inf) -> list[Displaced] | Full:
    """Return which links have to go for one more at both of these ends."""
    held = {end: table.counting(end) for end in pair}
    return displacement(held, dict.fromkeys(held, cap - 1), lighter_than=lighter_than)


def make_room(table: LinkTable, pair: Pair, cap: int) -> list[Displaced]:
    """Remove what has to go for one more link at both of these ends; raises EngramqError with `degree_limit`."""
    going = room_for(table, pair, cap)
    if isinstance(going, Full):
        raise over_cap(going.end, cap)
    for one in going:
        table.remove(one.link)
    return going


def may_link(table: LinkTable, ends: Ends, principal: Principal) -> None:
    """Raise EngramqError when these memories, or these by this principal, cannot be linked, now or once active."""
    for end in ends:
        if table.standing(end) not in {Standing.ACTIVE, Standing.PENDING}:
            raise table.not_active(end)
    partitions = {table.partition(end) for end in ends}
    if len(partitions) > 1:
        error = f"Memories {ends.source} and {ends.target} are in different partitions."
        raise refuse(FaultCode.UNTRUSTED_LINK, error)
    if principal.untrusted and Partition.TRUSTED in partitions:
        raise refuse(FaultCode.FORBIDDEN, "An untrusted principal may link untrusted memories only.")


def over_cap(memory_id: UUID, cap: int) -> EngramqError:
    """Return the refusal of a memory whose links may not make room."""
    error = f"Memory {memory_id} is at the cap of {cap} links, and too few of them may be displaced."
    return refuse(FaultCode.DEGREE_LIMIT, error, memory_id=str(memory_id))


def _said(request: LinkRequest) -> dict[str, Any]:
    """Return what a request says besides its ends."""
    given = {name: getattr(request, name) for name in ("relation", "weight", "note", "if_exists")}
    return {name: value for name, value in given.items() if value is not UNSET}


async def assert_all(tx: Transaction, command: Connects, *, envelope: Envelope, rules: LinkRules) -> BatchConnected:
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


LINKED_WITH: Final = sql("linked_with")


async def lock_with_linked(tx: Transaction, memory_id: UUID) -> Row | None:
    """Lock a memory, all that it has links with, and what replaced it, in canonical order; None when it is not there.

    What brings a memory back does this first, then its change, then `make_room_again`. Raises Again when there were
    more of them by the time of the lock.
    """
    seen = await _linked_with(tx, memory_id)
    rows = await lock(tx, memory_id, *seen)
    row = rows.get(memory_id)
    if row is not None and not await _linked_with(tx, memory_id) <= seen:
        raise Again
    return row


async def make_room_again(tx: Transaction, memory_id: UUID, rules: LinkRules) -> list[Displaced]:
    """Remove links so that nobody is above the cap now that a memory, locked with what it is linked with, is back.

    Where one of the others is full the link between both goes if it may, else that one's weakest. Who was above the cap
    before is only kept from getting more. Raises EngramqError with `degree_limit` when too few links may go; the
    memory cannot come back then.
    """
    linked = await _linked_with(tx, memory_id)
    table = await LinkTable.open(tx, {memory_id, *linked})
    if table.standing(memory_id) is not Standing.ACTIVE:
        return []
    others = [one for one in table.neighbors(memory_id) if table.standing(one) is Standing.ACTIVE]
    links = {one: table.counting(one) for one in (*sorted(others), memory_id)}
    keep = {one: max(rules.cap, len(links[one]) - 1) for one in others} | {memory_id: rules.cap}
    going = displacement(links, keep, first_of=memory_id)
    if isinstance(going, Full):
        raise over_cap(going.end, rules.cap)
    for one in going:
        table.remove(one.link)
    await table.save()
    return going


async def _linked_with(tx: Transaction, memory_id: UUID) -> set[UUID]:
    return {row["id"] for row in await tx.rows(LINKED_WITH, id=memory_id)}
