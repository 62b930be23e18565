"""Many links in one call."""

import pytest

from engramq.schemas.ids import uuid7
from tests.workers.links.asserted.conftest import CAP
from tests.workers.links.asserted.harness import Harness

COUNTS = ("created", "reinforced", "updated", "skipped", "deferred")


@pytest.mark.promise("CN-33")
async def test_each_item_sees_those_before_it_and_bad_ones_are_errors_of_their_index(harness: Harness) -> None:
    one, other, third, pending = await harness.memories(4)
    await harness.seed(one, third)
    await harness.unembed(pending)
    edges = [
        {"source": one, "target": other, "relation": "supports"},
        {"source": other, "target": other},
        {"source": other, "target": one},
        {"source": one, "target": uuid7()},
        {"source": one, "target": third, "relation": "mine"},
        {"source": one, "target": third, "relation": "other"},
        {"source": "", "target": one},
        {"source": one, "target": other, "if_exists": "skip"},
        {"source": one, "target": other, "weight": "heavy"},
        {"source": third, "target": pending, "note": "later"},
        {"target": one},
        {"source": one, "target": other, "if_exists": "error"},
    ]
    body = await harness.agent.call("connects", edges=edges)
    assert body["status"] == "success"
    assert [(result["index"], result["action"]) for result in body["results"]] == [
        (0, "created"), (2, "reinforced"), (4, "updated"), (7, "skipped"), (9, "deferred")]  # fmt: skip
    assert [body[name] for name in COUNTS] == [1, 1, 1, 1, 1]
    assert [(error["index"], error["code"]) for error in body["errors"]] == [
        (1, "self_loop"), (3, "memory_not_active"), (5, "relation_conflict"), (6, "invalid_parameter"),
        (8, "invalid_parameter"), (10, "invalid_parameter"), (11, "edge_exists")]  # fmt: skip
    assert all(error["error"] and error["recovery"] for error in body["errors"])
    assert [body["results"][1][name] for name in ("source_id", "weight", "reinforcement_count")] == [other, 0.85, 1]
    assert body["summary"] == "Links: 1 created, 1 reinforced, 1 updated, 1 skipped, 1 deferred, 7 refused."
    weights = {row["relation"]: row["weight"] for row in await harness.links()}
    assert weights == {"mine": 0.65, "supports": 0.85}
    assert len(await harness.audited("connect")) == 3


@pytest.mark.promise("CN-33")
async def test_a_batch_keeps_the_cap_within_itself(harness: Harness) -> None:
    hub, *others = await harness.memories(3 + CAP)
    await harness.seed(hub, others[0])
    edges = [{"source": hub, "target": other} for other in others[1:]]
    body = await harness.agent.call("connects", edges=edges)
    assert body["created"] == CAP
    assert body["results"][CAP - 1]["displaced_edge"]["other_id"] == others[0]
    assert [(error["index"], error["code"]) for error in body["errors"]] == [(CAP, "degree_limit")]
    assert (await harness.degrees())[hub] == CAP


@pytest.mark.promise("CN-33", "CN-16")
async def test_all_or_nothing_is_refused_with_the_first_error(harness: Harness) -> None:
    one, other, pending = await harness.memories(3)
    await harness.unembed(pending)
    good = [{"source": one, "target": other}, {"source": one, "target": pending}]
    for bad, code in [
        ({"source": one, "target": "gone"}, "memory_not_active"),
        ({"source": one, "target": other, "if_exists": "error"}, "edge_exists"),
    ]:
        later = {"source": one, "target": one}
        refused = await harness.refused("connects", edges=[*good, bad, later], atomic=True)
        assert (refused["code"], "edges[2]" in refused["error"]) == (code, True)
    before = await harness.written()
    faulty = await harness.agent.call("connects", edges=[*good, {"source": one}], atomic=True)
    assert (faulty["status"], faulty["field"], "edges[2]" in faulty["error"]) == ("invalid_parameter", "target", True)
    assert await harness.written() == before
    body = await harness.agent.call("connects", edges=good, atomic=True)
    assert (body["created"], body["deferred"], body["errors"]) == (1, 1, [])


@pytest.mark.promise("CN-33")
async def test_an_empty_batch_does_nothing_and_a_full_one_everything(harness: Harness) -> None:
    body = await harness.agent.call("connects", edges=[])
    assert ([body[name] for name in COUNTS], body["results"], body["errors"]) == ([0] * 5, [], [])
    ids = await harness.memories(3)
    edges = [{"source": ids[number % 3], "target": ids[(number + 1) % 3]} for number in range(200)]
    body = await harness.agent.call("connects", edges=edges)
    assert (body["created"], body["reinforced"]) == (3, 197)
    assert sorted(row["reinforcement_count"] for row in await harness.links()) == [65, 66, 66]
    too_many = await harness.agent.call("connects", edges=[*edges, edges[0]])
    assert (too_many["status"], too_many["field"]) == ("invalid_parameter", "edges")
