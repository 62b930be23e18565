"""What came of using memories: their usefulness, and the links between those that helped."""

import asyncio
from typing import Any

import pytest

from engramq.schemas.ids import uuid7
from tests.links.conftest import CAP
from tests.links.desk import Desk

pytestmark = pytest.mark.anyio


async def outcome(desk: Desk, ids: list[str], signal: float, **fields: Any) -> dict[str, Any]:
    body = await desk.agent.call("record_outcome", memory_ids=ids, signal=signal, **fields)
    assert body["status"] == "success", body
    return body


def edges_of(body: dict[str, Any]) -> tuple[int, int, int]:
    return body["edges_created"], body["edges_reinforced"], body["edges_skipped"]


@pytest.mark.promise("CN-34")
async def test_usefulness_is_the_mean_of_a_beta_posterior(desk: Desk) -> None:
    (one,) = await desk.memories(1)
    (doubtful,) = await desk.memories(1, confidence=0.2)
    body = await outcome(desk, [one, doubtful, one.upper()], 0.25, weight=4)
    assert [used["memory_id"] for used in body["updated"]] == [one, doubtful]
    assert [used["usefulness"] for used in body["updated"]] == pytest.approx([2.5 / 6, 1.7 / 6])
    body = await outcome(desk, [one], 1)
    assert body["updated"][0]["usefulness"] == pytest.approx(3.5 / 7)
    memory = (await desk.agent.call("get_memory", memory_id=one))["memory"]
    assert memory["usefulness"] == body["updated"][0]["usefulness"]
    assert await desk.links() == []


@pytest.mark.promise("CN-34", "CN-46")
async def test_those_that_helped_together_are_linked_or_their_link_grows(desk: Desk) -> None:
    one, other, third = await desk.memories(3)
    await desk.seed(one, third, "similar", weight=0.95)
    await desk.rows("update namespaces set active_hours = 7")
    assert edges_of(await outcome(desk, [one, other, third], 0.9)) == (2, 1, 0)
    made, grown = await desk.link(one, other) or {}, await desk.link(one, third) or {}
    assert [made[name] for name in ("relation", "weight", "origin", "reinforcement_count")] == [
        "outcome", 0.72, "outcome", 0]  # fmt: skip
    assert [grown[name] for name in ("relation", "weight", "origin", "reinforcement_count")] == [
        "similar", 1.0, "similarity", 1]  # fmt: skip
    assert [made["last_active_hours"], grown["last_active_hours"]] == pytest.approx([7, 7], abs=0.1)
    assert edges_of(await outcome(desk, [other, one], 0.6)) == (0, 1, 0)
    assert (await desk.link(one, other) or {})["weight"] == 0.78
    assert len(await desk.links()) == 3


@pytest.mark.promise("CN-34")
async def test_nothing_is_linked_by_what_did_not_help(desk: Desk) -> None:
    one, other = await desk.memories(2)
    await desk.seed(one, other, weight=0.3)
    for signal in (0, 0.5):
        assert edges_of(await outcome(desk, [one, other], signal)) == (0, 0, 0)
    assert edges_of(await outcome(desk, [one], 1)) == (0, 0, 0)
    assert [row["weight"] for row in await desk.links()] == [0.3]


@pytest.mark.promise("CN-34", "CN-46")
async def test_pairs_are_taken_in_order_and_left_out_where_there_is_no_room(desk: Desk) -> None:
    ids = await desk.memories(6)
    body = await outcome(desk, ids, 1)
    # (0,1) (0,2) (0,3), then 0 is full; (1,2) (1,3), then 1 is full; (2,3), and (4,5) alone has room left.
    assert edges_of(body) == (7, 0, 8)
    number = {memory_id: place for place, memory_id in enumerate(ids)}
    pairs = {(number[one], number[other]) for one, other in await desk.pairs()}
    assert pairs == {(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3), (4, 5)}
    assert max((await desk.degrees()).values()) == CAP


@pytest.mark.promise("CN-34")
async def test_what_cannot_be_counted_is_skipped_with_the_reason(desk: Desk) -> None:
    one, archived, old, new, rejected, pending = await desk.memories(6)
    await desk.agent.call("forget_memory", memory_id=archived)
    await desk.agent.call("supersede_memory", old_memory_id=old, new_memory_id=new)
    await desk.rows("update memories set verification = 'rejected' where node_id = %s", rejected)
    await desk.unembed(pending)
    unknown = uuid7()
    body = await outcome(desk, [archived, one, "no id", old, unknown, rejected, pending], 1, note="The build passed.")
    assert body["skipped"] == [
        {"memory_id": archived, "reason": "archived"},
        {"memory_id": "no id", "reason": "not_found"},
        {"memory_id": old, "reason": "superseded"},
        {"memory_id": unknown, "reason": "not_found"},
        {"memory_id": rejected, "reason": "rejected"},
    ]
    assert [used["memory_id"] for used in body["updated"]] == [one, pending]
    assert edges_of(body) == (0, 0, 0)
    assert [(str(row["target_id"]), row["reason"], row["new"]["signal"]) for row in await desk.audited("outcome")] == [
        (one, "The build passed.", 1.0), (pending, "The build passed.", 1.0)]  # fmt: skip


@pytest.mark.promise("CN-34", "TP-22")
async def test_no_outcome_links_the_partitions(desk: Desk) -> None:
    (one,) = await desk.memories(1)
    (doubtful,) = await desk.memories(1, partition="untrusted")
    assert edges_of(await outcome(desk, [one, doubtful], 1)) == (0, 0, 1)
    await desk.seed(one, doubtful, weight=0.5, origin="agent")  # as a promotion leaves it
    assert edges_of(await outcome(desk, [one, doubtful], 1)) == (0, 0, 1)
    assert [row["weight"] for row in await desk.links()] == [0.5]


@pytest.mark.promise("CN-34")
async def test_outcomes_that_race_all_count(desk: Desk) -> None:
    one, other = await desk.memories(2)
    await asyncio.gather(*(outcome(desk, [one, other] if n % 2 else [other, one], 1) for n in range(12)))
    body = await outcome(desk, [one], 0)
    assert body["updated"][0]["usefulness"] == pytest.approx((1.5 + 12) / (2 + 13))
    (row,) = await desk.links()
    assert (row["reinforcement_count"], row["weight"]) == (11, 1.0)
