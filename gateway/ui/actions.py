"""What a button of the page does to a memory, by which word the page says so, and how it is undone."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from engramq.gateway.rendering.budget import Body
from engramq.gateway.ui.visit import Visit
from engramq.schemas.commands.changes import TIMES
from engramq.schemas.faults import invalid
from engramq.schemas.vocabulary import AuditAction

REASON: Final = "reason"
SURE: Final = "sure"

# What an update leaves of its old values in the audit log, and an update can write again.
SET_BACK: Final = ("sector", "confidence", "position", *TIMES)
CLEAR: Final = "clear"
_RESTORED: Final = frozenset({AuditAction.ARCHIVE, AuditAction.SUPERSEDE})
_GRAPH: Final = frozenset({AuditAction.DELETE_EDGE, AuditAction.DELETE_NODE})
_CLEARABLE: Final = frozenset({"position", *TIMES})

Action = Callable[[Visit, str], Awaitable[Body]]


async def verify(visit: Visit, memory_id: str) -> Body:
    """Say how far it is vouched for."""
    wanted = visit.entry("verification")
    return await visit.ask("verify_memory", memory_id=memory_id, verification=wanted, reason=visit.entry(REASON))


async def promote(visit: Visit, memory_id: str) -> Body:
    """Move it to trusted."""
    return await visit.ask("memory_promote_to_trusted", record_id=memory_id)


async def forget(visit: Visit, memory_id: str) -> Body:
    """Hide it."""
    return await visit.ask("forget_memory", memory_id=memory_id, reason=visit.entry(REASON))


async def erase(visit: Visit, memory_id: str) -> Body:
    """Remove it for good; the form has to say that this is meant."""
    if visit.entry(SURE) != "erase":
        raise invalid(SURE, "Nothing was erased: the box that says you mean it is not ticked.", "Tick it to erase.")
    return await visit.ask("forget_memory", memory_id=memory_id, erase=True, reason=visit.entry(REASON))


async def restore(visit: Visit, memory_id: str) -> Body:
    """Bring it back from the archive, or from being superseded."""
    return await visit.ask("restore_memory", memory_id=memory_id, reason=visit.entry(REASON))


async def set_back(visit: Visit, memory_id: str) -> Body:
    """Write values again that an update has changed."""
    values: dict[str, Any] = {name: visit.entry(name) for name in SET_BACK if visit.entry(name)}
    return await visit.ask("update_memory", memory_id=memory_id, clear=visit.form.get(CLEAR, []), **values)


ACTIONS_ON_MEMORIES: Final[Mapping[str, Action]] = {
    "verify": verify,
    "promote": promote,
    "forget": forget,
    "erase": erase,
    "restore": restore,
    "set_back": set_back,
}

_SAID: Final = {"success": "verified"}


def done_by(reply: Body) -> str:
    """Return the word by which the next page says what an action has done."""
    status: str = reply["status"]
    return _SAID.get(status, status)


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
