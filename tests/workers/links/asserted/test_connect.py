"""What an agent's connect does to a link, and what it refuses."""

from hashlib import sha256
from typing import Any

import pytest

from engramq.schemas.faults import FaultCode
from engramq.schemas.ids import uuid7
from engramq.schemas.vocabulary import LINK_WEIGHTS, Scope
from tests.scenarios.stage import LEGACY, MODERN, Stage, agent_of
from tests.workers.links.asserted.harness import Harness

TOLD = ("relation", "weight", "note", "reinforcement_count")


@pytest.mark.promise("CN-1", "CN-2", "CN-6", "CN-7")
@pytest.mark.parametrize("era", [LEGACY, MODERN])
async def test_two_memories_are_linked_and_the_caller_s_order_is_kept(stage: Stage, harness: Harness, era: str) -> None:
    older, newer = await harness.memories(2)
    async with agent_of(await stage.gateway(), era=era) as agent:
        body = await agent.call("connect", source=newer, target=older)
    assert body.pop("command_id")
    assert body.pop("summary") == f"Linked {newer} and {older} as 'similar' (weight 0.65)."
    assert body == {
        "status": "success",
        "action": "created",
        "source_id": newer,
        "target_id": older,
        "relation": "similar",
        "weight": 0.65,
        "note": None,
        "reinforcement_count": 0,
        "displaced_edge": None,
        "displaced_edges": [],
    }
    (row,) = await harness.links()
    assert (str(row["source_id"]), str(row["target_id"])) == (older, newer)
    assert (str(row["declared_from"]), row["origin"]) == (newer, "agent")


@pytest.mark.promise("CN-2", "CN-3", "CN-4", "CN-5")
async def test_relation_weight_and_note_are_as_given_or_as_the_table_says(harness: Harness) -> None:
    weights = {word: weight for word, weight in LINK_WEIGHTS.items() if word != "similar"} | {"blames": 0.65}
    for relation, weight in weights.items():
        body = await harness.connect(*await harness.memories(2), relation=str(relation))
        assert (body["relation"], body["weight"]) == (relation, weight)
    for given, stored in [(0.125, 0.125), (1.5, 1.0), (-3, 0.0), (1e308, 1.0)]:
        body = await harness.connect(*await harness.memories(2), relation="supports", weight=given, note="Voilà: why.")
        assert (body["weight"], body["note"]) == (stored, "Voilà: why.")
        row = await harness.link(body["source_id"], body["target_id"])
        assert row is not None
        assert (row["weight"], row["note"]) == (stored, "Voilà: why.")
    one, other = await harness.memories(2)
    refused = await harness.agent.call("connect", source=one, target=other, weight="NaN")
    assert (refused["status"], refused["field"]) == ("invalid_parameter", "weight")
    assert await harness.link(one, other) is None


@pytest.mark.promise("CN-7", "CN-8")
async def test_saying_it_again_reinforces_in_either_direction_up_to_one(harness: Harness) -> None:
    one, other = await harness.memories(2)
    await harness.connect(one, other, weight=0.7)
    body = await harness.connect(other, one, note="seen again")
    assert (body["source_id"], body["target_id"], body["action"]) == (other, one, "reinforced")
    assert (body["weight"], body["reinforcement_count"], body["note"]) == (0.8, 1, "seen again")
    await harness.connect(one, other, weight=0.2, if_exists="reinforce")
    await harness.connect(one, other)
    body = await harness.connect(one, other, relation="similar")
    assert (body["weight"], body["reinforcement_count"], body["note"]) == (1.0, 4, "seen again")
    (row,) = await harness.links()
    assert str(row["declared_from"]) == one
    assert {name: row[name] for name in TOLD} == {name: body[name] for name in TOLD}


@pytest.mark.promise("CN-9", "CN-10")
async def test_update_changes_what_is_given_and_skip_nothing(harness: Harness) -> None:
    one, other = await harness.memories(2)
    await harness.seed(one, other, weight=0.61)
    before = await harness.written()
    skipped = await harness.connect(one, other, relation="contradicts", weight=0.1, note="no", if_exists="skip")
    assert [skipped[name] for name in ("action", *TOLD)] == ["skipped", "similar", 0.61, None, 0]
    assert await harness.written() == before
    steps: list[tuple[dict[str, Any], list[Any]]] = [
        ({}, ["similar", 0.61, None, 0]),
        ({"note": "n"}, ["similar", 0.61, "n", 0]),
        ({"relation": "supports"}, ["supports", 0.61, "n", 0]),
        ({"weight": 7}, ["supports", 1.0, "n", 0]),
        ({"relation": "mine", "weight": 0.3, "note": "m"}, ["mine", 0.3, "m", 0]),
    ]
    for given, expected in steps:
        body = await harness.connect(other, one, if_exists="update", **given)
        assert [body[name] for name in TOLD] == expected
        assert body["action"] == "updated"
        (row,) = await harness.links()
        assert [row[name] for name in TOLD] == expected
        assert row["origin"] == "agent"


@pytest.mark.promise("CN-11", "CN-12", "CN-16")
async def test_an_existing_link_can_be_refused_and_unknown_words_are(harness: Harness) -> None:
    one, other = await harness.memories(2)
    await harness.connect(one, other, relation="supports", if_exists="error")
    refused = await harness.refused("connect", source=other, target=one, if_exists="error")
    assert refused["code"] == "edge_exists"
    wrong = await harness.agent.call("connect", source=one, target=other, if_exists="merge")
    assert (wrong["status"], wrong["field"]) == ("invalid_parameter", "if_exists")
    wrong = await harness.agent.call("connect", source=one, target=other, relation="supersedes")
    assert (wrong["status"], wrong["field"]) == ("invalid_parameter", "relation")


@pytest.mark.promise("CN-13", "CN-16")
async def test_another_relation_upgrades_what_nobody_asserted_and_conflicts_with_what_an_agent_did(
    harness: Harness,
) -> None:
    one, other, third, fourth = await harness.memories(4)
    await harness.seed(one, other, weight=0.9, note="kept")
    body = await harness.connect(other, one, relation="contradicts")
    assert [body[name] for name in ("action", *TOLD)] == ["updated", "contradicts", 0.60, "kept", 0]
    (row,) = await harness.links(one)
    assert (row["origin"], str(row["declared_from"])) == ("agent", one)
    refused = await harness.refused("connect", source=one, target=other, relation="supports")
    assert refused["code"] == "relation_conflict"
    assert 'if_exists="update"' in refused["recovery"]
    assert (await harness.connect(one, other, relation="contradicts"))["weight"] == 0.70
    await harness.seed(one, third, "co_occurs", origin="co_retrieval")
    body = await harness.connect(one, third, relation="supports", weight=0.33)
    assert [body[name] for name in ("action", "relation", "weight")] == ["updated", "supports", 0.33]
    await harness.seed(one, fourth, "outcome", weight=0.8, origin="outcome")
    assert (await harness.refused("connect", source=one, target=fourth, relation="mine"))["code"] == "relation_conflict"
    taken = await harness.connect(one, fourth)
    assert (taken["action"], taken["relation"], taken["weight"]) == ("reinforced", "outcome", 0.9)
    row = await harness.link(one, fourth) or {}
    assert row["origin"] == "agent"


@pytest.mark.promise("CN-14", "CN-15", "CN-16")
async def test_either_end_must_be_another_memory_that_is_active(stage: Stage, harness: Harness) -> None:
    one, archived, old, new, rejected = await harness.memories(5)
    for same in (one.upper(), one):
        assert (await harness.refused("connect", source=same, target=one))["code"] == "self_loop"
    unknown = uuid7()
    assert (await harness.refused("connect", source=unknown, target=unknown.upper()))["code"] == "self_loop"
    await harness.agent.call("forget_memory", memory_id=archived)
    await harness.agent.call("supersede_memory", old_memory_id=old, new_memory_id=new)
    await harness.rows("update memories set verification = 'rejected' where node_id = %s", rejected)
    async with agent_of(await stage.gateway(), namespace="elsewhere") as stranger:
        foreign = (await stranger.store("not yours"))["id"]
    for gone in (uuid7(), "no id", one[:-1], foreign, archived, old, rejected):
        for ends in ({"source": gone, "target": one}, {"source": one, "target": gone}):
            refused = await harness.refused("connect", **ends)
            assert (refused["code"], refused["memory_id"]) == ("memory_not_active", gone)
            assert gone in refused["error"]
    assert (await harness.connect(one.upper(), new))["source_id"] == one
    body = await harness.agent.call("connect", source="@stored", target=one)
    assert body["source_id"] == rejected if body["status"] == "success" else body["memory_id"] == rejected


@pytest.mark.promise("TP-22", "CN-16")
async def test_no_link_crosses_the_partitions(harness: Harness) -> None:
    (trusted,) = await harness.memories(1)
    untrusted, another = await harness.memories(2, partition="untrusted")
    for ends in ({"source": trusted, "target": untrusted}, {"source": untrusted, "target": trusted}):
        assert (await harness.refused("connect", **ends))["code"] == "untrusted_link"
    assert (await harness.connect(untrusted, another))["action"] == "created"


@pytest.mark.promise("CN-16", "SE-12", "TP-23")
async def test_an_untrusted_principal_links_untrusted_memories_only(stage: Stage, harness: Harness) -> None:
    trusted, other = await harness.memories(2)
    one, another = await harness.memories(2, partition="untrusted")
    await harness.connect(trusted, other)
    scopes = (Scope.READ, Scope.WRITE)
    async with agent_of(await stage.gateway(), principal="scraper", scopes=scopes, untrusted=True) as agent:
        guest = Harness(agent, harness.database)
        for tool in ("connect", "disconnect"):
            assert (await guest.refused(tool, source=trusted, target=other))["code"] == FaultCode.FORBIDDEN
        outcome = await guest.refused("record_outcome", memory_ids=[one, another], signal=1)
        assert outcome["code"] == FaultCode.FORBIDDEN
        batch = await agent.call("connects", edges=[{"source": trusted, "target": other}])
        assert [error["code"] for error in batch["errors"]] == ["forbidden"]
        assert (await guest.connect(one, another))["action"] == "created"
        assert (await agent.call("disconnect", source=one, target=another))["action"] == "removed"


@pytest.mark.promise("CN-6")
async def test_what_agents_assert_is_audited_with_the_values_before_and_after(harness: Harness) -> None:
    one, other = await harness.memories(2)
    made = await harness.connect(one, other, note="first")
    again = await harness.connect(one, other, relation="supports", weight=0.2, if_exists="update")
    created, updated = await harness.audited("connect")
    assert created["old"] == {}
    assert created["new"] == {"action": "created", "source_id": one, "target_id": other, "relation": "similar",
                              "weight": 0.65, "origin": "agent", "note_sha256": sha256(b"first").hexdigest(),
                              "reinforcement_count": 0}  # fmt: skip
    assert (str(created["command_id"]), str(updated["command_id"])) == (made["command_id"], again["command_id"])
    assert (updated["old"]["relation"], updated["old"]["weight"]) == ("similar", 0.65)
    assert (updated["new"]["relation"], updated["new"]["weight"]) == ("supports", 0.2)
    assert updated["actor"] == "I/O"


@pytest.mark.promise("CN-38")
async def test_a_link_keeps_the_clock_of_its_making_and_of_its_last_use(harness: Harness) -> None:
    one, other = await harness.memories(2)
    for hours, if_exists, expected in [(5.5, "error", 5.5), (9.0, "reinforce", 9.0), (11.0, "skip", 9.0),
                                       (12.0, "update", 12.0)]:  # fmt: skip
        await harness.rows("update namespaces set active_hours = %s", hours)
        await harness.connect(one, other, if_exists=if_exists)
        # The clock runs meanwhile: this is a session in use.
        assert [row["last_active_hours"] for row in await harness.links()] == pytest.approx([expected], abs=0.1)
