"""Read the data export of ChatGPT: conversations.json, or several numbered ones, alone or in an archive.

A conversation is a tree, since a message can be edited and an answer made anew. The branch that was shown last is the
thread, from the current node up to the root. Each other branch has a thread of its own and a tag. It begins where it
leaves those before it, so each message comes in once."""

import math
import re
import zlib
from collections.abc import Iterator
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
            thread, marks = (f"{identifier}#{branch.top}", (OTHER_BRANCH,)) if branch.top else (identifier, ())
            said = fields.Conversation("chatgpt", item.line, thread, choices, item.values.get("title"), marks)
            yield from [] if branch.is_whole else [_BEGINNING]
            yield from _chatgpt_messages(item, branch.messages, said, repeated)


class _Branch(NamedTuple):
    """Messages in order, each with its place below the root. `is_whole`: nothing is lost before them."""

    messages: list[tuple[int, dict[str, Any]]]
    is_whole: bool
    top: str  # the id of the first one, "" for the branch that was shown last


def _branches(conversation: dict[str, Any]) -> list[_Branch]:
    """Return the branch that was shown last, else the newest, and then the others, the newest first."""
    mapping, current = conversation.get(MAPPING), conversation.get(CURRENT)
    if not isinstance(mapping, dict):
        raise invalid(MAPPING, "A conversation of ChatGPT has a mapping, and this has none.")
    found: list[_Branch] = []
    places: dict[str, int] = {}  # of what is passed: how many messages there are from the root to it
    for end in [current, *_leaves(mapping), *mapping]:  # a circle has no leaf
        at, way = end, dict[str, dict[str, Any]]()
        while isinstance(at, str) and at not in places and at not in way and isinstance(node := mapping.get(at), dict):
            way[at] = node
            at = node.get("parent")
        above = at if isinstance(at, str) else ""
        is_whole = at is None or above in places
        place, messages = places.get(above, 0), []
        for key, node in reversed(way.items()):
            if _has_message(node):
                messages.append((place, {"id": key, **node["message"]}))
                place += 1
            places[key] = place
        if messages:
            found.append(_Branch(messages, is_whole, messages[0][1]["id"] if found else ""))
    if not found:
        raise invalid(MAPPING, "The conversation has no message that can be found.")
    return found


def _has_message(node: object) -> bool:
    return isinstance(fields.value_at(node, "message"), dict)


def _leaves(mapping: dict[str, Any]) -> list[str]:
    """Return the messages that no other one follows, the newest first, of several the last."""
    nodes = {key: node for key, node in mapping.items() if isinstance(node, dict)}
    followed = {node.get("parent") for node in nodes.values() if isinstance(node.get("parent"), str)}

    def age(key: str) -> float:
        at = fields.value_at(nodes[key], "message.create_time")
        return float(at) if isinstance(at, int | float) and abs(at) < _LATEST else 0.0

    return sorted((key for key in reversed(nodes) if key not in followed), key=age, reverse=True)


def _chatgpt_messages(
    item: UncheckedRow, messages: list[tuple[int, dict[str, Any]]], said: fields.Conversation, repeated: set[str]
) -> Iterator[exports.Entry]:
    choices = said.choices
    for position, message in messages:
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
            yield said.turn(message["id"], position, speaker, text, message.get("create_time"))


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
