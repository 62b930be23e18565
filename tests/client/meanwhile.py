"""What somebody else does in the middle of a conversation; imported by programs that have the client alone too."""

from collections.abc import Callable
from typing import Any, TypeVar

from engramq.client import Refused, calls
from engramq.client.call import CallSequence

T = TypeVar("T")


def made_private_meanwhile(conversation: CallSequence[T], memory_id: str) -> CallSequence[T]:
    """Make a memory private as soon as the conversation has stored another one."""
    resume: Callable[[Any], Any] = conversation.send
    outcome, made = None, False
    while True:
        try:
            call = resume(outcome)
        except StopIteration as end:
            ended: T = end.value
            return ended
        try:
            resume, outcome = conversation.send, (yield call)
        except Refused as problem:
            resume, outcome = conversation.throw, problem
        if call.name == "store_memory" and not made:
            made = True
            yield calls.update(memory_id, visibility="private")
