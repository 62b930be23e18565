"""Weight, properties and flag of a constitutive edge change only when two different principals consent."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from engramq.schemas import limits
from engramq.schemas.commands import AddEdge, AddNode, Command, DeleteEdge, DeleteNode, ListProposals
from engramq.schemas.envelope import Principal
from engramq.schemas.faults import FaultCode
from engramq.schemas.vocabulary import Decision
from tests.refusals import refused
from tests.workers.graph.facts import asked, decided, fact, reclassified
from tests.workers.graph.harness import ADA, BOB, CAY, Harness

pytestmark = pytest.mark.promise("OV-4")

FLAG = {"is_constitutive": True}
TYPE = {"edge_type": "constitutive"}
PROPERTIES: dict[str, Any] = {"since": 1830, "with": {"a": [1, 2], "b": None}}


async def constitutive(harness: Harness, mark: dict[str, Any] = FLAG) -> str:
    """Write Ada --KNOWS--> Bob as a constitutive edge of weight 1.0 and return its id."""
    edge = await harness.body(fact(properties={**mark, **PROPERTIES}))
    return str(edge["edge_id"])


async def required(harness: Harness, command: Command, *, by: Principal = ADA) -> dict[str, Any]:
    """Make a call that takes consent, prove that it changed no edge, and return the reply."""
    before = harness.rows("select * from edges order by id")
    body = await harness.body(command, by=by)
    assert body["status"] == "consent_required", body
    assert harness.rows("select * from edges order by id") == before
    return body


async def agreed(harness: Harness, change: AddEdge) -> str:
    """Have two principals approve a change and return the proposal's id."""
    body = await required(harness, change)
    assert (await decided(harness, body["proposal_id"]))["state"] == "approved"
    return str(body["proposal_id"])


async def done(harness: Harness, change: AddEdge) -> dict[str, Any]:
    """Have two principals approve a change, make it, and return the edge."""
    await agreed(harness, change)
    body = await harness.body(change)
    assert body["status"] == "success", body
    return body


async def listed(harness: Harness) -> dict[str, Any]:
    """Return the newest proposal as it is listed."""
    shown: dict[str, Any] = (await harness.body(ListProposals()))["proposals"][0]
    return shown


@pytest.mark.parametrize(
    ("mark", "given"),
    [
        (FLAG, {"weight": 0.5}),
        (FLAG, {"properties": {"since": 1831}}),
        (TYPE, {"properties": {"since": None}}),
        (FLAG, {"properties": {"since": "1830"}}),
        (TYPE, {"properties": {"with": {"a": [2, 1], "b": None}}}),
        (FLAG, {"properties": {"emotion": "joy"}}),
        (FLAG, {"properties": {"is_constitutive": False}}),
        (TYPE, {"properties": {"is_constitutive": False}}),
        (FLAG, {"properties": {"edge_type": "casual"}}),
        (TYPE, {"properties": {"edge_type": "casual"}}),
        (TYPE, {"weight": 0.5, "properties": {"since": 1831, "is_constitutive": False}}),
        (FLAG, {"valid_until": datetime(2024, 3, 1, tzinfo=UTC)}),  # which would hide it, as a deletion does
        (TYPE, {"valid_from": datetime(2024, 3, 1, tzinfo=UTC), "weight": 0.5}),
    ],
)
async def test_two_principals_change_a_constitutive_edge_once(
    harness: Harness, mark: dict[str, Any], given: dict[str, Any]
) -> None:
    edge_id = await constitutive(harness, mark)
    change = fact(**given)

    first = await required(harness, change)
    assert set(first) == {"status", "error", "edge_id", "proposal_id", "approved_by", "expires_at", "hint"}
    assert (first["edge_id"], first["approved_by"]) == (edge_id, ["ada"])
    assert first["proposal_id"] in first["hint"]
    joined = await required(harness, change, by=BOB)
    assert (joined["proposal_id"], joined["approved_by"]) == (first["proposal_id"], ["ada", "bob"])
    made = await harness.body(change, by=CAY)

    assert (made["status"], made["edge_id"], made["created"]) == ("success", edge_id, False)
    assert made["weight"] == given.get("weight", 1.0)
    assert made["properties"].items() >= given.get("properties", {}).items()
    read = await harness.body(asked())
    assert [read[name] for name in ("weight", "properties", "memory_sector", "updated_by")] == [
        *(made[name] for name in ("weight", "properties", "memory_sector")),
        "cay",
    ]
    proposing, deciding, last = harness.audit(edge_id)
    assert (proposing["action"], proposing["new"]["change"]) == ("propose", sorted(given))
    assert (deciding["actor"], deciding["action"], deciding["new"]["state"]) == ("bob", "decide", "approved")
    assert (last["actor"], last["action"]) == ("cay", "update_edge")
    assert last["new"]["proposal_id"] == first["proposal_id"]
    assert set(last["new"]) - {"proposal_id"} == set(given)
    assert (await decided(harness, first["proposal_id"]))["state"] == "used"


async def test_a_consent_to_change_is_used_up(harness: Harness) -> None:
    await constitutive(harness)
    half, whole = fact(weight=0.5), fact(weight=1.0)
    await agreed(harness, half)
    bodies = await asyncio.gather(*(harness.body(half) for _ in range(6)))
    assert [body["status"] for body in bodies] == ["success"] * 6  # five of which changed nothing any more
    assert len(harness.rows("select * from audit_log where action = 'update_edge'")) == 1
    await done(harness, whole)
    await required(harness, half)


async def test_of_two_ways_to_say_the_same_change_the_second_joins(harness: Harness) -> None:
    await constitutive(harness)
    first = await required(harness, fact(weight=0.5, properties={"x": {"a": 1, "b": 2}, "y": 1}))
    # The order of keys, 1.0 for 1, and what is so already make no other change.
    again = fact(weight=0.5, properties={"y": 1.0, "since": 1830, "x": {"b": 2.0, "a": 1}, **FLAG})
    assert (await required(harness, again, by=BOB))["proposal_id"] == first["proposal_id"]
    assert (await harness.body(fact(weight=0.5, properties={"x": {"a": 1, "b": 2}, "y": 1})))["status"] == "success"


async def test_an_approval_is_of_exactly_one_change(harness: Harness) -> None:
    await constitutive(harness)
    proposal = await agreed(harness, fact(weight=0.5, properties={"x": 1}))
    others: list[dict[str, Any]] = [{"weight": 0.5}, {"properties": {"x": 1}}, {"weight": 0.25, "properties": {"x": 1}}]
    properties = ({"x": 2}, {"x": True}, {"x": "1"}, {"x": 1, "y": None}, {"x": 1, "is_constitutive": False})
    others += [{"weight": 0.5, "properties": each} for each in properties]
    for other in others:
        assert (await required(harness, fact(**other)))["proposal_id"] != proposal, other
    assert (await harness.body(fact(weight=0.5, properties={"x": 1})))["status"] == "success"


@pytest.mark.parametrize("lack", ["pending", "rejected", "expired", "other edge", "reclassification", "deletion"])
async def test_what_is_no_consent_to_a_change(harness: Harness, lack: str) -> None:
    edge_id = await constitutive(harness)
    change = fact(weight=0.5)
    if lack == "other edge":
        await harness.body(fact("Cay", properties=FLAG))
        await agreed(harness, fact("Cay", weight=0.5))
    elif lack == "reclassification":
        body = await harness.body(reclassified("episodic"))
        await decided(harness, body["proposal_id"])
    elif lack == "deletion":
        await decided(harness, (await required(harness, DeleteEdge(edge_id=edge_id)))["proposal_id"])
    elif lack == "pending":
        await required(harness, change)
    else:
        proposal = await agreed(harness, change)
        if lack == "rejected":
            await decided(harness, proposal, Decision.REJECT)
        else:
            harness.rows("update proposals set expires_at = now() - interval '1 second'")
    await required(harness, change)
    assert (await harness.body(asked()))["weight"] == 1.0


async def test_consent_to_a_change_is_none_to_reclassify_or_delete(harness: Harness) -> None:
    edge_id = await constitutive(harness)
    await agreed(harness, fact(weight=0.5))
    await required(harness, reclassified("episodic"))
    await required(harness, DeleteEdge(edge_id=edge_id))
    assert (await harness.body(fact(weight=0.5)))["status"] == "success"


async def test_an_edge_that_changed_meanwhile_wants_consent_to_what_would_change_now(harness: Harness) -> None:
    await constitutive(harness)
    call = fact(weight=0.5, properties={"since": 1830, "x": 1})
    first = await agreed(harness, call)  # to weight and x: since is 1830 already

    await done(harness, fact(properties={"x": 1}))
    less = await required(harness, call)  # would change the weight alone now
    await done(harness, fact(properties={"x": 2, "since": 1840}))
    more = await required(harness, call)  # would set since back, which nobody was asked for
    assert len({first, less["proposal_id"], more["proposal_id"]}) == 3
    await done(harness, fact(properties={"since": 1830}))

    assert (await harness.body(call))["status"] == "success"  # x was 2, but that it is 1 then is what was approved
    assert (await decided(harness, first))["state"] == "used"


@pytest.mark.own_database
async def test_what_changes_nothing_needs_no_look_at_proposals(harness: Harness) -> None:
    edge_id = await constitutive(harness)
    written = harness.row("select properties::text from edges")
    harness.rows("revoke select on proposals from engramq_worker")  # a look-up would fail now
    same: list[dict[str, Any]] = [{}, {"weight": 1}]
    same += [{"properties": properties} for properties in ({}, {**FLAG, **PROPERTIES}, {"since": 1830.0})]
    for given in same:
        again = await harness.body(fact(**given))
        assert (again["status"], again["properties"]) == ("success", {**FLAG, **PROPERTIES})
        assert harness.row("select properties::text from edges") == written
        assert harness.audit(edge_id) == []


async def test_values_that_only_look_alike_are_a_change(harness: Harness) -> None:
    alike: list[tuple[Any, Any]] = [(1, True), (0, False), (True, 1), ([1], [True]), ({"a": 0}, {"a": False})]
    alike += [(1.5, "1.5"), (None, 0), ("", None)]
    await harness.body(fact(properties={**FLAG, **{f"x{number}": was for number, (was, _) in enumerate(alike)}}))
    for number, (_, given) in enumerate(alike):
        await required(harness, fact(properties={f"x{number}": given}))


async def test_a_number_that_postgresql_writes_another_way_is_no_change(harness: Harness) -> None:
    numbers = [1e300, 1.2345678901234568e18, 1e23, 2**63, -0.0, 0.1, 5e-324]
    change = fact(
        properties={**FLAG, **{f"x{at}": [number, {"z": number}, number] for at, number in enumerate(numbers)}}
    )
    await harness.body(change)
    assert (await harness.body(change))["status"] == "success"


@pytest.mark.own_database
async def test_an_ordinary_edge_changes_and_becomes_constitutive_at_once(harness: Harness) -> None:
    edge_id = (await harness.body(fact()))["edge_id"]
    harness.rows("revoke select on proposals from engramq_worker")
    made = await harness.body(fact(weight=0.5, properties={**FLAG, "since": 1840, "emotion": "joy"}))
    assert (made["edge_id"], made["weight"], made["memory_sector"]) == (edge_id, 0.5, "emotional")
    harness.rows("grant select on proposals to engramq_worker")
    await required(harness, fact(weight=1.0))


@pytest.mark.parametrize("mark", [FLAG, TYPE, {**FLAG, **TYPE}])
async def test_the_flag_is_taken_off_by_consent(harness: Harness, mark: dict[str, Any]) -> None:
    await constitutive(harness, mark)
    off = fact(properties={"is_constitutive": False})
    await required(harness, off)
    assert (await listed(harness))["effect"].endswith(" After that it is no longer constitutive.")
    edge = await done(harness, off)
    # Whichever mark it had. What ended with the flag stays to be seen.
    ended = {"edge_type": None} if "edge_type" in mark else {}
    assert edge["properties"] == {**PROPERTIES, **ended, "is_constitutive": False}
    assert (await harness.body(fact(weight=0.1)))["status"] == "success"
    assert (await harness.body(reclassified("episodic")))["status"] == "success"
    assert (await harness.body(DeleteEdge(edge_id=edge["edge_id"])))["status"] == "deleted"


async def test_another_edge_type_leaves_the_flag(harness: Harness) -> None:
    await constitutive(harness, {**FLAG, **TYPE})
    await required(harness, fact(properties={"edge_type": "casual"}))
    assert "no longer" not in (await listed(harness))["effect"]
    await done(harness, fact(properties={"edge_type": "casual"}))
    await required(harness, fact(weight=0.5))


@pytest.mark.parametrize("marked", [False, True])
async def test_marks_that_disagree_are_refused(harness: Harness, marked: bool) -> None:
    await harness.body(fact(properties=FLAG if marked else {}))
    before = harness.everything()
    with refused(FaultCode.INVALID_PARAMETER) as faults:
        await harness.body(fact(relation="KNOWS" if marked else "MET", properties={"is_constitutive": False, **TYPE}))
    assert faults[0].field == "properties"
    assert harness.everything() == before


async def test_a_change_that_would_grow_too_large_is_not_proposed(harness: Harness) -> None:
    await harness.body(fact(properties={**FLAG, "x": "x" * (limits.METADATA_BYTES // 2)}))
    before = harness.everything()
    with refused(FaultCode.INVALID_PARAMETER) as faults:
        await harness.body(fact(properties={"y": "y" * (limits.METADATA_BYTES // 2)}))
    assert faults[0].field == "properties"
    assert harness.everything() == before


async def test_a_change_keeps_a_manual_sector_and_its_note(harness: Harness) -> None:
    await harness.body(fact())
    await harness.body(reclassified("reflective"))
    await harness.body(fact(properties=FLAG))
    edge = await done(harness, fact(properties={"emotion": "joy", "is_constitutive": False}))
    assert edge["memory_sector"] == "reflective"
    assert edge["properties"]["last_reclassification"]["to_sector"] == "reflective"


async def test_a_proposed_change_is_listed_with_what_is_now_and_would_be(harness: Harness) -> None:
    edge_id = await constitutive(harness)
    await required(harness, fact(weight=0.5, properties={"since": 1831, "why": "honour"}))
    shown = await listed(harness)
    assert (shown["action"], shown["edge_id"], shown["node_id"], shown["new_sector"]) == ("change", edge_id, None, None)
    assert shown["change"] == {
        "old": {"weight": 1.0, "properties": {"since": 1830}},
        "new": {"weight": 0.5, "properties": {"since": 1831, "why": "honour"}},
    }
    assert shown["effect"] == (
        "Change the edge Ada (Entity) --KNOWS--> Bob (Entity): weight from 1.0 to 0.5; "
        'property "since" from 1830 to 1831; property "why" is added: "honour".'
    )
    await done(harness, fact(weight=0.5))
    shown = (await harness.body(ListProposals()))["proposals"][1]
    assert "weight is 0.5 already; property" in shown["effect"]
    await decided(harness, (await required(harness, DeleteEdge(edge_id=edge_id)))["proposal_id"])
    await harness.body(DeleteEdge(edge_id=edge_id))
    shown = (await harness.body(ListProposals()))["proposals"][2]
    assert (shown["effect"], shown["edge"]) == ("Nothing: the edge is gone.", None)
    assert (shown["change"]["old"], shown["change"]["new"]["weight"]) == ({}, 0.5)


async def test_a_large_change_is_summed_up_in_words_and_listed_whole(harness: Harness) -> None:
    await constitutive(harness)
    many = {f"{'k' * 300}{number}": "x" * 1_000 for number in range(23)}
    await required(harness, fact(weight=0.5, properties=many))
    shown = await listed(harness)
    assert shown["change"]["new"] == {"weight": 0.5, "properties": many}
    assert shown["effect"].endswith("; and 14 more.")
    assert len(shown["effect"]) < 2_500


def joining(edge_id: str, node_id: str) -> list[Command]:
    return [fact(weight=0.5), reclassified("episodic"), DeleteEdge(edge_id=edge_id), DeleteNode(node_id=node_id)]


@pytest.mark.promise("OV-2")
@pytest.mark.parametrize("which", range(4))
async def test_who_joins_a_proposal_approves_it_with_the_scope_verify_alone(harness: Harness, which: int) -> None:
    edge_id = await constitutive(harness)
    node_id = (await harness.body(AddNode(name="Bob")))["node_id"]
    call = joining(edge_id, node_id)[which]
    first = await harness.body(call, by=CAY)  # to propose takes write
    assert first["approved_by"] == ["cay"]
    assert "more principal is missing, with the scope verify" in first["hint"]
    dan = Principal(name="dan", scopes=CAY.scopes)
    before = harness.everything()

    waiting = await harness.body(call, by=dan)

    assert harness.everything() == before
    assert (waiting["status"], waiting["proposal_id"]) == (first["status"], first["proposal_id"])
    assert waiting["approved_by"] == ["cay"]
    assert "to approve takes the scope verify, which you do not have" in waiting["hint"]
    joined = await harness.body(call, by=BOB)
    assert (joined["proposal_id"], joined["approved_by"]) == (first["proposal_id"], ["cay", "bob"])
    assert joined["hint"].startswith("Approved by cay and bob: call ")


@pytest.mark.promise("OV-2")
async def test_eight_who_ask_for_one_change_at_once_make_one_proposal(harness: Harness) -> None:
    await constitutive(harness)
    dan = Principal(name="dan", scopes=CAY.scopes)
    bodies = await asyncio.gather(*(harness.body(fact(weight=0.5), by=item) for item in [CAY, dan] * 4))
    assert {body["status"] for body in bodies} == {"consent_required"}
    assert len({body["proposal_id"] for body in bodies}) == 1
    assert len(harness.rows("select * from approvals")) == 1


async def test_a_repeated_delivery_changes_once_by_one_consent(harness: Harness) -> None:
    await constitutive(harness)
    keyed = {"idempotency_key": "again"}
    waiting = await harness.body(fact(weight=0.5), **keyed)
    assert "with another idempotency_key" in waiting["hint"]
    await decided(harness, waiting["proposal_id"])
    assert await harness.body(fact(weight=0.5), **keyed) == waiting
    assert (await harness.body(fact(weight=0.5), idempotency_key="another"))["status"] == "success"
