"""Whatever a client sends, the whole pipeline answers it in its promised shape and nothing fails within.

ENGRAMQ_FUZZ_EXAMPLES (150) says how many calls are tried, on the memories that earlier ones have left.
"""

import os
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from engramq.gateway.identity.authorization import local_caller
from engramq.gateway.service import Call, Service
from engramq.schemas.commands import TOOLS, Tool
from tests.gateway.fitting import calls
from tests.gateway.replies import check_reply
from tests.scenarios.stage import Stage

EXAMPLES = int(os.environ.get("ENGRAMQ_FUZZ_EXAMPLES", "150"))
SLOW = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large]
ME = local_caller("ns", "me")


@pytest.fixture
async def busy(stage: Stage) -> Service:
    """A gateway in whose session something was stored and found."""
    service = await stage.gateway()
    for number in range(3):
        await ask(service, "store_memory", {"content": f"Kettle number {number} stands in the blue kitchen"})
    await ask(service, "search_memories", {"query": "Which kettle?"})
    return service


async def ask(service: Service, tool: str, arguments: Any) -> dict[str, Any]:
    reply = await service.call(Call(tool=TOOLS[tool], arguments=arguments, caller=ME))
    return check_reply(tool, reply.body, is_error=reply.is_error)


@pytest.mark.promise("SE-4", "SE-5")
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=SLOW)
@given(sent=calls())
async def test_whatever_is_sent_is_answered(busy: Service, sent: tuple[Tool, Any]) -> None:
    tool, arguments = sent
    body = await ask(busy, tool.name, arguments)
    assert body.get("code") not in {"internal", "unavailable"}, body
    assert body["status"] != "pending", body
