"""The audit trail: who did what, newest first, and what of it can be undone."""

import re
from typing import Final

from starlette.responses import Response

from engramq.gateway.rendering.budget import Body
from engramq.gateway.ui.actions import undo_of
from engramq.gateway.ui.views.welcome import nothing
from engramq.gateway.ui.visit import Refused, Visit
from engramq.schemas.vocabulary import AuditAction

PAGE_ROWS: Final = 50
_NUMBER: Final = re.compile(r"\d{1,19}", re.ASCII)  # as many digits as AUDIT_ID_MAX has
FILTERS: Final = ("target", "actor", "action", "since", "until")


async def show(visit: Visit) -> Response:
    """Show the entries that pass the filters in the address."""
    filters = {name: visit.query(name) for name in FILTERS}
    shown: Body = {"entries": [], "next_cursor": None}
    refusal = None
    try:
        shown = await visit.ask("audit", limit=PAGE_ROWS, cursor=visit.query("cursor"), **filters)
    except Refused as refused:
        if refused.status != 400:
            raise
        refusal = refused.body
    return visit.page(
        "audit.html",
        status=400 if refusal else 200,
        filters=filters,
        shown=shown,
        refusal=refusal,
        undo_of=undo_of,
        actions=list(AuditAction),
    )


async def restore(visit: Visit) -> Response:
    """Bring back what a deletion in the graph took."""
    audit_id = visit.request.path_params["audit_id"]
    if _NUMBER.fullmatch(audit_id) is None:
        return await nothing(visit)
    reply = await visit.ask("restore_graph", audit_id=int(audit_id))
    if reply["status"] == "restored":
        return visit.go("/ui/audit", done="graph_restored")
    if reply["status"] in ("pending", "already_restored"):
        return visit.go("/ui/audit", done=reply["status"])
    return visit.page("closed.html", status=409, reply=reply)
