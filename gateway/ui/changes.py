"""Show what changed since the visitor last looked, and the standing wishes."""

import asyncio
import hashlib
from datetime import UTC, datetime, timedelta
from typing import Final

from starlette.responses import Response

from engramq.gateway.router import PAGE_PATH
from engramq.gateway.ui.bulk_actions import group_entries
from engramq.gateway.ui.memories import ANYWHERE, list_stored_since
from engramq.gateway.ui.memory import read_audit, undo_among
from engramq.gateway.ui.request import PageRequest, unless_refused

CHANGES_ROWS: Final = 50
FIRST_LOOK: Final = timedelta(days=1)
_KEPT_S: Final = 365 * 86_400


async def show_changes(page: PageRequest) -> Response:
    """Show what was stored and done since `since` in the address, else since the visitor last said that they had seen.

    Looking changes nothing: a page that is loaded again shows the same.
    """
    now = datetime.now(UTC)
    since = page.query("since") or last_seen(page)
    found = asyncio.gather(
        list_stored_since(page, since, CHANGES_ROWS, page.query("cursor")),
        read_audit(page, since=since, limit=CHANGES_ROWS),
    )
    (stored, entries), refusal = await unless_refused(found, ({"memories": [], "next_cursor": None}, None))
    return page.render(
        "changes.html",
        status=400 if refusal else 200,
        stored=stored,
        entries=None if entries is None else group_entries(entries),
        since=since,
        until=now.isoformat(),
        refusal=refusal,
        undo_of=undo_among(entries or ()),
    )


def last_seen(page: PageRequest) -> str:
    """Return since when the visitor has seen nothing; of a visitor who never said so, a day ago."""
    return page.request.cookies.get(_cookie(page), "") or (datetime.now(UTC) - FIRST_LOOK).isoformat()


async def note_seen(page: PageRequest) -> Response:
    """Remember until when the visitor has seen what changed: when the page that says so was made."""
    response = page.go(f"{PAGE_PATH}/changes")
    response.set_cookie(
        _cookie(page), page.entry("until"), max_age=_KEPT_S, path=PAGE_PATH, httponly=True, samesite="lax"
    )
    return response


async def show_wishes(page: PageRequest) -> Response:
    """Show the standing instructions, wherever they hold."""
    shown = await page.ask("list_standing", include_untrusted=True, **ANYWHERE)
    return page.render("wishes.html", shown=shown)


def _cookie(page: PageRequest) -> str:
    """Return the name under which a browser keeps it: one for each namespace and principal."""
    who = f"{page.caller.namespace}\n{page.caller.principal.name}"
    return f"engramq_seen_{hashlib.sha256(who.encode()).hexdigest()[:12]}"
