"""Read the data export of ChatGPT: conversations.json, or several numbered ones, alone or in an archive.

A conversation is a tree, since a message can be edited and an answer made anew: the branch that was shown last is
brought in, from the current node up to the root."""

import math
import re
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

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
_OTHERS: Final = exports.LeftOut(
    "messages of branches that were not shown last", "message of a branch that was not shown last"
)
_CITATION: Final = re.compile("\ue200[^\ue200\ue201]*\ue201")  # how a source is marked, in characters of private use


def read_chatgpt(path: Path, choices: fields.Choices) -> Iterator[exports.Entry]:
    """Yield the messages of each conversation; those of the system and of tools only where all are wanted."""
    repeated = set[str]()  # what each conversation has at its beginning
    for item in exports.all_items(path, MAPPING, name=FILE):
        if isinstance(item, Rejection):
            yield item
            continue
        try:
            branch, others, is_whole = _branch(item.values)
        except EngramqError as refused:
            yield Rejection(item.line, str(refused.fault.field), refused.fault.error)
            continue
        yield from [] if is_whole else [_BEGINNING]
        yield from [_OTHERS for message in others if _is_spoken(message) and _chatgpt_text(message)]
        yield from _chatgpt_messages(item, branch, choices, repeated)


def _branch(conversation: dict[str, Any]) -> tuple[list[dict[str, Any]], list[dict[str, Any]], bool]:
    """Return the messages of the branch that was shown last, in their order, all others, and if it has its root."""
    mapping, at = conversation.get(MAPPING), conversation.get(CURRENT)
    if not isinstance(mapping, dict):
        raise invalid(MAPPING, "A conversation of ChatGPT has a mapping, and this has none.")
    if not isinstance(at, str) or at not in mapping:
        at = _newest_leaf(mapping)
    branch: list[dict[str, Any]] = []
    passed: set[str] = set()
    while isinstance(at, str) and at not in passed and isinstance(node := mapping.get(at), dict):
        passed.add(at)
        if _has_message(node):
            branch.append({"id": at, **node["message"]})
        at = node.get("parent")
    if not branch:
        raise invalid(MAPPING, "The conversation has no message that can be found.")
    others = [node["message"] for key, node in mapping.items() if key not in passed and _has_message(node)]
    return branch[::-1], others, at is None


def _has_message(node: object) -> bool:
    return isinstance(fields.value_at(node, "message"), dict)


def _newest_leaf(mapping: dict[str, Any]) -> str | None:
    """Return the newest message that no other one follows; the last of several."""
    nodes = {key: node for key, node in mapping.items() if isinstance(node, dict)}
    followed = {node.get("parent") for node in nodes.values() if isinstance(node.get("parent"), str)}

    def age(key: str) -> float:
        at = fields.value_at(nodes[key], "message.create_time")
        return float(at) if isinstance(at, int | float) and abs(at) < _LATEST else 0.0

    return max(reversed([key for key in nodes if key not in followed]), key=age, default=None)


def _chatgpt_messages(
    item: UncheckedRow, branch: list[dict[str, Any]], choices: fields.Choices, repeated: set[str]
) -> Iterator[exports.Entry]:
    identifier = item.values.get("conversation_id") or item.values.get("id")
    if not identifier:
        yield Rejection(item.line, "id", "The conversation has no id.")
        return
    conversation = fields.Conversation("chatgpt", item.line, identifier, choices, item.values.get("title"))
    for position, message in enumerate(branch):
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
            yield conversation.turn(message["id"], position, speaker, text, message.get("create_time"))


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
