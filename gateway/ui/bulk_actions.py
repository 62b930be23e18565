"""Carry out one action on many memories, those selected or all that were shown: ask first, then say what came of each.

The result of an action holds the form that takes it back.
"""

from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, NamedTuple, Self

from engramq.gateway.budget import Body
from engramq.gateway.ui.editing import NEW_TAGS, load_memory, tags_in
from engramq.gateway.ui.html import DONE
from engramq.gateway.ui.memory import RETAGGING, SURE, accept, is_rejected_since, require_look, vouch
from engramq.gateway.ui.request import PageCallRefused, PageRequest
from engramq.schemas.commands.changes import read_retagging
from engramq.schemas.envelope import AUDITED_TOGETHER
from engramq.schemas.faults import invalid
from engramq.schemas.fields import tag_key
from engramq.schemas.ids import uuid7
from engramq.schemas.vocabulary import AuditAction, MemoryState, Verification

VERIFY: Final = "verify"
PROMOTE: Final = "promote"
TAG: Final = "tag"
UNTAG: Final = "untag"
TOGETHER: Final = "together"  # of a group whose form stands beside its memories: what it means needs no question
_CHOSEN: Final = "chosen"
_SHOWN: Final = "shown"
_FAILING: Final = 500  # statuses from here on, and 429: the rest would only wait for the same answer
_TOO_MANY: Final = 429
_VOUCHED: Final = (Verification.VERIFIED.value, Verification.APPROVED.value)
# What came of a memory that an action was not carried out on, by the status of the reply or by the reason here.
RESULTS: Final = {
    "pending": DONE["pending"],
    "not_found": "It is gone.",
    "consent_required": DONE["consent_required"],
    "refused": DONE["built_on"],
    "vouched_before": "It is verified or approved already.",
    "rejected_since": "It was rejected since it was shown: open it, and decide there.",
    "cut": "Not all of it was shown: open it, and decide there.",
}

TAKE_BACK: Final = "take_back"
MANY_ROWS: Final = 200  # entries of one action that are read again

BulkAction = Callable[[PageRequest, str, str], Awaitable[Body]]


def _calling(tool: str) -> BulkAction:
    """Return what calls a tool for a memory, whatever of it was seen."""

    async def act(page: PageRequest, memory_id: str, _seen: str) -> Body:
        return await page.ask(tool, memory_id=memory_id)

    return act


async def _retag(page: PageRequest, memory_id: str, _seen: str, *, field: str) -> Body:
    return await page.ask("update_memory", memory_id=memory_id, **{field: tags_in(page.entry(NEW_TAGS))})


async def _share(page: PageRequest, memory_id: str, seen: str) -> Body:
    return await page.ask("share_memory", memory_id=memory_id, seen=seen)


# By the page, an id and the digest of what was seen.
VERDICTS: Final[Mapping[str, BulkAction]] = {
    VERIFY: partial(vouch, verification=Verification.VERIFIED.value),
    "reject": partial(vouch, verification=Verification.REJECTED.value),
    PROMOTE: accept,
}
PUBLISHING: Final[Mapping[str, BulkAction]] = {PROMOTE: accept, "share": _share}  # what is in a list
# These judge nothing.
CHANGES: Final[Mapping[str, BulkAction]] = {
    "archive": _calling("forget_memory"),
    "restore": _calling("restore_memory"),
    TAG: partial(_retag, field="add_tags"),
    UNTAG: partial(_retag, field="remove_tags"),
    "unshare": _calling("unshare_memory"),
    "unverify": partial(vouch, verification=Verification.UNVERIFIED.value),
}
# The action that takes an action back. A promotion has nothing: only promotion moves memories between partitions.
_UNDOING: Final = {
    "archive": "restore",
    "restore": "archive",
    TAG: UNTAG,
    UNTAG: TAG,
    "share": "unshare",
    VERIFY: "unverify",
    "reject": "unverify",
}


class ChosenMemory(NamedTuple):
    """A memory as a form names it: its id, the digest where all of it was shown, its verification then."""

    id: str
    seen: str = ""
    verification: str = ""

    @classmethod
    def of(cls, value: str) -> Self:
        """Read the value of a box."""
        return cls(*value.split(".")[:3])


@dataclass(frozen=True, slots=True)
class BulkQuestion:
    """An action on many that waits for a yes: the form's values of the memories, and how many of them each project has.

    `left`: how many stand in the list no longer, and are left alone.
    """

    action: str
    values: list[str]
    projects: list[tuple[str | None, int]]
    tags: str
    left: int


@dataclass(slots=True)
class Verdicts:
    """The result of an action on many memories: the ids that it changed, and the other ids by the reason.

    `undo` names the action that takes it back and `undone` the memories that it is for: those alone that are again as
    they were after it.
    """

    done: str
    untried: int = 0
    ids: list[str] = field(default_factory=list)
    others: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    undo: str = ""
    undone: list[str] = field(default_factory=list)
    tags: str = ""


async def decide(
    page: PageRequest, actions: Mapping[str, BulkAction], listed: Iterable[Body], *, may_cut: bool = False
) -> Verdicts | BulkQuestion:
    """Carry out the form's action on each memory that it means, and tell what came of each.

    More than one is asked about first. `listed`: what the list of the form holds by now. `may_cut`: the page cuts long
    texts, and names those by their id alone; nobody has seen what would be judged.
    """
    wanted, tags = page.entry("verdict"), page.entry(NEW_TAGS)
    if wanted not in actions:
        raise invalid("verdict", "That is no verdict.", f"There are {', '.join(actions)}.")
    if wanted in (TAG, UNTAG) and not tags_in(tags):
        raise invalid(NEW_TAGS, "No tag is given: nothing was done.", "Write one, or several with commas.")
    given = page.form.get(_SHOWN if page.entry("which") == _SHOWN else _CHOSEN, [])
    values = list(dict.fromkeys(given))  # what is named twice is changed once
    if not values:
        raise invalid(_CHOSEN, "No memory is selected: nothing was done.", "Select some, or choose all that are shown.")
    rows = [ChosenMemory.of(value) for value in values]
    if wanted not in CHANGES and not may_cut:
        for row in rows:
            require_look(row.seen)
    known = {memory["id"]: memory for memory in listed}
    if page.entry(SURE) not in (wanted, TOGETHER) and len(rows) > 1:
        still = [value for value, row in zip(values, rows, strict=True) if row.id in known]
        projects = Counter(known[ChosenMemory.of(value).id].get("project") for value in still)
        return BulkQuestion(wanted, still, projects.most_common(), tags, len(rows) - len(still))
    together = replace(page, together=uuid7() if len(rows) > 1 else "")
    return await _carry_out(together, actions[wanted], Verdicts(wanted, untried=len(rows), tags=tags), rows, known)


async def _carry_out(
    page: PageRequest, action: BulkAction, verdicts: Verdicts, rows: Iterable[ChosenMemory], known: Mapping[str, Body]
) -> Verdicts:
    for row in rows:
        verdicts.untried -= 1
        if verdicts.done == VERIFY and row.verification in _VOUCHED:  # Verify would take an approval back
            verdicts.others[RESULTS["vouched_before"]].append(row.id)
        elif verdicts.done not in CHANGES and not row.seen:
            verdicts.others[RESULTS["cut"]].append(row.id)
        elif verdicts.done in (VERIFY, PROMOTE) and await is_rejected_since(page, row.id, row.verification):
            verdicts.others[RESULTS["rejected_since"]].append(row.id)
        elif not await _is_tried(page, action, verdicts, row):
            break
    verdicts.undo = _UNDOING.get(verdicts.done, "")
    verdicts.undone = [each for each in verdicts.ids if verdicts.undo and _comes_back(verdicts, known.get(each))]
    return verdicts


def _comes_back(verdicts: Verdicts, before: Body | None) -> bool:
    """Say whether the opposite action makes a memory what it was: one that had some of the tags would lose them."""
    if verdicts.done in (VERIFY, "reject"):
        return before is not None and before.get("verification") == Verification.UNVERIFIED
    if verdicts.done not in (TAG, UNTAG):
        return True
    if before is None:
        return False
    given, had = tags_in(verdicts.tags), before.get("tags") or ()
    if verdicts.done == UNTAG:  # a tag in other letters would come back in those of the form
        return set(given) <= set(had)
    return set(map(tag_key, given)).isdisjoint(map(tag_key, had))


async def _is_tried(page: PageRequest, action: BulkAction, verdicts: Verdicts, row: ChosenMemory) -> bool:
    """Act on one memory and note what came of it; false where the rest would get the same refusal."""
    try:
        reply = await action(page, row.id, row.seen)
    except PageCallRefused as refused:
        verdicts.others[refused.body["error"]].append(row.id)
        return refused.status < _FAILING and refused.status != _TOO_MANY
    if reply["status"] in RESULTS:
        verdicts.others[RESULTS[reply["status"]]].append(row.id)
    else:
        verdicts.ids.append(row.id)
    return True


@dataclass(frozen=True, slots=True)
class EntryGroup:
    """The entries of one action on many, the newest first; `can_end`: some of them can be taken back."""

    id: str
    entries: list[Body]

    @property
    def first(self) -> Body:
        """The entry that tells what was done, by whom and when."""
        return self.entries[0]

    @property
    def can_end(self) -> bool:
        """Whether anything in it can be taken back."""
        return any(_way_back(entry) is not None for entry in self.entries)


def group_entries(entries: Iterable[Body]) -> list[Body | EntryGroup]:
    """Return entries of the audit log with those of one action on many as one."""
    grouped: list[Body | EntryGroup] = []
    for entry in entries:
        together = (entry["new"] or {}).get(AUDITED_TOGETHER)
        last = grouped[-1] if grouped else None
        if isinstance(last, EntryGroup) and last.id == together:
            last.entries.append(entry)
        else:
            grouped.append(EntryGroup(together, [entry]) if together else entry)
    return grouped


def _way_back(entry: Body) -> tuple[str, dict[str, Any]] | None:
    """Return the tool and its arguments that take an entry of an action on many back, None where nothing does.

    A promoted memory stays trusted, since only promotion moves memories between partitions: it is archived.
    """
    memory = {"memory_id": entry["target_id"]}
    action, old, reason = entry["action"], entry["old"] or {}, entry["reason"] or ""
    if action in (AuditAction.ARCHIVE, AuditAction.SHARE, AuditAction.RESTORE, AuditAction.PROMOTE):
        tools = {AuditAction.ARCHIVE: "restore_memory", AuditAction.SHARE: "unshare_memory"}
        return tools.get(AuditAction(action), "forget_memory"), memory
    if action == AuditAction.VERIFY and old.get("verification") == Verification.UNVERIFIED:
        return "verify_memory", {**memory, "verification": Verification.UNVERIFIED.value}
    retagged = read_retagging(reason) if action == AuditAction.UPDATE else {}
    changed = {RETAGGING[said]: tags for said, tags in retagged.items()}
    return ("update_memory", {**memory, **changed}) if changed else None


async def take_back(page: PageRequest, together: str) -> Verdicts | BulkQuestion:
    """Take an action on many back that the audit log has; asks first, with the memories that are still as it left them.

    Raises EngramqError where the log has nothing of it that can be taken back.
    """
    entries = await _read_group(page, together)
    found = [(entry, way) for entry in entries if (way := _way_back(entry)) is not None]
    if not found:
        raise invalid(
            AUDITED_TOGETHER, "The audit log has nothing of it that can be taken back.", "Load the page again."
        )
    memories: dict[str, Body | None] = {}
    still: dict[str, list[tuple[str, dict[str, Any]]]] = defaultdict(list)  # ways back, by the memory
    for entry, way in found:
        target = entry["target_id"]
        if target not in memories:
            memories[target] = await load_memory(page, target)
        memory = memories[target]
        if memory is not None and _stands(entry, memory):
            still[target].append(way)
    if page.entry(SURE) != TAKE_BACK:
        projects = Counter((memories[target] or {}).get("project") for target in still)
        return BulkQuestion(TAKE_BACK, list(still), projects.most_common(), "", len(memories) - len(still))
    verdicts = Verdicts(TAKE_BACK, untried=len(still))
    acting = replace(page, together=uuid7())
    for target, ways in still.items():
        verdicts.untried -= 1

        async def act(page: PageRequest, _id: str, _seen: str, ways: list[tuple[str, Body]] = ways) -> Body:
            return [await page.ask(tool, **given) for tool, given in ways][-1]

        if not await _is_tried(acting, act, verdicts, ChosenMemory(target)):
            break
    return verdicts


async def _read_group(page: PageRequest, together: str) -> list[Body]:
    """Return the entries of an action on many, which were written between the times that the form names."""
    span = {"since": page.entry("since"), "until": page.entry("until")}
    for name, at in span.items():
        if not at:  # else the whole log would be read
            raise invalid(name, "The form does not say when it was.", "Load the page again.")
    found: list[Body] = []
    cursor = None
    while len(found) < MANY_ROWS:
        shown = await page.ask("audit", limit=50, cursor=cursor, **span)
        found += [entry for entry in shown["entries"] if (entry["new"] or {}).get(AUDITED_TOGETHER) == together]
        cursor = shown["next_cursor"]
        if cursor is None:
            break
    return found


def _stands(entry: Body, memory: Body) -> bool:
    """Say whether a memory is still as an entry left it, so far as the entry tells."""
    action, is_archived = str(entry["action"]), memory["state"] == str(MemoryState.ARCHIVED)
    if action in (AuditAction.ARCHIVE, AuditAction.RESTORE, AuditAction.PROMOTE):
        return bool(is_archived == (action == AuditAction.ARCHIVE))
    return action != AuditAction.VERIFY or bool(memory["verification"] == (entry["new"] or {}).get("verification"))
