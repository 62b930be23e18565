"""Show the start page: what is new to the visitor, what waits for them, and what searches show most."""

import asyncio
from typing import Final

from starlette.responses import Response

from engramq.gateway.budget import Body
from engramq.gateway.ui.changes import last_seen
from engramq.gateway.ui.inbox import CONVERSATION, is_chatter
from engramq.gateway.ui.memories import NEW_COUNTED, count_waiting, list_pairs, list_stored_since
from engramq.gateway.ui.request import PageCallRefused, PageRequest

NEWEST: Final = 6  # memories
DISAGREEING: Final = 3  # pairs of memories
STATUS_TEXTS: Final = {
    "ready": "Everything works",
    "degraded": "It works, but not all of it",
    "unavailable": "Calls are not answered",
}


async def show_start(page: PageRequest) -> Response:
    """Show the page; without its lists while calls are not answered."""
    since = last_seen(page)
    overview, (shown, counts, refusal) = await asyncio.gather(page.site.look(), _lists(page, since))
    return page.render(
        "start.html",
        overview=overview,
        said=STATUS_TEXTS,
        since=since,
        shown=shown,
        counts=counts,
        most=NEW_COUNTED,
        refusal=refusal if overview.status == "ready" else None,
    )


async def _lists(page: PageRequest, since: str) -> tuple[Body, dict[str, int], Body | None]:
    """Return the newest memories but courtesies, and the counts, or why there are none."""
    try:
        found, counts = await asyncio.gather(list_stored_since(page, since, 2 * NEWEST), count_waiting(page, since))
    except PageCallRefused as refused:
        return {"memories": []}, {"new": 0, "undecided": 0, "proposals": 0}, refused.body
    said = [
        each for each in found["memories"] if each.get("source_type") != CONVERSATION or not is_chatter(each["content"])
    ]
    return {"memories": said[:NEWEST]}, counts, None


async def show_more(page: PageRequest) -> Response:
    """Show what takes longer to find: what searches show most, and what disagrees among the newest."""
    often = await page.ask("list_shown_often")
    return page.render("start_more.html", often=often["most_shown"], found=await _pairs(page), few=DISAGREEING)


async def _pairs(page: PageRequest) -> Body:
    try:
        return await list_pairs(page, "")
    except PageCallRefused as refused:
        if refused.status < 500:
            raise
        return {"pairs": [], "next_cursor": None}  # without a model nothing is compared


async def refresh_health(page: PageRequest) -> Response:
    """Show how the installation is in a line, which is asked for every few seconds."""
    return await _show_health(page, "health_line.html")


async def show_system(page: PageRequest) -> Response:
    """Show how the installation is; the counts come later, since they take longer."""
    return await _show_health(page, "system.html")


async def refresh_system(page: PageRequest) -> Response:
    """Show the part of that page that is asked for every two seconds."""
    return await _show_health(page, "system_live.html")


async def _show_health(page: PageRequest, template: str) -> Response:
    return page.render(template, overview=await page.site.look(), said=STATUS_TEXTS)


async def show_counts(page: PageRequest) -> Response:
    """Show what the namespace holds, or why nobody can tell."""
    try:
        stats = await page.ask("memory_stats")
    except PageCallRefused as refusal:
        return page.render("counts.html", stats=None, refusal=refusal.body)
    return page.render("counts.html", stats=stats, refusal=None)
