"""What is told of each command that is carried out: a span, figures, and the names in log lines."""

import time
from types import TracebackType
from typing import Final, Self

from engramq.schemas.envelope import Envelope
from engramq.schemas.vocabulary import WorkerKind
from engramq.telemetry.spans import SpanKind, Subject, Value, are_recorded, past, span, trace_id_of
from engramq.workers.queue.contract import Observe, Seen

DONE: Final = "done"
RETRIED: Final = "retried"
SET_ASIDE: Final = "set_aside"


class Watched:
    """One try of a command, while `with` lasts. `outcome`: `done`, `retried`, `set_aside`, or its refusal's code."""

    __slots__ = ("_active", "_began", "_envelope", "_kind", "_observe", "_span", "_subject", "outcome")

    def __init__(self, envelope: Envelope, kind: WorkerKind, observe: Observe | None) -> None:
        self.outcome: str = RETRIED  # if its end is not seen, as when it is cancelled: it is handed back
        self._envelope = envelope
        self._kind = kind
        self._observe = observe
        self._began = 0.0  # when its handler began, by time.time; 0: it has not, or nobody wants to know
        self._subject = subject_of(envelope)
        told = _told(envelope, kind) if are_recorded() else None
        self._span = span(_name(envelope), SpanKind.CONSUMER, envelope.traceparent, told)

    def __enter__(self) -> Self:
        self._subject.__enter__()
        self._active = self._span.__enter__()
        return self

    def begin(self) -> None:
        """Say that its handler begins: what came before was waiting."""
        if self._observe is not None or are_recorded():
            self._began = time.time()
            past("queue wait", SpanKind.CONSUMER, self._envelope.traceparent, self._came_s)

    @property
    def _came_s(self) -> float:
        """When the command was sent, which is not known of old ones."""
        return min(self._envelope.issued_at or self._began, self._began)

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._active.tell("engramq.outcome", self.outcome)
        self._span.__exit__(kind, problem, trace)
        self._subject.__exit__()
        if self._observe is not None:
            now = time.time()
            began = self._began or now
            waited_s = max(0.0, began - (self._envelope.issued_at or began))
            self._observe(Seen(self._kind, _name(self._envelope), self.outcome, waited_s, max(0.0, now - began)))


def _told(envelope: Envelope, kind: WorkerKind) -> dict[str, Value]:
    return {
        "engramq.command_id": envelope.id,
        "engramq.mailbox": kind.value,
        "engramq.attempt": envelope.attempt,
    }


def subject_of(envelope: Envelope) -> Subject:
    """Return what log lines name that are about a command."""
    return Subject(trace_id_of(envelope.traceparent), envelope.id)


def _name(envelope: Envelope) -> str:
    return type(envelope.command).__name__
