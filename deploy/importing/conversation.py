"""Turns of conversations, as every export of conversations is brought in."""

from typing import Any, Final

from engramq.deploy.importing.found import Choices
from engramq.deploy.importing.records import Given
from engramq.deploy.importing.values import moment, own_id, without_nothing

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
