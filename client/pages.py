"""Read a whole list, page by page, as one conversation."""

from typing import Any, Final

from engramq.client import calls
from engramq.client.call import CallSequence
from engramq.schemas.records import Memory

PAGE: Final = 100


def all_recent(**filters: Any) -> CallSequence[list[Memory]]:
    """Return all memories that the filters of a list name, newest first."""
    memories: list[Memory] = []
    cursor: str | None = None
    while True:
        page = yield calls.recent(limit=PAGE, cursor=cursor, **filters)
        memories += page.memories
        cursor = page.next_cursor or None
        if not cursor:
            return memories
