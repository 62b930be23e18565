"""Turn a worker's reply into what a client reads: its form, its notices, how to get what a budget leaves out."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

import msgspec
from msgspec import UNSET, UnsetType

from engramq.gateway.brief import BRIEF_FORMS, brief_of, omit_nulls, withhold_contents
from engramq.gateway.budget import RECEIPTS, Body
from engramq.gateway.cursors import NEXT_CURSOR
from engramq.schemas import commands, limits
from engramq.schemas.codec import reply_body, text_of
from engramq.schemas.command_line import count_of
from engramq.schemas.contents import change_contents, may_hold
from engramq.schemas.digests import digest_of
from engramq.schemas.envelope import Principal
from engramq.schemas.faults import invalid
from engramq.schemas.ids import format_time
from engramq.schemas.passages import Passages
from engramq.schemas.records import Memory, Proposal
from engramq.schemas.vocabulary import Detail, MemoryState, Partition, Verification

NOTICE_WITHHELD: Final = "Contents are left out: reading them needs the scope 'read'."
_KEPT_APART: Final = f"Kept apart as {Partition.UNTRUSTED}: searches and lists do not show it. "
NOTICE_ROUTED: Final = (
    f'{_KEPT_APART}Pass partitions=["{Partition.UNTRUSTED}"] to find it. verify_memory, then '
    "memory_promote_to_trusted, shows it to everybody."
)
NOTICE_RESTS: Final = (
    f"{_KEPT_APART}It rests on an untrusted memory. verify_memory, then memory_promote_to_trusted, vouches for it."
)
NOTICE_EXPIRED: Final = "Kept as archived: expires_at has passed. restore_memory brings it back and clears that."
_ENDED: Final = "It holds no longer: valid_until has passed. "
NOTICE_ENDED: Final = f"{_ENDED}Searches with as_of show it from its valid_from on."
NOTICE_NEVER_HELD: Final = f"{_ENDED}Without a valid_from no as_of finds it either. update_memory takes valid_from."
NOTICE_STILL_ENDED: Final = f'{_ENDED}update_memory with clear=["valid_until"] opens it again.'
NOTICE_STILL_ARCHIVED: Final = "It is archived. restore_memory brings it back and clears an expired expires_at."
NOTICE_HIDDEN_BEFORE: Final = (
    "The old one is hidden at once, though the new one holds only later; as_of still shows it. To keep both until "
    "then: restore_memory, then update_memory with valid_until."
)
NOTICE_STILL_REJECTED: Final = "It stays hidden: it is rejected. verify_memory decides that anew."
NOTICE_OF_UNTRUSTED: Final = f"{_KEPT_APART}All that you store is, until somebody else vouches for it."
NOTICE_REDACTED: Final = "Secrets were left out of what is kept, each marked in its place: {}."
_REFERENCES: Final = "resolved_references"
_ROUNDED: Final = 1_000
_SMALL_CHARS: Final = 200  # are hardly ever cut
_OUTSIDE_PARTS: Final = frozenset({"metadata", "evidence", "tags", "links", "replaces"})
# The reply that a recorded one was, by its status, where it holds memories: get_command gives only its fields.
_RECORDED: Final[Mapping[str, type[commands.Reply]]] = {
    "stored": commands.Stored,
    "superseded": commands.Superseded,
    "updated": commands.MemoryChanged,
    "restored": commands.MemoryChanged,
    "promoted": commands.Promoted,
    "already_trusted": commands.Promoted,
}


@dataclass(frozen=True, slots=True)
class ReplyStyle:
    """How replies are rendered unless a call asks otherwise."""

    detail: Detail = Detail.BRIEF
    max_chars: int = limits.REPLY_CHARS


def body_of(reply: commands.Reply, detail: Detail, caller: str, *, with_nulls: bool = True) -> Body:
    """Return a reply as plain values, in the detail asked for; what waits for a verdict with its digest.

    `with_nulls`: memories in full have the fields that are null, as a program wants them.
    """
    if isinstance(reply, commands.CommandReport):
        body, recorded = reply_body(reply), _read_recorded(reply.reply)
        if recorded is not None:
            body["reply"] = body_of(recorded, detail, caller)
        return body if with_nulls else omit_nulls(body)
    is_brief = detail is Detail.BRIEF and type(reply) in BRIEF_FORMS
    shown: msgspec.Struct = brief_of(reply, caller, digests=True) if is_brief else reply
    if shown is not reply or not may_hold(type(reply), Memory, Proposal):
        return _in_order(msgspec.to_builtins(shown), reply)
    body = msgspec.to_builtins(change_contents(reply, partial(_with_digest, detail)))
    return _in_order(body if with_nulls else omit_nulls(body), reply)


def _with_digest(detail: Detail, node: msgspec.Struct) -> msgspec.Struct:
    """Return a part of a reply with its digest if it can be judged; in brief, a trusted memory without."""
    if isinstance(node, Memory) and detail is not Detail.FULL and node.partition is not Partition.UNTRUSTED:
        return node
    return msgspec.structs.replace(node, digest=digest_of(node)) if isinstance(node, Memory | Proposal) else node


def withheld_body_of(reply: commands.Reply, command: object, caller: str, notice: str | None) -> Body:
    """Return a reply in brief as plain values for a caller who may not read: without contents, and saying so.

    `command` is the request, `notice` a remark for the caller.
    """
    brief, left_out = withhold_contents(brief_of(reply, caller), command)
    body: Body = msgspec.to_builtins(brief)
    notices = [notice or body.get("notice"), NOTICE_WITHHELD if left_out else None]
    if any(notices):
        body["notice"] = " ".join(filter(None, notices))
    return _in_order(body, reply)


def _in_order(body: Body, reply: commands.Reply) -> Body:
    """Return what a client reads of a reply: first its status, last what references stood for.

    The wire's own tag is left out, and what get_command is asked for.
    """
    kept = {name: value for name, value in body.items() if name not in reply.later and name != "type"}
    ordered = {"status": kept.pop("status"), **kept}
    if _REFERENCES in ordered:
        ordered[_REFERENCES] = ordered.pop(_REFERENCES)
    return ordered


def _read_recorded(reply: dict[str, Any] | None) -> commands.Reply | None:
    form = None if reply is None else _RECORDED.get(reply.get("status", ""))
    if form is None:
        return None
    try:
        return msgspec.convert(reply, form)
    except msgspec.ValidationError:  # of a version that said something else
        return None


def notice_of(reply: commands.Reply, command: commands.Command, principal: Principal, secrets: int = 0) -> str | None:
    """Return what a caller may not expect of a write: that searches do not show the memory, and why.

    `secrets`: so many were taken out of what was to be kept.
    """
    notice = None
    if isinstance(reply, commands.Stored):
        notice = _notice_of_store(reply.stored, command, principal)
    elif isinstance(reply, commands.MemoriesImported) and reply.kept_apart is not UNSET:
        notice = NOTICE_OF_UNTRUSTED if principal.untrusted else NOTICE_ROUTED
    elif isinstance(reply, commands.Superseded) and reply.new.valid_from and _is_to_come(reply.new.valid_from):
        notice = NOTICE_HIDDEN_BEFORE
    elif isinstance(reply, commands.MemoryChanged) and reply.memory is not None:
        notice = _notice_of_change(reply.status, reply.memory, command)
    return " ".join(filter(None, (notice, NOTICE_REDACTED.format(secrets) if secrets else None))) or None


def _notice_of_change(status: str, memory: Memory, command: commands.Command) -> str | None:
    if status == "restored" and memory.verification is Verification.REJECTED:
        return NOTICE_STILL_REJECTED
    if isinstance(command, commands.UpdateMemory) and not command.changes_times():
        return None
    if memory.state is MemoryState.ARCHIVED:
        return NOTICE_STILL_ARCHIVED
    return NOTICE_STILL_ENDED if _has_ended(memory) else None


def _notice_of_store(stored: Memory, command: commands.Command, principal: Principal) -> str | None:
    if stored.state is MemoryState.ARCHIVED:
        return NOTICE_EXPIRED
    if stored.partition is Partition.UNTRUSTED:
        if principal.untrusted:
            return NOTICE_OF_UNTRUSTED
        if getattr(command, "partition", UNSET) is not UNSET:
            return None
        return NOTICE_RESTS if getattr(command, "source_type", UNSET) is UNSET else NOTICE_ROUTED
    if not _has_ended(stored):
        return None
    return NOTICE_NEVER_HELD if stored.valid_from is None else NOTICE_ENDED


def _has_ended(memory: Memory) -> bool:
    hidden_anyway = memory.superseded_by is not None or memory.superseded_at is not None
    return not hidden_anyway and memory.valid_until is not None and not _is_to_come(memory.valid_until)


def _is_to_come(moment: str) -> bool:
    return moment > format_time(datetime.now(UTC))


def rest_of(tool: commands.Tool, body: Body, *, is_full: bool, needed: int) -> str:
    """Return how to get what a budget of `needed` characters would show of a reply to this tool.

    No more is asked for than every client shows whole: beyond that a memory is read in parts.
    """
    is_advised = needed <= limits.ADVISED_CHARS
    budget = f"max_chars={needed}" if is_advised else "A larger max_chars, where the client shows so much,"
    memory = body.get("memory") or body.get("stored")
    if isinstance(memory, dict) and not is_advised and "id" in memory:
        outside = any(
            len(text_of(holder.get(name))) > _SMALL_CHARS for holder in (body, memory) for name in _OUTSIDE_PARTS
        )
        around = f"{budget} shows what is around it." if outside else ""
        if len(memory.get("content") or "") <= _SMALL_CHARS and outside:
            return around
        part = f"{_part_of(memory, memory.get('part', 1))} shows that part whole."
        return f"{part} {around}".rstrip()
    shown = [] if is_advised else _parts_with_contents(body)
    too = _too(shown)
    in_parts = f" get_memory(memory_id, part{too}) shows one whole, in parts." if shown else ""
    if "next_cursor" in body:
        return f"{budget} shows more of each. next_cursor goes on where this page ends.{in_parts}"
    full = f', detail="{Detail.FULL}"' if is_full else ""
    if issubclass(tool.parameters, commands.ConnectByQuery):  # what it did is not repeated
        return (
            f"The same call with dry_run=true and {budget} shows it all."
            if is_advised
            else f"{budget} shows more.{in_parts}"
        )
    if tool.write and "command_id" in body:
        call = f'get_command(command_id="{body["command_id"]}"{full}'
        if is_advised:
            return f"{call}, {budget}) shows it all."
        return f"{call}) shows it.{in_parts}" if in_parts else f"{call}) shows it. {budget} shows more."
    if is_advised:
        return f"Repeat the call with {budget}."
    if not any(isinstance(value, list) for value in body.values()):  # one node, or one edge
        return f"{budget} shows more."
    narrower = "a smaller limit" if "limit" in tool.parameters.__struct_fields__ else "a narrower filter"
    return f"{budget} shows more, and {narrower} more of each.{in_parts}"


def end_without_cursor(body: Body, budget: int) -> None:
    """Leave out the cursor of a page that has no room for it beside one item, and say which budget has.

    The cursor of a survey grows with all that was shown; the same call with that budget gives this page and goes on.
    """
    needed = len(text_of(body))
    if needed > budget and body[NEXT_CURSOR] is not None:
        body[NEXT_CURSOR] = None
        needed = math.ceil(needed / _ROUNDED) * _ROUNDED
        body["rest"] = f"More follows, and the cursor to it has no room: repeat the call with max_chars={needed}."


def begin_at(body: Body, first: int) -> None:
    """Leave out what a recorded reply tells of items before one; raises EngramqError where it has no such item."""
    lists = _receipts_of(body)
    for receipts in lists:
        receipts[:] = [item for item in receipts if item["index"] >= first]
    if not any(lists):
        raise invalid("first", f"first: the reply has no item {first}.", "Leave it out to see the first ones.")


def items_of(body: Body) -> list[list[int]]:
    """Return the indexes of the items that a reply tells of one by one, by its lists."""
    return [[item["index"] for item in items] for items in _receipts_of(body)]


def rest_of_items(body: Body) -> str:
    """Return how to get all of such a reply."""
    command_id = (body.get("reply") or body)["command_id"]
    return f'get_command(command_id="{command_id}", max_chars={limits.REPLY_CHARS_MAX}) shows it all.'


def tell_next(body: Body, items: list[list[int]]) -> None:
    """Name the call that continues where a budget left out the last items of a reply."""
    told, kept = body.get("reply") or body, zip(_receipts_of(body), items, strict=True)
    left = [indexes[len(shown)] for shown, indexes in kept if len(shown) < len(indexes)]
    is_further = left and min(left) > min(indexes[0] for indexes in items if indexes)  # one item may be too large
    if is_further and told["rest"] == rest_of_items(body):  # the least budgets have no room for it
        told["rest"] = f'get_command(command_id="{told["command_id"]}", first={min(left)}) goes on.'


def _receipts_of(body: Body) -> list[list[Body]]:
    told = body.get("reply") or body
    lists = [told[name] for name in RECEIPTS if isinstance(told.get(name), list)]
    return [items for items in lists if all("index" in item for item in items)]


def _parts_with_contents(body: Body) -> list[Body]:
    """Return what holds contents in a reply that shows some."""
    if not any(name in body for name in ("memories", "old", "source_content")):
        return []
    return [body, *(each for each in (*(body.get("memories") or ()), body.get("old"), body.get("new")) if each)]


def _too(shown: Sequence[Body]) -> str:
    """Return the argument without which one of these is not found."""
    untrusted = Partition.UNTRUSTED.value
    is_untrusted = any(each.get("partition") == untrusted or each.get(untrusted) for each in shown)
    return ", include_untrusted=true" if is_untrusted else ""


def _part_of(memory: Body, part: int) -> str:
    return f'get_memory(memory_id="{memory["id"]}", part={part}{_too([memory])})'


def cut_to_part(body: Body, asked: int | UnsetType, budget: int) -> Body:
    """Return a reply of get_memory with the part of the content that is asked for, without all that surrounds it.

    Where none is asked for, a content that does not fit into the budget stands as its first part, with the rest of the
    reply. Raises EngramqError for a part that the content has not.
    """
    memory = body.get("memory") or {}
    if "content" not in memory or (asked is UNSET and len(text_of(body)) <= budget):
        return body
    parts, number = Passages(memory["content"]).parts, 1 if asked is UNSET else asked
    if number > len(parts):
        error = f"part {number} does not exist: the content has {count_of(len(parts), 'part')}."
        raise invalid("part", error, f"Give a part from 1 to {len(parts)}.")
    if asked is UNSET and len(parts) == 1:
        return body
    outside = frozenset[str]() if asked is UNSET else _OUTSIDE_PARTS
    place = {"part": number, "parts": len(parts)}
    kept = {name: value for name, value in memory.items() if name not in outside and name != "digest"}
    around = {name: value for name, value in body.items() if name not in outside}
    rest = {"rest": f"{_part_of(memory, number + 1)} goes on."} if number < len(parts) else {}
    return {**around, "memory": {**kept, "content": parts[number - 1], **place}, **place, **rest}
