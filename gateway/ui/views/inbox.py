"""The inbox: untrusted memories, which somebody has to verify and promote, or reject."""

from typing import Final

from starlette.responses import Response

from engramq.gateway.rendering.budget import Body
from engramq.gateway.ui.actions import Undo, done_by
from engramq.gateway.ui.views.memory import carried_out, read
from engramq.gateway.ui.visit import Visit
from engramq.gateway.ui.words import DONE
from engramq.schemas.vocabulary import EVERY_PROJECT, Partition, Verification

PAGE_ROWS: Final = 25


async def show(visit: Visit) -> Response:
    """Show the newest untrusted memories; `verification` in the address: those alone, rejected ones too."""
    wanted = visit.query("verification")
    shown = await visit.ask(
        "list_recent_memories",
        partitions=[Partition.UNTRUSTED],
        project=EVERY_PROJECT,
        verifications=[wanted] if wanted in set(Verification) else None,
        limit=PAGE_ROWS,
        cursor=visit.query("cursor"),
    )
    return visit.page("inbox.html", shown=shown, wanted=wanted, verifications=list(Verification))


async def act(visit: Visit) -> Response:
    """Decide on one memory; with htmx its row comes back, with what undoes the decision."""
    reply = await carried_out(visit)
    if isinstance(reply, Response):
        return reply
    memory_id, action = visit.request.path_params["memory_id"], visit.request.path_params["action"]
    if not visit.is_partial:
        return visit.go("/ui/inbox", done=done_by(reply))
    memory = (await read(visit, memory_id))["memory"]
    if memory is None:
        return visit.page("missing.html", status=404, what="memory")
    said = DONE.get(done_by(reply), "")
    return visit.page("inbox_row.html", memory=memory, said=said, undo=_undo_of(action, memory_id, reply))


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
