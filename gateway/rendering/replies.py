"""From a worker's reply to what a client reads of it: its form, its notices, its budget."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from msgspec import UNSET

from engramq.gateway.rendering.brief import brief_of
from engramq.gateway.rendering.budget import Body, text_of, within
from engramq.schemas import limits
from engramq.schemas.codec import reply_body
from engramq.schemas.commands import CommandReport, MemoryChanged, Promoted, Reply, Stored, Superseded
from engramq.schemas.vocabulary import Detail, Partition

NOTICE_UNTRUSTED: Final = (
    f"Kept apart as {Partition.UNTRUSTED}: searches and lists do not show it. "
    f'Pass partitions=["{Partition.UNTRUSTED}"] to find it. verify_memory, then '
    "memory_promote_to_trusted, shows it to everybody."
)
_REFERENCES: Final = "resolved_references"
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
    """Return a reply as plain values, in the detail asked for, with the notices that its effect asks for."""
    if isinstance(reply, CommandReport):
        report, recorded = reply_body(reply), _recorded(reply.reply)
        if recorded is not None:
            report["reply"] = body_of(recorded, detail, caller)
        return report
    if isinstance(reply, Stored) and reply.stored.partition is Partition.UNTRUSTED and reply.notice is UNSET:
        reply.notice = NOTICE_UNTRUSTED
    body: Body = reply_body(reply) if detail is Detail.FULL else msgspec.to_builtins(brief_of(reply, caller))
    body.pop("type", None)
    return _in_order(body)


def _in_order(body: Body) -> Body:
    """Return a reply with what its reader wants first at its head, and what a reference stood for at its end."""
    about = body.pop(_REFERENCES, None)
    ordered = {"status": body["status"], **body}
    return ordered if about is None else {**ordered, _REFERENCES: about}


def bounded(body: Body, max_chars: int, worded: Callable[[str], str] = str) -> str:
    """Return the JSON text of a reply within its budget; what has to go is taken out of the body.

    `worded` fits the words that say how to get it to their reader.
    """
    return within(body, max_chars, lambda inner, needed: worded(_rest(inner, needed, is_report=inner is not body)))


def _recorded(reply: dict[str, Any] | None) -> Reply | None:
    form = None if reply is None else _RECORDED.get(reply.get("status", ""))
    if form is None:
        return None
    try:
        return msgspec.convert(reply, form)
    except msgspec.ValidationError:  # of a version that said something else
        return None


def _rest(inner: Body, needed: int, *, is_report: bool) -> str:
    if "next_cursor" in inner:
        return f"max_chars={needed} shows more of each. next_cursor goes on where this page ends."
    if "command_id" in inner and not is_report:
        return f'get_command(command_id="{inner["command_id"]}", max_chars={needed}) shows it all.'
    narrower = " and a smaller limit" if needed == limits.REPLY_CHARS_MAX else ""
    return f"Repeat the call with max_chars={needed}{narrower}."


__all__ = ["ReplyStyle", "body_of", "bounded", "text_of"]
