"""OpenTelemetry: spans by the official SDK, sent in batches by a thread of its own.

Nobody waits for the collector: what it does not take in time is dropped. That it is away is logged once.
"""

import logging
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from importlib.metadata import version
from threading import Thread
from typing import Final

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from engramq.schemas.passwords import without_password
from engramq.telemetry.spans import Span, SpanKind, Value, recorded_by

log = logging.getLogger(__name__)

QUEUED_MAX: Final = 4_096  # spans; each some hundred bytes
BATCH_MAX: Final = 512
SEND_EVERY_S: Final = 2.0
SEND_S: Final = 5.0  # for one batch
LAST_S: Final = 1.0  # for what is left at the end
TRACES_PATH: Final = "/v1/traces"  # what the protocol adds to the base URL of a collector

_PROPAGATOR: Final = TraceContextTextMapPropagator()


def recording(endpoint: str, service: str) -> AbstractContextManager[None]:
    """Record the spans of this process for as long as the block lasts, and send them to an endpoint.

    `endpoint`: the base URL of a collector that takes OTLP over HTTP; `service`: what sends, such as `engramq-worker`.
    """
    return recorded_by(OtlpTracer(endpoint, service))


class OtlpTracer:
    """Sends the spans of one process to a collector. The SDK's variables (OTEL_...) say the rest, such as headers."""

    def __init__(self, endpoint: str, service: str) -> None:
        # Of each batch that it cannot send, the SDK says so again, with the exception; we say it once.
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
        base = endpoint.rstrip("/")
        url = base if base.endswith(TRACES_PATH) else base + TRACES_PATH
        resource = Resource.create({"service.name": service, "service.version": version("engramq")})
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        processor = BatchSpanProcessor(
            ReportingExporter(OTLPSpanExporter(endpoint=url, timeout=SEND_S), without_password(url)),
            max_queue_size=QUEUED_MAX,
            max_export_batch_size=BATCH_MAX,
            schedule_delay_millis=SEND_EVERY_S * 1000,
            export_timeout_millis=SEND_S * 1000,
        )
        self._provider.add_span_processor(processor)
        self._tracer = self._provider.get_tracer("engramq", version("engramq"))

    def begin(
        self, name: str, kind: SpanKind, parent: Span | str | None, began_ns: int, attributes: Mapping[str, Value]
    ) -> Span:
        """Return a span that began then; see `spans.Tracer`."""
        header = parent.traceparent if parent is not None and not isinstance(parent, str) else parent
        context = _PROPAGATOR.extract({"traceparent": header}, Context()) if header else Context()
        begun = self._tracer.start_span(
            name,
            context,
            trace.SpanKind[kind],
            attributes=dict(attributes),
            start_time=began_ns,
            record_exception=False,
        )
        return OtlpSpan(begun)

    def close(self) -> None:
        """Send what is left, as far as the collector takes it at once.

        The SDK would wait for half a minute, and its flush knows no bound; its own thread keeps no process alive.
        """
        last = Thread(target=self._provider.shutdown, daemon=True)
        last.start()
        last.join(LAST_S)


class OtlpSpan:
    """A span of the SDK as ours."""

    __slots__ = ("_span",)

    def __init__(self, begun: trace.Span) -> None:
        self._span = begun

    @property
    def traceparent(self) -> str:
        """The header that makes what others do a part of it."""
        of = self._span.get_span_context()
        return f"00-{of.trace_id:032x}-{of.span_id:016x}-{of.trace_flags:02x}"

    def tell(self, name: str, value: Value) -> None:
        """Say something of it."""
        self._span.set_attribute(name, value)

    def end(self, error: str = "") -> None:
        """End it now; ending it again is nothing."""
        if not self._span.is_recording():  # it is not sampled, or has ended
            return
        if error:
            self._span.set_attribute("error.type", error)
            self._span.set_status(trace.Status(trace.StatusCode.ERROR))
        self._span.end()


class ReportingExporter(SpanExporter):
    """Sends by another exporter, and says once that this fails and once that it works again."""

    def __init__(self, inner: SpanExporter, url: str) -> None:
        self._inner = inner
        self._url = url
        self._fails = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send spans."""
        try:
            result = self._inner.export(spans)
        except Exception as problem:  # noqa: BLE001 - a collector's fault is none of ours
            result, error = SpanExportResult.FAILURE, type(problem).__name__
        else:
            error = "refused or away"
        fails = result is not SpanExportResult.SUCCESS
        if fails and not self._fails:
            log.warning("Traces cannot be sent, and are dropped", extra={"endpoint": self._url, "error": error})
        elif self._fails and not fails:
            log.info("Traces are sent again", extra={"endpoint": self._url})
        self._fails = fails
        return result

    def shutdown(self) -> None:
        """Send nothing more."""
        self._inner.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Send what is left."""
        return self._inner.force_flush(timeout_millis)
