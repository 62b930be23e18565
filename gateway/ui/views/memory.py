"""One memory: all that is known of it, what it replaced and what replaced it, its links, and what can be undone."""

from functools import partial
from typing import Any, Final

from starlette.responses import Response

from engramq.gateway.rendering.budget import Body
from engramq.gateway.ui.actions import ACTIONS_ON_MEMORIES, done_by, undo_of
from engramq.gateway.ui.views.welcome import nothing
from engramq.gateway.ui.visit import Refused, Visit
from engramq.schemas.vocabulary import MemoryState, Scope, Verification

VERSIONS: Final = 20  # that are read in either direction
AUDIT_ROWS: Final = 50


async def show(visit: Visit) -> Response:
    """Show a memory; `as_of` in the address: with the links that held then."""
    memory_id = visit.request.path_params["memory_id"]
    as_of = visit.query("as_of")
    refusal = None
    try:
        found = await read(visit, memory_id, as_of)
    except Refused as refused:
        if refused.status != 400 or not as_of:
            raise
        refusal, found = refused.body, await read(visit, memory_id)
    if found["memory"] is None:
        return visit.page("missing.html", status=404, what="memory")
    return visit.page(
        "memory.html",
        memory=found["memory"],
        links=found.get("links", []),
        versions=await _versions(visit, found["memory"]),
        replaces=found.get("replaces", []),
        entries=await _entries(visit, memory_id),
        undo_of=partial(undo_of, is_hidden=_is_hidden(found["memory"])),
        refusal=refusal,
        as_of=as_of,
        verifications=list(Verification),
    )


async def act(visit: Visit) -> Response:
    """Do to a memory what a button says, and show it again."""
    reply = await carried_out(visit)
    if isinstance(reply, Response):
        return reply
    if reply["status"] == "erased":
        return visit.go("/ui/memories", done=done_by(reply))
    return visit.go(f"/ui/memories/{visit.request.path_params['memory_id']}", done=done_by(reply))


async def carried_out(visit: Visit) -> Body | Response:
    """Do to a memory what a button says; return the reply, or the page where the button or the memory is none."""
    act_on = ACTIONS_ON_MEMORIES.get(visit.request.path_params["action"])
    if act_on is None:
        return await nothing(visit)
    reply = await act_on(visit, visit.request.path_params["memory_id"])
    return visit.page("missing.html", status=404, what="memory") if reply["status"] == "not_found" else reply


async def read(visit: Visit, memory_id: str, as_of: str = "") -> Body:
    """Return a memory with its links, whatever its partition."""
    return await visit.ask("get_memory", memory_id=memory_id, include_untrusted=True, as_of=as_of)


async def _versions(visit: Visit, memory: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the memory with what it replaced, one after the other, and what replaced it, the newest first."""
    newer = await _chain(visit, memory, "superseded_by")
    older = await _chain(visit, memory, "supersedes")
    return [*reversed(newer), memory, *older]


async def _chain(visit: Visit, memory: dict[str, Any], leads_to: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    next_id, seen = memory[leads_to], {memory["id"]}
    while next_id and next_id not in seen and len(found) < VERSIONS:
        seen.add(next_id)
        one = (await read(visit, next_id))["memory"]
        if one is None:
            break
        found.append(one)
        next_id = one[leads_to]
    return found


async def _entries(visit: Visit, memory_id: str) -> list[dict[str, Any]] | None:
    """Return what was done to a memory, None for who may not see it."""
    if not visit.may(Scope.ADMIN):
        return None
    entries: list[dict[str, Any]] = (await visit.ask("audit", target=memory_id, limit=AUDIT_ROWS))["entries"]
    return entries


def _is_hidden(memory: dict[str, Any]) -> bool:
    """Say whether a memory is archived or superseded, and can be restored."""
    return memory["state"] == MemoryState.ARCHIVED or bool(memory["superseded_by"] or memory["superseded_at"])
