"""How an entry of the audit log is undone, where it can be: by the same action of a form that anybody may send."""

from dataclasses import dataclass
from typing import Any, Final

from engramq.gateway.rendering.budget import Body
from engramq.schemas.commands.changes import TIMES
from engramq.schemas.vocabulary import AuditAction

# What an update leaves of its old values in the audit log, and an update can write again.
SET_BACK: Final = ("sector", "confidence", "position", *TIMES)
CLEAR: Final = "clear"
_RESTORED: Final = frozenset({AuditAction.ARCHIVE, AuditAction.SUPERSEDE})
_GRAPH: Final = frozenset({AuditAction.DELETE_EDGE, AuditAction.DELETE_NODE})
_CLEARABLE: Final = frozenset({"position", *TIMES})


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
