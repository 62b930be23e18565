"""Spans of a trace (names and figures, never contents), its header, and the command and trace that log lines name.

Spans are off until `otlp.recording`; then each costs some microseconds, and before that next to nothing. The SDK is
loaded when it is wanted, since it takes longer to load than a stdio client takes to start.
"""

import json
import logging
import os
import random
import re
import socket
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final, Protocol

from engramq.schemas.ids import format_time


@dataclass(slots=True)
class Subject:
    """A command of a trace; `command_id` is "" while the command is not sent. `span`: None where none is recorded."""

    traceparent: str
    trace_id: str
    command_id: str = ""
    span: "Span | None" = None


_SUBJECT: Final[ContextVar[Subject | None]] = ContextVar("subject", default=None)


class NameSubject(logging.Filter):
    """Adds `command_id` and `trace_id` to each record of a handler that does not set them itself."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Add them, and let the record pass."""
        subject = _SUBJECT.get()
        if subject is not None:
            for name, value in (("command_id", subject.command_id), ("trace_id", subject.trace_id)):
                if value and not getattr(record, name, None):
                    setattr(record, name, value)
        return True


_FORM: Final = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-.*)?")


def trace_id_of(traceparent: str | None) -> str:
    """Return the id of the trace, nothing where the header names none."""
    match = None if traceparent is None else _FORM.fullmatch(traceparent)
    return "" if match is None else match[1]


Value = str | int | float | bool


class SpanKind(StrEnum):
    """The role of a span in its process, as OpenTelemetry names it."""

    SERVER = "SERVER"  # a call from outside
    CONSUMER = "CONSUMER"  # a command from a queue
    CLIENT = "CLIENT"  # a question to a server


class Span(Protocol):
    """Something that takes time."""

    @property
    def traceparent(self) -> str:
        """The header that makes what others do a part of it."""

    def tell(self, name: str, value: Value) -> None:
        """Say something of it."""

    def end(self, error: str = "") -> None:
        """End it now, with the name of an error if it failed; ending it again is nothing."""


class Tracer(Protocol):
    """Makes spans."""

    def begin(
        self, name: str, kind: SpanKind, parent: "Span | str | None", began_ns: int, attributes: Mapping[str, Value]
    ) -> Span:
        """Return a span that began then; `parent` is one of this process or a header."""

    def close(self) -> None:
        """Send what is left, within a moment."""


_tracer: Tracer | None = None
CURRENT: Final[ContextVar[Span | None]] = ContextVar("span", default=None)  # None where none is recorded


@contextmanager
def recorded_by(tracer: Tracer) -> Iterator[None]:
    """Record the spans of this process by a tracer for as long as the block lasts."""
    global _tracer  # noqa: PLW0603 - one process, one tracer; all who have something to tell would have to hand it on
    _tracer = tracer
    try:
        yield
    finally:
        _tracer = None
        tracer.close()


@contextmanager
def about(traceparent: str | None, command_id: str) -> Iterator[None]:
    """Let all log lines of the tasks that the block starts name a command and its trace; they are no part of a span."""
    before = _SUBJECT.set(Subject(traceparent or "", trace_id_of(traceparent), command_id))
    try:
        yield
    finally:
        _SUBJECT.reset(before)


@contextmanager
def trace(
    name: str,
    kind: SpanKind,
    traceparent: str | None = None,
    attributes: Mapping[str, Value] | None = None,
    command_id: str = "",
) -> Iterator[Subject]:
    """Record a block as a span, and let all log lines of the block, and of the tasks it starts, name command and trace.

    The trace is the one that the header names, or else a new one. Spans that begin in the block are its parts; it ends
    with the name of an exception that leaves the block.
    """
    begun = None if _tracer is None else _tracer.begin(name, kind, traceparent, time.time_ns(), attributes or {})
    traceparent = traceparent if begun is None else begun.traceparent
    trace_id = trace_id_of(traceparent)
    if traceparent is None or not trace_id:
        # Nobody must be kept from guessing it. OpenTelemetry draws its ids so too: without a system call.
        trace_id, span_id = f"{random.getrandbits(128) or 1:032x}", random.getrandbits(64) or 1
        traceparent = f"00-{trace_id}-{span_id:016x}-00"
    subject, error = Subject(traceparent, trace_id, command_id, begun), ""
    subject_before, span_before = _SUBJECT.set(subject), CURRENT.set(begun)
    try:
        yield subject
    except BaseException as problem:
        error = type(problem).__name__
        raise
    finally:
        _SUBJECT.reset(subject_before)
        CURRENT.reset(span_before)
        if begun is not None:
            begun.end(error)


def past(name: str, kind: SpanKind, parent: str | None, began_s: float) -> None:
    """Record what has taken from `began_s` (seconds since the epoch) until now, of the trace that the header names."""
    if _tracer is not None:
        _tracer.begin(name, kind, parent, round(began_s * 1_000_000_000), {}).end()


def part(name: str, kind: SpanKind, attributes: Mapping[str, Value]) -> Span | None:
    """Begin a part of CURRENT; None where nothing is recorded."""
    whole = CURRENT.get()
    if _tracer is None or whole is None:
        return None
    return _tracer.begin(name, kind, whole, time.time_ns(), attributes)


_STANDARD: Final = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}


def process_name(what: str) -> str:
    """Return what people know a process by; `what` it is: "worker", "gateway"."""
    return f"the {what} on {socket.gethostname()} (process {os.getpid()})"


def quieten(*loggers: str) -> None:
    """Keep out what these libraries tell of each call, a line for a request; ours say what is worth knowing."""
    for name in loggers:
        logging.getLogger(name).setLevel(max(logging.WARNING, logging.getLogger().level))


def configure_logging(level: str, *quiet: str) -> None:
    """Write records of this level and above to standard error as JSON lines; `quiet`: loggers of libraries."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter())
    handler.addFilter(NameSubject())
    logging.basicConfig(level=level, handlers=[handler], force=True)
    quieten(*quiet, "httpx")


class JsonFormatter(logging.Formatter):
    """Formats a record as JSON. It keeps an exception's class and place and drops its text, which may quote content."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line."""
        entry: dict[str, Any] = {
            "time": format_time(datetime.fromtimestamp(record.created, UTC)),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        entry |= {key: value for key, value in record.__dict__.items() if key not in _STANDARD and key not in entry}
        if record.exc_info and record.exc_info[0] is not None:
            entry["exception"] = record.exc_info[0].__name__
            frames = traceback.extract_tb(record.exc_info[2])
            entry["trace"] = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames]
        return json.dumps(entry, default=str, ensure_ascii=False)
