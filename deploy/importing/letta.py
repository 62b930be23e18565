"""Read agent files of Letta: blocks of memory, and what was said to an agent and what it answered."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from engramq.deploy.importing import exports, fields
from engramq.deploy.importing.records import Rejection, UncheckedRow
from engramq.deploy.local.hooks.turns import object_in, spoken_text, text_at, text_in

LISTS: Final = ("agents", "blocks")
BLOCKS: Final = "core_memory"  # of a file that is one agent, as the first ones were
_SENDS: Final = "send_message"  # the tool by which older kinds of agents speak
_PACKED: Final = "user_message"
_OF_PROGRAM: Final = ("heartbeat", "login", "system_alert")
_NO_BLOCK: Final = exports.LeftOut("blocks without text", "block without text")


def read_letta(path: Path, choices: fields.Choices) -> Iterator[exports.Entry]:
    """Yield the blocks of memory, and what was said to each agent and what it answered."""
    for name, item in exports.read_lists(path, BLOCKS, *LISTS):
        if isinstance(item, Rejection):
            yield item
        elif name == "blocks":
            yield _block(path, item.line, item.values, choices)
        else:
            for block in fields.list_at(item.values, BLOCKS):
                yield _block(path, item.line, object_in(block), choices)
            yield from _messages(path, item, choices)


def _block(path: Path, line: int, block: Mapping[str, Any], choices: fields.Choices) -> exports.Entry:
    label, value = block.get("label"), block.get("value")
    values = {
        "content": value,
        "external_id": exports.own_id("letta", path.stem, "block", block.get("id"), label),
        "tags": exports.tags(label),
        "source_type": fields.source_of(choices),
    }
    return UncheckedRow(line, exports.without_nothing(values)) if fields.clean_text(value) else _NO_BLOCK


def _messages(path: Path, agent: UncheckedRow, choices: fields.Choices) -> Iterator[exports.Entry]:
    thread = f"{path.stem}:{agent.values.get('name') or agent.values.get('id')}"
    said = fields.Conversation("letta", agent.line, thread, choices)
    for position, message in enumerate(fields.list_at(agent.values, "messages")):
        role = fields.value_at(message, "role")
        if role not in (fields.USER, fields.ASSISTANT):
            yield fields.NOT_SPOKEN
            continue
        text = text_in(message.get("content"))
        text = spoken_text(_unpack(text) if role == fields.USER else _sent(message) or text)
        known = f"{thread}:{message.get('id') or position}"
        yield said.turn(known, position, role, text, message.get("created_at")) if text else fields.NOT_SPOKEN


def _unpack(text: str) -> str:
    """Return the words of a user's message, which the program packs into JSON; "" for one of its own."""
    packed = object_in(text)
    if isinstance(packed.get("message"), str) and packed.get("type") == _PACKED:
        return text_at(packed, "message")
    is_own = packed.get("type") in _OF_PROGRAM and not packed.keys().isdisjoint(("message", "time"))
    return "" if is_own else text


def _sent(message: dict[str, Any]) -> str:
    """Return what an agent has said by a tool; what stands beside are its thoughts."""
    calls = (object_in(object_in(call).get("function")) for call in fields.list_at(message, "tool_calls"))
    return fields.join_texts(
        object_in(call.get("arguments")).get("message") for call in calls if call.get("name") == _SENDS
    )
