"""The data export of Claude: conversations.json, alone or in its archive."""

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

from engramq.deploy.importing.conversation import ASSISTANT, USER, turn
from engramq.deploy.importing.exported import opened_all
from engramq.deploy.importing.found import Choices, Found, LeftOut
from engramq.deploy.importing.json_items import items
from engramq.deploy.importing.records import Given, Rejection

FILE: Final = re.compile(r"conversations\.json")
MESSAGES: Final = "chat_messages"
_SPEAKERS: Final = {"human": USER, "assistant": ASSISTANT}
_TOOL: Final = "tool"


def read(path: Path, choices: Choices) -> Iterator[Found]:
    """Yield the messages of each conversation; what tools have said only where all messages are wanted."""
    for _, stream in opened_all(path, FILE, "conversations.json"):
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
        if text := _text(message):
            yield said(message=message["uuid"], speaker=speaker, text=text)
        else:
            yield LeftOut("messages without text", "message without text")
        for number, result in enumerate(_results(message)):
            if choices.all_messages:
                yield said(message=f"{message['uuid']}#tool{number}", speaker=_TOOL, text=result)
            else:
                yield LeftOut("results of tools", "result of a tool")


def _text(message: dict[str, Any]) -> str:
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
