"""What a button of the page does to a memory: the call that it makes, and the word for what it has done."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from engramq.gateway.rendering.budget import Body
from engramq.gateway.ui.undoing import CLEAR, SET_BACK
from engramq.gateway.ui.visit import Visit
from engramq.schemas.faults import invalid

REASON: Final = "reason"
SURE: Final = "sure"

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
