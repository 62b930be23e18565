"""What the stdio relay remembers of a conversation, without any process."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engramq.deploy.local.conversation import RelayConversation, refusal
from engramq.deploy.local.lines import LineBuffer


def line(**fields: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **fields}).encode() + b"\n"


def failed_ids(conversation: RelayConversation) -> list[object]:
    return [json.loads(answer)["id"] for answer in conversation.fail_open("gone")]


def test_requests_are_open_until_they_are_answered_and_ids_keep_their_type() -> None:
    conversation = RelayConversation()
    for request_id in (1, "1", 2):
        conversation.note_sent(line(id=request_id, method="tools/call"))
    conversation.note_received(line(id=2, result={}))

    assert failed_ids(conversation) == [1, "1"]
    assert conversation.open_requests == 0


IDS = [0, 1, "1", -1, "a", "a.b:c_d-9", "é", 'q"', "", 10**20]


def test_results_as_the_gateway_writes_them_close_their_requests_alone() -> None:
    conversation = RelayConversation()
    for request_id in IDS:
        conversation.note_sent(line(id=request_id, method="tools/call"))
    for left, request_id in enumerate(reversed(IDS)):
        assert conversation.open_requests == len(IDS) - left
        answer = {"jsonrpc": "2.0", "id": request_id, "result": {"content": [{"text": "x" * 9_000}]}}
        conversation.note_received(json.dumps(answer, separators=(",", ":"), ensure_ascii=False).encode() + b"\n")

    assert failed_ids(conversation) == []


def test_notifications_answers_and_cancelled_requests_are_not_waited_for() -> None:
    conversation = RelayConversation()
    conversation.note_sent(line(method="notifications/progress"))
    conversation.note_sent(line(id=5, result={}))
    conversation.note_sent(line(id=6, method="tools/call"))
    conversation.note_sent(line(method="notifications/cancelled", params={"requestId": 6}))

    assert failed_ids(conversation) == []


@pytest.mark.promise("AG-22")
def test_a_batch_and_a_line_that_is_too_long_are_refused_without_a_gateway() -> None:
    for refused in (b' [{"id": 1, "method": "a"}, {"id": 2, "method": "b"}]\n', None):
        answer = json.loads(refusal(refused))
        assert (answer["id"], answer["error"]["code"]) == (None, -32600)
    assert refusal(b'{"id": 1, "method": "a"}\n') == b""


@pytest.mark.promise("AG-22")
def test_odd_ids_are_waited_for_only_if_the_answer_has_them() -> None:
    conversation = RelayConversation()
    sent: list[object] = [1.0, -2.0, 1.5, True, None, [], {"a": 1}, float("inf"), float("nan"), 10**400]
    for request_id in sent:
        conversation.note_sent(line(id=request_id, method="tools/call"))
    assert conversation.open_requests == 4
    for answered in (1, -2, 1.5, 10**400):
        conversation.note_received(line(id=answered, error={"code": -32600, "message": "odd"}))

    assert conversation.open_requests == 0


def test_what_is_no_message_is_passed_by() -> None:
    conversation = RelayConversation()
    for text in (b"{\n", b"null\n", b'"x"\n', b"\xff\xfe\n", b"[" * 100_000 + b"\n", b'{"id": 1}\n'):
        conversation.note_sent(text)
        conversation.note_received(text)

    assert conversation.open_requests == 0


def test_a_refused_handshake_is_forgotten_and_an_accepted_one_kept() -> None:
    conversation = RelayConversation()
    first, second = line(id=1, method="initialize"), line(id=2, method="initialize")
    conversation.note_sent(first)
    conversation.note_received(line(id=1, error={"code": -32602, "message": "no"}))
    assert conversation.handshake() == (b"", b"")

    conversation.note_sent(second)
    conversation.note_received(line(id=2, result={}))
    conversation.note_sent(line(method="notifications/initialized"))
    assert conversation.handshake() == (second, line(method="notifications/initialized"))
    assert conversation.answers_handshake(line(id=2, result={}))
    assert not conversation.answers_handshake(line(id=2, method="ping"))


def test_an_open_handshake_is_kept_for_the_next_gateway_and_refused_when_there_is_none() -> None:
    conversation = RelayConversation()
    conversation.note_sent(line(id="a", method="initialize"))
    assert conversation.fail_open("gone") == []
    assert conversation.owes_handshake()

    (answer,) = conversation.fail_all("no gateway")
    assert json.loads(answer)["id"] == "a"
    assert conversation.handshake() == (b"", b"")


@given(st.lists(st.binary(max_size=30).filter(lambda text: b"\n" not in text)), st.integers(1, 7))
def test_lines_come_out_as_they_went_in_however_they_are_cut(texts: list[bytes], size: int) -> None:
    stream = b"".join(text + b"\n" for text in texts)
    buffer = LineBuffer()
    pieces = [stream[start : start + size] for start in range(0, len(stream), size)]

    assert [each for piece in pieces for each in buffer.feed(piece)] == [text + b"\n" for text in texts]
    assert buffer.finish() == []


def test_a_line_beyond_the_bound_is_dropped_alone() -> None:
    buffer = LineBuffer(longest=4)

    assert buffer.feed(b"1234\n12345\n12") == [b"1234\n", None]
    assert buffer.feed(b"345") == []
    assert buffer.feed(b"67\nok") == [None]
    assert buffer.finish() == [b"ok\n"]


@pytest.mark.parametrize(
    ("method", "params", "status"),
    [
        ("tools/call", {"name": "search_memories"}, "error"),
        ("tools/call", {"name": "store_memory"}, "pending"),
        ("tools/call", {"name": ["search_memories"]}, "pending"),
        ("tools/call", {}, "pending"),
        ("tools/list", None, "error"),
        ("ping", None, "error"),
        ("something/new", None, "pending"),
    ],
)
def test_a_cut_read_is_unavailable_and_a_cut_write_may_have_been_done(method: str, params: object, status: str) -> None:
    conversation = RelayConversation()
    conversation.note_sent(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode())
    (answer,) = conversation.fail_open("gone")
    told = json.loads(answer)["error"]["data"]
    assert told["status"] == status
    assert ("A write may have been done" in told["recovery"]) is (status == "pending")
    assert told.get("code") == ("unavailable" if status == "error" else None)


def test_an_id_that_is_used_again_is_what_it_is_now() -> None:
    conversation = RelayConversation()
    for method, answered in (("tools/list", True), ("tools/call", False)):
        conversation.note_sent(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method}).encode())
        if answered:
            conversation.note_received(b'{"jsonrpc":"2.0","id":1,"result":{}}')
    (answer,) = conversation.fail_open("gone")
    assert json.loads(answer)["error"]["data"]["status"] == "pending"
