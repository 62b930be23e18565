"""The overview: whether all is well, what waits in the queues, what the namespace holds."""

from typing import Final

from starlette.responses import Response

from engramq.gateway.ui.visit import Refused, Visit

SAID: Final = {
    "ready": "Everything works",
    "degraded": "It works, but not all of it",
    "unavailable": "Calls are not answered",
}


async def show(visit: Visit) -> Response:
    """Show the whole page; counts come later, since they take longer."""
    return visit.page("overview.html", overview=await visit.site.look(), said=SAID)


async def live(visit: Visit) -> Response:
    """Show the part that is asked for every two seconds."""
    return visit.page("overview_live.html", overview=await visit.site.look(), said=SAID)


async def counts(visit: Visit) -> Response:
    """Show what the namespace holds, or why nobody can tell."""
    try:
        stats = await visit.ask("memory_stats")
    except Refused as refusal:
        return visit.page("counts.html", stats=None, refusal=refusal.body)
    return visit.page("counts.html", stats=stats, refusal=None)
