"""What a call sends, when it waits, and what it ends with: the conversation, without a server and without time."""

import subprocess
import sys
from collections.abc import Iterable
from datetime import UTC, date, datetime
from typing import Any, NamedTuple

import httpx
import msgspec
import pytest

from engramq.client import calls
from engramq.client.call import (
    ClientCall,
    EngramqFailure,
    Erased,
    NotReached,
    Refused,
    Request,
    StillPending,
    at_once,
    run_through,
)
from engramq.client.exchange import Means, Policy, carry_out
from engramq.schemas.commands import EdgeMissing, Stored
from tests.gateway.worker_side import a_memory

STORED = msgspec.json.encode(Stored(stored=a_memory(), command_id="c"))
BUSY = {"status": "error", "code": "overloaded", "error": "Too much.", "recovery": "Wait."}


class Sent(NamedTuple):
    request: Request
    timeout_s: float


class Talk:
    """A call that hears what is given, and the clock that its pauses move."""

    def __init__(self, call: ClientCall[Any], heard: Iterable[httpx.Response | httpx.TransportError]) -> None:
        self.sent: list[Sent] = []
        self.pauses: list[float] = []
        self.time = 1_000.0
        self._call = call
        self._heard = iter(heard)

    def reply(self) -> Any:
        means = Means(at_once(self._send), at_once(self._pause), lambda: self.time)
        return run_through(carry_out(self._call, Policy(), means))

    def _send(self, request: Request, timeout_s: float) -> httpx.Response:
        self.sent.append(Sent(request, timeout_s))
        self.time += 0.01
        said = next(self._heard)
        if isinstance(said, httpx.TransportError):
            raise said
        return said

    def _pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.time += seconds


def answer(http_status: int, retry_after_s: int = 0, /, **body: Any) -> httpx.Response:
    return httpx.Response(http_status, content=msgspec.json.encode(body), headers={"retry-after": str(retry_after_s)})


def store(*heard: httpx.Response | httpx.TransportError, **given: Any) -> Talk:
    return Talk(calls.store("x", **given), heard)


@pytest.mark.parametrize("known", ["", ".", "..", " .. "])
def test_an_id_that_leads_to_another_path_is_refused_and_not_sent(known: str) -> None:
    for call in (calls.get(known), calls.forget(known), calls.get_command(known)):
        talk = Talk(call, [])
        with pytest.raises(Refused) as refusal:
            talk.reply()
        assert (refusal.value.code, refusal.value.http_status, talk.sent) == ("invalid_parameter", 400, [])
    assert calls.get("a/..").request("k").path == "/v1/memories/a%2F.."


@pytest.mark.promise("RC-8")
def test_a_write_is_repeated_with_the_key_of_its_first_request() -> None:
    talk = store(
        httpx.ConnectError("cut"),
        answer(503, **BUSY),
        httpx.Response(502, content=b"<html>"),
        httpx.Response(200, content=STORED),
    )
    assert talk.reply().stored.content == "Ada prefers tea"
    keys = {sent.request.key for sent in talk.sent}
    assert (len(talk.sent), len(keys), None in keys) == (4, 1, False)
    assert store(httpx.Response(200, content=STORED)).reply() is not None
    other = store(httpx.Response(200, content=STORED))
    other.reply()
    assert other.sent[0].request.key not in keys


def test_a_key_of_ones_own_is_taken_and_reads_have_none() -> None:
    talk = store(httpx.Response(200, content=STORED), idempotency_key="mine")
    talk.reply()
    assert (talk.sent[0].request.key, b"idempotency_key" in (talk.sent[0].request.body or b"")) == ("mine", False)
    read = Talk(calls.search("x"), [answer(200, status="success", memories=[], count=0)])
    read.reply()
    assert read.sent[0].request.key is None


@pytest.mark.promise("RC-8")
def test_waits_grow_and_are_never_shorter_than_the_server_asked_for() -> None:
    talk = store(*[httpx.ConnectError("cut")] * 4, answer(429, 7, **BUSY), httpx.Response(200, content=STORED))
    talk.reply()
    for attempt, pause in enumerate(talk.pauses[:4]):
        assert 0.05 * 2**attempt <= pause <= 0.1 * 2**attempt
    assert 7.0 <= talk.pauses[4] <= 12.0


def test_a_wait_that_does_not_fit_into_the_call_ends_it_at_once() -> None:
    talk = store(answer(503, 60, **BUSY))
    with pytest.raises(Refused) as refused:
        talk.reply()
    assert (refused.value.code, refused.value.recovery, refused.value.http_status) == ("overloaded", "Wait.", 503)
    assert talk.pauses == []


@pytest.mark.promise("RC-8")
def test_a_call_ends_within_its_time_and_tells_the_key_to_go_on_with() -> None:
    talk = store(*[httpx.ConnectError("refused")] * 100)
    with pytest.raises(NotReached, match="refused") as lost:
        talk.reply()
    assert talk.time - 1_000.0 <= Policy().call_s + 0.01  # which the last request takes at least
    assert lost.value.idempotency_key == talk.sent[0].request.key
    assert all(sent.timeout_s <= Policy().request_s for sent in talk.sent)


def test_a_page_of_a_proxy_is_no_answer() -> None:
    with pytest.raises(NotReached, match="answered 200"):
        store(*[httpx.Response(200, content=b"<html>")] * 100).reply()


@pytest.mark.parametrize("status", [400, 401, 403, 409, 413, 422, 500])
def test_what_is_refused_is_not_repeated(status: int) -> None:
    talk = store(answer(status, status="error", code="forbidden", error="No.", recovery="Ask.", field="content"))
    with pytest.raises(Refused, match=r"No\. Ask\.") as refused:
        talk.reply()
    assert (len(talk.sent), refused.value.field) == (1, "content")


@pytest.mark.promise("RC-8")
def test_a_pending_write_is_followed_to_its_reply() -> None:
    waiting = {"status": "pending", "reply": None}
    talk = store(
        answer(202, status="pending", command_id="c-1"),
        answer(200, **waiting),
        httpx.ConnectError("cut"),
        answer(200, **waiting),
        answer(200, status="done", reply=msgspec.json.decode(STORED)),
    )
    assert talk.reply().status == "stored"
    assert [sent.request.path for sent in talk.sent[1:]] == ["/v1/commands/c-1"] * 4


def test_a_pending_write_that_is_refused_in_the_end_raises_that() -> None:
    fault = {"status": "error", "code": "quota_exceeded", "error": "Full.", "recovery": "Purge."}
    with pytest.raises(Refused, match="Full") as refused:
        store(answer(202, status="pending", command_id="c"), answer(200, status="failed", reply=fault)).reply()
    assert refused.value.code == "quota_exceeded"


def test_a_write_that_stays_pending_says_its_command() -> None:
    forever = [answer(200, status="pending", reply=None)] * 1_000
    talk = store(answer(202, status="pending", command_id="c-9"), *forever)
    with pytest.raises(StillPending, match="c-9") as pending:
        talk.reply()
    assert (pending.value.command_id, talk.time - 1_000.0 <= 31.0) == ("c-9", True)


def test_a_repeated_write_whose_memory_was_erased_says_so() -> None:
    with pytest.raises(Erased) as erased:
        store(answer(200, status="erased", id="m-1")).reply()
    assert erased.value.memory_id == "m-1"
    kept = Talk(calls.forget("m"), [answer(200, status="erased", id="m")])
    assert kept.reply().status == "erased"


def test_a_reply_that_this_version_does_not_know_is_a_failure() -> None:
    with pytest.raises(EngramqFailure, match="another version"):
        store(answer(200, status="stored")).reply()


def test_what_is_not_there_is_a_reply() -> None:
    given = {"source_name": "a", "target_name": "b", "relation": "R"}
    talk = Talk(calls.get_edge(**given), [answer(404, status="not_found", edge=None)])
    assert isinstance(talk.reply(), EdgeMissing)


def test_arguments_stand_where_the_operation_takes_them() -> None:
    call = calls.recent(
        limit=3, tags=["a", "b"], include_superseded=True, thread=None, as_of=datetime(2026, 1, 31, 9, tzinfo=UTC)
    )
    talk = Talk(call, [answer(200, status="success", memories=[], count=0)])
    talk.reply()
    request = talk.sent[0].request
    assert (request.body, request.query["limit"], request.query["tags"]) == (None, 3, ["a", "b"])
    assert (request.query["include_superseded"], "thread" in request.query) == ("true", False)
    assert datetime.fromisoformat(request.query["as_of"]) == datetime(2026, 1, 31, 9, tzinfo=UTC)
    path = calls.get("a/b ü").request("").path
    assert path == "/v1/memories/a%2Fb%20%C3%BC"
    body = calls.store("x", occurred_at=date(2026, 1, 31)).request("k").body
    assert body == b'{"content":"x","occurred_at":"2026-01-31"}'
    local = calls.store("x", occurred_at=datetime(2026, 1, 31, 9)).request("k").body  # noqa: DTZ001
    assert datetime.fromisoformat(msgspec.json.decode(local or b"")["occurred_at"]).tzinfo is not None


def test_the_package_loads_a_client_only_when_it_is_named() -> None:
    program = "import sys, engramq; print('httpx' in sys.modules); engramq.Memory; print('httpx' in sys.modules)"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert ended.stdout.split() == ["False", "True"]
