"""From a worker's reply to what a client reads of it: its form, its notices, its budget."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
from msgspec import UNSET

from engramq.gateway.rendering.brief import brief_of
from engramq.gateway.rendering.budget import Body, text_of, within
from engramq.gateway.rendering.withheld import NOTICE as NOTICE_WITHHELD
from engramq.gateway.rendering.withheld import withheld
from engramq.schemas import limits
from engramq.schemas.codec import reply_body
from engramq.schemas.commands import (
    Command,
    CommandReport,
    ConnectByQuery,
    MemoriesImported,
    MemoryChanged,
    Promoted,
    Reply,
    Stored,
    Superseded,
    Tool,
    UpdateMemory,
)
from engramq.schemas.envelope import Principal
from engramq.schemas.ids import format_time
from engramq.schemas.records import Memory
from engramq.schemas.vocabulary import Detail, MemoryState, Partition, Verification

_KEPT_APART: Final = f"Kept apart as {Partition.UNTRUSTED}: searches and lists do not show it. "
NOTICE_ROUTED: Final = (
    f'{_KEPT_APART}Pass partitions=["{Partition.UNTRUSTED}"] to find it. verify_memory, then '
    "memory_promote_to_trusted, shows it to everybody."
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
_NEVER_CUT: Final = ("results", "receipts", "updated")  # where a recorded reply tells of many items, one by one
# The reply that a recorded one was, by its status, where it holds memories: get_command gives only its fields.
_RECORDED: Final[Mapping[str, type[Reply]]] = {
    "stored": Stored,
    "superseded": Superseded,
    "updated": MemoryChanged,
    "restored": MemoryChanged,
    "promoted": Promoted,
    "already_trusted": Promoted,
}


@dataclass(frozen=True, slots=True)
class ReplyStyle:
    """How replies are rendered unless a call asks otherwise."""

    detail: Detail = Detail.BRIEF
    max_chars: int = limits.REPLY_CHARS


def body_of(reply: Reply, detail: Detail, caller: str) -> Body:
    """Return a reply as plain values, in the detail asked for."""
    if isinstance(reply, CommandReport):
        report, recorded = reply_body(reply), _recorded(reply.reply)
        if recorded is not None:
            report["reply"] = body_of(recorded, detail, caller)
        return report
    body: Body = reply_body(reply) if detail is Detail.FULL else msgspec.to_builtins(brief_of(reply, caller))
    return _told_now(body, reply)


def withheld_body_of(reply: Reply, command: object, caller: str, notice: str | None) -> Body:
    """Return a reply in brief as plain values for a caller who may not read: without contents, and saying so.

    `command` is what was asked, `notice` what the caller has to be told besides.
    """
    brief, left_out = withheld(brief_of(reply, caller), command)
    body = _told_now(msgspec.to_builtins(brief), reply)
    told = [notice or body.get("notice"), NOTICE_WITHHELD if left_out else None]
    if any(told):
        body["notice"] = " ".join(filter(None, told))
    return _in_order(body)


def _told_now(body: Body, reply: Reply) -> Body:
    """Return the plain values of a reply without those for which get_command is asked, nor the wire's own tag."""
    return _in_order({name: value for name, value in body.items() if name not in reply.later and name != "type"})


def notice_of(reply: Reply, command: Command, principal: Principal, secrets: int = 0) -> str | None:
    """Return what a caller may not expect of a write: that searches do not show the memory, and why.

    `secrets`: so many were taken out of what was to be kept.
    """
    told = [_unexpected(reply, command, principal), NOTICE_REDACTED.format(secrets) if secrets else None]
    return " ".join(filter(None, told)) or None


def _unexpected(reply: Reply, command: Command, principal: Principal) -> str | None:
    if isinstance(reply, Stored):
        return _notice_of_store(reply.stored, command, principal)
    if isinstance(reply, MemoriesImported):
        return None if reply.kept_apart is UNSET else NOTICE_OF_UNTRUSTED if principal.untrusted else NOTICE_ROUTED
    if isinstance(reply, Superseded):
        return NOTICE_HIDDEN_BEFORE if reply.new.valid_from and _is_to_come(reply.new.valid_from) else None
    if not isinstance(reply, MemoryChanged) or reply.memory is None:
        return None
    if reply.status == "restored" and reply.memory.verification is Verification.REJECTED:
        return NOTICE_STILL_REJECTED
    if isinstance(command, UpdateMemory) and not command.changes_times():
        return None
    if reply.memory.state is MemoryState.ARCHIVED:
        return NOTICE_STILL_ARCHIVED
    return NOTICE_STILL_ENDED if _has_ended(reply.memory) else None


def _notice_of_store(stored: Memory, command: Command, principal: Principal) -> str | None:
    if stored.state is MemoryState.ARCHIVED:
        return NOTICE_EXPIRED
    if stored.partition is Partition.UNTRUSTED:
        if principal.untrusted:
            return NOTICE_OF_UNTRUSTED
        return NOTICE_ROUTED if getattr(command, "partition", UNSET) is UNSET else None
    if not _has_ended(stored):
        return None
    return NOTICE_NEVER_HELD if stored.valid_from is None else NOTICE_ENDED


def _has_ended(memory: Memory) -> bool:
    hidden_anyway = memory.superseded_by is not None or memory.superseded_at is not None
    return not hidden_anyway and memory.valid_until is not None and not _is_to_come(memory.valid_until)


def _is_to_come(moment: str) -> bool:
    return moment > format_time(datetime.now(UTC))


def _in_order(body: Body) -> Body:
    """Return a reply with what its reader wants first at its head, and what a reference stood for at its end."""
    about = body.pop(_REFERENCES, None)
    ordered = {"status": body["status"], **body}
    return ordered if about is None else {**ordered, _REFERENCES: about}


def bounded(body: Body, max_chars: int, rest: Callable[[int], str]) -> str:
    """Return the JSON text of a reply within its budget; what has to go is taken out of the body.

    `rest` gets a budget for all of it, and returns how to get that. Receipts of many items are never cut.
    """
    recorded = body.get("reply")
    if isinstance(recorded, dict) and not recorded.keys().isdisjoint(_NEVER_CUT):
        return text_of(body)
    return within(body, max_chars, rest)


def _recorded(reply: dict[str, Any] | None) -> Reply | None:
    form = None if reply is None else _RECORDED.get(reply.get("status", ""))
    if form is None:
        return None
    try:
        return msgspec.convert(reply, form)
    except msgspec.ValidationError:  # of a version that said something else
        return None


def rest_of(tool: Tool, body: Body, *, is_full: bool, needed: int) -> str:
    """Return how to get what a budget of `needed` characters would show of a reply to this tool."""
    full = f', detail="{Detail.FULL}"' if is_full else ""
    if "next_cursor" in body:
        return f"max_chars={needed} shows more of each. next_cursor goes on where this page ends."
    if issubclass(tool.parameters, ConnectByQuery):
        return f"The same call with dry_run=true and max_chars={needed} shows it all."  # what it did is not repeated
    if tool.write and "command_id" in body:
        return f'get_command(command_id="{body["command_id"]}"{full}, max_chars={needed}) shows it all.'
    if needed < limits.REPLY_CHARS_MAX:
        return f"Repeat the call with max_chars={needed}."
    narrower = "a smaller limit" if "limit" in tool.parameters.__struct_fields__ else "a narrower filter"
    return f"Repeat the call with max_chars={needed}, and {narrower} for what that leaves out."
