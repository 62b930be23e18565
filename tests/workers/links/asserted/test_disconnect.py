"""Taking links away: what goes, what is guarded, and who may make it again."""

from hashlib import sha256
from typing import Any
from uuid import UUID

import pytest

from engramq.schemas.ids import uuid7
from engramq.schemas.vocabulary import Origin
from engramq.workers.db.database import Store
from engramq.workers.links.writer import AutomaticLink, write_automatic
from tests.workers.links.asserted.conftest import RULES
from tests.workers.links.asserted.harness import Harness


async def disconnect(harness: Harness, one: str, other: str, **fields: Any) -> list[Any]:
    body = await harness.agent.call("disconnect", source=one, target=other, **fields)
    assert body["status"] == "success"
    assert (body["source_id"], body["target_id"]) == (one, other)
    assert body["summary"]
    assert ("what" in body, "hint" in body) == ((body["action"] == "not_found"),) * 2
    return [body["action"], body["removed_relation"], body["removed_weight"]]


@pytest.mark.promise("CN-28")
async def test_a_link_is_removed_whatever_the_order_of_its_ends(harness: Harness) -> None:
    one, other, third = await harness.memories(3)
    await harness.connect(one, other, relation="supports", weight=0.4)
    await harness.connect(one, third)
    assert await disconnect(harness, other, one) == ["removed", "supports", 0.4]
    assert await disconnect(harness, other, one) == ["not_found", None, None]
    assert await disconnect(harness, one, uuid7()) == ["not_found", None, None]
    assert await disconnect(harness, one, "no id") == ["not_found", None, None]
    assert await disconnect(harness, one, one) == ["not_found", None, None]
    assert len(await harness.links()) == 1
    await harness.agent.call("forget_memory", memory_id=third)
    assert await disconnect(harness, one, third) == ["removed", "similar", 0.65]


@pytest.mark.promise("CN-28")
async def test_a_guard_keeps_a_link_of_another_relation(harness: Harness) -> None:
    one, other, third = await harness.memories(3)
    await harness.connect(one, other, relation="supports")
    before = await harness.written()
    body = await harness.agent.call("disconnect", source=one, target=other, guard_relation="similar")
    assert [body[name] for name in ("action", "removed_relation", "removed_weight")] == ["guarded", None, None]
    assert "'supports'" in body["summary"]
    assert await harness.written() == before
    assert await disconnect(harness, one, other, guard_relation="supports") == ["removed", "supports", 0.75]
    await harness.agent.call("supersede_memory", old_memory_id=third, new_memory_id=one)
    body = await harness.agent.call("disconnect", source=one, target=third)
    assert (body["action"], "restore the old memory" in body["summary"]) == ("guarded", True)


@pytest.mark.promise("CN-30")
async def test_the_reason_is_audited_with_what_was_there(harness: Harness) -> None:
    one, other = await harness.memories(2)
    await harness.connect(other, one, note="why")
    body = await harness.agent.call("disconnect", source=one, target=other, reason="They only share a word.")
    (row,) = await harness.audited("disconnect")
    assert (row["reason"], row["actor"], str(row["command_id"])) == (
        "They only share a word.", "I/O", body["command_id"])  # fmt: skip
    assert row["old"] == {
        "source_id": one,
        "target_id": other,
        "relation": "similar",
        "weight": 0.65,
        "origin": "agent",
        "note_sha256": sha256(b"why").hexdigest(),
        "reinforcement_count": 0,
        "declared_from": other,
    }


@pytest.mark.promise("CN-31")
async def test_what_was_taken_away_is_made_again_by_agents_only(harness: Harness, store: Store) -> None:
    one, other, third = await harness.memories(3)
    wanted = [AutomaticLink(UUID(one), UUID(end), "similar", 0.9, Origin.SIMILARITY) for end in (other, third)]

    async def write() -> int:
        written = await store.write("default_user", lambda tx: write_automatic(tx, wanted, rules=RULES))
        return len(written.created)

    assert await write() == 2
    assert await disconnect(harness, other, one) == ["removed", "similar", 0.9]
    assert await write() == 0
    outcome = await harness.agent.call("record_outcome", memory_ids=[one, other], signal=1)
    assert (outcome["edges_created"], outcome["edges_skipped"]) == (0, 1)
    # An agent makes it and takes it away again: that leaves nothing behind.
    await harness.connect(one, other)
    assert await disconnect(harness, one, other) == ["removed", "similar", 0.65]
    assert await write() == 1


@pytest.mark.promise("CN-29")
async def test_a_removed_link_is_gone_from_what_reads_show_at_once(harness: Harness) -> None:
    one, other = await harness.memories(2)
    await harness.connect(one, other, note="shown")
    shown = (await harness.agent.call("get_memory", memory_id=other))["links"]
    content = (await harness.agent.call("get_memory", memory_id=one))["memory"]["content"]
    assert shown == [{"memory_id": one, "preview": content, "relation": "similar", "weight": 0.65, "note": "shown",
                      "origin": "agent", "direction": "incoming", "reinforcement_count": 0}]  # fmt: skip
    await disconnect(harness, one, other)
    assert (await harness.agent.call("get_memory", memory_id=other))["links"] == []
