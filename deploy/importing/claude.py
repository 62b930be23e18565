"""Read the data export of Claude: conversations, what it remembers, and instructions of projects."""

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

from engramq.deploy.importing import chatgpt, exports, fields
from engramq.deploy.importing.records import Rejection, UncheckedRow
from engramq.deploy.local.hooks.turns import text_in
from engramq.schemas.packed_lines import UnusableFile

_DOCUMENTS: Final = exports.LeftOut("documents of projects", "document of a project")
_OF_TOOLS: Final = exports.LeftOut("results of tools", "result of a tool")
# As a long text is called that somebody pasted: also a second one, or one of some time.
_PASTED: Final = re.compile(r"(?i)|paste(?:d(?:[ _-](?:text|content))?)?(?:[ _-]?\(?\d\)?)*\.txt")
FILE: Final = chatgpt.FILE
MEMORIES: Final = re.compile(r"memories\.json")
REMEMBERED: Final = "conversations_memory"
_PROJECTS: Final = re.compile(r"projects\.json")
MESSAGES: Final = "chat_messages"
_CLAUDE_MARKS: Final = frozenset({MESSAGES, REMEMBERED, "prompt_template"})
_SENDERS: Final = {"human": fields.USER, "assistant": fields.ASSISTANT}
_TOOL: Final = "tool"
_SAID: Final = ("text", "voice_note")  # kinds of blocks


def read_claude(path: Path, choices: fields.Choices) -> Iterator[exports.Entry]:
    """Yield what Claude remembers of the person and of projects, then the messages of each conversation.

    Messages of tools come only where all messages are wanted. A file by itself may be any of the three.
    """
    is_file = exports.members(path, FILE) == [""]
    if not is_file and not any(exports.members(path, name) for name in (FILE, MEMORIES, _PROJECTS)):
        raise UnusableFile("There is neither conversations.json nor memories.json in it.")
    for name in (MEMORIES, _PROJECTS, FILE) if not is_file else (FILE,):
        if exports.members(path, name):
            yield from exports.read_each(
                exports.all_items(path, _CLAUDE_MARKS, name=name), partial(_claude_item, choices=choices)
            )


def _claude_item(item: UncheckedRow, choices: fields.Choices) -> Iterator[exports.Entry]:
    values = item.values
    if MESSAGES in values or not (REMEMBERED in values or "prompt_template" in values):
        yield from _claude_messages(item, choices)
        return
    if REMEMBERED in values:
        of_projects = values.get("project_memories")
        texts = {"": values[REMEMBERED], **(of_projects if isinstance(of_projects, dict) else {})}
        known = {name: exports.own_id("claude", "memory", values.get("account_uuid"), name) for name in texts}
    else:
        name = str(values.get("name") or "")
        texts = {name: fields.join_texts(map(values.get, ("description", "prompt_template")))}
        known = {name: exports.own_id("claude", "project", values.get("uuid"))}
        yield from [_DOCUMENTS] * len(fields.list_at(values, "docs"))
    for project, text in texts.items():
        if text := fields.clean_text(text):
            yield fields.make_memory_row(item, text, known[project], choices, project)
        else:
            yield fields.NO_TEXT


def _claude_messages(item: UncheckedRow, choices: fields.Choices) -> Iterator[exports.Entry]:
    messages, identifier = item.values.get(MESSAGES), item.values.get("uuid")
    if not isinstance(messages, list) or not identifier:
        missing = "uuid" if isinstance(messages, list) else MESSAGES
        yield Rejection(item.line, missing, f"A conversation of Claude has {missing}, and this has none.")
        return
    conversation = fields.Conversation("claude", item.line, identifier, choices, item.values.get("name"))
    for position, message in enumerate(messages):
        sender = fields.value_at(message, "sender")
        speaker = _SENDERS.get(sender) if isinstance(sender, str) else None
        if speaker is None or not message.get("uuid"):
            yield Rejection(item.line, MESSAGES, f"Message {position} has no sender that is known, or no uuid.")
            continue
        identifier, at = message["uuid"], message.get("created_at")
        text = _claude_text(message)
        yield conversation.turn(identifier, position, speaker, text, at) if text else fields.NO_TEXT
        for number, file in enumerate([*fields.list_at(message, "attachments"), *fields.list_at(message, "files")]):
            pasted = fields.clean_text(fields.value_at(file, "extracted_content"))
            is_pasted = pasted and _PASTED.fullmatch(str(fields.value_at(file, "file_name") or ""))
            known = f"{identifier}#pasted{number}"
            yield conversation.turn(known, position, speaker, pasted, at) if is_pasted else fields.ATTACHMENTS
        for number, result in enumerate(_results(message)):
            if choices.all_messages:
                yield conversation.turn(f"{identifier}#tool{number}", position, _TOOL, result, at)
            else:
                yield _OF_TOOLS


def _claude_text(message: dict[str, Any]) -> str:
    """Return what was said: its blocks of text, else the text that earlier exports have instead."""
    said = (block for block in fields.list_at(message, "content") if fields.value_at(block, "type") in _SAID)
    return fields.join_texts(block.get("text") for block in said) or text_in(message.get("text")).strip()


def _results(message: dict[str, Any]) -> Iterator[str]:
    for block in fields.list_at(message, "content"):
        if fields.value_at(block, "type") == "tool_result" and (text := text_in(block.get("content")).strip()):
            yield text
