"""What log lines are about: the command, and the trace that it belongs to, stand in each line that its task writes."""

import logging
from contextvars import ContextVar
from typing import Final, Self


class Subject:
    """A command of a trace; "" is what is not known, such as a command that is not sent yet.

    `with subject:` lets all log lines of the block, and of the tasks that it starts, name command and trace.
    """

    __slots__ = ("_token", "command_id", "trace_id")

    def __init__(self, trace_id: str, command_id: str = "") -> None:
        self.trace_id = trace_id
        self.command_id = command_id

    def __enter__(self) -> Self:
        self._token = _SUBJECT.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        _SUBJECT.reset(self._token)


_SUBJECT: Final[ContextVar[Subject | None]] = ContextVar("subject", default=None)


def name_command(command_id: str) -> None:
    """Say which command it is about from now on, where there is a subject."""
    subject = _SUBJECT.get()
    if subject is not None:
        subject.command_id = command_id


class NameSubject(logging.Filter):
    """Adds `command_id` and `trace_id` to each record of a handler, but for what it says itself."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Add them, and let the record pass."""
        subject = _SUBJECT.get()
        if subject is not None:
            for name, value in (("command_id", subject.command_id), ("trace_id", subject.trace_id)):
                if value and not getattr(record, name, None):
                    setattr(record, name, value)
        return True
