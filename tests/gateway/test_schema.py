"""The schema of a tool's replies holds for every shape that a reply can have."""

from typing import Any

import msgspec
import pytest

from engramq.gateway.mcp.audience import ALL_TOOLS, reader_of
from engramq.gateway.mcp.schema import ErasedSince, PendingReply, output_schema
from engramq.gateway.service import fault_reply
from engramq.schemas.codec import reply_body
from engramq.schemas.commands import TOOLS, Reply, Tool
from engramq.schemas.faults import Fault, FaultCode
from engramq.schemas.vocabulary import ALL_SCOPES
from tests.gateway.replies import check_reply
from tests.schemas.samples import sample


def body_of(reply: msgspec.Struct) -> dict[str, Any]:
    body = reply_body(reply) if isinstance(reply, Reply) else msgspec.to_builtins(reply)
    travelled: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(body))
    return travelled


EVERYTHING = reader_of(ALL_TOOLS, ALL_SCOPES, untrusted=False)


@pytest.mark.parametrize("tool", TOOLS.values(), ids=TOOLS)
def test_every_reply_and_refusal_fulfils_the_schema_with_every_field_and_with_the_least(tool: Tool) -> None:
    for kind in tool.replies:
        for filled in (True, False):
            check_reply(tool.name, body_of(sample(kind, full=filled)), is_error=False)
    for code in FaultCode:
        least = Fault(code=code, error="e", recovery=code.recovery)
        full = msgspec.structs.replace(least, field="f", memory_id="m", retry_after_s=1.5, command_id="c")
        for fault in (least, full):
            refused = fault_reply(fault, EVERYTHING)
            check_reply(tool.name, refused.body, is_error=refused.is_error)
    for reply in (PendingReply(command_id="c"), ErasedSince(id="m")):
        if tool.write:
            check_reply(tool.name, body_of(reply), is_error=False)
        else:
            assert type(reply).__name__ not in output_schema(tool)["$defs"]
