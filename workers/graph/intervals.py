"""From when until when an edge holds: its end is excluded, null is open. The fragment edge_holds reads it."""

from datetime import UTC, datetime
from typing import Final, TypedDict

from msgspec import UNSET, UnsetType

from engramq.schemas.commands import AddEdge
from engramq.schemas.fields import or_none, refuse_backwards
from engramq.schemas.ids import format_time
from engramq.workers.db.transaction import Row

ENDS: Final = ("valid_from", "valid_until")


class Interval(TypedDict):
    """An interval as replies have it, RFC 3339."""

    valid_from: str | None
    valid_until: str | None


def interval(row: Row) -> Interval:
    """Return the interval of an edge's row."""
    return Interval(valid_from=_text(row["valid_from"]), valid_until=_text(row["valid_until"]))


def merged_interval(standing: Row, command: AddEdge) -> dict[str, datetime | None]:
    """Return when a standing edge holds once it is written again: an end that is given replaces that end.

    A beginning alone, at or after the standing end, opens the edge anew. Raises EngramqError naming valid_until when
    the edge would end before it begins.
    """
    start = standing["valid_from"] if command.valid_from is UNSET else command.valid_from
    end = standing["valid_until"] if command.valid_until is UNSET else command.valid_until
    begun = or_none(command.valid_from)
    if begun is not None and end is not None and command.valid_until is UNSET and begun >= end:
        end = None
    refuse_backwards(start, end)
    return {"valid_from": start, "valid_until": end}


def notice_of_end(row: Row, command: AddEdge) -> str | UnsetType:
    """Say that an edge which was written has ended, unless its end was given just now, and that as_of may miss it."""
    begin, end = row["valid_from"], row["valid_until"]
    if end is None or end > datetime.now(UTC):
        return UNSET
    hidden = f"This edge has ended at {format_time(end)}: lists, neighbours and paths leave it out"
    if begin is None and end <= row["created_at"]:
        return (
            f"{hidden}. Without a valid_from it holds from when it was written, so no as_of finds it. "
            "graph_add_edge again with valid_from mends that."
        )
    if command.valid_until is not UNSET:
        return UNSET
    return (
        f"{hidden}, but for an as_of before that. "
        "If it holds again, call graph_add_edge with the valid_from since when it does."
    )


def _text(moment: datetime | None) -> str | None:
    return None if moment is None else format_time(moment)
