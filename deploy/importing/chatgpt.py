"""The data export of ChatGPT: conversations.json, or several numbered ones, alone or in its archive.

A conversation is a tree, since a message can be edited and an answer made anew: what is brought in is the branch that
was shown last, from the node that is current up to the root.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from engramq.deploy.importing.conversation import ASSISTANT, USER, turn
from engramq.deploy.importing.exported import opened_all
from engramq.deploy.importing.found import Choices, Found, LeftOut
from engramq.deploy.importing.json_items import items
from engramq.deploy.importing.records import Given, Rejection
from engramq.schemas.faults import EngramqError, invalid

FILE: Final = re.compile(r"conversations(-\d+)?\.json")
MAPPING: Final = "mapping"
CURRENT: Final = "current_node"
_SPOKEN: Final = ("text", "multimodal_text")
_TO_ALL: Final = (None, "all")  # another recipient is a tool
_CITATION: Final = re.compile("\ue200.*?\ue201", re.DOTALL)  # how a source is marked, in characters of private use


def read(path: Path, choices: Choices) -> Iterator[Found]:
    """Yield the messages of each conversation; those of the system and of tools only where all are wanted."""
    for _, stream in opened_all(path, FILE, "conversations.json"):
        for item in items(stream):
            if isinstance(item, Rejection):
                yield item
                continue
            try:
                branch = _branch(item.values)
            except EngramqError as refused:
                yield Rejection(item.line, str(refused.fault.field), refused.fault.error)
                continue
            yield from _turns(item, branch, choices)


def _branch(conversation: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the messages of the branch that was shown last, in their order."""
    mapping, at = conversation.get(MAPPING), conversation.get(CURRENT)
    if not isinstance(mapping, dict):
        raise invalid(MAPPING, "A conversation of ChatGPT has a mapping, and this has none.")
    if not isinstance(at, str) or at not in mapping:
        raise invalid(CURRENT, "The conversation does not say which message is its last.")
    branch: list[dict[str, Any]] = []
    passed: set[str] = set()
    while at is not None:
        node = mapping.get(at) if isinstance(at, str) else None
        if not isinstance(node, dict) or at in passed:
            raise invalid(MAPPING, "The messages of the conversation do not lead back to its first.")
        passed.add(at)
        if isinstance(node.get("message"), dict):
            branch.append({"id": at, **node["message"]})
        at = node.get("parent")
    return branch[::-1]


def _turns(item: Given, branch: list[dict[str, Any]], choices: Choices) -> Iterator[Found]:
    conversation = item.values.get("conversation_id") or item.values.get("id")
    if not conversation:
        yield Rejection(item.line, "id", "The conversation has no id.")
        return
    for position, message in enumerate(branch):
        speaker = _speaker(message)
        is_spoken = speaker in (USER, ASSISTANT) and _is_shown(message)
        text = _text(message)
        if not text:
            yield LeftOut("messages without text", "message without text")
        elif not is_spoken and not choices.all_messages:
            yield LeftOut("messages of the system and of tools", "message of the system or of a tool")
        else:
            yield turn(
                "chatgpt",
                line=item.line,
                conversation=conversation,
                title=item.values.get("title"),
                message=message["id"],
                position=position,
                speaker=speaker if is_spoken or speaker not in (USER, ASSISTANT) else f"{speaker} (hidden)",
                text=text,
                at=message.get("create_time"),
                choices=choices,
            )


def _speaker(message: dict[str, Any]) -> str:
    author = message.get("author")
    role = author.get("role") if isinstance(author, dict) else None
    return role if isinstance(role, str) and role else "unknown"


def _is_shown(message: dict[str, Any]) -> bool:
    """Say whether people saw it: no call of a tool, no thought, and nothing that is hidden."""
    content, metadata = message.get("content"), message.get("metadata")
    kind = content.get("content_type") if isinstance(content, dict) else None
    is_hidden = isinstance(metadata, dict) and metadata.get("is_visually_hidden_from_conversation") is True
    return kind in _SPOKEN and message.get("recipient") in _TO_ALL and not is_hidden


def _text(message: dict[str, Any]) -> str:
    content = message.get("content")
    if not isinstance(content, dict):
        return ""
    parts = content.get("parts")
    texts = [_part(one) for one in parts] if isinstance(parts, list) else [_part(content)]
    return _CITATION.sub("", "\n\n".join(one for one in texts if one.strip())).strip()


def _part(part: object) -> str:
    """Return the text of a part: a text, or an object that has one, as what was spoken has."""
    text = part.get("text") if isinstance(part, dict) else part
    return text if isinstance(text, str) else ""
