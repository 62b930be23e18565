"""What a refusal for a memory that is not active tells to do next: it fits the cause, in every tool that can refuse."""

import re
from collections.abc import Mapping
from typing import Any
from uuid import UUID

import pytest

from engramq.schemas.commands import TOOLS
from engramq.schemas.faults import FaultCode
from engramq.schemas.ids import uuid7
from engramq.workers.db.database import Store
from engramq.workers.links import connect, snapshot
from engramq.workers.links.deferred import settle_deferred
from tests.workers.links.asserted.conftest import RULES
from tests.workers.links.asserted.harness import Harness

UNKNOWN = "There is no memory of this id: search again."
ARCHIVED = "restore_memory brings it back. Or use another memory."
REJECTED = "Use another memory. Or verify_memory decides anew. restore_memory does not undo a rejection."
GONE = "Nothing active replaces it: use another memory. Or restore_memory brings it back."


def superseded(last: str) -> str:
    return f"Use {last} instead. Or restore_memory undoes the supersession."


async def causes(harness: Harness) -> dict[str, str]:
    """Return memories that cannot be linked, each with what a refusal has to tell."""
    archived, first, second, last, rejected, lost, heir = await harness.memories(7)
    agent = harness.agent
    await agent.call("forget_memory", memory_id=archived)
    for old, new in ((first, second), (second, last), (lost, heir)):
        await agent.call("supersede_memory", old_memory_id=old, new_memory_id=new)
    for hidden in (rejected, heir):
        await agent.call("verify_memory", memory_id=hidden, verification="rejected")
    return {
        uuid7(): UNKNOWN,
        "no id": UNKNOWN,
        archived: ARCHIVED,
        first: superseded(last),
        second: superseded(last),
        rejected: REJECTED,
        lost: GONE,
    }


def told(body: Mapping[str, Any]) -> tuple[Any, ...]:
    return body["code"], body["memory_id"], body["recovery"]


@pytest.mark.promise("AG-21", "CN-15")
async def test_a_link_that_cannot_be_made_says_what_to_do_by_cause(harness: Harness) -> None:
    (one,) = await harness.memories(1)
    expected = await causes(harness)
    for memory_id, recovery in expected.items():
        refused = await harness.refused("connect", source=one, target=memory_id)
        assert told(refused) == ("memory_not_active", memory_id, recovery)
    batch = await harness.agent.call("connects", edges=[{"source": one, "target": memory_id} for memory_id in expected])
    assert [told(error) for error in batch["errors"]] == [
        ("memory_not_active", memory_id, recovery) for memory_id, recovery in expected.items()
    ]
    atomic = await harness.refused("connects", edges=[{"source": one, "target": list(expected)[3]}], atomic=True)
    assert told(atomic)[2] == list(expected.values())[3]


@pytest.mark.promise("AG-21", "MT-9")
async def test_a_supersession_that_cannot_be_made_says_what_to_do_by_cause(harness: Harness) -> None:
    (one,) = await harness.memories(1)
    expected = await causes(harness)
    for memory_id, recovery in expected.items():
        refused = await harness.refused("supersede_memory", old_memory_id=one, new_memory_id=memory_id)
        assert told(refused) == ("memory_not_active", memory_id, recovery)
    _, _, archived, first, second, _, lost = expected
    refused = await harness.refused("supersede_memory", old_memory_id=archived, new_memory_id=one)
    assert told(refused) == ("memory_not_active", archived, ARCHIVED)
    refused = await harness.refused("supersede_memory", old_memory_id=first, new_memory_id=one)
    assert (refused["code"], refused["recovery"]) == ("already_superseded", expected[first])
    assert refused["memory_id"] == second
    refused = await harness.refused("supersede_memory", old_memory_id=lost, new_memory_id=one)
    assert (refused["code"], refused["recovery"]) == ("already_superseded", GONE)


@pytest.mark.promise("AG-21", "TP-12")
async def test_a_promotion_that_cannot_be_made_says_what_to_do_by_cause(harness: Harness) -> None:
    archived, old = await harness.memories(2, partition="untrusted", verification="verified")
    (new,) = await harness.memories(1)
    await harness.agent.call("forget_memory", memory_id=archived)
    await harness.agent.call("supersede_memory", old_memory_id=old, new_memory_id=new)
    for memory_id, recovery in ((archived, ARCHIVED), (old, superseded(new))):
        refused = await harness.refused("memory_promote_to_trusted", record_id=memory_id)
        assert told(refused) == ("memory_not_active", memory_id, recovery)


@pytest.mark.promise("AG-21", "CN-17")
async def test_a_deferred_link_that_is_dropped_says_what_to_do_by_cause(harness: Harness, store: Store) -> None:
    one, old, new = await harness.memories(3)
    await harness.unembed(one)
    asked = await harness.connect(one, old)
    assert asked["action"] == "deferred"
    await harness.agent.call("supersede_memory", old_memory_id=old, new_memory_id=new)
    namespace = "default_user"
    await store.write(namespace, lambda tx: settle_deferred(tx, [UUID(old)], rules=RULES))
    report = await harness.agent.call("get_command", command_id=asked["command_id"])
    dropped = report["reply"]["resolved"]
    assert (dropped["state"], dropped["code"]) == ("dropped", "memory_not_active")
    assert dropped["recovery"] == superseded(new)


def test_each_sentence_of_a_recovery_names_tools_exactly_and_stands_alone() -> None:
    """Those that name a tool which the caller lacks are left out, so that what is left has to make sense."""
    texts = [
        *(code.recovery for code in FaultCode),
        *snapshot._RECOVERY.values(),
        snapshot.use_instead(None),
        connect.WAITING,
    ]
    for text in texts:
        assert text.endswith("."), text
        sentences = re.split(r"(?<=\.)\s+", text)
        named = [[tool for tool in TOOLS if re.search(rf"\b{tool}\b", sentence)] for sentence in sentences]
        assert all(len(tools) <= 1 for tools in named), text
        if len(sentences) == 1:
            assert named == [[]], text
