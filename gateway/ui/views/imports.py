"""Imports: how far those are that run, and what became of those that ran today."""

from typing import Any

from starlette.responses import Response

from engramq.gateway.ui.visit import Visit
from engramq.schemas.vocabulary import WorkerKind


async def show(visit: Visit) -> Response:
    """Show the whole page."""
    return visit.page("imports.html", **await _told(visit))


async def live(visit: Visit) -> Response:
    """Show the part that is asked for every few seconds."""
    return visit.page("imports_live.html", **await _told(visit))


async def _told(visit: Visit) -> dict[str, Any]:
    shown = await visit.ask("list_imports")
    mailboxes = (await visit.site.look()).mailboxes
    of_imports = next((one for one in mailboxes if one.kind == WorkerKind.IMPORTS), None)
    return {"shown": shown, "mailbox": of_imports}
