"""Whatever a client sends, every tool answers in its promised shape and nothing fails.

ENGRAMQ_FUZZ_EXAMPLES (200) says how many calls are tried.
"""

import json
import os
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from engramq.gateway.identity.authorization import local_caller
from engramq.gateway.service import Call, Service
from engramq.schemas.commands import Tool
from tests.gateway.fitting import calls
from tests.gateway.replies import check_reply
from tests.gateway.worker_side import WorkerSide

EXAMPLES = int(os.environ.get("ENGRAMQ_FUZZ_EXAMPLES", "200"))
# One gateway serves all the calls, as in life.
SLOW = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large]


@pytest.mark.anyio
@pytest.mark.promise("MT-10", "SE-4")
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=SLOW)
@given(sent=calls())
async def test_whatever_is_sent_is_answered(service: Service, workers: WorkerSide, sent: tuple[Tool, Any]) -> None:
    tool, arguments = sent
    reply = await service.call(Call(tool=tool, arguments=arguments, caller=local_caller("ns", "me")))
    body = check_reply(tool.name, reply.body, is_error=reply.is_error)
    assert body.get("code") not in {"internal", "unavailable"}, body
    json.dumps(body, ensure_ascii=False, allow_nan=False).encode()
