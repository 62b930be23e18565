"""One trace from the call of a tool through the queue and a worker to each SQL statement, as a collector gets it."""

import logging
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from engramq.telemetry import spans
from engramq.telemetry.otlp import QUEUED_MAX, ReportingExporter, recording
from engramq.telemetry.spans import SpanKind, past, trace, trace_id_of
from tests.conftest import Database
from tests.telemetry.tracing.collector import Got, collecting
from tests.telemetry.tracing.processes import environment_of, live

BOUND_S = 30.0
TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
CLIENTS = f"00-{TRACE}-{PARENT}-01"
CONTENT = "The harbour of Tallinn freezes in cold winters."
SERVER, CLIENT, CONSUMER = 2, 3, 5


class Heard(logging.Handler):
    """Notes that something was said."""

    def __init__(self) -> None:
        super().__init__()
        self.said = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        self.said.set()


@contextmanager
def heard(logger: logging.Logger) -> Iterator[threading.Event]:
    """Set the event when this logger says something."""
    hearing = Heard()
    logger.addHandler(hearing)
    try:
        yield hearing.said
    finally:
        logger.removeHandler(hearing)


class Scripted(SpanExporter):
    """An exporter with these results."""

    def __init__(self, results: Sequence[SpanExportResult]) -> None:
        self.results = list(results)

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        return self.results.pop(0)


def one(found: list[Got], name: str) -> Got:
    (only,) = [each for each in found if each.name == name]
    return only


@pytest.mark.promise("OP-6")
@pytest.mark.long
def test_one_trace_leads_from_the_call_to_each_statement(
    database: Database, redis_url: str, key_prefix: str, tmp_path: Path
) -> None:
    with collecting() as collector:
        environment = environment_of(database.url, redis_url, key_prefix, tmp_path, otel_endpoint=collector.url)
        with live(environment) as stack:
            stored = stack.call("store_memory", {"content": CONTENT}, traceparent=CLIENTS)
            assert stored["status"] == "stored"
            found = collector.wait_for(
                lambda all_: {"tools/call store_memory", "StoreMemory", "commit"} <= {each.name for each in all_}
            )
            assert (stack.gateway.stop(), stack.worker.stop()) == (0, 0)
        found = collector.spans
    ours = [each for each in found if each.trace == TRACE]
    call, wait, handled = one(ours, "tools/call store_memory"), one(ours, "queue wait"), one(ours, "StoreMemory")
    assert (call.service, call.parent, call.kind) == ("engramq-gateway", PARENT, SERVER)
    assert (handled.service, handled.parent, handled.kind) == ("engramq-worker", call.id, CONSUMER)
    assert wait.parent == call.id
    assert call.holds(wait)
    assert call.told["engramq.command_id"] == handled.told["engramq.command_id"] == stored["command_id"]
    assert (call.told["engramq.outcome"], handled.told["engramq.outcome"]) == ("stored", "done")
    statements = [each for each in ours if each.parent == handled.id]
    assert {each.kind for each in statements} == {CLIENT}
    assert {"begin", "commit", "enter_for_lookups", "insert_memory"} <= {each.name for each in statements}
    assert all(handled.holds(each) for each in statements)
    assert "unnamed" not in {each.name for each in found}
    assert collector.paths == {"/v1/traces"}
    # No memory is told of anywhere, and no SQL.
    assert not [body for body in collector.raw if b"Tallinn" in body or b"select" in body.lower()]


@pytest.mark.long
@pytest.mark.promise("OP-6")
def test_a_search_is_traced_to_its_lookups(database: Database, redis_url: str, key_prefix: str, tmp_path: Path) -> None:
    with collecting() as collector:
        environment = environment_of(database.url, redis_url, key_prefix, tmp_path, otel_endpoint=f"{collector.url}/")
        with live(environment) as stack:
            stack.call("store_memory", {"content": CONTENT})
            assert stack.call("search_memories", {"query": "harbour"})["count"] == 1
            assert stack.call("get_memory", {"memory_id": "no id"})["status"] == "not_found"
            stack.gateway.stop(), stack.worker.stop()
        call = one(collector.spans, "tools/call search_memories")
        ours = [each for each in collector.spans if each.trace == call.trace]
        handled = one(ours, "SearchMemories")
        assert [each.kind for each in ours if each.parent == handled.id].count(CLIENT) > 1
        assert one(collector.spans, "tools/call get_memory").told["engramq.outcome"] == "not_found"


def test_nothing_is_recorded_without_an_endpoint() -> None:
    with trace("a", SpanKind.SERVER) as subject:
        assert subject.span is None
        assert spans.part("b", SpanKind.CLIENT, {}) is None


@pytest.mark.long
def test_a_collector_that_is_away_costs_nothing_and_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with socket.create_server(("127.0.0.1", 0)) as closed:
        address = f"http://ada:secret@127.0.0.1:{closed.getsockname()[1]}"
    told = logging.getLogger("engramq.telemetry.otlp")
    with heard(told) as again, recording(address, "engramq-test"):
        began = time.perf_counter()
        for _ in range(2 * QUEUED_MAX):
            with trace("a", SpanKind.SERVER):
                pass
        assert time.perf_counter() - began < 5
        assert again.wait(BOUND_S)
    away = [record for record in caplog.records if record.name.startswith(("engramq", "opentelemetry", "urllib3"))]
    assert [record.getMessage() for record in away] == ["Traces cannot be sent, and are dropped"]
    assert str(away[0].__dict__["endpoint"]).startswith("http://ada:***@")


def test_that_a_collector_fails_and_works_again_is_told_once_each(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    results = [SpanExportResult[word] for word in ("SUCCESS", "FAILURE", "FAILURE", "SUCCESS", "SUCCESS", "FAILURE")]
    inner = Scripted(results)
    telling = ReportingExporter(inner, "http://collector")
    assert [telling.export([]) for _ in results] == results
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO", "WARNING"]


def test_a_collector_that_takes_and_never_answers_holds_nobody_up() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=8) as silent:
        began = time.perf_counter()
        with recording(f"http://127.0.0.1:{silent.getsockname()[1]}", "engramq-test"), trace("a", SpanKind.SERVER):
            pass
        assert time.perf_counter() - began < 3


def test_what_a_client_does_not_want_recorded_is_not() -> None:
    with collecting() as collector:
        with recording(collector.url, "engramq-test"):
            with trace("unsampled", SpanKind.SERVER, f"00-{TRACE}-{PARENT}-00") as active:
                past("waited", SpanKind.CONSUMER, active.traceparent, time.time())
            with trace("whole", SpanKind.SERVER, "no traceparent"):
                pass
        assert [each.name for each in collector.spans] == ["whole"]


def test_an_error_is_told_by_its_name_alone() -> None:
    with collecting() as collector:
        with (
            pytest.raises(ValueError, match="secret"),
            recording(collector.url, "engramq-test"),
            trace("a", SpanKind.SERVER),
        ):
            raise ValueError("secret")
        (failed,) = collector.spans
        assert failed.failed
        assert failed.told == {"error.type": "ValueError"}
        assert b"secret" not in collector.raw[0]


@pytest.mark.parametrize(
    "given",
    [None, "", "00-1-2-01", f"00-{'0' * 32}-{PARENT}-01", f"00-{TRACE}-{'0' * 16}-01", f"ff-{TRACE}-{PARENT}-01"],
)
def test_a_header_that_names_no_trace_has_no_id(given: str | None) -> None:
    assert trace_id_of(given) == ""


def test_a_header_is_read_and_made_in_the_same_form() -> None:
    assert trace_id_of(CLIENTS) == TRACE
    with trace("a", SpanKind.SERVER, CLIENTS) as joined, trace("b", SpanKind.SERVER, "no traceparent") as new:
        assert (joined.traceparent, joined.trace_id) == (CLIENTS, TRACE)
        assert (len(new.trace_id), trace_id_of(new.traceparent)) == (32, new.trace_id)
    with trace("c", SpanKind.SERVER) as other:
        assert len({joined.trace_id, new.trace_id, other.trace_id}) == 3
