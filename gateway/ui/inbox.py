"""Show the inbox of untrusted memories, and take a verdict on one or on many of them, each as it was seen."""

import re
from dataclasses import dataclass, field, replace
from typing import Any, Final

from starlette.responses import Response

from engramq.gateway.budget import Body
from engramq.gateway.ui.bulk_actions import CHANGES, VERDICTS, decide
from engramq.gateway.ui.editing import load_memory
from engramq.gateway.ui.html import DONE
from engramq.gateway.ui.memories import MemoryFilters, list_memories
from engramq.gateway.ui.memory import Undo, apply_button, explain_conflict, outcome_of, verify_again
from engramq.gateway.ui.request import PageCallRefused, PageRequest, unless_refused
from engramq.schemas.vocabulary import Partition, Verification

INBOX_ROWS: Final = 25
CONVERSATION: Final = "conversation"
USER: Final = "user"
ASSISTANT: Final = "assistant"
CHATTER_CHARS: Final = 60
COURTESIES: Final = frozenset({
    "anytime", "awesome", "bitte", "bye", "cheers", "cool", "danke", "excellent", "gern", "gerne", "geschehen",
    "glad", "good", "gracias", "great", "happy", "hello", "hey", "hi", "merci", "nice", "np", "ok", "okay",
    "perfect", "please", "super", "thank", "thanks", "thx", "ty", "welcome", "wonderful",
})  # fmt: skip
_BESIDE_THEM: Final = frozenset({
    "a", "again", "all", "and", "any", "are", "day", "enjoy", "fine", "for", "got", "have", "help", "helped", "i",
    "im", "is", "it", "lot", "much", "my", "no", "of", "pleasure", "problem", "sehr", "so", "sounds", "sure",
    "that", "thats", "the", "to", "very", "vielen", "well", "works", "you", "your", "youre",
})  # fmt: skip
_UNDECIDED: Final = (Verification.UNVERIFIED.value, Verification.REJECTED.value)
FILTERED: Final = ("project", "thread", "created_by", "source_type", "since", "until")


async def show_inbox(page: PageRequest, *, status: int = 200, **more: Any) -> Response:
    """Show the newest untrusted memories that pass the filters; `verification`: those alone, rejected ones too."""
    filters = _filters(page)
    found = list_memories(page, filters, INBOX_ROWS)
    shown, refusal = await unless_refused(found, {"memories": [], "next_cursor": None})
    exchanges = group_turns(shown["memories"])
    shown = {**shown, "memories": [memory for exchange in exchanges for memory in exchange.memories]}
    filtered = any(getattr(filters, name) for name in FILTERED)
    return page.render(
        "inbox.html", status=400 if refusal else status, shown=shown, exchanges=exchanges, filters=filters,
        filtered=filtered, verifications=list(Verification), **{"refusal": refusal, "decided": None, **more},
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class TurnGroup:
    """The memories that are decided together: a turn with its answers, in the order of speech, or one memory alone.

    `chatter`: courtesies after them, which are shown in one line and never judged.
    """

    memories: list[Body]
    chatter: list[Body] = field(default_factory=list)

    @property
    def chosen(self) -> list[str]:
        """The form's decision on each memory that was shown whole."""
        whole = [each for each in self.memories if each.get("digest") and "of_another" not in each]
        return [f"{each['id']}.{each['digest']}.{each['verification']}" for each in whole]

    @property
    def is_verified(self) -> bool:
        """Whether somebody has vouched for all that is worth it, so that a promotion is next."""
        return all(each["verification"] not in _UNDECIDED for each in self.memories)


def group_turns(newest_first: list[Body]) -> list[TurnGroup]:
    """Return memories in groups, the newest first: each turn of a person with the answers that follow in its session.

    Courtesies join the group before them; where there is none on the page, nobody has anything to decide.
    """
    groups: list[TurnGroup] = []
    last: dict[str, TurnGroup] = {}
    for memory in reversed(newest_first):
        thread, speaker = memory.get("thread"), memory.get("speaker")
        if memory.get("source_type") != CONVERSATION or not thread or speaker not in (USER, ASSISTANT):
            groups.append(TurnGroup([memory]))
        elif is_chatter(memory["content"]):
            if thread in last:
                last[thread].chatter.append(memory)
        elif speaker == ASSISTANT and thread in last:
            last[thread].memories.append(memory)
        else:
            last[thread] = TurnGroup([memory])
            groups.append(last[thread])
    return groups[::-1]


def is_chatter(text: str) -> bool:
    """Say whether a turn is a courtesy, such as "ok thanks" or "You're welcome!": few words, all of that kind."""
    words = re.findall(r"[^\W\d_]+", text.lower().replace("\N{RIGHT SINGLE QUOTATION MARK}", "'").replace("'", ""))
    if len(text) > CHATTER_CHARS or re.search(r"[\d?]", text) or not (COURTESIES | _BESIDE_THEM).issuperset(words):
        return False
    return not words or not COURTESIES.isdisjoint(words)


async def decide_memory(page: PageRequest) -> Response:
    """Decide on one memory; with htmx its row comes back, with what undoes the decision, or as it is by now."""
    memory_id, action = page.request.path_params["memory_id"], page.request.path_params["action"]
    refusal = None
    try:
        reply = await apply_button(page)
    except PageCallRefused as refused:
        reply = refusal = explain_conflict(refused)
    if isinstance(reply, Response):
        return reply
    if not page.is_partial:
        return (
            await show_inbox(page, status=409, refusal=refusal)
            if refusal
            else page.go("/ui/inbox", done=outcome_of(reply))
        )
    memory = await load_memory(page, memory_id)
    if memory is None:
        return page.missing("memory")
    said = (refusal["error"], refusal["recovery"]) if refusal else (DONE.get(outcome_of(reply), ""),)
    undo = None if refusal else _undo_of(action, memory, reply)
    return page.render("inbox_row.html", status=409 if refusal else 200, memory=memory, said=said, undo=undo)


def _undo_of(action: str, memory: Body, reply: Body) -> Undo | None:
    """Return what undoes a decision. A promotion has nothing: only promotion moves memories between partitions."""
    row = f"/ui/inbox/{memory['id']}"
    if action == "verify" and reply.get("old_verification") not in (None, reply.get("new_verification")):
        return verify_again(row, str(reply["old_verification"]), memory.get("digest", ""))
    if action == "forget" and reply["status"] == "archived":
        return Undo(f"{row}/restore", (), "Undo: restore")
    if action == "promote" and reply["status"] == "promoted":
        return Undo(f"{row}/forget", (), "Hide it again: archive")
    return None


async def decide_many(page: PageRequest) -> Response:
    """Act on the memories that are selected, or on all that were shown, and tell what came of each."""
    listed = (await list_memories(page, _filters(page), INBOX_ROWS))["memories"]
    return await show_inbox(page, decided=await decide(page, {**VERDICTS, **CHANGES}, listed))


def _filters(page: PageRequest) -> MemoryFilters:
    return replace(MemoryFilters.of(page), partition=Partition.UNTRUSTED.value)
