"""Show one memory, and do and undo what its buttons ask for."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from starlette.responses import Response

from engramq.gateway.budget import Body
from engramq.gateway.router import PAGE_PATH
from engramq.gateway.ui import editing
from engramq.gateway.ui.html import PAGES
from engramq.gateway.ui.request import PageCallRefused, PageRequest, unless_refused
from engramq.schemas.commands.changes import ADDED_TAGS, REMOVED_TAGS, TIMES, read_retagging
from engramq.schemas.faults import EngramqError, FaultCode, invalid, refuse
from engramq.schemas.vocabulary import AuditAction, MemoryState, Scope, Sector, Verification

REASON: Final = "reason"
SURE: Final = "sure"
SEEN: Final = "seen"
SHOWN_AS: Final = "shown_as"  # the verification that the form showed
EDIT: Final = "edit"
REWORD: Final = "reword"
REPLACE: Final = "replace"
BEFORE: Final = "before"  # the address of the list that leads here
_LIST: Final = f"{PAGE_PATH}/memories"

# What an update leaves of its old values in the audit log, and an update can write again.
SET_BACK: Final = ("sector", "confidence", "position", *TIMES)
CLEAR: Final = "clear"
LEFT: Final = "left_"  # before a value that an update left
_RESTORED: Final = frozenset({AuditAction.ARCHIVE, AuditAction.SUPERSEDE})
_GRAPH: Final = frozenset({AuditAction.DELETE_EDGE, AuditAction.DELETE_NODE})
_WITHOUT_A_LOOK: Final = frozenset({Verification.UNVERIFIED, Verification.REJECTED})  # neither vouches for anything
UNDO: Final = "Undo"
_REPLACING: Final = ("superseded", "decided")
_DONE_BY: Final = {"changed": AuditAction.UPDATE, "verified": AuditAction.VERIFY}
_USED: Final = re.compile(r"(shown|helped|misled)(?: in)? (\d+(?:\.\d+)?)")
_CLEARABLE: Final = frozenset({"position", *TIMES})
RETAGGING: Final = {ADDED_TAGS: "remove_tags", REMOVED_TAGS: "add_tags"}  # what takes it back
NEW_WORDS: Final = "new_words"  # the id of what an edit has put in the place of a memory

Action = Callable[[PageRequest, str], Awaitable[Body]]


async def verify(page: PageRequest, memory_id: str) -> Body:
    """Say how far it is vouched for; a voucher has seen all of it."""
    wanted, seen = page.entry("verification"), page.entry(SEEN)
    if wanted not in _WITHOUT_A_LOOK:
        require_look(seen)
        await _refuse_rejected_since(page, memory_id)
    return await vouch(page, memory_id, seen, wanted)


async def vouch(page: PageRequest, memory_id: str, seen: str, verification: str) -> Body:
    """Say how far a memory is vouched for as it was seen."""
    reason = page.entry(REASON)
    return await page.ask("verify_memory", memory_id=memory_id, verification=verification, reason=reason, seen=seen)


async def accept(page: PageRequest, memory_id: str, seen: str) -> Body:
    """Move a memory to trusted, as it was seen; what nobody has vouched for yet is verified by that."""
    require_look(seen)
    memory = await editing.load_memory(page, memory_id)
    if memory is not None and memory["verification"] in _WITHOUT_A_LOOK:
        await vouch(page, memory_id, seen, Verification.VERIFIED)
    return await page.ask("memory_promote_to_trusted", record_id=memory_id, seen=seen)


async def promote(page: PageRequest, memory_id: str) -> Body:
    """Move it to trusted, as it was seen."""
    await _refuse_rejected_since(page, memory_id)
    return await accept(page, memory_id, page.entry(SEEN))


async def is_rejected_since(page: PageRequest, memory_id: str, shown_as: str) -> bool:
    """Say whether somebody has rejected a memory that was shown as undecided: the digest does not cover verdicts."""
    if shown_as != Verification.UNVERIFIED:
        return False
    memory = await editing.load_memory(page, memory_id)
    return memory is not None and memory.get("verification") == Verification.REJECTED


async def _refuse_rejected_since(page: PageRequest, memory_id: str) -> None:
    if await is_rejected_since(page, memory_id, page.entry(SHOWN_AS)):
        conflict = refuse(FaultCode.CONFLICT, "It was rejected since it was shown.", memory_id=memory_id)
        raise PageCallRefused.of(conflict)


async def share(page: PageRequest, memory_id: str) -> Body:
    """Let everybody see it, as it was seen."""
    require_look(page.entry(SEEN))
    return await page.ask("share_memory", memory_id=memory_id, seen=page.entry(SEEN), reason=page.entry(REASON))


async def unshare(page: PageRequest, memory_id: str) -> Body:
    """Make it private again."""
    return await page.ask("unshare_memory", memory_id=memory_id)


async def forget(page: PageRequest, memory_id: str) -> Body:
    """Hide it."""
    return await page.ask("forget_memory", memory_id=memory_id, reason=page.entry(REASON))


async def erase(page: PageRequest, memory_id: str) -> Body:
    """Remove it for good; the form has to say that this is meant."""
    if page.entry(SURE) != "erase":
        raise invalid(SURE, "Nothing was erased: the box that says you mean it is not ticked.", "Tick it to erase.")
    return await page.ask("forget_memory", memory_id=memory_id, erase=True, reason=page.entry(REASON))


async def restore(page: PageRequest, memory_id: str) -> Body:
    """Bring it back from the archive, or from being superseded; new words of it that the form names are archived."""
    new_id = page.entry(NEW_WORDS)
    if new_id:
        new = await editing.load_memory(page, new_id)
        if new is None or new["supersedes"] != memory_id or _is_hidden(new):
            raise _changed_since()
    reply = await page.ask("restore_memory", memory_id=memory_id, reason=page.entry(REASON))
    if new_id and reply["status"] == "restored":
        await page.ask("forget_memory", memory_id=new_id, reason="its words were taken back")
    return reply


def _changed_since() -> EngramqError:
    return refuse(FaultCode.CONFLICT, "It was changed again since: nothing was done.", recovery="Open the memory.")


async def set_back(page: PageRequest, memory_id: str) -> Body:
    """Write old values again, if the memory is as it was seen, or its values as the update left them."""
    seen = page.entry(SEEN) or await _as_left(page, memory_id)
    values: dict[str, Any] = {name: page.entry(name) for name in SET_BACK if page.entry(name)}
    cleared = page.form.get(CLEAR, [])
    tags = {name: page.form.get(name, []) for name in RETAGGING.values()}
    return await page.ask("update_memory", memory_id=memory_id, clear=cleared, seen=seen, **values, **tags)


async def _as_left(page: PageRequest, memory_id: str) -> str:
    """Return the digest of a memory whose values are those that the form says an update left, refuse any other."""
    left = {name: page.form[f"{LEFT}{name}"][0] for name in SET_BACK if f"{LEFT}{name}" in page.form}
    require_look("".join(left))
    memory = await editing.load_memory(page, memory_id)
    if memory is None:
        return ""  # the update says that it is gone
    if any(_text_of(memory.get(name)) != value for name, value in left.items()):
        raise _changed_since()
    digest: str = memory["digest"]
    return digest


def _text_of(value: Any) -> str:
    return "" if value is None else str(value)


async def correct(page: PageRequest, memory_id: str) -> Body:
    """Write what the form says about it, if it is as it was seen."""
    require_look(page.entry(SEEN))
    return await editing.edit(page, memory_id, page.entry(SEEN))


async def write_anew(page: PageRequest, memory_id: str) -> Body:
    """Put the words of the form in the place of its words, if it is as it was seen."""
    require_look(page.entry(SEEN))
    return await editing.reword(page, memory_id, page.entry(SEEN))


async def end_wish(page: PageRequest, memory_id: str) -> Body:
    """Say that what it asks for is asked for no longer."""
    return await page.ask("update_memory", memory_id=memory_id, standing=False)


async def replace_by(page: PageRequest, memory_id: str) -> Body:
    """Let another memory, which the form names, hold in its place."""
    return await page.ask("supersede_memory", old_memory_id=memory_id, new_memory_id=page.entry("new_memory_id"))


def require_look(seen: str) -> None:
    """Raise EngramqError for a form that does not hold the digest of what it showed."""
    if not seen:
        raise invalid(SEEN, "The form does not say what was shown: nothing was done.", "Load the page again.")


def explain_conflict(refused: PageCallRefused) -> Body:
    """Return the refusal of what is not as it was seen, in words for people; raises any other refusal."""
    if refused.body["code"] != FaultCode.CONFLICT:
        raise refused
    return {**refused.body, "recovery": "Nothing was done. Judge it as it is now."}


ACTIONS_ON_MEMORIES: Final[Mapping[str, Action]] = {
    "verify": verify,
    "promote": promote,
    "share": share,
    "unshare": unshare,
    "forget": forget,
    "erase": erase,
    "restore": restore,
    "set_back": set_back,
    EDIT: correct,
    REWORD: write_anew,
    "end_wish": end_wish,
    REPLACE: replace_by,
}

_SAID: Final = {"success": "verified", "updated": "changed", "refused": "built_on"}


def outcome_of(reply: Body) -> str:
    """Return the word by which the next page says what an action has done."""
    status: str = reply["status"]
    return _SAID.get(status, status)


@dataclass(frozen=True, slots=True)
class Undo:
    """A form that undoes something: where it goes, what it sends, and what its button says."""

    path: str
    fields: tuple[tuple[str, str], ...]
    label: str


def undo_of(entry: Body, *, is_hidden: bool = True, seen: str = "") -> Undo | None:
    """Return how an entry is undone, None where nothing on this page undoes it.

    `is_hidden`: the memory that it is about may still be archived or superseded. `seen`: its digest, if the page shows
    all of it; without that nobody vouches for it again, and a value is set back only where it is as the entry left it.
    """
    action, target, old = entry["action"], entry["target_id"], entry["old"] or {}
    if target is None or entry["old"] is None:  # nothing to undo, or what the reader is not shown
        return None
    memory = f"/ui/memories/{target}"
    if action == AuditAction.VERIFY and old.get("verification"):
        return verify_again(memory, str(old["verification"]), seen)
    if action in _RESTORED:
        return Undo(f"{memory}/restore", (), "Restore") if is_hidden else None
    if action in _GRAPH:
        return Undo(f"/ui/audit/{entry['id']}/restore", (), "Restore")
    fields, new = _set_back(old, entry["reason"] or "") if action == AuditAction.UPDATE else (), entry["new"] or {}
    left = [(f"{LEFT}{name}", _text_of(new.get(name))) for name in SET_BACK if name in old]
    as_seen = [(SEEN, seen)] if seen else left
    return Undo(f"{memory}/set_back", (*fields, *as_seen), "Set back") if fields and as_seen else None


def _undo_last(page: PageRequest, memory: Body, entries: Iterable[Body]) -> Undo | None:
    """Return what takes all of that back which the form before has done, None where nothing does.

    The address names the action; for a change the newest entry says more, to a visitor that may read it.
    """
    done, place, seen = page.query("done"), f"/ui/memories/{memory['id']}", memory.get("digest", "")
    if done in _REPLACING and memory["supersedes"] and not _is_hidden(memory):
        fields = ((NEW_WORDS, memory["id"]),) if done == "superseded" else ()
        return Undo(f"/ui/memories/{memory['supersedes']}/restore", fields, UNDO)
    if done == "archived" and memory["state"] == MemoryState.ARCHIVED:
        return Undo(f"{place}/restore", (), UNDO)
    last = next(iter(entries), None)
    if last is None or _DONE_BY.get(done) != last["action"] or last["actor"] != page.caller.principal.name:
        return None
    new = last["new"] or {}
    touched = {*new.get("changed", ()), *new.get("cleared", ()), *(name for name in new if name == "metadata_keys")}
    way = undo_of(last, seen=seen) if touched <= {*SET_BACK, *RETAGGING.values()} else None
    return None if way is None else replace(way, label=UNDO)


def undo_among(entries: Iterable[Body]) -> Callable[[Body], Undo | None]:
    """Return how each of these entries is undone, the newest first: no more if a later one has restored or erased."""
    found: dict[Any, Undo | None] = {}
    back, erased = set[str](), set[str]()
    for entry in entries:
        target, action = entry["target_id"], entry["action"]
        found[entry["id"]] = None if target in erased else undo_of(entry, is_hidden=target not in back)
        if action in (AuditAction.RESTORE, AuditAction.ERASE):
            (back if action == AuditAction.RESTORE else erased).add(target)
    return lambda entry: found[entry["id"]]


def verify_again(place: str, word: str, seen: str) -> Undo | None:
    """Return the form that sets a verification back, None for one that vouches for what is not shown whole."""
    if not seen and word not in _WITHOUT_A_LOOK:
        return None
    return Undo(f"{place}/verify", (("verification", word), (SEEN, seen)), f"Back to {word}")


def _set_back(old: dict[str, Any], reason: str) -> tuple[tuple[str, str], ...]:
    """Return the fields that write old values and tags again; those that were empty are to be cleared."""
    kept = [(name, str(old[name])) for name in SET_BACK if old.get(name) is not None]
    empty = [(CLEAR, name) for name in SET_BACK if name in old and old[name] is None and name in _CLEARABLE]
    tags = [(RETAGGING[said], tag) for said, some in read_retagging(reason).items() for tag in some]
    return (*kept, *empty, *tags)


VERSIONS: Final = 20  # that are read in either direction
AUDIT_ROWS: Final = 50


async def show_content(page: PageRequest) -> Response:
    """Show the words of a memory alone, for the row of a list in which they are cut."""
    memory = await editing.load_memory(page, page.request.path_params["memory_id"])
    return page.missing("memory") if memory is None else page.render("content.html", memory=memory)


async def show_memory(page: PageRequest, refusal: Body | None = None) -> Response:
    """Show a memory, with why what was asked for is refused; after a mistake in a form with what was entered.

    `as_of` in the address: with the links that held then.
    """
    memory_id = page.request.path_params["memory_id"]
    as_of, status = page.query("as_of"), 200 if refusal is None else FaultCode(refusal["code"]).http_status
    (found, bad_time), card, entries = await asyncio.gather(
        _read_as_of(page, memory_id, as_of),
        _card(page, memory_id),
        read_audit(page, target=memory_id, limit=AUDIT_ROWS),
    )
    memory, refusal = found["memory"], bad_time or refusal
    if memory is None:
        return page.missing("memory")
    versions = await _versions(page, memory)
    undone = partial(undo_of, is_hidden=_is_hidden(memory), seen=memory.get("digest", ""))
    return page.render(
        "memory.html",
        status=status,
        memory=memory,
        links=found.get("links", []),
        versions=versions,
        replaces=found.get("replaces", []),
        entries=entries,
        way_back=None if memory.get("of_another") or refusal else _undo_last(page, memory, entries or ()),
        card=card,
        usage=_usage_in(card),
        undo_of=(lambda _entry: None) if memory.get("of_another") else undone,
        refusal=refusal,
        as_of=as_of,
        verifications=list(Verification),
        **_list_before(page),
        **_correction(page, memory, refusal),
    )


def _list_before(page: PageRequest) -> dict[str, str]:
    """Return the address and the name of the list that somebody came from, with its filters, else that of memories.

    A browser names it when a link is followed; from then on the forms of a memory and its address carry it.
    """
    before = page.entry(BEFORE) or page.query(BEFORE)
    if not before:
        host, slash, path = page.request.headers.get("referer", "").partition("://")[2].partition("/")
        before = f"{slash}{path}" if host == page.request.headers.get("host") else ""
    name = next((name for path, name, *_ in PAGES if path == before.partition("?")[0]), "")
    return {BEFORE: before, "before_name": name} if name else {BEFORE: _LIST, "before_name": "Memories"}


def _go_to(page: PageRequest, memory_id: str, done: str) -> Response:
    """Send the visitor to a memory, from which the way back stays that of the form."""
    before = _list_before(page)[BEFORE]
    return page.go(f"{_LIST}/{memory_id}", done=done, **({BEFORE: before} if before != _LIST else {}))


def _correction(page: PageRequest, memory: Body, refusal: Body | None) -> dict[str, Any]:
    """Return what the form of a correction shows: what stands there, and where one is refused what was entered in it.

    A field that somebody has changed meanwhile shows its present value.
    """
    said, kept, changed = editing.entries_of(memory), memory["tags"], (refusal or {}).get("changed", [])
    if refusal is not None and page.request.path_params.get("action") == EDIT:
        said |= {name: page.entry(name) for name in said if name in page.form and name not in changed}
        kept = kept if "tags" in changed else page.form.get(editing.KEPT_TAGS, [])
    return {"entries_said": said, "kept_tags": kept, "sectors": list(Sector), **editing.words_of(page, memory, refusal)}


def _as_sent(page: PageRequest, refused: PageCallRefused) -> dict[str, Any]:
    """Return what the form of a correction shows by what it sent alone, for when the memory may not be read either."""
    kept = page.form.get(editing.KEPT_TAGS, [])
    memory = {"id": page.request.path_params["memory_id"], "digest": page.entry(SEEN), "tags": kept}
    said = {"entries_said": editing.read_entries(page), "kept_tags": kept, "sectors": list(Sector)}
    return {"memory": memory, **said, **_list_before(page), **editing.words_of(page, {"content": ""}, refused.body)}


async def change_memory(page: PageRequest) -> Response:
    """Do to a memory what a button says, and show it again."""
    try:
        reply = await apply_button(page)
    except PageCallRefused as refused:
        if page.request.path_params["action"] not in (EDIT, REWORD) or refused.body["code"] == FaultCode.CONFLICT:
            return await show_memory(page, explain_conflict(refused))
        if refused.status == 400:
            return await show_memory(page, refused.body)
        return await page.refuse("edit_refused.html", refused.body, **_as_sent(page, refused))
    if isinstance(reply, Response):
        return reply
    if reply["status"] == "superseded":
        done = "decided" if page.request.path_params["action"] == REPLACE else outcome_of(reply)
        return _go_to(page, reply["new"]["id"], done)
    if reply["status"] == "erased":
        return page.go(_LIST, done=outcome_of(reply))
    return _go_to(page, page.request.path_params["memory_id"], outcome_of(reply))


async def apply_button(page: PageRequest) -> Body | Response:
    """Do to a memory what a button says; return the reply, or the page where the button or the memory is none."""
    act_on = ACTIONS_ON_MEMORIES.get(page.request.path_params["action"])
    if act_on is None:
        return page.missing()
    reply = await act_on(page, page.request.path_params["memory_id"])
    return page.missing("memory") if reply["status"] == "not_found" else reply


async def _read_as_of(page: PageRequest, memory_id: str, as_of: str) -> tuple[Body, Body | None]:
    """Return a memory as `read_memory` does, of now where the time is refused, and that refusal."""
    found, refusal = await unless_refused(editing.read_memory(page, memory_id, as_of), {})
    return found or await editing.read_memory(page, memory_id), refusal


async def _versions(page: PageRequest, memory: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the memory with what it replaced, one after the other, and what replaced it, the newest first."""
    newer, older = await asyncio.gather(_chain(page, memory, "superseded_by"), _chain(page, memory, "supersedes"))
    return [*reversed(newer), memory, *older]


async def _chain(page: PageRequest, memory: dict[str, Any], leads_to: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    next_id, seen = memory[leads_to], {memory["id"]}
    while next_id and next_id not in seen and len(found) < VERSIONS:
        seen.add(next_id)
        one = await editing.load_memory(page, next_id)
        if one is None:
            break
        found.append(one)
        next_id = one[leads_to]
    return found


async def _card(page: PageRequest, memory_id: str) -> dict[str, list[Body]]:
    """Return the lines on why a memory is known, by what they are about."""
    card = await page.ask("why", memory_id=memory_id, include_untrusted=True)
    return {kind.replace("_", " "): lines for kind, lines in card.items() if isinstance(lines, list)}


def _usage_in(card: Mapping[str, list[Body]]) -> dict[str, float]:
    """Return in how many searches agents were shown a memory, and how often it helped and misled, by its card."""
    said = " ".join(line.get("says", "") for line in card.get("used", ()))
    counts = {word: float(number) for word, number in _USED.findall(said)}
    return {word: counts.get(word, 0) for word in ("shown", "helped", "misled")}


async def read_audit(page: PageRequest, **wanted: Any) -> list[Body] | None:
    """Return entries of the audit log, None for a visitor that may not see them."""
    if not page.may(Scope.ADMIN):
        return None
    entries: list[Body] = (await page.ask("audit", **wanted))["entries"]
    return entries


def _is_hidden(memory: dict[str, Any]) -> bool:
    """Say whether a memory is archived or superseded, and can be restored."""
    return memory["state"] == MemoryState.ARCHIVED or bool(memory["superseded_by"] or memory["superseded_at"])
