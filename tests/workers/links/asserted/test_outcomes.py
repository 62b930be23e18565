"""What came of using memories: usefulness, links, and requests by reference that come after a session began anew."""

import asyncio
from typing import Any

import pytest

from engramq.schemas.ids import uuid7
from tests.workers.links.asserted.conftest import CAP
from tests.workers.links.asserted.harness import Harness


async def outcome(harness: Harness, ids: list[str], signal: float, **fields: Any) -> dict[str, Any]:
    body = await harness.agent.call("record_outcome", memory_ids=ids, signal=signal, **fields)
    assert body["status"] == "success", body
    return body


def edges_of(body: dict[str, Any]) -> tuple[int, int, int]:
    return body["edges_created"], body["edges_reinforced"], body["edges_skipped"]


@pytest.mark.promise("CN-34")
async def test_usefulness_is_the_mean_of_a_beta_posterior(harness: Harness) -> None:
    (one,) = await harness.memories(1)
    (doubtful,) = await harness.memories(1, confidence=0.2)
    body = await outcome(harness, [one, doubtful, one.upper()], 0.25, weight=4)
    assert [used["memory_id"] for used in body["updated"]] == [one, doubtful]
    assert [used["usefulness"] for used in body["updated"]] == pytest.approx([2.5 / 6, 1.7 / 6])
    body = await outcome(harness, [one], 1)
    assert body["updated"][0]["usefulness"] == pytest.approx(3.5 / 7)
    memory = (await harness.agent.call("get_memory", memory_id=one))["memory"]
    assert memory["usefulness"] == body["updated"][0]["usefulness"]
    assert await harness.links() == []


@pytest.mark.promise("CN-34", "CN-46")
async def test_those_that_helped_together_are_linked_or_their_link_grows(harness: Harness) -> None:
    one, other, third = await harness.memories(3)
    await harness.seed(one, third, "similar", weight=0.95)
    await harness.rows("update namespaces set active_hours = 7")
    assert edges_of(await outcome(harness, [one, other, third], 0.9)) == (2, 1, 0)
    made, grown = await harness.link(one, other) or {}, await harness.link(one, third) or {}
    assert [made[name] for name in ("relation", "weight", "origin", "reinforcement_count")] == [
        "outcome", 0.72, "outcome", 0]  # fmt: skip
    assert [grown[name] for name in ("relation", "weight", "origin", "reinforcement_count")] == [
        "similar", 1.0, "similarity", 1]  # fmt: skip
    assert [made["last_active_hours"], grown["last_active_hours"]] == pytest.approx([7, 7], abs=0.1)
    assert edges_of(await outcome(harness, [other, one], 0.6)) == (0, 1, 0)
    assert (await harness.link(one, other) or {})["weight"] == 0.78
    assert len(await harness.links()) == 3


@pytest.mark.promise("CN-34")
async def test_nothing_is_linked_by_what_did_not_help(harness: Harness) -> None:
    one, other = await harness.memories(2)
    await harness.seed(one, other, weight=0.3)
    for signal in (0, 0.5):
        assert edges_of(await outcome(harness, [one, other], signal)) == (0, 0, 0)
    assert edges_of(await outcome(harness, [one], 1)) == (0, 0, 0)
    assert [row["weight"] for row in await harness.links()] == [0.3]


@pytest.mark.promise("CN-34", "CN-46")
async def test_pairs_are_taken_in_order_and_left_out_where_there_is_no_room(harness: Harness) -> None:
    ids = await harness.memories(6)
    body = await outcome(harness, ids, 1)
    # (0,1) (0,2) (0,3), then 0 is full; (1,2) (1,3), then 1 is full; (2,3), and (4,5) alone has room left.
    assert (edges_of(body), body["edges_skipped_by"]) == ((7, 0, 8), {"no_room": 8})
    number = {memory_id: place for place, memory_id in enumerate(ids)}
    pairs = {(number[pair], number[other]) for pair, other in await harness.pairs()}
    assert pairs == {(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3), (4, 5)}
    assert max((await harness.degrees()).values()) == CAP


@pytest.mark.promise("CN-34")
async def test_what_cannot_be_counted_is_skipped_with_the_reason(harness: Harness) -> None:
    one, archived, old, new, rejected, pending = await harness.memories(6)
    await harness.agent.call("forget_memory", memory_id=archived)
    await harness.agent.call("supersede_memory", old_memory_id=old, new_memory_id=new)
    await harness.rows("update memories set verification = 'rejected' where node_id = %s", rejected)
    await harness.unembed(pending)
    unknown = uuid7()
    body = await outcome(
        harness, [archived, one, "no id", old, unknown, rejected, pending], 1, note="The build passed."
    )
    assert body["skipped"] == [
        {"memory_id": archived, "reason": "archived"},
        {"memory_id": "no id", "reason": "not_found"},
        {"memory_id": old, "reason": "superseded"},
        {"memory_id": unknown, "reason": "not_found"},
        {"memory_id": rejected, "reason": "rejected"},
    ]
    assert [used["memory_id"] for used in body["updated"]] == [one, pending]
    assert (edges_of(body), body["edges_skipped_by"]) == ((0, 0, 1), {"pending": 1})
    audited = [(str(row["target_id"]), row["reason"], row["new"]["signal"]) for row in await harness.audited("outcome")]
    assert audited == [
        (one, "The build passed.", 1.0), (pending, "The build passed.", 1.0)]  # fmt: skip


@pytest.mark.promise("CN-31", "CN-34")
async def test_what_somebody_took_away_is_skipped_with_the_reason(harness: Harness) -> None:
    one, other = await harness.memories(2)
    await harness.seed(one, other)
    await harness.agent.call("disconnect", source=one, target=other)
    body = await outcome(harness, [one, other], 1)
    assert (edges_of(body), body["edges_skipped_by"]) == ((0, 0, 1), {"disconnected": 1})


@pytest.mark.promise("CN-34", "TP-22")
async def test_no_outcome_links_the_partitions(harness: Harness) -> None:
    (one,) = await harness.memories(1)
    (doubtful,) = await harness.memories(1, partition="untrusted")
    body = await outcome(harness, [one, doubtful], 1)
    assert (edges_of(body), body["edges_skipped_by"]) == ((0, 0, 1), {"different_partitions": 1})
    await harness.seed(one, doubtful, weight=0.5, origin="agent")  # as a promotion leaves it
    assert edges_of(await outcome(harness, [one, doubtful], 1)) == (0, 0, 1)
    assert [row["weight"] for row in await harness.links()] == [0.5]


@pytest.mark.promise("CN-34")
async def test_outcomes_that_race_all_count(harness: Harness) -> None:
    one, other = await harness.memories(2)
    await asyncio.gather(*(outcome(harness, [one, other] if n % 2 else [other, one], 1) for n in range(12)))
    body = await outcome(harness, [one], 0)
    assert body["updated"][0]["usefulness"] == pytest.approx((1.5 + 12) / (2 + 13))
    (row,) = await harness.links()
    assert (row["reinforcement_count"], row["weight"]) == (11, 1.0)


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
