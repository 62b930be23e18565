"""A collector of traces: a small server that takes OTLP over HTTP and keeps the spans."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

BOUND_S = 20.0


@dataclass(frozen=True)
class Got:
    """A span as it was received; ids in hex, times in nanoseconds since the epoch."""

    service: str
    name: str
    kind: int
    trace: str
    id: str
    parent: str
    began: int
    ended: int
    told: dict[str, Any]
    failed: bool

    def holds(self, other: "Got") -> bool:
        """Say whether the other one lies within this one's time, to the millisecond."""
        return self.began - 1_000_000 <= other.began and other.ended <= self.ended + 1_000_000


@dataclass
class Collector:
    url: str = ""
    spans: list[Got] = field(default_factory=list)
    raw: list[bytes] = field(default_factory=list)
    paths: set[str] = field(default_factory=set)
    came: threading.Condition = field(default_factory=threading.Condition)

    def receive(self, path: str, body: bytes) -> None:
        request = ExportTraceServiceRequest.FromString(body)
        with self.came:
            self.paths.add(path)
            self.raw.append(body)
            for resource in request.resource_spans:
                service = told_of(resource.resource.attributes)["service.name"]
                self.spans += [got(service, sent) for scope in resource.scope_spans for sent in scope.spans]
            self.came.notify_all()

    def wait_for(self, is_there: Callable[[list[Got]], bool]) -> list[Got]:
        """Return the spans as soon as they are there; fails when they do not come within the bound."""
        with self.came:
            assert self.came.wait_for(lambda: is_there(self.spans), BOUND_S), [span.name for span in self.spans]
            return list(self.spans)


def told_of(attributes: Any) -> dict[str, Any]:
    return {attribute.key: getattr(attribute.value, attribute.value.WhichOneof("value")) for attribute in attributes}


def got(service: str, span: Any) -> Got:
    return Got(
        service=service,
        name=span.name,
        kind=span.kind,
        trace=span.trace_id.hex(),
        id=span.span_id.hex(),
        parent=span.parent_span_id.hex(),
        began=span.start_time_unix_nano,
        ended=span.end_time_unix_nano,
        told=told_of(span.attributes),
        failed=span.status.code == 2,
    )


@contextmanager
def collecting() -> Iterator[Collector]:
    """Run a collector for as long as the block lasts."""
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            collector.receive(self.path, self.rfile.read(int(self.headers["content-length"])))
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    collector.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield collector
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
