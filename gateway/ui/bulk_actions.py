"""Carry out one action on many memories, those ticked or all that were shown, and say what came of each."""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from engramq.gateway.budget import Body
from engramq.gateway.ui.editing import NEW_TAGS, tags_in
from engramq.gateway.ui.html import DONE
from engramq.gateway.ui.memory import make_trusted, require_look, vouch
from engramq.gateway.ui.request import PageCallRefused, PageRequest
from engramq.schemas.faults import invalid
from engramq.schemas.vocabulary import Verification

VERIFY: Final = "verify"
_CHOSEN: Final = "chosen"
_SHOWN: Final = "shown"
_FAILING: Final = 500  # statuses from here on, and 429: the rest would only wait for the same answer
_TOO_MANY: Final = 429
_VOUCHED: Final = (Verification.VERIFIED.value, Verification.APPROVED.value)
_ALREADY: Final = "It is verified or approved already."
_CUT: Final = "Not all of it was shown: open it, and decide there."
_WORDS: Final = {
    "pending": DONE["pending"],
    "not_found": "It is gone.",
    "consent_required": DONE["consent_required"],
}

BulkAction = Callable[[PageRequest, str, str], Awaitable[Body]]


async def _archive(page: PageRequest, memory_id: str, _seen: str) -> Body:
    return await page.ask("forget_memory", memory_id=memory_id)


async def _tag(page: PageRequest, memory_id: str, _seen: str) -> Body:
    return await page.ask("update_memory", memory_id=memory_id, add_tags=tags_in(page.entry(NEW_TAGS)))


async def _untag(page: PageRequest, memory_id: str, _seen: str) -> Body:
    return await page.ask("update_memory", memory_id=memory_id, remove_tags=tags_in(page.entry(NEW_TAGS)))


async def _share(page: PageRequest, memory_id: str, seen: str) -> Body:
    return await page.ask("share_memory", memory_id=memory_id, seen=seen)


# By the page, an id and the digest of what was seen.
VERDICTS: Final[Mapping[str, BulkAction]] = {
    VERIFY: partial(vouch, verification=Verification.VERIFIED.value),
    "reject": partial(vouch, verification=Verification.REJECTED.value),
    "promote": make_trusted,
}
PUBLISHING: Final[Mapping[str, BulkAction]] = {"promote": make_trusted, "share": _share}  # what is in a list
CHANGES: Final[Mapping[str, BulkAction]] = {"archive": _archive, "tag": _tag, "untag": _untag}  # which judge nothing


@dataclass(slots=True)
class Verdicts:
    """What came of an action on many: how many it was carried out on, the ids of the others by what was said."""

    done: str
    count: int = 0
    untried: int = 0
    others: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))


async def decide(page: PageRequest, actions: Mapping[str, BulkAction], *, may_cut: bool = False) -> Verdicts:
    """Carry out the form's action on each memory that it means, and tell what came of each.

    A form names each by its id, the digest of what it showed, and its verification then. `may_cut`: the page cuts long
    texts, and names those by their id alone; nobody has seen what would be judged.
    """
    wanted = page.entry("verdict")
    if wanted not in actions:
        raise invalid("verdict", "That is no verdict.", f"There are {', '.join(actions)}.")
    if wanted in ("tag", "untag") and not tags_in(page.entry(NEW_TAGS)):
        raise invalid(NEW_TAGS, "No tag is given: nothing was done.", "Write one, or several with commas.")
    meant = page.form.get(_SHOWN if page.entry("which") == _SHOWN else _CHOSEN, [])
    if not meant:
        raise invalid(_CHOSEN, "No memory is ticked: nothing was done.", "Tick some, or choose all that are shown.")
    named = [(*value.split("."), "", "")[:3] for value in meant]
    if wanted not in CHANGES and not may_cut:
        for _, seen, _ in named:
            require_look(seen)
    told = Verdicts(wanted, untried=len(named))
    for memory_id, seen, verification in named:
        told.untried -= 1
        if wanted == VERIFY and verification in _VOUCHED:  # Verify would take an approval back
            told.others[_ALREADY].append(memory_id)
        elif wanted not in CHANGES and not seen:
            told.others[_CUT].append(memory_id)
        elif not await _is_tried(page, actions[wanted], told, memory_id, seen):
            break
    return told


async def _is_tried(page: PageRequest, action: BulkAction, told: Verdicts, memory_id: str, seen: str) -> bool:
    """Act on one memory and note what came of it; false where the rest would get the same refusal."""
    try:
        reply = await action(page, memory_id, seen)
    except PageCallRefused as refused:
        told.others[refused.body["error"]].append(memory_id)
        return refused.status < _FAILING and refused.status != _TOO_MANY
    if reply["status"] in _WORDS:
        told.others[_WORDS[reply["status"]]].append(memory_id)
    else:
        told.count += 1
    return True
