"""The inbox of untrusted memories: one verdict on one of them, or on many at once, each as it was seen."""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from starlette.responses import Response

from engramq.gateway.budget import Body
from engramq.gateway.ui.html import DONE
from engramq.gateway.ui.memories import MemoryFilters, list_memories
from engramq.gateway.ui.memory import (
    Undo,
    as_changed,
    carried_out,
    done_by,
    make_trusted,
    read,
    require_look,
    verify_again,
    vouch,
)
from engramq.gateway.ui.request import PageCallRefused, PageRequest
from engramq.schemas.faults import invalid
from engramq.schemas.vocabulary import Partition, Verification

INBOX_ROWS: Final = 25
FILTERED: Final = ("project", "thread", "created_by", "source_type", "since", "until")
_VERIFY: Final = "verify"
# The verdicts on many: how each is given, by the page, an id and the digest of what was seen.
_VERDICTS: Final[Mapping[str, Callable[[PageRequest, str, str], Awaitable[Body]]]] = {
    _VERIFY: partial(vouch, verification=Verification.VERIFIED.value),
    "reject": partial(vouch, verification=Verification.REJECTED.value),
    "promote": make_trusted,
}
_CHOSEN: Final = "chosen"
_SHOWN: Final = "shown"
_FAILING: Final = 500  # statuses from here on, and 429: the rest would only wait for the same answer
_TOO_MANY: Final = 429
_VOUCHED: Final = (Verification.VERIFIED.value, Verification.APPROVED.value)
_ALREADY: Final = "It is verified or approved already."
_WORDS: Final = {"pending": DONE["pending"], "not_found": "It is gone."}


@dataclass(slots=True)
class Verdicts:
    """What came of a verdict on many: how many it was carried out on, and the ids of the others by what was said."""

    done: str
    count: int = 0
    untried: int = 0
    others: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))


async def show_inbox(page: PageRequest) -> Response:
    """Show the newest untrusted memories that pass the filters; `verification`: those alone, rejected ones too."""
    return await _inbox(page)


async def _inbox(page: PageRequest, *, status: int = 200, **more: Any) -> Response:
    filters = replace(MemoryFilters.of(page), partition=Partition.UNTRUSTED.value)
    shown: Body = {"memories": [], "next_cursor": None}
    try:
        shown = await list_memories(page, filters, INBOX_ROWS)
    except PageCallRefused as refused:
        if refused.status != 400:  # else a filter is not what it should be
            raise
        status, more = 400, {"refusal": refused.body, **more}
    told = {"refusal": None, "verdicts": None, **more}
    words = list(Verification)
    filtered = any(getattr(filters, name) for name in FILTERED)
    return page.render(
        "inbox.html", status=status, shown=shown, filters=filters, filtered=filtered, verifications=words, **told
    )


async def decide_memory(page: PageRequest) -> Response:
    """Decide on one memory; with htmx its row comes back, with what undoes the decision, or as it is by now."""
    memory_id, action = page.request.path_params["memory_id"], page.request.path_params["action"]
    refusal = None
    try:
        reply = await carried_out(page)
    except PageCallRefused as refused:
        reply = refusal = as_changed(refused)
    if isinstance(reply, Response):
        return reply
    if not page.is_partial:
        return await _inbox(page, status=409, refusal=refusal) if refusal else page.go("/ui/inbox", done=done_by(reply))
    memory = (await read(page, memory_id))["memory"]
    if memory is None:
        return page.missing("memory")
    said = f"{refusal['error']} {refusal['recovery']}" if refusal else DONE.get(done_by(reply), "")
    undo = None if refusal else _undo_of(action, memory, reply)
    return page.render("inbox_row.html", status=409 if refusal else 200, memory=memory, said=said, undo=undo)


def _undo_of(action: str, memory: Body, reply: Body) -> Undo | None:
    """Return what undoes a decision. A promotion has nothing: only promotion moves memories between partitions."""
    row = f"/ui/inbox/{memory['id']}"
    if action == "verify" and reply.get("old_verification") not in (None, reply.get("new_verification")):
        return verify_again(row, str(reply["old_verification"]), memory.get("digest", ""), "Undo: back to")
    if action == "forget" and reply["status"] == "archived":
        return Undo(f"{row}/restore", (), "Undo: restore")
    if action == "promote" and reply["status"] == "promoted":
        return Undo(f"{row}/forget", (), "Hide it again: archive")
    return None


async def decide_many(page: PageRequest) -> Response:
    """Give one verdict on the memories that are ticked, or on all that were shown, and tell what came of each.

    A form names each by its id, the digest of what it showed, and its verification then.
    """
    wanted = page.entry("verdict")
    if wanted not in _VERDICTS:
        raise invalid("verdict", "That is no verdict.", f"There are {', '.join(_VERDICTS)}.")
    meant = page.form.get(_SHOWN if page.entry("which") == _SHOWN else _CHOSEN, [])
    if not meant:
        raise invalid(_CHOSEN, "No memory is ticked: nothing was done.", "Tick some, or choose all that are shown.")
    named = [(*value.split("."), "", "")[:3] for value in meant]
    for _, seen, _ in named:
        require_look(seen)
    told = Verdicts(wanted, untried=len(named))
    for memory_id, seen, verification in named:
        told.untried -= 1
        if wanted == _VERIFY and verification in _VOUCHED:  # Verify would take an approval back
            told.others[_ALREADY].append(memory_id)
        elif not await _is_tried(page, told, memory_id, seen):
            break
    return await _inbox(page, verdicts=told)


async def _is_tried(page: PageRequest, told: Verdicts, memory_id: str, seen: str) -> bool:
    """Give the verdict on one memory and note what came of it; false where the rest would get the same refusal."""
    try:
        reply = await _VERDICTS[told.done](page, memory_id, seen)
    except PageCallRefused as refused:
        told.others[refused.body["error"]].append(memory_id)
        return refused.status < _FAILING and refused.status != _TOO_MANY
    if reply["status"] in _WORDS:
        told.others[_WORDS[reply["status"]]].append(memory_id)
    else:
        told.count += 1
    return True
