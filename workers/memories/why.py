"""Tell why a memory is known, in lines that say when, who and by which entry of the audit log."""

from collections import Counter, defaultdict
from typing import Any, Final
from uuid import UUID

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from engramq.schemas.commands import Card, WhyMemory
from engramq.schemas.commands.evidence import LINES
from engramq.schemas.contents import preview_of
from engramq.schemas.envelope import Principal
from engramq.schemas.ids import format_time
from engramq.schemas.records import CardLine, Memory, MemoryPreview
from engramq.schemas.vocabulary import MemorySource
from engramq.workers.db.privacy import seeing_as_admin
from engramq.workers.db.transaction import Row, Transaction
from engramq.workers.memories.reading import shown_memory
from engramq.workers.runner import Context, handles
from engramq.workers.trust import is_admin

CHARS: Final = 60  # of a text on a card
_FEWER_CHARS: Final = (40, 20, 10, 4)  # of each, where a line of each kind is too long
_DIGITS: Final = 2  # of a sum of signals
CARD_BYTES: Final = 1_200  # of its lines: about 600 tokens, with what is around them
_SOURCES: Final = {MemorySource.EXTRACTED: "kept by an agent, unasked", MemorySource.EXPLICIT: "kept on request"}
_encode: Final = msgspec.json.encode


@handles(WhyMemory)
async def why(tx: Transaction, command: WhyMemory, context: Context) -> Card:
    """Read one memory's card; changes nothing. Reasons in the audit log are for those who may read that."""
    reader = tx.viewer.owner
    async with seeing_as_admin(tx, context.envelope.principal):
        return await _card(tx, command, context.envelope.principal, reader)


async def _card(tx: Transaction, command: WhyMemory, principal: Principal, reader: str | None) -> Card:
    reads_audit = is_admin(principal)
    memory = await shown_memory(tx, command.memory_id, include_untrusted=command.include_untrusted)
    if not isinstance(memory, Memory):
        return Card(status="not_found", **memory)
    lines: defaultdict[str, list[CardLine]] = defaultdict(list)
    counts = Counter[str]()
    asked = {"id": UUID(memory.id), "include_untrusted": command.include_untrusted, "reader": reader}
    for row in await tx.rows("why", **asked, limit=LINES):
        counts[row["about"]] = row["of_kind"]
        lines[row["about"]].append(_line(row, reads_audit=reads_audit))
    if memory.evidence:
        counts["cited"] = len(memory.evidence)
        lines["cited"] = [CardLine(says=_cite(citation)) for citation in memory.evidence[:LINES]]
    _fit(lines)
    omitted = counts.total() - sum(len(shown) for shown in lines.values())
    shown = MemoryPreview(id=memory.id, preview=preview_of(memory.content, CHARS))
    kinds: dict[str, Any] = dict(lines)
    return Card(status="success", about=shown, omitted=omitted or UNSET, **kinds)


def _fit(lines: dict[str, list[CardLine]]) -> None:
    """Drop the oldest line of the longest kind, then shorten texts, until the card is short; of each kind one stays."""
    while len(_encode(lines)) > CARD_BYTES and (longest := max(lines.values(), key=len))[1:]:
        longest.pop()
    for chars in _FEWER_CHARS:
        if len(_encode(lines)) > CARD_BYTES:
            for shown in lines.values():
                shown[:] = [_shorter(line, chars) for line in shown]


def _shorter(line: CardLine, chars: int) -> CardLine:
    texts = {"by": line.by, "says": line.says, "reason": line.reason}
    return replace(line, **{name: UNSET if text is UNSET else preview_of(text, chars) for name, text in texts.items()})


def _line(row: Row, *, reads_audit: bool) -> CardLine:
    silent = (None, "", 0) if row["about"] == "used" else (None, "")  # a count of none says nothing, a position does
    told = {
        name: round(value, _DIGITS) if isinstance(value, float) else value for name, value in row["details"].items()
    }
    details = {name: value for name, value in told.items() if value not in silent}
    in_order = sorted(details.items(), key=lambda entry: entry[0] == "source")  # last: it is long, and the least
    said = ", ".join(_say(name, value) for name, value in in_order)
    return CardLine(
        at=UNSET if row["at"] is None else format_time(row["at"]),
        by=_text(row["by"] or ""),
        memory_id=UNSET if row["other"] is None else str(row["other"]),
        says=_text(said),
        reason=_text(row["reason"] or "" if row["audit_id"] is None or reads_audit else ""),
        audit_id=UNSET if row["audit_id"] is None else row["audit_id"],
    )


def _cite(citation: dict[str, Any]) -> str:
    what = citation.get("path") or citation.get("memory_id") or citation.get("url") or citation.get("commit")
    lines = f":{citation['lines']}" if "lines" in citation else ""
    return preview_of(f"{what}{lines} {citation.get('state', '')}".strip(), CHARS)


def _say(name: str, value: Any) -> str:
    if name == "found":
        return f"shown in {value} {'search' if value == 1 else 'searches'}"
    if name == "source":
        return _SOURCES.get(value, str(value))
    return f"{name} {' '.join(map(str, value.values())) if isinstance(value, dict) else value}"


def _text(text: str) -> str | UnsetType:
    return preview_of(text, CHARS) if text else UNSET
