"""Requests by reference that are repeated after their session has begun anew, when the references stand for nothing."""

from typing import Any

import pytest

from tests.workers.links.asserted.harness import Harness


@pytest.mark.promise("CN-44", "MT-18")
async def test_a_repeated_request_is_answered_though_its_references_stand_for_nothing_by_then(harness: Harness) -> None:
    one, *_ = await harness.memories(3)
    requests: list[tuple[str, dict[str, Any]]] = [
        ("connect", {"source": "@stored", "target": one}),
        ("connects", {"edges": [{"source": one, "target": "@stored"}], "atomic": True}),
        ("disconnect", {"source": "@stored", "target": one}),
        ("record_outcome", {"memory_ids": [one, "@stored"], "signal": 1}),
        ("update_memory", {"memory_id": "@stored", "confidence": 0.4}),
        ("supersede_memory", {"old_memory_id": one, "new_memory_id": "@stored"}),
        ("forget_memory", {"memory_id": "@stored"}),
        ("restore_memory", {"memory_id": "@stored"}),
    ]

    async def carried_out() -> list[dict[str, Any]]:
        return [
            await harness.agent.call(tool, **arguments, idempotency_key=f"key {number}")
            for number, (tool, arguments) in enumerate(requests)
        ]

    first = await carried_out()
    assert not {"error", "invalid_parameter"} & {body["status"] for body in first}
    await harness.agent.call("begin_session")
    before = await harness.written()
    assert await carried_out() == first
    assert await harness.written() == before


@pytest.mark.promise("CN-44", "CN-16")
async def test_a_reference_that_stands_for_nothing_uses_no_key_up(harness: Harness) -> None:
    (one,) = await harness.memories(1)
    await harness.agent.call("begin_session")
    before = await harness.written()
    plain = await harness.agent.call("connect", source=one, target="@stored")
    keyed = await harness.agent.call("connect", source=one, target="@stored", idempotency_key="key")
    assert (keyed["status"], keyed["field"], keyed["error"]) == ("invalid_parameter", "target", plain["error"])
    assert await harness.written() == before
    await harness.memories(1)
    assert (await harness.connect(one, "@stored", idempotency_key="key"))["action"] == "created"
    other = await harness.agent.call("connect", source=one, target="@recalled[7]", idempotency_key="key")
    assert (other["status"], other["code"]) == ("error", "idempotency_conflict")
