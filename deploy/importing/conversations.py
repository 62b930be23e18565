"""Read the data exports of Claude and ChatGPT: conversations.json, or several numbered ones, alone or in an archive.

Each message becomes a memory, its conversation the thread. A conversation of ChatGPT is a tree, since a message can be
edited and an answer made anew: the branch that was shown last is brought in, from the current node up to the root."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from engramq.deploy.importing.exports import Choices, Entry, LeftOut, all_items, moment, own_id, without_nothing
from engramq.deploy.importing.records import Given, Rejection
from engramq.schemas.faults import EngramqError, invalid

USER: Final = "user"
ASSISTANT: Final = "assistant"
_SPOKEN_BY: Final = (USER, ASSISTANT)
# By these the router keeps a turn apart: nobody has looked through it, and a tool says what others have written.
TURN: Final = "conversation"
TOOL_OUTPUT: Final = "tool_output"
_NO_TEXT: Final = LeftOut("messages without text", "message without text")
_OF_TOOLS: Final = LeftOut("results of tools", "result of a tool")
_NOT_SPOKEN: Final = LeftOut("messages of the system and of tools", "message of the system or of a tool")


@dataclass(frozen=True, slots=True)
class _Conversation:
    """One conversation of the format `kind`, which begins on a line of its file."""

    kind: str
    line: int
    identifier: object
    title: object
    trusted: bool

    def turn(self, message: object, position: int, speaker: str, text: str, at: object) -> Given:
        """Return one message as a row: its conversation is the thread, and by its own id it is known again."""
        is_spoken = speaker in _SPOKEN_BY
        values: dict[str, Any] = {
            "content": text,
            "external_id": own_id(self.kind, message),
            "thread": own_id(self.kind, self.identifier),
            "position": position,
            "speaker": speaker,
            "occurred_at": moment(at),
            "source_type": None if is_spoken and self.trusted else TURN if is_spoken else TOOL_OUTPUT,
            "metadata": {"title": self.title} if isinstance(self.title, str) and self.title else None,
        }
        return Given(self.line, without_nothing(values))


CLAUDE_FILE: Final = re.compile(r"conversations\.json")
MESSAGES: Final = "chat_messages"
_SENDERS: Final = {"human": USER, "assistant": ASSISTANT}
_TOOL: Final = "tool"


def read_claude(path: Path, choices: Choices) -> Iterator[Entry]:
    """Yield the messages of each conversation; what tools have said only where all messages are wanted."""
    for item in all_items(path, CLAUDE_FILE, "conversations.json"):
        yield from [item] if isinstance(item, Rejection) else _claude_messages(item, choices)


def _claude_messages(item: Given, choices: Choices) -> Iterator[Entry]:
    messages, identifier = item.values.get(MESSAGES), item.values.get("uuid")
    if not isinstance(messages, list) or not identifier:
        missing = "uuid" if isinstance(messages, list) else MESSAGES
        yield Rejection(item.line, missing, f"A conversation of Claude has {missing}, and this has none.")
        return
    conversation = _Conversation("claude", item.line, identifier, item.values.get("name"), choices.trusted)
    for position, message in enumerate(messages):
        sender = message.get("sender") if isinstance(message, dict) else None
        speaker = _SENDERS.get(sender) if isinstance(sender, str) else None
        if speaker is None or not message.get("uuid"):
            yield Rejection(item.line, MESSAGES, f"Message {position} has no sender that is known, or no uuid.")
            continue
        identifier, at = message["uuid"], message.get("created_at")
        text = _claude_text(message)
        yield conversation.turn(identifier, position, speaker, text, at) if text else _NO_TEXT
        for number, result in enumerate(_results(message)):
            if choices.all_messages:
                yield conversation.turn(f"{identifier}#tool{number}", position, _TOOL, result, at)
            else:
                yield _OF_TOOLS


def _claude_text(message: dict[str, Any]) -> str:
    """Return what was said: its blocks of text, else the text that earlier exports have instead."""
    texts, plain = _texts(message.get("content")), message.get("text")
    if texts or not isinstance(plain, str):
        return "\n\n".join(text for text in texts if text.strip()).strip()
    return plain.strip()


def _results(message: dict[str, Any]) -> Iterator[str]:
    for result in _blocks(message.get("content"), "tool_result"):
        content = result.get("content")
        text = content if isinstance(content, str) else "\n\n".join(_texts(content))
        if text.strip():
            yield text.strip()


def _texts(content: object) -> list[str]:
    return [block["text"] for block in _blocks(content, "text") if isinstance(block.get("text"), str)]


def _blocks(content: object, kind: str) -> list[dict[str, Any]]:
    blocks = content if isinstance(content, list) else []
    return [block for block in blocks if isinstance(block, dict) and block.get("type") == kind]


CHATGPT_FILE: Final = re.compile(r"conversations(-\d+)?\.json")
MAPPING: Final = "mapping"
CURRENT: Final = "current_node"
_TEXTS: Final = ("text", "multimodal_text")
_TO_ALL: Final = (None, "all")  # another recipient is a tool
_CITATION: Final = re.compile("\ue200.*?\ue201", re.DOTALL)  # how a source is marked, in characters of private use


def read_chatgpt(path: Path, choices: Choices) -> Iterator[Entry]:
    """Yield the messages of each conversation; those of the system and of tools only where all are wanted."""
    for item in all_items(path, CHATGPT_FILE, "conversations.json"):
        if isinstance(item, Rejection):
            yield item
            continue
        try:
            branch = _branch(item.values)
        except EngramqError as refused:
            yield Rejection(item.line, str(refused.fault.field), refused.fault.error)
            continue
        yield from _chatgpt_messages(item, branch, choices)


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


def _chatgpt_messages(item: Given, branch: list[dict[str, Any]], choices: Choices) -> Iterator[Entry]:
    identifier = item.values.get("conversation_id") or item.values.get("id")
    if not identifier:
        yield Rejection(item.line, "id", "The conversation has no id.")
        return
    conversation = _Conversation("chatgpt", item.line, identifier, item.values.get("title"), choices.trusted)
    for position, message in enumerate(branch):
        author = message.get("author")
        role = author.get("role") if isinstance(author, dict) else None
        speaker = role if isinstance(role, str) and role else "unknown"
        is_spoken = speaker in _SPOKEN_BY and _is_shown(message)
        text = _chatgpt_text(message)
        if not text:
            yield _NO_TEXT
        elif not is_spoken and not choices.all_messages:
            yield _NOT_SPOKEN
        else:
            if speaker in _SPOKEN_BY and not is_spoken:
                speaker = f"{speaker} (hidden)"
            yield conversation.turn(message["id"], position, speaker, text, message.get("create_time"))


def _is_shown(message: dict[str, Any]) -> bool:
    """Say whether people saw it: no call of a tool, no thought, and nothing that is hidden."""
    content, metadata = message.get("content"), message.get("metadata")
    kind = content.get("content_type") if isinstance(content, dict) else None
    is_hidden = isinstance(metadata, dict) and metadata.get("is_visually_hidden_from_conversation") is True
    return kind in _TEXTS and message.get("recipient") in _TO_ALL and not is_hidden


def _chatgpt_text(message: dict[str, Any]) -> str:
    """Return the texts of a message; a part is a text, or an object that has one, as what was spoken has."""
    content = message.get("content")
    if not isinstance(content, dict):
        return ""
    parts = content["parts"] if isinstance(content.get("parts"), list) else [content]
    texts = [part.get("text") if isinstance(part, dict) else part for part in parts]
    return _CITATION.sub("", "\n\n".join(text for text in texts if isinstance(text, str) and text.strip())).strip()
