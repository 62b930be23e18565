"""The data exports of Claude and ChatGPT: conversations.json, or several numbered ones, alone or in their archive.

Each message becomes a memory, its conversation the thread. A conversation of ChatGPT is a tree, since a message can be
edited and an answer made anew: the branch that was shown last is brought in, from the current node up to the root."""

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

from engramq.deploy.importing.exports import Choices, Found, LeftOut, moment, opened_all, own_id, without_nothing
from engramq.deploy.importing.json_items import items
from engramq.deploy.importing.records import Given, Rejection
from engramq.schemas.faults import EngramqError, invalid

USER: Final = "user"
ASSISTANT: Final = "assistant"
# By these the router keeps a turn apart: nobody has looked through it, and a tool says what others have written.
TURN: Final = "conversation"
TOOL_OUTPUT: Final = "tool_output"


def turn(
    kind: str,
    *,
    line: int,
    conversation: object,
    title: object,
    message: object,
    position: int,
    speaker: str,
    text: str,
    at: object,
    choices: Choices,
) -> Given:
    """Return one message as a row: its conversation is the thread, and by its own id it is known again."""
    is_spoken = speaker in (USER, ASSISTANT)
    values: dict[str, Any] = {
        "content": text,
        "external_id": own_id(kind, message),
        "thread": own_id(kind, conversation),
        "position": position,
        "speaker": speaker,
        "occurred_at": moment(at),
        "source_type": None if is_spoken and choices.trusted else TURN if is_spoken else TOOL_OUTPUT,
        "metadata": {"title": title} if isinstance(title, str) and title else None,
    }
    return Given(line, without_nothing(values))


CLAUDE_FILE: Final = re.compile(r"conversations\.json")
MESSAGES: Final = "chat_messages"
_SPEAKERS: Final = {"human": USER, "assistant": ASSISTANT}
_TOOL: Final = "tool"


def read_claude(path: Path, choices: Choices) -> Iterator[Found]:
    """Yield the messages of each conversation; what tools have said only where all messages are wanted."""
    for _, stream in opened_all(path, CLAUDE_FILE, "conversations.json"):
        for item in items(stream):
            yield from [item] if isinstance(item, Rejection) else _conversation(item, choices)


def _conversation(item: Given, choices: Choices) -> Iterator[Found]:
    messages, conversation = item.values.get(MESSAGES), item.values.get("uuid")
    if not isinstance(messages, list) or not conversation:
        missing = "uuid" if isinstance(messages, list) else MESSAGES
        yield Rejection(item.line, missing, f"A conversation of Claude has {missing}, and this has none.")
        return
    for position, message in enumerate(messages):
        sender = message.get("sender") if isinstance(message, dict) else None
        speaker = _SPEAKERS.get(sender) if isinstance(sender, str) else None
        if speaker is None or not message.get("uuid"):
            yield Rejection(item.line, MESSAGES, f"Message {position} has no sender that is known, or no uuid.")
            continue
        said = partial(
            turn,
            "claude",
            line=item.line,
            conversation=conversation,
            title=item.values.get("name"),
            position=position,
            at=message.get("created_at"),
            choices=choices,
        )
        if text := _claude_text(message):
            yield said(message=message["uuid"], speaker=speaker, text=text)
        else:
            yield LeftOut("messages without text", "message without text")
        for number, result in enumerate(_results(message)):
            if choices.all_messages:
                yield said(message=f"{message['uuid']}#tool{number}", speaker=_TOOL, text=result)
            else:
                yield LeftOut("results of tools", "result of a tool")


def _claude_text(message: dict[str, Any]) -> str:
    """Return what was said: its blocks of text, else the text that earlier exports have instead."""
    blocks = message.get("content")
    texts = [one["text"] for one in _blocks(blocks, "text") if isinstance(one.get("text"), str)]
    plain = message.get("text")
    if texts or not isinstance(plain, str):
        return "\n\n".join(one for one in texts if one.strip()).strip()
    return plain.strip()


def _results(message: dict[str, Any]) -> Iterator[str]:
    for result in _blocks(message.get("content"), "tool_result"):
        content = result.get("content")
        texts = [one["text"] for one in _blocks(content, "text") if isinstance(one.get("text"), str)]
        text = content if isinstance(content, str) else "\n\n".join(texts)
        if text.strip():
            yield text.strip()


def _blocks(content: object, kind: str) -> list[dict[str, Any]]:
    several = content if isinstance(content, list) else []
    return [one for one in several if isinstance(one, dict) and one.get("type") == kind]


CHATGPT_FILE: Final = re.compile(r"conversations(-\d+)?\.json")
MAPPING: Final = "mapping"
CURRENT: Final = "current_node"
_SPOKEN: Final = ("text", "multimodal_text")
_TO_ALL: Final = (None, "all")  # another recipient is a tool
_CITATION: Final = re.compile("\ue200.*?\ue201", re.DOTALL)  # how a source is marked, in characters of private use


def read_chatgpt(path: Path, choices: Choices) -> Iterator[Found]:
    """Yield the messages of each conversation; those of the system and of tools only where all are wanted."""
    for _, stream in opened_all(path, CHATGPT_FILE, "conversations.json"):
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
        text = _chatgpt_text(message)
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


def _chatgpt_text(message: dict[str, Any]) -> str:
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
