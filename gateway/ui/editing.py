"""Write a new memory, and correct what is said about one: its forms, and what of them is a change."""

from collections.abc import Sequence
from hashlib import sha256
from typing import Any, Final

from starlette.responses import Response

from engramq.gateway.budget import Body
from engramq.gateway.ui.request import PageCallRefused, PageRequest
from engramq.schemas.evidence import Citation
from engramq.schemas.faults import NOT_APPLIED, FaultCode, invalid, refuse
from engramq.schemas.ids import uuid7
from engramq.schemas.vocabulary import (
    CitationState,
    MemorySource,
    Partition,
    Sector,
    SectorSource,
    StandingSource,
    Visibility,
)

# What the forms ask for by a field of one line, each the parameter of its name.
ENTRIES: Final = (
    *("speaker", "occurred_at", "thread", "position", "project", "confidence"),
    *("valid_from", "valid_until", "expires_at"),
)
KEPT_TAGS: Final = "keep_tag"
NEW_TAGS: Final = "new_tags"
_SECTOR: Final = "sector"
ONCE: Final = "once"  # the key under which a form's words are stored, hidden in it
LATE: Final = "late"  # ids of other words of this form, which were stored late: hidden in it too


def entries_of(memory: Body) -> dict[str, str]:
    """Return what the form of a memory shows in its fields; a sector only if somebody has chosen it."""
    chosen = memory["sector"] if memory["sector_source"] == SectorSource.MANUAL else ""
    return {name: "" if memory[name] is None else str(memory[name]) for name in ENTRIES} | {_SECTOR: chosen}


def changes_of(page: PageRequest, memory: Body) -> dict[str, Any]:
    """Return the arguments by which an update makes of a memory what the form says; a field that is emptied is cleared.

    The form has a box for each tag that is there, so that a tag may have a comma in it.
    """
    before = entries_of(memory)
    changed = {
        name: page.entry(name) for name in before if name in page.form and page.entry(name) != before[name].strip()
    }
    kept = page.form.get(KEPT_TAGS, [])
    return {
        **{name: value for name, value in changed.items() if value},
        "clear": [name for name, value in changed.items() if not value],
        "add_tags": tags_in(page.entry(NEW_TAGS)),
        "remove_tags": [tag for tag in memory["tags"] if tag not in kept] if NEW_TAGS in page.form else [],
    }


def tags_in(text: str) -> list[str]:
    """Return the tags in a text, with commas between them."""
    return [tag.strip() for tag in text.split(",") if tag.strip()]


async def read_memory(page: PageRequest, memory_id: str, as_of: str = "") -> Body:
    """Return a memory with its links, whatever its partition."""
    return await page.ask("get_memory", memory_id=memory_id, include_untrusted=True, as_of=as_of)


async def load_memory(page: PageRequest, memory_id: str) -> Body | None:
    """Return a memory alone, None where there is none."""
    found: Body | None = (await read_memory(page, memory_id))["memory"]
    return found


async def edit(page: PageRequest, memory_id: str, seen: str) -> Body:
    """Correct what is said about a memory, as the form says it; raises EngramqError when that is what stands there."""
    memory = await load_memory(page, memory_id)
    if memory is None:
        return {"status": "not_found"}
    changes = changes_of(page, memory)
    if not any(changes.values()):
        raise invalid("form", "The form says what stands there: nothing was changed.", "Change something in it.")
    return await page.ask("update_memory", memory_id=memory_id, seen=seen, **changes)


def read_entries(page: PageRequest) -> dict[str, str]:
    """Return what was entered into the fields of a form, by name."""
    return {name: page.entry(name) for name in (*ENTRIES, _SECTOR)}


async def show_new(page: PageRequest) -> Response:
    """Show the form of a new memory."""
    return page.render("new_memory.html", refusal=None, trouble=(), **_new_memory(page))


async def store_new(page: PageRequest) -> Response:
    """Store a memory in the visitor's own words, and show it; a form that is sent twice stores it once."""
    try:
        reply = await page.ask(
            "store_memory",
            content=page.entry("content").replace("\r\n", "\n"),  # as browsers end lines in forms
            source=MemorySource.EXPLICIT.value,
            partition=page.entry("partition"),
            tags=tags_in(page.entry(NEW_TAGS)),
            idempotency_key=page.entry(ONCE),
            **{name: page.entry(name) for name in (*ENTRIES, _SECTOR)},
        )
    except PageCallRefused as refused:
        values = _new_memory(page)
        if refused.status >= 500:  # the same words under the same key are stored once, should these have been
            values[ONCE] = page.entry(ONCE)
        return await page.refuse("new_memory.html", _as_sent_before(refused.body), **values)
    if reply["status"] != "stored":  # nobody knows yet whether it will be
        return page.go("/ui/memories", done="pending")
    return page.go(f"/ui/memories/{reply['stored']['id']}", done="stored")


def _as_sent_before(refusal: Body) -> Body:
    """Return a refusal; that of a form which has stored other words before, in words for people."""
    if refusal["code"] != FaultCode.IDEMPOTENCY_CONFLICT:
        return refusal
    error = "This form was sent before, with other words. Its present words are not stored."
    return {**refusal, "error": error, "recovery": "Store it again to keep it as a memory of its own."}


# What a memory keeps when its words are written anew, beside sector, source type and standing.
_KEPT: Final = (*ENTRIES, "tags", "metadata", "partition")


def _grounds_of(memory: Body) -> list[dict[str, Any]]:
    """Return what a memory cites as it was given, without what a look at it has found since.

    A memory that is gone can be cited no more.
    """
    return [
        {name: citation[name] for name in Citation.__struct_fields__ if name in citation}
        for citation in memory.get("evidence") or ()
        if "memory_id" not in citation or citation.get("state") != CitationState.GONE
    ]


_NOT_CURRENT: Final = frozenset({FaultCode.MEMORY_NOT_ACTIVE, FaultCode.ALREADY_SUPERSEDED})  # nothing to replace
_LATE: Final = "Storing the new words takes longer than usual. The old ones still stand."


class WordsTakenBack(PageCallRefused):
    """The new words did not get the place of the old ones, and are archived: sent again they need another key."""

    def __init__(self, body: Body) -> None:
        super().__init__(body)
        self.body[ONCE] = uuid7()


async def reword(page: PageRequest, memory_id: str, seen: str) -> Body:
    """Store the words of the form with all that is said about a memory, and let them supersede it.

    If two people reword the text that both have seen, the second is refused, and nothing of theirs is left.
    """
    memory = await load_memory(page, memory_id)
    if memory is None:
        return {"status": "not_found"}
    content, once = page.entry("content").replace("\r\n", "\n"), page.entry(ONCE)
    if memory.get("digest") != seen or memory["superseded_by"]:
        after = await load_memory(page, memory["superseded_by"]) if memory["superseded_by"] else None
        if after is not None and after["content"] == content:  # the form was sent twice
            return {"status": "superseded", "new": after}
        raise PageCallRefused.of(refuse(FaultCode.CONFLICT, "The memory has changed since it was shown."))
    if content == memory["content"]:
        raise PageCallRefused.of(invalid("content", "These are its words: nothing was changed."))
    late = page.entry(LATE).split()
    try:
        stored = await _store_words(page, memory, content, once)
    except PageCallRefused as refused:
        earlier = refused.body.get("memory_id")
        if refused.body["code"] != FaultCode.IDEMPOTENCY_CONFLICT or earlier is None:
            raise
        late.append(earlier)  # other words of this form; sent again, the same words have the same key
        once = sha256(f"{once} {content}".encode()).hexdigest()
        stored = await _store_words(page, memory, content, once)
    if stored["status"] != "stored":  # the form shown again goes on where this one ended
        fault = refuse(FaultCode.OVERLOADED, _LATE, recovery="Save again in a moment: the same words are stored once.")
        raise PageCallRefused.of(fault, **{ONCE: once, LATE: " ".join(late)})
    return await _give_place(page, memory_id, stored["stored"]["id"], late)


async def _give_place(page: PageRequest, memory_id: str, new_id: str, late: Sequence[str]) -> Body:
    """Let new words supersede a memory, and words of the same form that came late, which may have its place already."""
    for late_id in late:
        try:
            await page.ask("supersede_memory", old_memory_id=late_id, new_memory_id=new_id)
        except PageCallRefused as refused:
            if refused.body["code"] not in _NOT_CURRENT:
                raise
    try:
        return await page.ask(
            "supersede_memory", old_memory_id=memory_id, new_memory_id=new_id, idempotency_key=f"{new_id}-supersede"
        )
    except PageCallRefused as refused:
        if refused.status >= 500 and refused.body["code"] not in NOT_APPLIED:  # it may have been done
            raise
        now = await load_memory(page, memory_id)
        if now is not None and now["superseded_by"] in late:
            return {"status": "superseded", "new": await load_memory(page, new_id)}
        await page.ask("forget_memory", memory_id=new_id, reason="it could not supersede what it should")
        raise WordsTakenBack(refused.body) from refused


async def _store_words(page: PageRequest, memory: Body, content: str, once: str) -> Body:
    """Store new words with all that is said about a memory; raises as `page.ask` does."""
    return await page.ask(
        "store_memory",
        content=content,
        source=MemorySource.EXPLICIT.value,
        sector=entries_of(memory)[_SECTOR],
        source_type=memory["source_type"] if memory["partition"] == Partition.UNTRUSTED else None,
        standing=memory["standing"] if memory["standing_source"] == StandingSource.GIVEN else None,
        evidence=_grounds_of(memory),
        idempotency_key=once,
        **{name: memory.get(name) for name in _KEPT},
        visibility=memory.get("visibility") or Visibility.SHARED.value,
    )


def words_of(page: PageRequest, memory: Body, refusal: Body | None) -> dict[str, Any]:
    """Return what the form of new words shows: those of the memory, where they were refused those that were entered.

    These keep the key under which they may be stored already, if the refusal names no other.
    """
    if page.request.path_params.get("action") != "reword":
        return {"rewords": False, "words": memory["content"], ONCE: uuid7(), LATE: ""}
    sent = {ONCE: page.entry(ONCE), LATE: page.entry(LATE)}
    kept = {name: (refusal or {}).get(name, value) for name, value in sent.items()}
    return {"rewords": True, "words": page.entry("content"), **kept}


def _new_memory(page: PageRequest) -> dict[str, Any]:
    """Return what the form of a new memory shows: what was entered, under a key that was never used."""
    return {
        "entries": read_entries(page),
        ONCE: uuid7(),
        "sectors": list(Sector),
        "partitions": list(Partition),
    }


async def list_projects(page: PageRequest) -> Response:
    """Answer the fields that ask for a project with those that there are, to pick from."""
    stats = await page.ask("memory_stats", partitions=list(Partition))
    return page.render("projects.html", projects=[entry["project"] for entry in stats["projects"] if entry["project"]])
