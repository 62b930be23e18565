"""Show one memory and the inbox of untrusted ones, and do and undo what their buttons ask for."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from starlette.responses import Response

from engramq.gateway.budget import Body
from engramq.gateway.ui.html import DONE
from engramq.gateway.ui.request import PageCallRefused, PageRequest
from engramq.schemas.commands.changes import TIMES
from engramq.schemas.faults import invalid
from engramq.schemas.vocabulary import EVERY_PROJECT, AuditAction, MemoryState, Partition, Scope, Verification

REASON: Final = "reason"
SURE: Final = "sure"

# What an update leaves of its old values in the audit log, and an update can write again.
SET_BACK: Final = ("sector", "confidence", "position", *TIMES)
CLEAR: Final = "clear"
_RESTORED: Final = frozenset({AuditAction.ARCHIVE, AuditAction.SUPERSEDE})
_GRAPH: Final = frozenset({AuditAction.DELETE_EDGE, AuditAction.DELETE_NODE})
_CLEARABLE: Final = frozenset({"position", *TIMES})

Action = Callable[[PageRequest, str], Awaitable[Body]]


async def verify(page: PageRequest, memory_id: str) -> Body:
    """Say how far it is vouched for."""
    wanted = page.entry("verification")
    return await page.ask("verify_memory", memory_id=memory_id, verification=wanted, reason=page.entry(REASON))


async def promote(page: PageRequest, memory_id: str) -> Body:
    """Move it to trusted."""
    return await page.ask("memory_promote_to_trusted", record_id=memory_id)


async def forget(page: PageRequest, memory_id: str) -> Body:
    """Hide it."""
    return await page.ask("forget_memory", memory_id=memory_id, reason=page.entry(REASON))


async def erase(page: PageRequest, memory_id: str) -> Body:
    """Remove it for good; the form has to say that this is meant."""
    if page.entry(SURE) != "erase":
        raise invalid(SURE, "Nothing was erased: the box that says you mean it is not ticked.", "Tick it to erase.")
    return await page.ask("forget_memory", memory_id=memory_id, erase=True, reason=page.entry(REASON))


async def restore(page: PageRequest, memory_id: str) -> Body:
    """Bring it back from the archive, or from being superseded."""
    return await page.ask("restore_memory", memory_id=memory_id, reason=page.entry(REASON))


async def set_back(page: PageRequest, memory_id: str) -> Body:
    """Write values again that an update has changed."""
    values: dict[str, Any] = {name: page.entry(name) for name in SET_BACK if page.entry(name)}
    return await page.ask("update_memory", memory_id=memory_id, clear=page.form.get(CLEAR, []), **values)


ACTIONS_ON_MEMORIES: Final[Mapping[str, Action]] = {
    "verify": verify,
    "promote": promote,
    "forget": forget,
    "erase": erase,
    "restore": restore,
    "set_back": set_back,
}

_SAID: Final = {"success": "verified"}


def done_by(reply: Body) -> str:
    """Return the word by which the next page says what an action has done."""
    status: str = reply["status"]
    return _SAID.get(status, status)


@dataclass(frozen=True, slots=True)
class Undo:
    """A form that undoes something: where it goes, what it sends, and what its button says."""

    path: str
    fields: tuple[tuple[str, str], ...]
    label: str


def undo_of(entry: Body, *, is_hidden: bool = True) -> Undo | None:
    """Return how an entry is undone, None where nothing on this page undoes it.

    `is_hidden`: the memory that it is about may still be archived or superseded.
    """
    action, target, old = entry["action"], entry["target_id"], entry["old"] or {}
    if target is None:
        return None
    memory = f"/ui/memories/{target}"
    if action == AuditAction.VERIFY and old.get("verification"):
        return Undo(f"{memory}/verify", (("verification", str(old["verification"])),), f"Back to {old['verification']}")
    if action in _RESTORED:
        return Undo(f"{memory}/restore", (), "Restore") if is_hidden else None
    if action in _GRAPH:
        return Undo(f"/ui/audit/{entry['id']}/restore", (), "Restore")
    fields = _set_back(old) if action == AuditAction.UPDATE else ()
    return Undo(f"{memory}/set_back", fields, "Set back") if fields else None


def _set_back(old: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return the fields that write old values again; those that were empty are to be cleared."""
    kept = [(name, str(old[name])) for name in SET_BACK if old.get(name) is not None]
    empty = [(CLEAR, name) for name in SET_BACK if name in old and old[name] is None and name in _CLEARABLE]
    return (*kept, *empty)


VERSIONS: Final = 20  # that are read in either direction
AUDIT_ROWS: Final = 50


async def show_memory(page: PageRequest) -> Response:
    """Show a memory; `as_of` in the address: with the links that held then."""
    memory_id = page.request.path_params["memory_id"]
    as_of = page.query("as_of")
    refusal = None
    try:
        found = await read(page, memory_id, as_of)
    except PageCallRefused as refused:
        if refused.status != 400 or not as_of:
            raise
        refusal, found = refused.body, await read(page, memory_id)
    if found["memory"] is None:
        return page.missing("memory")
    return page.render(
        "memory.html",
        memory=found["memory"],
        links=found.get("links", []),
        versions=await _versions(page, found["memory"]),
        replaces=found.get("replaces", []),
        entries=await _entries(page, memory_id),
        undo_of=partial(undo_of, is_hidden=_is_hidden(found["memory"])),
        refusal=refusal,
        as_of=as_of,
        verifications=list(Verification),
    )


async def change_memory(page: PageRequest) -> Response:
    """Do to a memory what a button says, and show it again."""
    reply = await carried_out(page)
    if isinstance(reply, Response):
        return reply
    if reply["status"] == "erased":
        return page.go("/ui/memories", done=done_by(reply))
    return page.go(f"/ui/memories/{page.request.path_params['memory_id']}", done=done_by(reply))


async def carried_out(page: PageRequest) -> Body | Response:
    """Do to a memory what a button says; return the reply, or the page where the button or the memory is none."""
    act_on = ACTIONS_ON_MEMORIES.get(page.request.path_params["action"])
    if act_on is None:
        return page.missing()
    reply = await act_on(page, page.request.path_params["memory_id"])
    return page.missing("memory") if reply["status"] == "not_found" else reply


async def read(page: PageRequest, memory_id: str, as_of: str = "") -> Body:
    """Return a memory with its links, whatever its partition."""
    return await page.ask("get_memory", memory_id=memory_id, include_untrusted=True, as_of=as_of)


async def _versions(page: PageRequest, memory: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the memory with what it replaced, one after the other, and what replaced it, the newest first."""
    newer = await _chain(page, memory, "superseded_by")
    older = await _chain(page, memory, "supersedes")
    return [*reversed(newer), memory, *older]


async def _chain(page: PageRequest, memory: dict[str, Any], leads_to: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    next_id, seen = memory[leads_to], {memory["id"]}
    while next_id and next_id not in seen and len(found) < VERSIONS:
        seen.add(next_id)
        one = (await read(page, next_id))["memory"]
        if one is None:
            break
        found.append(one)
        next_id = one[leads_to]
    return found


async def _entries(page: PageRequest, memory_id: str) -> list[dict[str, Any]] | None:
    """Return what was done to a memory, None for who may not see it."""
    if not page.may(Scope.ADMIN):
        return None
    entries: list[dict[str, Any]] = (await page.ask("audit", target=memory_id, limit=AUDIT_ROWS))["entries"]
    return entries


def _is_hidden(memory: dict[str, Any]) -> bool:
    """Say whether a memory is archived or superseded, and can be restored."""
    return memory["state"] == MemoryState.ARCHIVED or bool(memory["superseded_by"] or memory["superseded_at"])


INBOX_ROWS: Final = 25


async def show_inbox(page: PageRequest) -> Response:
    """Show the newest untrusted memories; `verification` in the address: those alone, rejected ones too."""
    wanted = page.query("verification")
    shown = await page.ask(
        "list_recent_memories",
        partitions=[Partition.UNTRUSTED],
        project=EVERY_PROJECT,
        verifications=[wanted] if wanted in set(Verification) else None,
        limit=INBOX_ROWS,
        cursor=page.query("cursor"),
    )
    return page.render("inbox.html", shown=shown, wanted=wanted, verifications=list(Verification))


async def decide_memory(page: PageRequest) -> Response:
    """Decide on one memory; with htmx its row comes back, with what undoes the decision."""
    reply = await carried_out(page)
    if isinstance(reply, Response):
        return reply
    memory_id, action = page.request.path_params["memory_id"], page.request.path_params["action"]
    if not page.is_partial:
        return page.go("/ui/inbox", done=done_by(reply))
    memory = (await read(page, memory_id))["memory"]
    if memory is None:
        return page.missing("memory")
    said = DONE.get(done_by(reply), "")
    return page.render("inbox_row.html", memory=memory, said=said, undo=_undo_of(action, memory_id, reply))


def _undo_of(action: str, memory_id: str, reply: Body) -> Undo | None:
    """Return what undoes a decision. A promotion has nothing: only promotion moves memories between partitions."""
    row = f"/ui/inbox/{memory_id}"
    if action == "verify" and reply.get("old_verification") not in (None, reply.get("new_verification")):
        before = str(reply["old_verification"])
        return Undo(f"{row}/verify", (("verification", before),), f"Undo: back to {before}")
    if action == "forget" and reply["status"] == "archived":
        return Undo(f"{row}/restore", (), "Undo: restore")
    if action == "promote" and reply["status"] == "promoted":
        return Undo(f"{row}/forget", (), "Hide it again: archive")
    return None
