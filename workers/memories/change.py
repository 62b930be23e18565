"""Change one memory: update, forget (archive or erase), restore, expire; name what stays hidden behind one that goes.

Reads hide what has expired at once, whether upkeep has been there or not: see the fragment `archived`.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from itertools import chain
from typing import Any, Final, TypedDict
from uuid import UUID

import msgspec
from msgspec import UNSET

from engramq.schemas import limits
from engramq.schemas.commands import ForgetMemory, Forgotten, MemoryChanged, Reply, RestoreMemory, UpdateMemory
from engramq.schemas.commands.changes import CHANGEABLE, describe_retagging
from engramq.schemas.digests import require_seen
from engramq.schemas.envelope import Envelope, Principal
from engramq.schemas.faults import invalid, missing
from engramq.schemas.fields import distinct_tags, refuse_backwards, tag_key
from engramq.schemas.ids import format_time, parse_uuid
from engramq.schemas.records import Memory, MemoryPreview
from engramq.schemas.setting_values import Retention
from engramq.schemas.vocabulary import (
    SYSTEM_PRINCIPAL,
    AuditAction,
    MemoryState,
    SectorSource,
    Thing,
    Visibility,
)
from engramq.workers.db import audit, namespaces
from engramq.workers.db.memory_rows import details_of, forget_erased, lock, read_memories
from engramq.workers.db.transaction import Jsonb, Row, Sent, Transaction
from engramq.workers.db.viewers import Viewer
from engramq.workers.links.rules import LinkRules
from engramq.workers.links.snapshot import replacements
from engramq.workers.links.writer import audit_displaced, lock_with_linked, make_room_again
from engramq.workers.memories import sharing, supersession
from engramq.workers.memories.grounds import grounds_of, name_rows_resting, refuse_untrusted_ground, send_resting
from engramq.workers.memories.preconditions import LOOK, require_look
from engramq.workers.memories.quotas import Allowance
from engramq.workers.memories.store import finishing
from engramq.workers.runner import Context, handles
from engramq.workers.trust import require_admin, require_editor

BEGINNING: Final = "valid_from"
# Values of these say nothing of what a memory contains, so the audit log may hold them.
_AUDITED: Final = (
    "sector", "sector_source", "standing", "confidence", "position", "valid_from", "valid_until", "expires_at"
)  # fmt: skip
_NOT_HIDDEN: Final = "It was neither archived nor replaced: nothing has changed."
_UNCHANGED: Final = "It is unchanged: it says all of this already."
HINT: Final = "The memories that it had replaced stay hidden: still_hidden. restore_memory brings back the right ones."
BEHIND_MAX: Final = 10_000  # that are named of one change
EXPIRED_AT_ONCE: Final = 100  # memories of one transaction, whose locks others wait for

Behind = Mapping[UUID, Sequence[UUID]]  # by memory, those that it had replaced


class StillHidden(TypedDict, total=False):
    """The fields of a reply that name what stays hidden."""

    still_hidden: list[MemoryPreview]
    hint: str


@handles(UpdateMemory, by_keys=True)
async def update_memory(tx: Transaction, command: UpdateMemory, context: Context) -> MemoryChanged:
    """Change what is said about a memory, or who sees it; its content stays. Without a change nothing is audited.

    Raises EngramqError with `conflict` as verdicts do, and what `sharing.show_to` raises.
    """
    require_editor(context.envelope.principal)
    memory_id = parse_uuid(command.memory_id)
    row = None if memory_id is None else await _lock(tx, memory_id, command)
    if row is None or memory_id is None:
        return MemoryChanged(status="not_found", **missing(Thing.MEMORY))
    before = (await read_memories(tx, (memory_id,)))[memory_id]
    require_seen(command.seen, before, context.envelope.principal, LOOK)
    given = {name: getattr(command, name) for name in CHANGEABLE if getattr(command, name) is not UNSET}
    if command.visibility is not UNSET:
        if command.visibility is Visibility.SHARED:
            require_look(row, command.seen)
        await sharing.show_to(tx, row, command.visibility, context.envelope)
    is_shown_anew = command.visibility is not UNSET and _is_seen_by(row) is not command.visibility
    notice = UNSET if is_shown_anew else _UNCHANGED
    if command.evidence is not UNSET:
        await refuse_untrusted_ground(tx, row, command.evidence, before.evidence)
    has_changed = (given or command.clear) and await _update(tx, row, before, command, given)
    after = await _read_for(tx, memory_id, command)
    if not has_changed:
        return MemoryChanged(status="updated", memory=after, notice=notice)
    if "standing" in command.cleared_fields() and after.state is MemoryState.ACTIVE:
        context.follow_ups = finishing(context.envelope.namespace, [after.id], [])  # its words decide again
    Allowance.of(tx, context).grow(before, after.content, after.metadata)
    old = {name: getattr(before, name) for name in _AUDITED if getattr(before, name) != getattr(after, name)}
    new: dict[str, Any] = {name: getattr(after, name) for name in old} | {"changed": sorted(given)}
    if command.clear:
        keys = {"metadata_keys": len(command.cleared_keys())} if command.cleared_keys() else {}
        new |= {"cleared": sorted(command.cleared_fields())} | keys  # the keys may say what metadata say
    said = _retagging(before.tags, after.tags)
    await audit.record(
        tx, context.envelope, AuditAction.UPDATE, memory_id, old=old, new=new, reason=said, owner=row["owner"]
    )
    return MemoryChanged(status="updated", memory=after)


def _is_seen_by(row: Row) -> Visibility:
    return Visibility.SHARED if row["owner"] is None else Visibility.PRIVATE


def _retagging(before: Sequence[str], after: Sequence[str]) -> str | None:
    """Return which tags came and went, None where none did.

    Tags are somebody's words: as a reason they go with the memory, and readers of the log can take the change back.
    """
    came, went = ([tag for tag in some if tag not in others] for some, others in ((after, before), (before, after)))
    return describe_retagging(came, went)


async def _lock(tx: Transaction, memory_id: UUID, command: UpdateMemory) -> Row | None:
    """Lock a memory with what an update of it changes or rests on besides, and return its row."""
    grounds = grounds_of([command.evidence])
    if command.visibility is UNSET and command.valid_from is UNSET and BEGINNING not in command.cleared_fields():
        return (await lock(tx, memory_id, *grounds)).get(memory_id)
    return (await supersession.lock_with_replaced(tx, memory_id, beside=grounds)).get(memory_id)


async def _read_for(tx: Transaction, memory_id: UUID, command: UpdateMemory) -> Memory:
    """Return a changed memory, with who sees it where that was said: that everybody does goes unsaid elsewhere."""
    memory = (await read_memories(tx, (memory_id,)))[memory_id]
    if command.visibility is not UNSET:
        memory.visibility = command.visibility
    return memory


async def _update(tx: Transaction, row: Row, memory: Memory, command: UpdateMemory, given: Mapping[str, Any]) -> bool:
    """Change a locked memory with this row, and say whether anything changed.

    Raises EngramqError naming what would be too large, or end backwards.
    """
    values: dict[str, Any] = {**dict.fromkeys(CHANGEABLE), **details_of(given)}
    cleared, keys = command.cleared_fields(), command.cleared_keys()
    if "metadata" in given:
        if not fits({name: value for name, value in memory.metadata.items() if name not in keys}, given["metadata"]):
            raise invalid("metadata", f"metadata: merged it would be more than {limits.METADATA_BYTES} bytes of JSON.")
        values["metadata"] = Jsonb(given["metadata"])
    removed = set(map(tag_key, command.remove_tags or ()))
    tags = distinct_tags((*(tag for tag in memory.tags if tag_key(tag) not in removed), *(command.add_tags or ())))
    if len(tags) > limits.TAGS:
        raise invalid("add_tags", f"add_tags: with those that are there it would be more than {limits.TAGS} tags.")
    values |= {"tags": tags or None, "retagged": bool({"add_tags", "remove_tags"} & given.keys())}
    values["sector_source"] = SectorSource.MANUAL if "sector" in given else None
    refuse_backwards_with(row, given, cleared)
    values["renamed"] = bool({"speaker", "occurred_at"} & {*given, *cleared})
    sent = await tx.send("update_memory", id=UUID(memory.id), cleared=list(cleared), keys=list(keys), **values)
    if await sent.fetchone() is None:
        return False
    await archive_if_expired(tx, row)
    if BEGINNING in {*given, *cleared}:
        await supersession.move_end(tx, UUID(memory.id))
    return True


def refuse_backwards_with(row: Row, given: Mapping[str, Any], cleared: Collection[str] = ()) -> None:
    """Raise EngramqError when a memory with this row would end before it begins once what is given is written.

    An end that it has by being replaced is nobody's word, and counts for nothing here.
    """
    names = (BEGINNING, "valid_until")
    if {*names} & given.keys():
        ends = {name: row[name] for name in names} | dict(given) | dict.fromkeys(cleared)
        refuse_backwards(*(ends[name] for name in names))


def fits(metadata: dict[str, Any], added: dict[str, Any]) -> bool:
    """Return whether metadata with others merged into them are within the limit."""
    return len(msgspec.json.encode({**metadata, **added})) <= limits.METADATA_BYTES


async def scrub_before(command: ForgetMemory, context: Context) -> str:
    """Return the content of a memory that is to be erased, taken out of whatever passes through Redis.

    Before the erasure: a worker that takes over in between no longer knows the content.
    """
    envelope, memory_id = context.envelope, parse_uuid(command.memory_id)
    require_editor(envelope.principal)
    if not command.erase or memory_id is None:
        return ""
    known = await context.store.read(envelope.namespace, lambda tx: tx.row("content_of", id=memory_id))
    if known is None:
        return ""
    _require_eraser(known, envelope.principal)
    await context.inspection.scrub(envelope.namespace, {str(memory_id): known["content"]})
    context.erased = content = str(known["content"])
    return content


async def scrub_after(_reply: Reply, command: ForgetMemory, context: Context) -> None:
    """Take an erased memory out of Redis once more: an answer may have been on its way."""
    memory_id = parse_uuid(command.memory_id)
    if command.erase and memory_id is not None:
        forget_erased((str(memory_id),))
        await context.inspection.scrub(context.envelope.namespace, {str(memory_id): context.erased})


@handles(ForgetMemory, before=scrub_before, after=scrub_after, by_keys=True)
async def forget_memory(tx: Transaction, command: ForgetMemory, context: Context, _content: str) -> Forgotten:
    """Archive a memory, or erase it for good."""
    memory_id = parse_uuid(command.memory_id)
    if memory_id is None:
        return Forgotten(status="not_found", id=command.memory_id, **missing(Thing.MEMORY))
    rows = await (supersession.lock_around if command.erase else lock)(tx, memory_id)
    row = rows.get(memory_id)
    if row is None:
        return Forgotten(status="not_found", id=str(memory_id), **missing(Thing.MEMORY))
    gone, resting = await _send_behind(tx, [memory_id]), await send_resting(tx, [memory_id])
    if command.erase:
        _require_eraser(row, context.envelope.principal)
        await supersession.require_all_locked(tx, rows, [memory_id])
    replaced = _read_behind(await gone.fetchall())
    if command.erase:
        await erase_locked(tx, {memory_id: row["superseded_by"] if row["superseded_by"] in rows else None})
        await audit.blank(tx, context.envelope, [memory_id])
        await _audit_state(tx, context.envelope, AuditAction.ERASE, row, {})
    elif row["kept_state"] != MemoryState.ARCHIVED:
        await tx.send("archive", id=memory_id)
        await _audit_state(tx, context.envelope, AuditAction.ARCHIVE, row, {"state": MemoryState.ARCHIVED})
    hidden, rests = await name_behind(tx, replaced), name_rows_resting(await resting.fetchall())
    return Forgotten(status="erased" if command.erase else "archived", id=str(memory_id), **hidden, **rests)


async def erase_locked(tx: Transaction, successors: Mapping[UUID, UUID | None]) -> None:
    """Remove memories that were locked with what replaced them: rows, links, counters, and their places in chains.

    `successors`: by memory, the one that replaces it and stays, None where there is no such.
    """
    staying = {gone: successor for gone, successor in successors.items() if successor is not None}
    for gone, successor in staying.items():
        await supersession.close_chain(tx, gone, successor)
    await tx.send("erase_memories", ids=sorted(successors))
    for successor in sorted(set(staying.values())):
        await supersession.point_to_previous(tx, successor)


@handles(RestoreMemory, by_keys=True)
async def restore_memory(tx: Transaction, command: RestoreMemory, context: Context) -> MemoryChanged:
    """Undo archive and supersession; a memory that is neither stays as it is."""
    require_editor(context.envelope.principal)
    memory_id = parse_uuid(command.memory_id)
    row = None if memory_id is None else await lock_with_linked(tx, memory_id)
    if row is None or memory_id is None:
        return MemoryChanged(status="not_found", **missing(Thing.MEMORY))
    was_hidden = row["state"] == MemoryState.ARCHIVED or row["is_superseded"]
    await restore_locked(tx, context.envelope, row, context.services[LinkRules])
    memory = (await read_memories(tx, (memory_id,)))[memory_id]
    return MemoryChanged(status="restored", memory=memory, notice=UNSET if was_hidden else _NOT_HIDDEN)


async def restore_locked(tx: Transaction, envelope: Envelope, row: Row, rules: LinkRules) -> None:
    """Undo archive and supersession of a memory that was locked with what it is linked with, and audit what changed.

    Raises EngramqError with `degree_limit` when its links, which count again, leave somebody above the cap.
    """
    changed: dict[str, Any] = {}
    if row["state"] == MemoryState.ARCHIVED:
        restored = await tx.only_row("unarchive", id=row["id"])
        changed["state"] = restored["state"]
        if restored["expires_at"] != row["expires_at"]:
            changed["expires_at"] = None
    if row["is_superseded"]:
        await supersession.undo(tx, row["id"], row["superseded_by"])
        changed["superseded_by" if row["superseded_by"] else "superseded_at"] = None
    if changed:
        displaced = await make_room_again(tx, row["id"], rules)
        changed |= {"displaced": audit_displaced(displaced)} if displaced else {}
        await _audit_state(tx, envelope, AuditAction.RESTORE, row, changed)


async def _audit_state(
    tx: Transaction, envelope: Envelope, action: AuditAction, row: Row, changed: dict[str, Any]
) -> None:
    """Audit a change of a locked row; `changed` has the new values, none when it was erased."""
    old = {
        name: row[name] if name == "state" else row[name] and str(row[name])
        for name in changed or ("state",)
        if name in row
    }
    await audit.record(tx, envelope, action, row["id"], old=old, new=changed, owner=row["owner"])


async def behind(tx: Transaction, going: Collection[UUID]) -> Behind:
    """Return, before memories go, what each had replaced."""
    return _read_behind(await (await _send_behind(tx, going)).fetchall())


async def _send_behind(tx: Transaction, going: Collection[UUID]) -> Sent:
    return await tx.send("behind", ids=list(going), limit=BEHIND_MAX)


def _read_behind(rows: Sequence[Row]) -> Behind:
    replaced: dict[UUID, list[UUID]] = defaultdict(list)
    for row in rows:
        replaced[row["gone"]].append(row["id"])
    return replaced


async def still_hidden(tx: Transaction, ids: Collection[UUID]) -> list[UUID]:
    """Return, now that others have gone, which of these memories are hidden although nothing replaces them."""
    if not ids:
        return []
    hidden = [row["id"] for row in await tx.rows("hidden_as_replaced", ids=sorted(ids))]
    replaced = await replacements(tx, hidden)
    return [memory_id for memory_id in hidden if memory_id not in replaced]


async def hidden_behind(tx: Transaction, replaced: Behind) -> dict[UUID, list[UUID]]:
    """Return what of it stays hidden, by the memory behind which it was; of those behind which something does."""
    hidden = set(await still_hidden(tx, set(chain.from_iterable(replaced.values()))))
    left = {gone: [memory_id for memory_id in ids if memory_id in hidden] for gone, ids in replaced.items()}
    return {gone: ids for gone, ids in left.items() if ids}


async def name_behind(tx: Transaction, replaced: Behind) -> StillHidden:
    """Return what a reply says of that, the newest first."""
    return name_hidden(set(chain.from_iterable((await hidden_behind(tx, replaced)).values())))


def name_hidden(ids: Collection[UUID], limit: int = BEHIND_MAX) -> StillHidden:
    """Return what a reply says of memories that stay hidden; previews are read later: see workers/replies.py."""
    hidden = [MemoryPreview(id=str(memory_id), preview=None) for memory_id in sorted(ids, reverse=True)[:limit]]
    return StillHidden(still_hidden=hidden, hint=HINT) if ids else StillHidden(still_hidden=[])


async def archive_expired(tx: Transaction) -> int:
    """Archive some memories that have expired, and audit each; return how many.

    The audit names what each had replaced and nothing replaces now: an expiry brings no stale fact back.
    """
    await namespaces.note(tx)  # links may have waited for one of them
    rows = await tx.rows("archive_expired", limit=EXPIRED_AT_ONCE)
    if rows:
        await _audit_expired(tx, rows)
    return len(rows)


async def archive_if_expired(tx: Transaction, row: Row) -> None:
    """Archive a locked memory that has expired, as upkeep would: a later expires_at brings nothing back."""
    if row["has_expired"]:
        await tx.send("archive", id=row["id"])
        await _audit_expired(tx, [{**row, "state": row["kept_state"]}])


async def _audit_expired(tx: Transaction, rows: Sequence[Row]) -> None:
    gone = await hidden_behind(tx, await behind(tx, [row["id"] for row in rows]))
    for row in rows:
        old = {"state": row["state"], "expires_at": format_time(row["expires_at"])}
        new: dict[str, Any] = {"state": MemoryState.ARCHIVED}
        if hidden := gone.get(row["id"]):
            new["still_hidden"] = [str(memory_id) for memory_id in hidden]
        await audit.write(tx, SYSTEM_PRINCIPAL, AuditAction.ARCHIVE, row["id"], old=old, new=new, reason="expired")


async def give_expiry(tx: Transaction, rule: Retention, after: UUID) -> UUID | None:
    """Give memories that a rule is about, and that have none, a time to expire; a few, from an id on.

    Return where to go on, None at the end.
    """
    tags = None if rule.tag is None else [rule.tag]
    values = {"source_type": rule.source_type, "tags": tags, "kept_for": rule.kept_for}
    row = await tx.only_row("give_expiry", **values, after=after, limit=EXPIRED_AT_ONCE)
    last: UUID | None = row["last"]
    return last


def _require_eraser(row: Row, principal: Principal) -> None:
    own = row["created_by"] == principal.name or row["owner"] == (Viewer.of(principal.identity).owner or "")
    if not own:
        require_admin(principal, "Erasing another's memory")
