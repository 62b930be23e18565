"""Read the data export of ChatGPT: conversations.json, or several numbered ones, alone or in an archive.

A conversation is a tree, since a message can be edited and an answer made anew. The branch of the first messages is the
thread. Each other one has a thread of its own, named by the message with which it leaves another. So each message comes
in once. A later export adds to the same threads, though it shows another branch."""

import math
import re
import zlib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from engramq.deploy.importing import exports, fields
from engramq.deploy.importing.records import Rejection, UncheckedRow
from engramq.schemas.faults import EngramqError, invalid

FILE: Final = re.compile(r"conversations(?:-\d+)?(?: ?\(\d+\))?\.json")  # browsers number a second download
MAPPING: Final = "mapping"
CURRENT: Final = "current_node"
_TEXTS: Final = ("text", "multimodal_text")
_BIO: Final = "bio"  # the memory, to which a model writes what it is to remember
_INSTRUCTED: Final = ("user_profile", "user_instructions")
_HEAD: Final = re.compile(r"(?m)^(\d{1,6})\. (?:\[(\d{4}-\d\d-\d\d)\]\.?)?")  # of an entry of the memory
_LATEST: Final = 1e12
_TO_ALL: Final = (None, "all", _BIO)  # another recipient is a tool
_BEGINNING: Final = exports.LeftOut("lost beginnings of conversations", "lost beginning of a conversation")
OTHER_BRANCH: Final = "other-branch"  # the tag of what was not shown last
_CITATION: Final = re.compile("\ue200[^\ue200\ue201]*\ue201")  # how a source is marked, in characters of private use


def read_chatgpt(path: Path, choices: fields.Choices) -> Iterator[exports.Entry]:
    """Yield the messages of each conversation; those of the system and of tools only where all are wanted."""
    repeated = set[str]()  # what each conversation has at its beginning
    for item in exports.all_items(path, MAPPING, name=FILE):
        if isinstance(item, Rejection):
            yield item
            continue
        try:
            branches = _branches(item.values)
        except EngramqError as refused:
            yield Rejection(item.line, str(refused.fault.field), refused.fault.error)
            continue
        identifier = item.values.get("conversation_id") or item.values.get("id")
        if not identifier:
            yield Rejection(item.line, "id", "The conversation has no id.")
            continue
        for branch in branches:
            thread = identifier if branch.top is None else f"{identifier}#{branch.top}"
            said = fields.Conversation("chatgpt", item.line, thread, choices, item.values.get("title"))
            yield from [] if branch.is_whole else [_BEGINNING]
            yield from _chatgpt_messages(item, branch.messages, said, repeated)


class _Said(NamedTuple):
    """A message, its place below the root, and whether it was shown last."""

    place: int
    values: dict[str, Any]
    is_shown: bool


class _Branch(NamedTuple):
    """Messages in order. `is_whole`: nothing is lost before them."""

    messages: list[_Said]
    is_whole: bool
    top: str | None  # the node that it begins with, None for the first branch


def _branches(conversation: dict[str, Any]) -> list[_Branch]:
    """Return the branches: of the nodes behind one the eldest goes on with its branch, each other begins one."""
    if not isinstance(conversation.get(MAPPING), dict):
        raise invalid(MAPPING, "A conversation of ChatGPT has a mapping, and this has none.")
    nodes = {key: node for key, node in conversation[MAPPING].items() if isinstance(node, dict)}
    shown, passed = _find_shown(nodes, conversation.get(CURRENT)), set[str]()
    parents = {key: _parent(nodes, key) for key in nodes}
    following, tops = defaultdict[str, list[str]](list), list[str]()
    for key in sorted(nodes, key=lambda key: _age(nodes[key])):
        tops.append(key) if (parent := parents[key]) is None else following[parent].append(key)
    starts = [*sorted(tops, key=lambda key: nodes[key].get("parent") is not None), *nodes]  # a circle has no top
    found: list[_Branch] = []
    for start in starts:
        waiting = [(start, 0)]
        while waiting:
            top, place = waiting.pop()
            is_whole, messages = nodes[top].get("parent") is None or parents[top] in passed, list[_Said]()
            for at in _follow(top, following, passed):
                if isinstance(said := nodes[at].get("message"), dict):
                    own = said.get("id")
                    known = own if isinstance(own, str) and own else at
                    messages.append(_Said(place, {**said, "id": known}, at in shown))
                    place += 1
                waiting += [(other, place) for other in following[at][:0:-1]]
            if messages:
                found.append(_Branch(messages, is_whole, None if top == starts[0] else top))
    if not found:
        raise invalid(MAPPING, "The conversation has no message that can be found.")
    return found


def _follow(top: str, following: Mapping[str, list[str]], passed: set[str]) -> Iterator[str]:
    """Yield the nodes of a branch, the eldest behind each, up to one that was passed; all are passed then."""
    at: str | None = top
    while at is not None and at not in passed:
        passed.add(at)
        yield at
        at = next(iter(following[at]), None)


def _parent(nodes: dict[str, dict[str, Any]], key: str) -> str | None:
    """Return the node before one, None where it is not there."""
    parent = nodes[key].get("parent")
    return parent if isinstance(parent, str) and parent in nodes else None


def _find_shown(nodes: dict[str, dict[str, Any]], current: object) -> set[str]:
    """Return the nodes from the current one, else the newest, up to the root."""
    at = current if isinstance(current, str) and current in nodes else None
    if at is None:
        at = max(reversed(nodes), key=lambda key: _age(nodes[key]), default=None)
    shown = set[str]()
    while at is not None and at not in shown:
        shown.add(at)
        at = _parent(nodes, at)
    return shown


def _age(node: dict[str, Any]) -> float:
    at = fields.value_at(node, "message.create_time")
    return float(at) if isinstance(at, int | float) and abs(at) < _LATEST else 0.0


def _chatgpt_messages(
    item: UncheckedRow, messages: list[_Said], said: fields.Conversation, repeated: set[str]
) -> Iterator[exports.Entry]:
    choices = said.choices
    not_shown = replace(said, marks=(OTHER_BRANCH,))
    for position, message, is_shown in messages:
        role = fields.value_at(message, "author.role")
        speaker = role if isinstance(role, str) and role else "unknown"
        is_spoken = _is_spoken(message)
        text = _chatgpt_text(message)
        yield from [fields.ATTACHMENTS] * (_count_files(message) if is_spoken else 0)
        if kept := _context(message):
            for kind, day, own in kept:
                known = exports.own_id("chatgpt", kind, zlib.crc32(own.encode(errors="surrogatepass")))
                if known not in repeated:
                    repeated.add(known)
                    yield fields.make_memory_row(replace(item, values={"updated_at": day}), own, known, choices)
        elif not text:
            yield fields.NO_TEXT
        elif not is_spoken and not choices.all_messages:
            yield fields.NOT_SPOKEN
        else:
            if speaker in fields.SPOKEN_BY and not is_spoken:
                speaker = f"{speaker} (hidden)"
            branch = said if is_shown else not_shown
            yield branch.turn(message["id"], position, speaker, text, message.get("create_time"))


def _context(message: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Return instructions of the user, or entries of the memory with their days, each after its kind."""
    kind = fields.value_at(message, "content.content_type")
    if kind == "user_editable_context":
        text = fields.join_texts(fields.value_at(message, f"content.{name}") for name in _INSTRUCTED)
        return [("instructions", "", text)] if text else []
    text = fields.clean_text(fields.value_at(message, "content.model_set_context"))
    return [("memory", day, entry) for day, entry in _split_memory(text) if entry]


def _split_memory(text: str) -> Iterator[tuple[str, str]]:
    """Yield the entries of the memory with their days; a number without a day begins one where it is the next.

    So a list of steps stays within its entry, as far as the number of the next day tells.
    """
    found = list(_HEAD.finditer(text))
    most, nexts = math.inf, []
    for head in reversed(found):
        nexts.append(most)
        most = int(head[1]) if head[2] else most
    at, day, number = 0, "", 0
    for head, following in zip(found, reversed(nexts), strict=True):
        if head[2] or number + 1 == int(head[1]) < following:
            yield day, text[at : head.start()].strip()
            at, day, number = head.end(), head[2] or "", int(head[1])
    yield day, text[at:].strip()


def _is_spoken(message: dict[str, Any]) -> bool:
    """Say whether a person or the model said it and people saw it: no call of a tool, no thought, nothing hidden."""
    kind, recipient = fields.value_at(message, "content.content_type"), message.get("recipient")
    is_hidden = fields.value_at(message, "metadata.is_visually_hidden_from_conversation") is True
    is_shown = (kind in _TEXTS or recipient == _BIO) and recipient in _TO_ALL and not is_hidden
    return is_shown and fields.value_at(message, "author.role") in fields.SPOKEN_BY


def _count_files(message: dict[str, Any]) -> int:
    """Return how many pictures and files a message has; a picture stands in both places, a recording has its words."""
    kinds = [fields.value_at(part, "content_type") for part in fields.list_at(message, "content.parts")]
    pictures = [kind for kind in kinds if isinstance(kind, str) and kind.startswith("image")]
    return max(len(pictures), len(fields.list_at(message, "metadata.attachments")))


def _chatgpt_text(message: dict[str, Any]) -> str:
    """Return the texts of a message; a part is a text, or an object that has one, as what was spoken has."""
    content = message.get("content")
    if not isinstance(content, dict):
        return ""
    parts = content["parts"] if isinstance(content.get("parts"), list) else [content]
    texts = [part.get("text") if isinstance(part, dict) else part for part in parts]
    return _CITATION.sub("", "\n\n".join(text for text in texts if isinstance(text, str) and text.strip())).strip()
