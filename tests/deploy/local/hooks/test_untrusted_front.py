"""A front that says of itself that it is untrusted can do no more than a token made with --untrusted."""

import json
import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from engramq.deploy.local.hooks.connection import PROTOCOL, TOOLS
from engramq.deploy.local.hooks.turns import ARCHIVED, INVALID, REJECTED, UNTRUSTED
from engramq.gateway.mcp.audience import choose_tools
from engramq.gateway.stdio_sessions import Hello
from engramq.schemas.faults import FaultCode
from engramq.schemas.vocabulary import MemoryState, Partition, Verification
from tests.deploy.helpers import USER
from tests.deploy.local.hooks.conftest import Owner

pytestmark = [pytest.mark.promise("RC-5", "TP-1"), pytest.mark.timeout(120)]

META = {
    "io.modelcontextprotocol/protocolVersion": PROTOCOL,
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


class Front:
    """A connection to the gateway's socket, with all tools, that calls itself untrusted."""

    def __init__(self, owner: Owner, **more: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(60)
        self._socket.connect(str(owner.stack.home.gateway_socket))
        self._lines = self._socket.makefile("rb")
        hello = {
            "engramq": 1,
            "namespace": owner.environment["ENGRAMQ_NAMESPACE"],
            "principal": "I/O",
            "untrusted": True,
            **more,
        }
        assert self.asks(hello) == {"ok": True}

    def asks(self, message: dict[str, Any]) -> Any:
        self._socket.sendall(json.dumps(message).encode() + b"\n")
        return json.loads(self._lines.readline())

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool, again where a machine under load did not answer in time."""
        parameters = {"name": tool, "arguments": arguments, "_meta": META}
        deadline = time.monotonic() + 60
        while True:
            answer = self.asks({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": parameters})
            body: dict[str, Any] = answer["result"]["structuredContent"]
            if body.get("code") not in {"unavailable", "overloaded"} or time.monotonic() > deadline:
                return body

    def close(self) -> None:
        self._lines.close()
        self._socket.close()


@pytest.fixture
def front(owner: Owner) -> Iterator[Front]:
    opened = Front(owner)
    yield opened
    opened.close()


def test_what_it_stores_is_untrusted_whatever_it_says(owner: Owner, front: Front) -> None:
    stored = front.call("store_memory", content="The zebra is blue.", detail="full")
    assert "stored" in stored, stored
    assert stored["stored"]["partition"] == "untrusted"
    assert front.call("store_memory", content="x", partition="trusted")["code"] == "untrusted_source"
    rows = [{"content": "The zebra is red."}, {"content": "The zebra is pink.", "partition": "trusted"}]
    reply = front.call("import_memories", records=rows)
    assert (reply["accepted"], reply["rejected"]) == (1, 1)
    assert owner.call("search_memories", query="zebra")["memories"] == []


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("verify_memory", {"verification": "verified"}),
        ("memory_promote_to_trusted", {}),
        ("forget_memory", {}),
        ("update_memory", {"confidence": 0.1}),
        ("record_outcome", {"outcome": "success"}),
    ],
)
def test_it_may_change_nothing_else(owner: Owner, front: Front, tool: str, arguments: dict[str, Any]) -> None:
    known = owner.stores("The kettle is blue.")
    given = {"memory_ids": [known]} if tool == "record_outcome" else {"memory_id": known}
    assert front.call(tool, **given, **arguments)["code"] == "forbidden"
    assert owner.call("get_memory", memory_id=known)["memory"]["content"] == "The kettle is blue."


@pytest.mark.promise("PV-1", "PV-3")
def test_a_hook_sees_and_keeps_what_is_private_to_whom_it_acts_for_and_to_nobody_else(owner: Owner) -> None:
    private = owner.stores("The heron saw marker0001.", visibility="private")
    fronts = [Front(owner, principal="hooks/codex", acts_for=person) for person in (USER, "bob", "")]
    both = {"query": "heron", "partitions": ["trusted", "untrusted"]}
    found = [[hit["id"] for hit in front.call("search_memories", **both)["memories"]] for front in fronts]
    assert found == [[private], [], []]
    kept = fronts[0].call("store_memory", content="The reed is green.", visibility="private")["stored"]["id"]
    captured = [memory["id"] for memory in owner.captured()]
    assert captured == [kept]
    for front in fronts:
        front.close()


def test_nothing_of_the_operators_is_open_to_it(front: Front) -> None:
    assert front.call("audit")["code"] == "forbidden"


def test_hooks_say_words_of_the_vocabulary() -> None:
    assert Partition(UNTRUSTED) is Partition.UNTRUSTED
    assert MemoryState(ARCHIVED) is MemoryState.ARCHIVED
    assert Verification(REJECTED) is Verification.REJECTED
    assert UNTRUSTED in Hello.__struct_fields__
    assert FaultCode(INVALID) is FaultCode.INVALID_PARAMETER


def test_hooks_speak_a_version_without_handshake_and_name_tools_that_there_are() -> None:
    assert PROTOCOL in MODERN_PROTOCOL_VERSIONS
    assert {tool.name for tool in choose_tools(",".join(TOOLS))} == TOOLS
